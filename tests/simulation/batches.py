"""Advancing several sequences, with things that happen while they run."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Self

from sslm.errors.base import SslmError
from sslm.errors.native import PlanBusyError, RunCancelledError
from sslm.errors.runtime import (
    MemoryRefusedError,
    ObjectClosedError,
    OptionRangeError,
    PlanMismatchError,
    SequenceInUseError,
    SequenceReleasedError,
)
from sslm.program.slice_time import SliceTime
from sslm.runtime.guards import Cancellation
from sslm.runtime.slices.stepper import Outcome, advance
from tests.simulation.expected import RefusedError
from tests.simulation.models import model_named
from tests.simulation.observing import all_of_sequence
from tests.simulation.operations import SEQUENCE_SLOTS
from tests.simulation.plans import ROWS_MAX, LaterCancellation, WatchedPlan
from tests.simulation.simulation import Simulation, WrongError
from tests.simulation.steps import BothSequences


@dataclass(frozen=True)
class Event:
    """What happens right before a run.

    Args:
        run: Index of the run within the call.
        what: ``cancel`` sets the flag, ``close`` closes a sequence, ``use`` makes calls on one,
            and ``memory`` lets the run raise MemoryError. Whatever the run, ``busy`` lets the plan
            refuse the call, and with ``foreign`` it is a plan of another program.
        member: Which of the sequences.
    """

    run: int
    what: str
    member: int = 0


def advance_both(
    simulation: Simulation,
    *,
    slots: list[int],
    units: int,
    rows: int,
    chunk_rows: int | None = None,
    cancel_at: int | None = None,
    events: list[list[Any]] | None = None,
    is_watched: bool = False,
) -> bool:
    """Advance sequences, and compare; return whether there were any.

    Args:
        simulation: The world.
        slots: Of sequences, then of prefixes.
        units: The budget.
        rows: What one run may have.
        chunk_rows: What a chunk may have that begins here, or None.
        cancel_at: How often the flag is looked at before it is set, or None; 0 is before the run.
        events: Arguments of :class:`Event`.
        is_watched: As :class:`Batch` has it.
    """
    members = [found for slot in slots if (found := member(simulation, slot)) is not None]
    if not members:
        return False
    happening = [Event(*event) for event in events or ()]
    with Batch(simulation, members, happening, is_watched=is_watched) as batch:
        batch.cancel(cancel_at)
        batch.advance(units, rows, chunk_rows)
    return True


def member(simulation: Simulation, slot: int) -> BothSequences | None:
    if slot < SEQUENCE_SLOTS:
        return simulation.sequences[slot]
    return simulation.open_prefix_sequence(slot - SEQUENCE_SLOTS)


class Batch:
    """Sequences that are advanced together, and what they come to; a context manager.

    Args:
        simulation: The world.
        members: The sequences.
        events: What happens while they run.
        is_watched: Whether runs are formed in Python, and compared, though nothing happens.
        time: What bounds the slice, or None.
        let_pass: Called with each segment of it then, for its time to pass.
    """

    def __init__(
        self,
        simulation: Simulation,
        members: list[BothSequences],
        events: list[Event],
        *,
        is_watched: bool = False,
        time: SliceTime | None = None,
        let_pass: Callable[[int], None] | None = None,
    ) -> None:
        self._simulation = simulation
        self._members = members
        # Of now, as one that is closed lets go of its memory.
        self._memories = {id(one): id(one.real.memory) for one in self._members}
        self._events = events
        self.cancellation = Cancellation()
        self._time = time
        self._is_watched = is_watched or bool(events) or let_pass is not None
        busy = PlanBusyError() if self._is_busy() else None
        self._is_foreign = any(event.what == "foreign" for event in events)
        program = model_named("recurrent" if simulation.world.model == "llama" else "llama").program
        self._plan = WatchedPlan(
            simulation.plan,
            self._before_run,
            refusal=busy,
            program=program if self._is_foreign else simulation.program,
            let_pass=let_pass,
        )
        self._closed_at: dict[int, int] = {}
        """Before which run a sequence was closed, by the identity of its model."""
        self._left_out: set[int] = set()
        """Sequences that do not run, by the identity of their models."""
        self._wrong: str | None = None

    def cancel(self, look_count: int | None) -> None:
        """Set the flag at some look at it, counted from 0; None lets it be."""
        if look_count is not None:
            self._is_watched |= look_count > 0
            self.cancellation = LaterCancellation(look_count) if look_count else Cancellation()
            if not look_count:
                self.cancellation.set()

    def advance(self, units: int, rows: int, chunk_rows: int | None = None) -> list[Outcome]:
        """Make the call, compare, and return what the call returned."""
        simulation, members = self._simulation, self._members
        is_eventful = self._is_watched or self.cancellation.is_set or units < 1 or rows < ROWS_MAX
        before = [all_of_sequence(one.real) for one in members] if is_eventful else []
        refused, errors = self._refusals(units, rows, chunk_rows)
        self._left_out = set(errors)
        outcomes: list[Outcome]
        outcomes, error = simulation.outcome(
            lambda: advance(
                self._plan if self._is_watched else simulation.plan,
                [one.real for one in members],
                budget_units=units,
                row_count_max=rows,
                chunk_rows=chunk_rows,
                time=self._time,
                cancellation=self.cancellation,
            )
        )
        if self._wrong:
            raise WrongError(self._wrong)
        if refused is not None:
            simulation.require_error(error, refused.error_class, refused.facts)
            if self._plan.runs:
                raise WrongError("a refused batch ran")
            outcomes = [Outcome(one.real, error=error) for one in members]
        elif error is not None:
            raise WrongError(f"unexpected {type(error).__name__}: {error}")
        else:
            waiting = [one for one in members if id(one.model) not in errors]
            if not self._is_busy():
                for one in waiting:
                    one.model.begin_chunk(chunk_rows)
            if self._is_watched:
                self._compare_runs(waiting, units, rows)
            self._compare(outcomes, errors, units)
        for one, seen, outcome in zip(members, before, outcomes, strict=False):
            is_open = not one.model.is_closed
            if is_open and outcome.error is not None and all_of_sequence(one.real) != seen:
                raise WrongError(f"a refused slice changed its sequence: {outcome.error}")
        return outcomes

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        """Let go of what would keep sequences that are dropped later."""
        self._plan.before = _nothing
        self._plan.runs.clear()
        self._members = []

    def _refusals(
        self, units: int, rows: int, chunk_rows: int | None
    ) -> tuple[RefusedError | None, dict[int, RefusedError]]:
        """Return why the whole call is refused, or which sequences are, and why."""
        if units < 1:
            return RefusedError(OptionRangeError, option="budget_units"), {}
        if len({id(one.model) for one in self._members}) < len(self._members):
            return RefusedError(OptionRangeError, option="sequences"), {}
        errors: dict[int, RefusedError] = {}
        most_rows = 0
        for one in self._members:
            try:
                one.model.require_open()
                if self._is_foreign:
                    raise RefusedError(PlanMismatchError)
                most_rows = max(most_rows, one.model.next_row_count(chunk_rows))
            except RefusedError as refused:
                errors[id(one.model)] = refused.with_traceback(None)
        if most_rows > rows:
            return RefusedError(OptionRangeError, option="row_count_max"), {}
        return None, errors

    def _is_busy(self) -> bool:
        return any(event.what == "busy" for event in self._events)

    def _before_run(self, index: int) -> None:
        for event in self._events:
            if event.run != index:
                continue
            one = self._members[event.member % len(self._members)]
            if event.what == "cancel":
                self.cancellation.set()
            elif event.what == "close":
                one.real.close()
                self._closed_at.setdefault(id(one.model), index)
            elif event.what == "use" and id(one.model) not in self._left_out:
                self._require_in_use(one)
            elif event.what == "memory":
                raise MemoryError

    def _require_in_use(self, one: BothSequences) -> None:
        is_closed = id(one.model) in self._closed_at
        kind = ObjectClosedError if is_closed else SequenceInUseError
        calls: tuple[Callable[[], object], ...] = (
            *(lambda: one.real.push([1]), one.real.reset, one.real.snapshot, one.real.stats),
            *(lambda: one.real.bind(None), lambda: one.real.prefill_content([])),
        )
        for call in calls:
            _, error = self._simulation.outcome(call)
            if type(error) is not kind:
                self._wrong = f"using a sequence that runs: {error!r}, expected {kind.__name__}"

    # Comparing.

    def _compare_runs(self, waiting: list[BothSequences], units: int, rows: int) -> None:
        """Look at which sequences ran together, and how far."""
        models = {self._memories[id(one)]: one.model for one in waiting}
        stages: dict[tuple[int, int], int] = {}
        for run in self._plan.runs:
            together = [models.pop(memory) for memory in run.memories]
            for model in together:
                first, last = model.stage()[0], model.slice_end(units)
                least = last if self._time is None else model.slice_end(1)
                if run.first != first or not least <= run.last <= last:
                    raise WrongError(
                        f"ran segments {run.first}, {run.last}, expected {first, last}"
                    )
            row_count = sum(model.next_row_count() for model in together)
            if row_count > rows:
                raise WrongError(f"{row_count} rows ran together")
            if stages.get((run.first, run.last), rows) + row_count <= rows and not self._time:
                raise WrongError("two runs where one would have done")
            stages[run.first, run.last] = row_count
        is_cut_short = self._is_busy() or any(run.error for run in self._plan.runs)
        # Behind the first run, time may be over.
        is_cut_short |= self._time is not None and bool(self._plan.runs)
        if models and not is_cut_short:
            raise WrongError("some sequences did not run")

    def _compare(
        self,
        outcomes: list[Outcome],
        errors: dict[int, RefusedError],
        units: int,
    ) -> None:
        if [outcome.sequence for outcome in outcomes] != [one.real for one in self._members]:
            raise WrongError("the outcomes are not those of the sequences, in their order")
        self._require_cancelled()
        runs = self._plan.runs
        ran_in = {
            memory: index
            for index, run in enumerate(runs)
            for memory in run.memories
            if run.error is None
        }
        for one, outcome in zip(self._members, outcomes, strict=True):
            refused = errors.get(id(one.model))
            if refused is not None:
                self._simulation.require_error(outcome.error, refused.error_class, refused.facts)
            elif self._has_stopped(one, ran_in):
                if self._time is None:
                    self._simulation.require_error(outcome.error, self._stopped_by(), {})
                elif outcome.error is not None or outcome.units:
                    raise WrongError("a sequence that stays for lack of time failed, or ran")
                one.model.put_back()
            else:
                index = ran_in.get(self._memories[id(one)], 0)
                last = one.model.slice_end(units) if self._time is None else runs[index].last
                self._compare_one(one, outcome, index, last)
        for one in self._members:
            if id(one.model) in self._closed_at:
                one.model.close()

    def _has_stopped(self, one: BothSequences, ran_in: dict[int, int]) -> bool:
        """Tell whether a sequence stays where it is, because of what happened before its run."""
        is_late = self._is_watched and self._memories[id(one)] not in ran_in
        return is_late or (not self._is_watched and self.cancellation.is_set)

    def _stopped_by(self) -> type[SslmError]:
        """Return the error of sequences that did not run."""
        if self._is_busy():
            return PlanBusyError
        runs = self._plan.runs
        is_memory = bool(runs) and isinstance(runs[-1].error, MemoryError)
        return MemoryRefusedError if is_memory else RunCancelledError

    def _compare_one(self, one: BothSequences, outcome: Outcome, index: int, last: int) -> None:
        """Compare what became of a sequence that ran."""
        if self._closed_at.get(id(one.model), index + 1) <= index:
            # What can be seen of it is what could be seen when it was closed.
            one.model.put_back()
            self._simulation.require_error(outcome.error, SequenceReleasedError, {})
            if outcome.chunk is not None:
                raise WrongError("a released sequence has a chunk")
            return
        is_finished = one.model.move(last, one.real.selected or 0)
        if id(one.model) in self._closed_at:
            # It was closed after its run and before the call's end.
            return
        if outcome.error is not None:
            raise WrongError(f"unexpected {type(outcome.error).__name__}: {outcome.error}")
        if (outcome.chunk is not None) != is_finished:
            raise WrongError(f"a chunk came to its end: {not is_finished}, expected {is_finished}")
        if outcome.chunk is not None and outcome.chunk.has_logits:
            self._simulation.evidence.note_chunk(outcome.chunk, one.model)

    def _require_cancelled(self) -> None:
        """Look whether the first run after the flag was set was cancelled, and no other."""
        cancelled_at = [event.run for event in self._events if event.what == "cancel"]
        if isinstance(self.cancellation, LaterCancellation):
            return
        for index, run in enumerate(self._plan.runs):
            is_cancelled = isinstance(run.error, RunCancelledError)
            is_due = self.cancellation.is_set and min(cancelled_at, default=0) <= index
            if is_cancelled != is_due and not isinstance(run.error, MemoryError):
                raise WrongError(f"run {index} was cancelled: {is_cancelled}, expected {is_due}")


def _nothing(run: int) -> None:
    del run
