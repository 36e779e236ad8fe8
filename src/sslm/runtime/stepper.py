"""Advancing sequences together, a slice of segments at a time."""

from collections.abc import Sequence as Sequences
from dataclasses import dataclass

from sslm.errors.base import SslmError
from sslm.errors.runtime import (
    MemoryRefusedError,
    OptionRangeError,
    PlanMismatchError,
    SequenceReleasedError,
)
from sslm.errors.showing import int_range
from sslm.program.plan import Plan
from sslm.program.program import Program
from sslm.program.sequence_data import ENDED, STAYED
from sslm.runtime.cancellation import Cancellation
from sslm.runtime.chunk import Chunk
from sslm.runtime.sequence import Sequence
from sslm.runtime.turns import Turn
from sslm.runtime.unit_costs import UnitCosts


@dataclass(slots=True)
class Outcome:
    """What became of one sequence of a batch.

    Args:
        sequence: Which one.
        chunk: The chunk that came to its end, or None.
        error: Why the sequence was not advanced, or None; it stands as it stood before.
    """

    sequence: Sequence
    chunk: Chunk | None = None
    error: SslmError | None = None


def advance(
    plan: Plan,
    sequences: Sequences[Sequence],
    *,
    budget_units: int,
    row_count_max: int,
    chunk_rows: int | None = None,
    costs: UnitCosts | None = None,
    cancellation: Cancellation | None = None,
) -> list[Outcome]:
    """Run at most *budget_units* units of every sequence's next chunk.

    Sequences that stand at the same segment share each weight that is read. No result depends on
    which sequences are advanced together, or in how many slices, and one that cannot be advanced
    keeps none of the others from it.

    Args:
        plan: Compiled from the sequences' program.
        sequences: Each once, with something pending.
        budget_units: At least 1. A unit is a layer of a chunk or a block of the head; a chunk runs
            to its end if it may.
        row_count_max: What the plan was compiled for; more rows take several runs.
        chunk_rows: Most rows of a chunk that begins here, at least 1; None is what each sequence is
            made for.
        costs: Learns from a slice that all sequences ran together; None reads no clock.
        cancellation: Polled during the runs, or None.

    Returns:
        As many outcomes as sequences, in their order. Errors in them: ObjectClosedError,
        SequenceInUseError, PlanMismatchError (of another program) and SequenceBusyError (nothing
        pending) of sequences that did not run, SequenceReleasedError of those that were closed
        meanwhile, and what a run raised, such as RunCancelledError, or MemoryRefusedError if the
        system had no memory for it: its sequences, and those whose turn would have come after it,
        stand where they stood.

    Raises:
        OptionRangeError: If the budget is below 1, a sequence is listed twice, or a chunk alone has
            too many rows; nothing ran.
    """
    if budget_units < 1:
        raise OptionRangeError("budget_units", str(budget_units), int_range(1))
    if len(set(sequences)) < len(sequences):
        raise OptionRangeError("sequences", "one of them twice", "each once")
    outcomes = [Outcome(sequence) for sequence in sequences]
    turns: list[tuple[Sequence, Turn]] = []
    try:
        waiting = _begin(plan, outcomes, turns, chunk_rows)
        _require_rows(waiting, row_count_max)
        if waiting:
            _run(
                plan,
                waiting,
                budget_units=budget_units,
                row_count_max=row_count_max,
                costs=costs,
                cancellation=cancellation,
            )
    finally:
        for sequence, turn in turns:
            sequence.end_use(turn)
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


def _begin(
    plan: Plan,
    outcomes: list[Outcome],
    turns: list[tuple[Sequence, Turn]],
    chunk_rows: int | None,
) -> list[Outcome]:
    """Begin to use the sequences; return those that have something to compute."""
    waiting = []
    for outcome in outcomes:
        try:
            turns.append((outcome.sequence, outcome.sequence.begin_use()))
            # Its buffers have the sizes of its own program, and a run trusts them.
            if outcome.sequence.program is not plan.program:
                raise PlanMismatchError
            outcome.sequence.state.require_pending()
            outcome.sequence.state.limit_chunk(chunk_rows)
            waiting.append(outcome)
        except SslmError as error:
            outcome.error = as_value(error)
    return waiting


def _require_rows(waiting: list[Outcome], row_count_max: int) -> None:
    most = max((outcome.sequence.state.next_row_count for outcome in waiting), default=0)
    if most > row_count_max:
        raise OptionRangeError("row_count_max", str(row_count_max), int_range(most))


def _run(
    plan: Plan,
    waiting: list[Outcome],
    *,
    budget_units: int,
    row_count_max: int,
    costs: UnitCosts | None,
    cancellation: Cancellation | None,
) -> None:
    value: SslmError | None = None
    sequences = [outcome.sequence.state.data for outcome in waiting]
    for data in sequences:
        # A plan that refuses the whole call does not get to say so itself.
        data.struct.progress = STAYED
    stages = [outcome.sequence.state.stage for outcome in waiting] if costs else []
    started_ns = costs.now_ns() if costs else 0
    try:
        plan.advance(
            sequences,
            budget_units=budget_units,
            row_count_max=row_count_max,
            cancel=cancellation.flag if cancellation else None,
        )
    except SslmError as error:
        value = as_value(error)
    except MemoryError:
        rows = sum(outcome.sequence.state.next_row_count for outcome in waiting)
        size_bytes = 4 * plan.program.residual.width * rows
        value = MemoryRefusedError("the rows of a slice", size_bytes)
    if costs and value is None:
        _note(costs, plan.program, waiting, stages, costs.now_ns() - started_ns)
    for outcome in waiting:
        progress = outcome.sequence.state.data.struct.progress
        if progress == STAYED:
            outcome.error = value
        elif outcome.sequence.is_closed:
            outcome.error = SequenceReleasedError()
        elif progress == ENDED:
            outcome.chunk = outcome.sequence.state.last_chunk()


def _note(
    costs: UnitCosts,
    program: Program,
    waiting: list[Outcome],
    stages: list[int],
    elapsed_ns: int,
) -> None:
    """Learn from a slice, if all sequences ran the same segments."""
    structs = [outcome.sequence.state.data.struct for outcome in waiting]
    ranges = {(first, struct.next_segment) for first, struct in zip(stages, structs, strict=True)}
    if len(ranges) > 1:
        return
    ((first, last),) = ranges
    spans = [struct.span for struct in structs]
    rows = sum(span.row_count for span in spans)
    scored = rows - sum(span.first_logits_row for span in spans)
    costs.note_run(program, first, last, rows=rows, scored=scored, elapsed_ns=elapsed_ns)


def as_value(error: SslmError) -> SslmError:
    """Return an error without its traceback, which would hold the outcome that holds it."""
    error.__context__ = None
    return error.with_traceback(None)
