"""Sequence states: what a sequence remembers, as a program declares it."""

from dataclasses import dataclass
from enum import Enum

from sslm.errors.program import AccumulatorBoundError, OpShapeError
from sslm.limits import HEAD_DIM_MAX, HIDDEN_SIZE_MAX
from sslm.program.tensors import padded

PAGE_TOKENS = 64
"""Positions of one page of every paged state; also the block of attention's sums."""

STATE_ALIGNMENT_BYTES = 64


class StateKind(Enum):
    """How a state grows."""

    PAGED_KEYS = "paged keys"
    """Codes and exponents per position and head; a page holds int16 [head][token][dim]."""
    PAGED_VALUES = "paged values"
    """As keys, but two positions of one dim lie side by side: int16 [head][token / 2][dim][2]."""
    FIXED = "fixed"
    """int32 values per sequence, whatever its length."""


@dataclass(frozen=True, slots=True, kw_only=True)
class State:
    """One declared state.

    Args:
        name: Unique in its program.
        kind: How it grows.
        segment_index: The segment whose op writes it.
        head_count: Heads of a paged state, at least 1; 1 for a fixed one.
        head_dim: Values per head and position, 1 … 256, or values of a fixed state, 1 … 65536.
        fraction_bits: Static binary point.

    Raises:
        AccumulatorBoundError: If head_dim is out of range: sums over a head are proven, and rows of
            one are kept, for that many values.
        OpShapeError: If there is no head, or a fixed state has more than one.
    """

    name: str
    kind: StateKind
    segment_index: int
    head_count: int
    head_dim: int
    fraction_bits: int

    def __post_init__(self) -> None:
        highest = HEAD_DIM_MAX if self.is_paged else HIDDEN_SIZE_MAX
        if not 1 <= self.head_dim <= highest:
            raise AccumulatorBoundError(f"state {self.name}", "head_dim", self.head_dim, 1, highest)
        if self.head_count < 1 or (self.head_count > 1 and not self.is_paged):
            expected = "at least 1" if self.is_paged else "1"
            raise OpShapeError(f"state {self.name}", "head_count", str(self.head_count), expected)

    @property
    def is_paged(self) -> bool:
        """Whether the state takes memory per position."""
        return self.kind is not StateKind.FIXED

    @property
    def codes_size_bytes(self) -> int:
        """Bytes of the codes in one page, or of the whole fixed state."""
        if self.is_paged:
            return 2 * PAGE_TOKENS * self.head_count * self.head_dim
        return 4 * self.head_dim

    @property
    def size_bytes(self) -> int:
        """Bytes in one page (codes, then exponents u8 [head][token]) or of the whole state."""
        exponents = PAGE_TOKENS * self.head_count if self.is_paged else 0
        return padded(self.codes_size_bytes + exponents, STATE_ALIGNMENT_BYTES)


@dataclass(frozen=True, slots=True)
class StateLayout:
    """Where each state lies: paged ones in every page, fixed ones in one block per sequence.

    One page holds 64 positions of every paged state of every layer, so that a sequence needs one
    page table and admission is one number.
    """

    states: tuple[State, ...]
    offsets_bytes: tuple[int, ...]
    page_size_bytes: int
    fixed_size_bytes: int


def lay_out_states(states: tuple[State, ...]) -> StateLayout:
    """Place the states one after the other, in the order of their declaration."""
    page_size_bytes = fixed_size_bytes = 0
    offsets_bytes = []
    for state in states:
        if state.is_paged:
            offsets_bytes.append(page_size_bytes)
            page_size_bytes += state.size_bytes
        else:
            offsets_bytes.append(fixed_size_bytes)
            fixed_size_bytes += state.size_bytes
    return StateLayout(states, tuple(offsets_bytes), page_size_bytes, fixed_size_bytes)
