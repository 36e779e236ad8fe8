"""The plans under test, which do something of their own while they run."""

from collections.abc import Callable
from collections.abc import Sequence as Spans
from dataclasses import dataclass
from functools import cache

from sslm.backends.native.backend import NativeBackend
from sslm.backends.reference.backend import ReferencePlan
from sslm.native_library import available_tiers
from sslm.program.plan import Plan
from sslm.program.program import Program
from sslm.program.sequence_data import SequenceData
from sslm.program.slice_time import SliceTime
from sslm.program.spans import Span
from sslm.program.stepping import advance_by_runs
from sslm.runtime.guards import Cancellation
from tests.plan_doubles import PlanDouble
from tests.simulation.models import LONGEST, model_named

ROWS_MAX = LONGEST
"""Rows of one run of any plan here."""


def backends() -> list[str]:
    """Return the reference and the native tiers of this machine."""
    return ["reference", *available_tiers()]


@cache
def plan_of(model_name: str, backend: str, threads: int) -> Plan:
    """Compile a plan once for all schedules."""
    model = model_named(model_name)
    if backend == "reference":
        return ReferencePlan(model.program, model.tensors)
    return NativeBackend(backend, threads).compile(
        model.program, model.tensors, row_count_max=ROWS_MAX, context_tokens=LONGEST
    )


@dataclass
class Run:
    """A call of the plan: which sequences' memories it ran over, and what it raised."""

    memories: list[int]
    first: int
    last: int
    error: Exception | None = None


class WatchedPlan(PlanDouble):
    """Notes the runs of a slice, and calls what is to happen just before one of them.

    The runs are formed in Python, as the reference forms them, so that something can happen between
    two of them; the native library does all in one call.

    Args:
        plan: What runs.
        before: Called with the index of each run.
        refusal: What to raise instead of running, or None.
        program: Which one to claim to be compiled from.
        let_pass: Called with each segment of a slice whose time is bounded, for its time to pass.
    """

    def __init__(
        self,
        plan: Plan,
        before: Callable[[int], None],
        *,
        refusal: Exception | None,
        program: Program,
        let_pass: Callable[[int], None] | None = None,
    ) -> None:
        super().__init__(plan)
        self.let_pass = let_pass or _let_nothing_pass
        self._program = program
        self.before = before
        self.refusal = refusal
        self.runs: list[Run] = []

    @property
    def program(self) -> Program:
        """The one that it claims to be compiled from."""
        return self._program

    def advance(
        self,
        sequences: Spans[SequenceData],
        *,
        budget_units: int,
        row_count_max: int,
        time: SliceTime | None = None,
        cancel: memoryview | None = None,
    ) -> None:
        """Run a slice as :meth:`sslm.program.plan.Plan.advance` does."""
        if self.refusal is not None:
            raise self.refusal

        def run(first: int, last: int, spans: Spans[Span]) -> tuple[int, Callable[[], None]]:
            if time is not None:
                last = self._end_in_time(first, last, time)
                if last == first:
                    return first, _hand_nothing_over
            self.runs.append(Run([id(span.memory) for span in spans], first, last))
            try:
                self.before(len(self.runs) - 1)
                self.run(first, last, spans, cancel=cancel)
            except Exception as error:
                self.runs[-1].error = error.with_traceback(None)
                raise
            return last, _hand_nothing_over

        advance_by_runs(
            self.program, run, sequences, budget_units=budget_units, row_count_max=row_count_max
        )

    def _end_in_time(self, first: int, last: int, time: SliceTime) -> int:
        reached = first
        for index in time.segments(self.program, first, last):
            self.let_pass(index)
            reached = index + 1
        return reached


def _let_nothing_pass(segment: int) -> None:
    del segment


def _hand_nothing_over() -> None:
    """Do nothing: a run hands over what it computed before it returns."""


class _CountedFlag:
    """A flag that is set from its n-th look on."""

    def __init__(self, look_count: int) -> None:
        self._looks_left = look_count

    def __getitem__(self, index: int) -> int:
        del index
        self._looks_left -= 1
        return int(self._looks_left < 0)


class LaterCancellation(Cancellation):
    """Set in the middle of a run of the reference, which looks at it before every op."""

    def __init__(self, look_count: int) -> None:
        self.flag = _CountedFlag(look_count)  # type: ignore[assignment]
