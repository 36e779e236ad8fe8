"""Spans: the rows that a run computes, over memory that belongs to the caller."""

from dataclasses import dataclass, field

from sslm.program.choice_data import ChoiceData

CHUNK_ROWS_MAX = 64
"""Rows of one span in one run: a budget unit is a layer of at most this many rows."""
DIGEST_SIZE_BYTES = 32
NOT_ALLOWED = -(1 << 63)
"""The logit of an id that a span does not allow: below every other."""


def allowed_size_bytes(token_count: int) -> int:
    """Return the bytes of the mask of a span's allowed ids."""
    return (token_count + 31) // 32 * 4


@dataclass(slots=True, kw_only=True)
class SequenceMemory:
    """The memory of one sequence that plans read and write. All buffers belong to the caller.

    Args:
        pool: The pool's pages, one after the other, each ``page_size_bytes`` of the layout.
        pages: int32 indices into the pool; page i holds positions 64 i … 64 i + 63.
        fixed: The fixed states, ``fixed_size_bytes`` of the layout.
        residual: int32 [CHUNK_ROWS_MAX, hidden_size]; carries a chunk between segments.
        saturations: int64 counters by ``SaturationSite``.
        digests: 32 bytes per row of the chunk: d[p, L], written by the last layer.
    """

    pool: memoryview
    pages: memoryview
    fixed: memoryview
    residual: memoryview
    saturations: memoryview
    digests: memoryview


@dataclass(slots=True, kw_only=True)
class Trace:
    """Digests of every segment, on request.

    Args:
        segments: 32 bytes per segment (embed, then layers) and row: [L + 1][rows][32].
    """

    segments: memoryview


@dataclass(slots=True, kw_only=True)
class Span:
    """Consecutive positions of one sequence that a run computes together.

    Args:
        memory: The sequence.
        first_position: Position of the first row.
        token_ids: int32, one id per row; at most CHUNK_ROWS_MAX.
        first_logits_row: Rows from here on get logits; the count of rows means none.
        logits: int64 [rows with logits, vocab_size], written by the head segments.
        selected: int32 [rows with logits], written by the select segment; -1 if no id is allowed.
        trace: Where to write every segment's digests, or None.
        adapter_slot: Which adapter applies; 0 is none.
        is_prefill: Whether the ids were given, and are not the one chosen before: work may be
            shared in other parts, to the same bits.
        allowed: uint32 [token_count / 32, rounded up], bit i % 32 of word i / 32 for token id i:
            those that may be chosen, in all rows; None is all. The logits of others become
            ``NOT_ALLOWED``. Native tiers read the head in panels of 16 ids, and skip those
            without an allowed one.
        logit_exponents: int32 [rows with logits], written by the head segments with the logits:
            each stands for itself times two to this. None where nobody asks for more than the
            largest.
        choice: How ids are chosen, which needs the exponents unless it is plain; None takes the
            largest logit.
    """

    memory: SequenceMemory
    first_position: int
    token_ids: memoryview
    first_logits_row: int
    logits: memoryview | None = None
    selected: memoryview | None = None
    trace: Trace | None = None
    adapter_slot: int = field(default=0)
    is_prefill: bool = False
    allowed: memoryview | None = None
    logit_exponents: memoryview | None = None
    choice: ChoiceData | None = None

    @property
    def row_count(self) -> int:
        """Rows of the span."""
        return len(self.token_ids)
