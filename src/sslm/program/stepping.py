"""How sequences go through the segments of a program, in slices, together.

This is the definition; the C library has its own, ``native/src/advance.c``, which does the same.
"""

from collections.abc import Callable, Sequence
from functools import partial
from itertools import groupby

from sslm.numerics.digests import next_link
from sslm.program.program import Program, SegmentKind
from sslm.program.sequence_data import ENDED, MOVED, STAYED, SequenceData, SequenceStruct
from sslm.program.spans import DIGEST_SIZE_BYTES, Span

Compute = Callable[[int, int, Sequence[Span]], tuple[int, Callable[[], None]]]
"""Computes segments first … last - 1 over spans, or fewer or none of them where time is bounded;
returns one past the last that it computed, and what hands the results over to the spans."""


def advance_by_runs(
    program: Program,
    compute: Compute,
    sequences: Sequence[SequenceData],
    *,
    budget_units: int,
    row_count_max: int,
) -> None:
    """Run a slice of every sequence's next chunk; see :meth:`sslm.program.plan.Plan.advance`."""
    stage = partial(_stage, program, budget_units)
    try:
        for data in sequences:
            data.struct.progress = STAYED
            if not data.struct.is_in_flight:
                begin_chunk(program, data)
        for (first, last), group in groupby(sorted(sequences, key=stage), key=stage):
            for batch in _batches(list(group), row_count_max):
                reached, hand_over = compute(first, last, [data.span() for data in batch])
                if reached == first:
                    continue
                # Here, unlike in C, an interrupt may come between two steps.
                for data in batch:
                    data.is_torn = True
                hand_over()
                for data in batch:
                    _move_chunk(program, data, reached)
                    data.is_torn = False
    finally:
        for data in sequences:
            _put_back_chunk(program, data)


def slice_end(program: Program, first: int, stop: int, units: int) -> int:
    """Return where a slice of *units* ends that begins at segment *first* and may run to *stop*.

    A unit is a layer, or a block of the head. The embedding belongs to the first one after it, and
    the selection to the last one before it: both are too small to stop at.
    """
    last = min(stop, max(first, 1) + units)
    if last == stop - 1 and program.segments[last].kind is SegmentKind.SELECT:
        return stop
    return last


def layers_between(program: Program, first: int, last: int) -> int:
    """Return how many of the segments first … last - 1 are layers."""
    return max(0, min(last, program.first_head_index) - max(first, 1))


def head_blocks_between(program: Program, first: int, last: int) -> int:
    """Return how many of the segments first … last - 1 are blocks of the head."""
    segments = program.segments[max(first, program.first_head_index) : last]
    return sum(segment.kind is SegmentKind.HEAD for segment in segments)


def units_between(program: Program, first: int, last: int) -> int:
    """Return how many units a slice had that ran the segments first … last - 1, at least one."""
    units = layers_between(program, first, last) + head_blocks_between(program, first, last)
    # Without layers, a chunk that is not scored is one unit too.
    return max(1, units)


def _stage(program: Program, units: int, data: SequenceData) -> tuple[int, int]:
    """Return what a chunk runs next; chunks that end elsewhere may share a part of the way."""
    first = data.struct.next_segment
    return first, slice_end(program, first, data.struct.stop_segment, units)


def _batches(sequences: list[SequenceData], row_count_max: int) -> list[list[SequenceData]]:
    """Cut a list so that no batch has more rows than a run may have."""
    batches: list[list[SequenceData]] = []
    room = 0
    for data in sequences:
        rows = data.struct.span.row_count
        if rows > room:
            batches.append([])
            room = row_count_max
        batches[-1].append(data)
        room -= rows
    return batches


def begin_chunk(program: Program, data: SequenceData) -> None:
    """Make the first of what is pending a chunk, or the position that is to be scored again.

    There is none in progress.
    """
    struct = data.staged()
    is_again = bool(struct.is_rescoring)
    begun = min(struct.pending_count, struct.chunk_tokens)
    rows = 1 if is_again else begun
    struct.pending_count -= begun
    struct.span.first_position = struct.computed_count - int(is_again)
    struct.span.token_ids = data.token_address(struct.span.first_position)
    struct.span.row_count = rows
    is_last = struct.pending_count == 0
    struct.span.first_logits_row = 0 if struct.has_all_logits else rows - int(is_last)
    struct.span.is_prefill = not struct.is_decoding
    has_head = struct.span.first_logits_row < rows
    struct.next_segment = program.first_head_index if is_again else 0
    struct.stop_segment = len(program.segments) if has_head else program.first_head_index
    struct.is_in_flight = True
    struct.chunk_count += int(not is_again)
    data.become(struct)


def _put_back_chunk(program: Program, data: SequenceData) -> None:
    """Make a chunk that no run has begun pending again: it is none."""
    struct = data.staged()
    is_again = bool(struct.is_rescoring)
    first = program.first_head_index if is_again else 0
    if struct.is_in_flight and struct.next_segment == first:
        struct.pending_count += 0 if is_again else struct.span.row_count
        struct.is_in_flight = False
        struct.chunk_count -= int(not is_again)
        data.become(struct)


def _move_chunk(program: Program, data: SequenceData, last: int) -> None:
    struct = data.staged()
    struct.layers_run += layers_between(program, struct.next_segment, last)
    struct.next_segment = last
    struct.progress = MOVED
    if last == struct.stop_segment:
        _end_chunk(data, struct)
    data.become(struct)


def _end_chunk(data: SequenceData, struct: SequenceStruct) -> None:
    span = struct.span
    if not struct.is_rescoring:
        _add_positions(data, struct)
    struct.is_in_flight = struct.is_rescoring = False
    scored = span.row_count - span.first_logits_row
    if scored and not struct.pending_count:
        struct.selected = data.selected.cast("i")[scored - 1]
    struct.progress = ENDED


def _add_positions(data: SequenceData, struct: SequenceStruct) -> None:
    span = struct.span
    link = bytes(struct.link)
    for row in range(span.row_count):
        digest = data.memory.digests[row * DIGEST_SIZE_BYTES : (row + 1) * DIGEST_SIZE_BYTES]
        link = next_link(link, data.token_ids[span.first_position + row], digest)
    struct.link[:] = link
    struct.computed_count += span.row_count
    struct.last_row = span.row_count - 1
