"""Decode speed as a share of how fast this machine reads the weights at all.

    python -m benchmarks.decode [MODEL.sslm] [--large-layers 20] [--threads 1] [--tier auto]
        [--rounds 30] [--json]

Of a model in memory that is larger than the caches (``--large-layers 0``: none) and of a file it
measures which share of the read ceiling decode reaches, and what 2,000 tokens of context cost
beside the bytes that they add; of a file also what four sequences gain that are decoded together,
and what reading costs as many bytes more, which a cache that holds part of the weights makes
dearer. What is compared is timed in turns, and the medians of the quotients are shown: machines
differ and neighbours come and go, the ratio stays. The ceiling is one thread that reads the same
memory and does nothing else.
"""

import argparse
import json
import statistics
import sys
from pathlib import Path
from typing import Any

# Run by its path or as a module, it finds the other folders of the checkout.
sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks.decode_steps import Steps
from benchmarks.large_model import large_model
from sslm.artifact import Artifact, read_artifact
from sslm.bench.traffic import Traffic
from sslm.memory import anonymous_memory, huge_page_bytes
from sslm.native_library import read_through
from sslm.opening.runner import build_program

BATCH = 4
DEPTH = 2000
PREFILL_TOKENS = 512
PREFILL_ROUNDS = 3
Facts = dict[str, Any]


def large_facts(layer_count: int, *, threads: int, tier: str, rounds: int) -> Facts:
    """Compare decode of a large model with reading its weights, and with decode after much."""
    model = large_model(layer_count)
    traffic = Traffic(model.program, model.tensors)
    read_bytes = traffic.weight_bytes
    huge_bytes = huge_page_bytes(model.memory)
    with Steps(
        model.program, model.tensors, tier=tier, threads=threads, context_tokens=DEPTH + 1
    ) as steps:
        one, long = steps.sequence(0), steps.sequence(DEPTH)
        samples = [
            (
                steps.timed(lambda: read_through(model.memory)),
                steps.step([one]),
                steps.step([long]),
            )
            for _ in range(rounds)
        ]
        tier = steps.tier
    shares = [read * read_bytes / model.memory.nbytes / step for read, step, _ in samples]
    return {
        "large_tier": tier,
        "large_weight_bytes": read_bytes,
        "large_huge_page_bytes": huge_bytes,
        "large_read_gb_per_s": _speed(model.memory.nbytes, [read for read, *_ in samples]),
        "large_decode_gb_per_s": _speed(read_bytes, [step for _, step, _ in samples]),
        "large_decode_over_ceiling_ratio": round(statistics.median(shares), 3),
    } | {
        f"large_{name}": value
        for name, value in _context_facts(
            traffic, DEPTH, [(step, long) for _, step, long in samples]
        ).items()
    }


def model_facts(artifact: Artifact, *, threads: int, tier: str, rounds: int) -> Facts:
    """Measure decode of a file's model: alone, four together, and after much context."""
    program = build_program(artifact)
    traffic = Traffic(program, artifact.tensors)
    depth = min(DEPTH, program.max_position_embeddings - 1)
    prefill_tokens = min(PREFILL_TOKENS, depth)
    samples = []
    states = _block(traffic.state_bytes(depth, 1))
    with Steps(
        program, artifact.tensors, tier=tier, threads=threads, context_tokens=depth + 1
    ) as steps:
        one, long = steps.sequence(0), steps.sequence(depth)
        batch = [steps.sequence(0) for _ in range(BATCH)]
        for _ in range(rounds):
            samples.append(
                (
                    steps.timed(lambda: read_through(artifact.file.view)),
                    steps.step([one]),
                    steps.step(batch),
                    steps.step([long]),
                    steps.timed(lambda: _read_both(artifact.file.view, states)),
                )
            )
        prefill_ns = [_prefill(steps, prefill_tokens) for _ in range(min(rounds, PREFILL_ROUNDS))]
        tier = steps.tier
    step_ms = statistics.median(step for _, step, *_ in samples) / 1e6
    read_ratio = statistics.median(both / read for read, *_, both in samples)
    read_bytes_ratio = 1 + states.nbytes / artifact.file_size_bytes
    shares = [
        read * traffic.weight_bytes / artifact.file_size_bytes / step for read, step, *_ in samples
    ]
    return {
        "tier": tier,
        "weight_bytes": traffic.weight_bytes,
        "huge_page_bytes": artifact.huge_page_bytes(),
        "read_gb_per_s": _speed(artifact.file_size_bytes, [read for read, *_ in samples]),
        "decode_ms": round(step_ms, 3),
        "decode_tokens_per_s": round(1e3 / step_ms, 1),
        "decode_over_ceiling_ratio": round(statistics.median(shares), 3),
        "batch": BATCH,
        "batch_over_one_ratio": round(
            statistics.median(BATCH * one / four for _, one, four, *_ in samples), 3
        ),
        **_context_facts(traffic, depth, [(one, long) for _, one, _, long, _ in samples]),
        "reading_time_over_bytes_ratio": round(read_ratio / read_bytes_ratio, 3),
        "prefill_tokens": prefill_tokens,
        "prefill_tokens_per_s": round(1e9 * prefill_tokens / min(prefill_ns), 1),
    }


def _context_facts(traffic: Traffic, depth: int, samples: list[tuple[int, int]]) -> Facts:
    """Compare steps without context and with *depth* tokens of it, in nanoseconds."""
    time_ratio = statistics.median(long / one for one, long in samples)
    bytes_ratio = 1 + traffic.state_bytes(depth, 1) / traffic.weight_bytes
    return {
        "context_tokens": depth,
        "context_over_none_ratio": round(time_ratio, 3),
        "context_bytes_ratio": round(bytes_ratio, 3),
        "context_time_over_bytes_ratio": round(time_ratio / bytes_ratio, 3),
    }


def _block(size_bytes: int) -> memoryview:
    """Return memory that is there, as large as the states that a step reads."""
    block = anonymous_memory(size_bytes)
    block[:] = bytes(size_bytes)
    return block


def _read_both(weights: memoryview, states: memoryview) -> None:
    read_through(weights)
    read_through(states)


def _prefill(steps: Steps, count: int) -> int:
    with steps.sequence(0, room=count) as sequence:
        return steps.take_in(sequence, count)


def _speed(size_bytes: int, elapsed_ns: list[int]) -> float:
    return round(size_bytes / statistics.median(elapsed_ns), 2)


def main() -> None:
    """Parse, measure, print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("model", type=Path, nargs="?")
    parser.add_argument("--large-layers", type=int, default=20, help="61 MB each; 0 for none")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--tier", default="auto")
    parser.add_argument("--rounds", type=int, default=30)
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    options = {name: getattr(arguments, name) for name in ("threads", "tier", "rounds")}
    facts: Facts = {"threads": arguments.threads}
    if arguments.model is not None:
        with read_artifact(arguments.model) as artifact:
            facts |= model_facts(artifact, **options)
    if arguments.large_layers:
        facts |= large_facts(arguments.large_layers, **options)
    if arguments.json:
        print(json.dumps(facts))
        return
    for name, value in facts.items():
        print(f"{name:>34}  {value}")


if __name__ == "__main__":
    main()
