"""Advancing sequences together, a slice of segments at a time."""

from collections.abc import Sequence as Sequences
from dataclasses import dataclass
from functools import partial

from sslm.errors.base import ArgumentError, SslmError, as_value
from sslm.errors.runtime import (
    MemoryRefusedError,
    OptionRangeError,
    PlanMismatchError,
    SequenceReleasedError,
)
from sslm.errors.showing import int_range
from sslm.memory import LESS_CONTEXT
from sslm.program.plan import Plan
from sslm.program.sequence_data import ENDED, STAYED
from sslm.program.slice_time import SliceTime
from sslm.program.stepping import units_between
from sslm.runtime.guards import Cancellation
from sslm.runtime.sequences.sequence import Sequence, Use
from sslm.runtime.sequences.state import Chunk, SequenceState


@dataclass(slots=True)
class Outcome:
    """What became of one sequence of a batch.

    Args:
        sequence: Which one.
        chunk: The chunk that came to its end, or None.
        units: How many units were run.
        error: Why the sequence was not advanced, or None; it stands as it stood before.
    """

    sequence: Sequence
    chunk: Chunk | None = None
    units: int = 0
    error: SslmError | None = None


def advance(
    plan: Plan,
    sequences: Sequences[Sequence],
    *,
    budget_units: int,
    row_count_max: int,
    chunk_rows: int | None = None,
    time: SliceTime | None = None,
    cancellation: Cancellation | None = None,
) -> list[Outcome]:
    """Run at most *budget_units* units of every sequence's next chunk.

    Sequences that stand at the same segment share each weight that is read. No result depends on
    which sequences are advanced together, or in how many slices, and one that cannot be advanced
    keeps none of the others from it.

    Args:
        plan: Compiled from the sequences' program.
        sequences: Each once, with something to compute.
        budget_units: At least 1. A unit is a layer of a chunk or a block of the head; a chunk runs
            to its end if it may.
        row_count_max: What the plan was compiled for; more rows take several runs.
        chunk_rows: Most rows of a chunk that begins here, at least 1; None is what each sequence is
            made for.
        time: Ends the slice behind one of its units, so that sequences may stay where they stand,
            without an error; learns what units took. None reads no clock.
        cancellation: Polled during the runs, or None.

    Returns:
        As many outcomes as sequences, in their order. Errors in them: ObjectClosedError,
        SequenceInUseError, SequenceInterruptedError, ForkedProcessError, PlanMismatchError (of
        another program) and SequenceBusyError (nothing to compute) of sequences that did not run,
        SequenceReleasedError of those that were closed meanwhile, and what a run raised, such as
        RunCancelledError, or MemoryRefusedError if the system had no memory for it: its sequences,
        and those whose turn would have come after it, stand where they stood. What is the fault of
        one sequence, such as OpShapeError of a position beyond the plan's context, is its alone.

    Raises:
        OptionRangeError: If the budget is below 1, a sequence is listed twice, or a chunk alone has
            too many rows; nothing ran.
    """
    if budget_units < 1:
        raise OptionRangeError("budget_units", str(budget_units), int_range(1))
    if len(set(sequences)) < len(sequences):
        raise OptionRangeError("sequences", "one of them twice", "each once")
    outcomes = [Outcome(sequence) for sequence in sequences]
    members: list[_Member] = []
    try:
        _begin(plan, outcomes, members, chunk_rows)
        _require_rows(members, row_count_max)
        run = partial(
            _run,
            plan,
            budget_units=budget_units,
            row_count_max=row_count_max,
            time=time,
            cancellation=cancellation,
        )
        if members:
            run(members)
        refused = [one for one in members if isinstance(one.outcome.error, ArgumentError)]
        if refused and len(members) > 1:
            # A plan does not say whose fault it is, such as a position beyond its context.
            for member in refused:
                member.outcome.error = None
                run([member])
    finally:
        for member in members:
            member.use.end()
    return outcomes


def finished(outcomes: list[Outcome]) -> list[tuple[Sequence, Chunk]]:
    """Return the chunks that came to their end, each with its sequence.

    Raises:
        SslmError: The first that is in an outcome.
    """
    error = next((outcome.error for outcome in outcomes if outcome.error is not None), None)
    if error is not None:
        try:
            raise error
        finally:
            # What a raised error holds must not hold the error.
            del error, outcomes
    return [(outcome.sequence, outcome.chunk) for outcome in outcomes if outcome.chunk]


@dataclass(slots=True)
class _Member:
    """A sequence that takes part, and what keeps everybody else from using it."""

    outcome: Outcome
    use: Use

    @property
    def state(self) -> SequenceState:
        return self.use.state


def _begin(
    plan: Plan, outcomes: list[Outcome], members: list[_Member], chunk_rows: int | None
) -> None:
    """Begin to use the sequences; add those that have something to compute."""
    for outcome in outcomes:
        try:
            use = outcome.sequence.begin_use()
            try:
                # Its buffers have the sizes of its own program, and a run trusts them.
                if outcome.sequence.program is not plan.program:
                    raise PlanMismatchError
                use.state.require_work()
                use.state.limit_chunk(chunk_rows)
                members.append(_Member(outcome, use))
            except BaseException:
                use.end()
                raise
        except SslmError as error:
            outcome.error = as_value(error)


def _require_rows(members: list[_Member], row_count_max: int) -> None:
    most = max((member.state.next_row_count for member in members), default=0)
    if most > row_count_max:
        raise OptionRangeError("row_count_max", str(row_count_max), int_range(most))


def _run(
    plan: Plan,
    members: list[_Member],
    *,
    budget_units: int,
    row_count_max: int,
    time: SliceTime | None,
    cancellation: Cancellation | None,
) -> None:
    value: SslmError | None = None
    sequences = [member.state.data for member in members]
    for data in sequences:
        # A plan that refuses the whole call does not get to say so itself.
        data.struct.progress = STAYED
    stages = [member.state.stage for member in members]
    if time is not None:
        time.begin()
    try:
        plan.advance(
            sequences,
            budget_units=budget_units,
            row_count_max=row_count_max,
            time=time,
            cancel=cancellation.flag if cancellation else None,
        )
    except SslmError as error:
        value = as_value(error)
    except MemoryError:
        rows = sum(member.state.next_row_count for member in members)
        size_bytes = 4 * plan.program.residual.width * rows
        value = MemoryRefusedError("the rows of a slice", size_bytes, LESS_CONTEXT)
    if time is not None:
        time.end()
    for member, stage in zip(members, stages, strict=True):
        outcome, struct = member.outcome, member.state.data.struct
        progress = struct.progress
        if progress != STAYED:
            outcome.units = units_between(plan.program, stage, struct.next_segment)
        if progress == STAYED:
            outcome.error = value
        elif outcome.sequence.is_closed:
            outcome.error = SequenceReleasedError()
        elif progress == ENDED:
            outcome.chunk = member.state.last_chunk()
