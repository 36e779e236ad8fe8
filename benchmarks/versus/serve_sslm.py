"""A worker that runs this package's native backend.

python serve_sslm.py serve MODEL.sslm THREADS [TIER]
"""

import sys
import time
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from serving import peak_memory, serve

from sslm.artifact import read_artifact
from sslm.bench.cases import Case
from sslm.bench.measuring import bench
from sslm.bench.workload import Workload, workload

CONTEXT_TOKENS = 2304
"""Positions of the longest case; the plan is made for them."""


class Worker:
    """Measures on command.

    Args:
        path: An artifact.
        threads: That compute.
        tier: A CPU tier, or ``auto``.
        stack: Holds what is open.
    """

    def __init__(self, path: str, threads: int, tier: str, stack: ExitStack) -> None:
        started_s = time.perf_counter()
        self._artifact = stack.enter_context(read_artifact(Path(path), mmap=True))
        longest = min(CONTEXT_TOKENS, self._artifact.config.max_position_embeddings)
        case = Case(kind="prompt", tokens=longest, threads=threads)
        self._bench = stack.enter_context(bench(self._artifact, [case], tier=tier))
        self._load_s = time.perf_counter() - started_s
        self._threads = threads
        self._stack = stack
        self._workloads: dict[Case, Workload] = {}

    def describe(self) -> dict[str, Any]:
        """Return what it is, how long it took to open the model, and what that takes."""
        from sslm.version import VERSION

        return {
            "version": VERSION,
            "system": self._bench.runner.tier,
            "load_s": self._load_s,
            "weights_bytes": self._bench.traffic.weight_bytes,
        }

    def _repeat(self, case: Case) -> dict[str, Any]:
        if case not in self._workloads:
            made = self._stack.enter_context(workload(self._bench.runner, case))
            self._workloads[case] = made
        cpu_s = time.process_time()
        wall_s = self._workloads[case].repeat() / 1e9
        return {
            "wall_s": wall_s,
            "cpu_s": time.process_time() - cpu_s,
            "read_bytes": self._bench.traffic.case_bytes(case),
        }

    def prefill(self, tokens: int) -> dict[str, Any]:
        """Time a prompt."""
        return self._repeat(Case(kind="prompt", tokens=tokens, threads=self._threads))

    def decode(self, tokens: int, depth: int, batch: int) -> dict[str, Any]:
        """Time the tokens after *depth* others, of *batch* sequences together."""
        return self._repeat(self._generation(tokens, depth, batch))

    def _generation(self, tokens: int, depth: int, batch: int) -> Case:
        return Case(
            kind="generation", tokens=tokens, depth=depth, batch=batch, threads=self._threads
        )

    def ops_of_prefill(self, tokens: int) -> dict[str, Any]:
        """Time the ops of a prompt by kind, in nanoseconds."""
        with self._bench.timed() as timings:
            self.prefill(tokens)
        return {"op_ns": timings.by_kind()}

    def ops_of_decode(self, tokens: int, depth: int) -> dict[str, Any]:
        """Time the ops of decoding by kind, in nanoseconds."""
        with self._bench.timed() as timings:
            self.decode(tokens, depth, 1)
        return {"op_ns": timings.by_kind()}

    def ceiling(self) -> dict[str, Any]:
        """Read the weights where they lie, and as many bytes in huge pages; bytes per second."""
        mapped, huge = self._bench.ceiling.sample()
        return {"mapped": mapped, "huge": huge}


if __name__ == "__main__":
    with ExitStack() as everything:
        tier = sys.argv[4] if len(sys.argv) > 4 else "auto"
        worker = Worker(sys.argv[2], int(sys.argv[3]), tier, everything)
        serve(
            {
                "describe": worker.describe,
                "prefill": worker.prefill,
                "decode": worker.decode,
                "ops_of_prefill": worker.ops_of_prefill,
                "ops_of_decode": worker.ops_of_decode,
                "ceiling": worker.ceiling,
                "memory": peak_memory,
            }
        )
