"""Rows of one sequence that go through the segments together."""

from dataclasses import dataclass

from sslm.program.plan import Span


@dataclass(frozen=True, slots=True, kw_only=True)
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
