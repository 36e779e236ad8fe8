"""Rows of one sequence that go through the segments together."""

from dataclasses import dataclass

from sslm.program.plan import Span
from sslm.program.program import Program, SegmentKind


@dataclass(slots=True, kw_only=True)
class Chunk:
    """Rows that go through the segments together, and how far they are.

    The span's logits, selected ids and trace are valid until the sequence begins another chunk.
    """

    span: Span
    next_segment: int
    stop_segment: int

    @property
    def has_logits(self) -> bool:
        """Whether any row is scored."""
        return self.span.first_logits_row < self.span.row_count


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
