"""What a saved sequence holds."""

from array import array
from dataclasses import dataclass
from enum import IntEnum

from sslm.errors.saves import SavePartSizeError
from sslm.formats.choice import SavedChoice

HASH_SIZE_BYTES = 32
SATURATION_COUNT = 6
"""Counters of clamped values; docs/format.md lists their sites."""

Bytes = bytes | memoryview


class SavedStateKind(IntEnum):
    """How a state lies in a page or beside the pages; append only."""

    KEYS = 1
    """int16 [head][token][dim], then exponents u8 [head][token]; 64 tokens a page."""
    VALUES = 2
    """int16 [head][token / 2][dim][2], then exponents u8 [head][token]; 64 tokens a page."""
    FIXED = 3
    """int32 [dim] per sequence."""


@dataclass(frozen=True, slots=True)
class SavedState:
    """What a sequence remembers, by name of nothing but its place in the program.

    Args:
        kind: How it lies.
        segment_index: The segment that writes it.
        head_count: Heads; 1 for a fixed one.
        head_dim: Values of a head and token, or of a fixed state.
    """

    kind: SavedStateKind
    segment_index: int
    head_count: int
    head_dim: int

    def __str__(self) -> str:
        shape = f"{self.head_count} x {self.head_dim}"
        return f"{self.kind.name.lower()} of {shape} of segment {self.segment_index}"


@dataclass(frozen=True, slots=True, kw_only=True)
class SavedChunk:
    """Rows that have run through some of the segments.

    Args:
        token_ids: int32, 1 … 64 of them.
        next_segment: The segment that comes next.
        first_logits_row: Rows from here on are scored; the count of rows means none.
        residual: int32 [rows, hidden_size].
        digests: 32 bytes a row once the last layer has run, else none.
    """

    token_ids: "array[int]"
    next_segment: int
    first_logits_row: int
    residual: Bytes
    digests: Bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class SavedMemory:
    """All that computing a sequence's tokens has left.

    Args:
        token_ids: int32, one for each computed position.
        chunk: The chunk in progress, or None.
        selected: The token chosen after the last position, -1 if none was allowed, -3 if the
            logits were too large, or None.
        last_residual: int32 [hidden_size] of the last position; empty if there is none, or a chunk
            is in progress.
        link: The chain of digests, 32 bytes.
        saturations: Values that had to be clamped, by site; ``SATURATION_COUNT`` numbers.
        layers_run: Layers that its chunks ran.
        chunk_count: Chunks that were begun.
        states: What is declared, in the program's order.
        fixed: The fixed states, one after the other.
        page_size_bytes: Of each page.
        pages: The pages whose 64 positions are all computed, in order.
        tail: The rows behind them.

    Raises:
        SavePartSizeError: If link, saturations or a page are not as long as they must be.
    """

    token_ids: "array[int]"
    chunk: SavedChunk | None
    selected: int | None
    last_residual: Bytes
    link: bytes
    saturations: tuple[int, ...]
    layers_run: int
    chunk_count: int
    states: tuple[SavedState, ...]
    fixed: Bytes
    page_size_bytes: int
    pages: tuple[Bytes, ...]
    tail: Bytes

    def __post_init__(self) -> None:
        _require_size("the chain of digests", len(self.link), HASH_SIZE_BYTES)
        _require_size("saturations", 8 * len(self.saturations), 8 * SATURATION_COUNT)
        for page in self.pages:
            _require_size("a page", len(page), self.page_size_bytes)


@dataclass(frozen=True, slots=True, kw_only=True)
class SavedSchema:
    """Where an answer stands in the schema that it follows.

    Args:
        digest: Of schema, vocabulary and what ends an answer, 32 bytes.
        answer_tokens: Most tokens of the answer, at least 1; None is any number.
        state: Of the schema's automaton.
        token_count: Tokens of the answer that led there.

    Raises:
        SavePartSizeError: If the digest is not 32 bytes.
    """

    digest: bytes
    answer_tokens: int | None
    state: int
    token_count: int

    def __post_init__(self) -> None:
        _require_size("the digest of the schema", len(self.digest), HASH_SIZE_BYTES)


@dataclass(frozen=True, slots=True, kw_only=True)
class SavedSequence:
    """A sequence at one moment.

    Args:
        model_id: 32 bytes.
        arithmetic_version: Of the program that computed it.
        adapter: Digest of its adapter, 32 bytes; zeros for none.
        pending: int32: tokens that are yet to compute. Without memory, all tokens.
        forced_tokens: Tokens that were taken in as a schema's content without being chosen.
        choice: How tokens are chosen; None is greedily, with all other numbers at their defaults,
            if the answer begins at the first position.
        answer_start: Where the answer begins.
        schema: What the answer follows, or None.
        memory: What is computed, or None: then all tokens are computed again.

    Raises:
        SavePartSizeError: If an identity is not 32 bytes.
    """

    model_id: bytes
    arithmetic_version: int
    adapter: bytes
    pending: "array[int]"
    forced_tokens: int
    choice: SavedChoice | None
    answer_start: int
    schema: SavedSchema | None
    memory: SavedMemory | None

    def __post_init__(self) -> None:
        _require_size("model_id", len(self.model_id), HASH_SIZE_BYTES)
        _require_size("adapter", len(self.adapter), HASH_SIZE_BYTES)


def _require_size(part: str, found: int, expected: int) -> None:
    if found != expected:
        raise SavePartSizeError(part, found, expected)
