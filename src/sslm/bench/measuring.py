"""Running the cases of a benchmark beside the read ceiling."""

import statistics
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from sslm.artifact import Artifact
from sslm.backends.native import OpTimings
from sslm.bench.cases import Case, fit_cases
from sslm.bench.ceiling import ReadCeiling
from sslm.bench.timed_backend import TimedBackend
from sslm.bench.traffic import Traffic
from sslm.bench.workload import workload
from sslm.opening.runner import Runner
from sslm.program.spans import CHUNK_ROWS_MAX
from sslm.progress import Progress, untold


@dataclass(frozen=True, slots=True, kw_only=True)
class Measurement:
    """What one case gave.

    Args:
        case: What was measured.
        seconds: Of each repetition, for all tokens of all its sequences.
        mapped_ceilings: Bytes per second at which the weights were read where they lie, just
            before each repetition.
        huge_ceilings: The same for as many bytes in huge pages.
        read_bytes: Bytes that one repetition must read and write at least.
        products: Weights that it multiplies by a number.
        op_ns: Nanoseconds of one more repetition, by kind of op.
    """

    case: Case
    seconds: tuple[float, ...]
    mapped_ceilings: tuple[float, ...]
    huge_ceilings: tuple[float, ...]
    read_bytes: int
    products: int
    op_ns: dict[str, int]

    @property
    def tokens(self) -> int:
        """Tokens of one repetition, of all sequences."""
        return self.case.tokens * self.case.batch

    @property
    def median_s(self) -> float:
        """Seconds of the repetition in the middle."""
        return statistics.median(self.seconds)

    @property
    def tokens_per_s(self) -> float:
        """Tokens of all sequences per second."""
        return self.tokens / self.median_s

    @property
    def spread(self) -> float:
        """How far the slowest and the fastest repetition are apart, as a share of the median."""
        return (max(self.seconds) - min(self.seconds)) / self.median_s

    @property
    def ms_per_token(self) -> float:
        """Milliseconds per token of all sequences."""
        return 1e3 * self.median_s / self.tokens

    @property
    def bytes_per_token(self) -> float:
        """Bytes read and written for each token."""
        return self.read_bytes / self.tokens

    @property
    def bytes_per_s(self) -> float:
        """Bytes read and written per second."""
        return self.read_bytes / self.median_s

    @property
    def ceiling(self) -> float:
        """Bytes per second that could be read: the better of the two medians."""
        return max(statistics.median(self.mapped_ceilings), statistics.median(self.huge_ceilings))

    @property
    def share_of_ceiling(self) -> float:
        """How much of the ceiling was reached."""
        return self.bytes_per_s / self.ceiling

    @property
    def linear_products_per_s(self) -> float:
        """Products per second of the ops that multiply by weights, in their own time; or 0."""
        busy_ns = self.op_ns.get("linear", 0) + self.op_ns.get("logits", 0)
        return self.products * 1e9 / busy_ns if busy_ns else 0.0

    @property
    def op_shares(self) -> dict[str, float]:
        """Share of the ops' time by kind, the largest first, without those that took none."""
        total = sum(self.op_ns.values()) or 1
        ordered = sorted(self.op_ns.items(), key=lambda item: -item[1])
        return {kind: ns / total for kind, ns in ordered if ns}


def measure(
    artifact: Artifact,
    cases: Sequence[Case],
    *,
    tier: str = "auto",
    repetitions: int = 5,
    on_progress: Progress = untold,
) -> tuple[Measurement, ...]:
    """Measure cases one after the other, on the native backend.

    Args:
        artifact: The model; stays the caller's.
        cases: At least one.
        tier: A CPU tier by name, or ``auto``.
        repetitions: Of each case, at least 1; one that warms up and one that is timed by op come
            on top.
        on_progress: Called between repetitions, never during one.

    Raises:
        BenchContextError: If a case needs more positions than the model has; nothing ran.
        TierUnavailableError: If the tier does not run here.
    """
    fit_cases(cases, artifact.config.max_position_embeddings)
    done, total = 0, len(cases) * (repetitions + 2)

    def advance() -> None:
        nonlocal done
        done += 1
        on_progress(done, total)

    on_progress(0, total)
    found: list[Measurement] = []
    for threads in dict.fromkeys(case.threads for case in cases):
        own = [case for case in cases if case.threads == threads]
        with bench(artifact, own, tier=tier) as one:
            found += (one.measure(case, repetitions, advance) for case in own)
    return tuple(found)


class Bench:
    """A model that is opened to be measured with one number of threads.

    Args:
        artifact: The model.
        backend: What its plan was compiled by.
        runner: With that plan.
        threads: Of the plan.
    """

    def __init__(
        self, artifact: Artifact, backend: TimedBackend, runner: Runner, threads: int
    ) -> None:
        self._backend = backend
        self.runner = runner
        self.traffic = Traffic(runner.program, artifact.tensors)
        # The file as one, as calls for small tensors would take longer than reading them.
        self.ceiling = ReadCeiling([artifact.file.view], threads=threads)

    def measure(self, case: Case, repetitions: int, advance: Callable[[], None]) -> Measurement:
        """Measure one case, calling *advance* after each repetition."""
        seconds: list[float] = []
        ceilings: list[tuple[float, float]] = []
        with workload(self.runner, case) as work:
            work.repeat()
            advance()
            for _ in range(repetitions):
                ceilings.append(self.ceiling.sample())
                seconds.append(work.repeat() / 1e9)
                advance()
            with self.timed() as timings:
                work.repeat()
            advance()
        mapped, huge = zip(*ceilings, strict=True)
        return Measurement(
            case=case,
            seconds=tuple(seconds),
            mapped_ceilings=mapped,
            huge_ceilings=huge,
            read_bytes=self.traffic.case_bytes(case),
            products=self.traffic.case_products(case),
            op_ns=timings.by_kind(),
        )

    @contextmanager
    def timed(self) -> Iterator[OpTimings]:
        """Add the times of all runs meanwhile up by kind of op."""
        timings = OpTimings()
        self._backend.time_into(timings)
        try:
            yield timings
        finally:
            self._backend.time_into(None)


@contextmanager
def bench(artifact: Artifact, cases: Sequence[Case], *, tier: str = "auto") -> Iterator[Bench]:
    """Open a model for cases of one number of threads; it is closed afterwards."""
    threads = cases[0].threads
    backend = TimedBackend(tier, threads)
    runner = Runner(
        artifact,
        backend,
        context_tokens=max(case.context_tokens for case in cases),
        row_count_max=max(CHUNK_ROWS_MAX, *(case.batch for case in cases)),
    )
    try:
        yield Bench(artifact, backend, runner, threads)
    finally:
        runner.close()
