"""Running the scheduler, within a budget of units or by a clock that only runs when plans do."""

from dataclasses import dataclass

from sslm.errors.base import SslmError
from sslm.errors.runtime import ObjectClosedError
from sslm.program.program import Program, SegmentKind
from sslm.program.slice_time import SliceTime
from sslm.runtime.guards import Cancellation
from sslm.runtime.sequences.sequence import Sequence
from sslm.runtime.slices.scheduler import Scheduler
from sslm.runtime.slices.stepper import Outcome
from sslm.runtime.slices.time_slices import SliceBudget
from sslm.runtime.slices.unit_costs import UnitCosts
from tests.simulation.batches import Batch, member
from tests.simulation.expected import RefusedError
from tests.simulation.simulation import Simulation, WrongError
from tests.simulation.steps import BothSequences

UNIT_NS = 100_000
"""What a layer or a head block takes by the clock."""


def schedule_both(
    simulation: Simulation,
    *,
    slots: list[int],
    tokens: int,
    units: int | None = None,
    max_us: int | None = None,
) -> bool:
    """Let the scheduler run, compare each of its slices, and return whether there was anything.

    Args:
        simulation: The world.
        slots: Of sequences, then of prefixes.
        tokens: How many tokens each may choose meanwhile.
        units: What may be run, or None.
        max_us: Microseconds until the deadline, or None.
    """
    members = [found for slot in slots if (found := member(simulation, slot)) is not None]
    if not members:
        return False
    runner = _Runner(simulation, members)
    scheduler = Scheduler(runner)
    for one in members:
        _add(simulation, scheduler, one, tokens)
    max_ms = None if max_us is None else max_us / 1000
    outcomes = scheduler.run(
        SliceBudget(UnitCosts(runner.now_ns, runner.now_ns), units=units, max_ms=max_ms)
    )
    for outcome in outcomes:
        if outcome.error is None or outcome.chunk is not None:
            raise WrongError("the scheduler returned what did not fail")
    if units is not None and runner.unit_count > units:
        raise WrongError(f"the scheduler ran {runner.unit_count} units of {units}")
    # The first unit, or one of which nothing is known, may go beyond the time.
    if max_us is not None and runner.ns - UNIT_NS >= max(1000 * max_us, 1):
        raise WrongError(f"the scheduler took {runner.ns} ns of {max_us} µs")
    return True


def _add(simulation: Simulation, scheduler: Scheduler, one: BothSequences, tokens: int) -> None:
    get_ready = _Chooser(simulation, one, tokens)
    _, error = simulation.outcome(lambda: scheduler.add(one.real, get_ready=get_ready))
    if one.model.is_closed:
        simulation.require_error(error, ObjectClosedError, {"kind": "sequence"})
    elif error is not None:
        raise WrongError(f"unexpected {type(error).__name__}: {error}")


@dataclass(eq=False)
class _Chooser:
    """Goes on with what was chosen, some times."""

    simulation: Simulation
    one: BothSequences
    tokens_left: int

    def __call__(self) -> bool:
        if self.tokens_left == 0 or self.one.model.progress.selected is None:
            return False
        self.tokens_left -= 1
        try:
            wanted = self.one.model.decode()
        except RefusedError as refused:
            _, error = self.simulation.outcome(self.one.real.decode)
            self.simulation.require_error(error, refused.error_class, refused.facts)
            assert isinstance(error, SslmError)
            raise error from None
        if self.one.real.decode() != wanted:
            raise WrongError("another token was chosen than could be seen")
        return True


class _Runner:
    """Runs what the scheduler chooses, as any other batch, while the clock runs."""

    row_count_max = 64

    def __init__(self, simulation: Simulation, members: list[BothSequences]) -> None:
        self._simulation = simulation
        self._members = {one.real: one for one in members}
        self.ns = 0
        self.unit_count = 0

    @property
    def program(self) -> Program:
        return self._simulation.program

    def now_ns(self) -> int:
        return self.ns

    def advance_each(
        self,
        sequences: list[Sequence],
        *,
        budget_units: int,
        chunk_rows: int | None,
        time: SliceTime | None,
        cancellation: Cancellation | None,
    ) -> list[Outcome]:
        del cancellation
        members = [self._members[sequence] for sequence in sequences]
        with Batch(self._simulation, members, [], time=time, let_pass=self._let_time_pass) as batch:
            outcomes = batch.advance(budget_units, self.row_count_max, chunk_rows)
        self.unit_count += max(outcome.units for outcome in outcomes)
        return outcomes

    def _let_time_pass(self, segment: int) -> None:
        kind = self.program.segments[segment].kind
        self.ns += UNIT_NS * (kind in {SegmentKind.LAYER, SegmentKind.HEAD})
