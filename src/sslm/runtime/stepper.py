"""Advancing sequences together, a slice of segments at a time."""

from collections.abc import Sequence as Sequences
from itertools import groupby

from sslm.errors.runtime import OptionRangeError
from sslm.errors.showing import int_range
from sslm.program.plan import Plan
from sslm.runtime.cancellation import Cancellation
from sslm.runtime.sequence import Chunk, Sequence


def advance(
    plan: Plan,
    sequences: Sequences[Sequence],
    *,
    budget_segments: int,
    row_count_max: int,
    cancellation: Cancellation | None = None,
) -> list[tuple[Sequence, Chunk]]:
    """Run at most *budget_segments* segments of every sequence's next chunk.

    Sequences that stand at the same segment share each weight that is read. No result depends on
    which sequences are advanced together, or in how many slices.

    Args:
        plan: Compiled from the sequences' program.
        sequences: Each once, with something pending.
        budget_segments: At least 1; a chunk runs to the end of its segments if it may.
        row_count_max: What the plan was compiled for; more rows take several runs.
        cancellation: Polled during the runs, or None.

    Returns:
        The sequences whose chunk came to its end, with that chunk.

    Raises:
        OptionRangeError: If the budget is below 1, a sequence is listed twice, or a chunk alone has
            too many rows; nothing ran.
        SequenceBusyError: If a sequence has nothing pending; nothing ran.
        ObjectClosedError: If a sequence is closed; nothing ran.
        RunCancelledError: If the flag was set; every sequence stands before or after its slice.
    """
    if budget_segments < 1:
        raise OptionRangeError("budget_segments", str(budget_segments), int_range(1))
    if len(set(sequences)) < len(sequences):
        raise OptionRangeError("sequences", "one of them twice", "each once")
    waiting = sorted(sequences, key=lambda sequence: _stage(sequence.begin_chunk()))
    most_rows = max((s.begin_chunk().span.row_count for s in waiting), default=0)
    if most_rows > row_count_max:
        raise OptionRangeError("row_count_max", str(row_count_max), int_range(most_rows))
    finished = []
    cancel = cancellation.flag if cancellation else None
    for (first, stop), group in groupby(waiting, key=lambda s: _stage(s.begin_chunk())):
        last = min(stop, first + budget_segments)
        for batch in _batches(list(group), row_count_max):
            chunks = [sequence.begin_chunk() for sequence in batch]
            plan.run(first, last, [chunk.span for chunk in chunks], cancel=cancel)
            for sequence, chunk in zip(batch, chunks, strict=True):
                chunk.next_segment = last
                if last == chunk.stop_segment:
                    finished.append((sequence, sequence.end_chunk()))
    return finished


def _stage(chunk: Chunk) -> tuple[int, int]:
    return chunk.next_segment, chunk.stop_segment


def _batches(sequences: list[Sequence], row_count_max: int) -> list[list[Sequence]]:
    """Cut a list so that no batch has more rows than a run may have."""
    batches: list[list[Sequence]] = []
    room = 0
    for sequence in sequences:
        rows = sequence.begin_chunk().span.row_count
        if rows > room:
            batches.append([])
            room = row_count_max
        batches[-1].append(sequence)
        room -= rows
    return batches
