"""Rows of pages as bytes that hold nothing but positions that exist.

A page that was handed out before still holds what its last owner wrote. What is copied out of pages
to be kept or saved therefore goes row by row, and of a pair of values whose second position does
not exist yet, the second half is zero.

The packed form: state after state in the order of the layout, fixed ones left out; within a state
page after page; within a page the codes head by head, then the exponents head by head. Codes are
int16 [head][position][dim] for keys and [head][pair of positions][dim][2] for values, exponents
uint8 [head][position]. A page whose 64 positions all exist is packed as it is.
"""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from sslm.program.states import PAGE_TOKENS, State, StateKind, StateLayout


class Run(NamedTuple):
    """Packed rows of one state in one page: int16 codes, then uint8 exponents."""

    state: State
    code_count: int
    exponent_count: int


def packed_runs(layout: StateLayout, first: int, stops: Sequence[int]) -> Iterator[Run]:
    """Yield what packed rows consist of, in order; takes what :func:`pack_rows` does."""
    for state, _, _, count in _parts(layout, first, stops):
        heads = state.head_count
        yield Run(state, heads * _codes_per_head_bytes(state, count) // 2, heads * count)


def packed_size_bytes(layout: StateLayout, first: int, stops: Sequence[int]) -> int:
    """Return the size of what :func:`pack_rows` would return."""
    return sum(_size_bytes(state, count) for state, _, _, count in _parts(layout, first, stops))


def pack_rows(
    layout: StateLayout,
    pool: memoryview,
    pages: Sequence[int],
    first: int,
    stops: Sequence[int],
) -> bytes:
    """Copy rows out of their pages.

    Args:
        layout: What a page holds.
        pool: All pages of the pool, as bytes.
        pages: The sequence's pages; page i holds its positions 64 i … 64 i + 63.
        first: The first position, a multiple of 64.
        stops: For each state of the layout, the position after its last; that of a fixed state is
            not looked at. A state without positions from *first* on takes no bytes.
    """
    pieces: list[memoryview | bytearray] = []
    page_size = layout.page_size_bytes
    for state, page, offset, count in _parts(layout, first, stops):
        start = pages[page] * page_size + offset
        if count == PAGE_TOKENS:
            pieces.append(pool[start : start + _size_bytes(state, count)])
        else:
            _append_pieces(pieces, pool, start, state, count)
    return b"".join(pieces)


def unpack_rows(  # noqa: PLR0917 - what pack_rows takes, then what it returned
    layout: StateLayout,
    pool: memoryview,
    pages: Sequence[int],
    first: int,
    stops: Sequence[int],
    packed: bytes | memoryview,
) -> None:
    """Copy packed rows into pages; rows that are not there stay as they are.

    Takes what :func:`pack_rows` does, and its result for the same layout, *first* and *stops*:
    ``packed_size_bytes`` bytes. The absent half of a pair becomes what is packed there: zero.
    """
    source = memoryview(packed)
    page_size = layout.page_size_bytes
    at = 0
    for state, page, offset, count in _parts(layout, first, stops):
        start = pages[page] * page_size + offset
        size = _size_bytes(state, count)
        if count == PAGE_TOKENS:
            pool[start : start + size] = source[at : at + size]
        else:
            _copy_pieces(pool, start, state, count, source[at : at + size])
        at += size


def absent_halves_are_zero(
    layout: StateLayout, first: int, stops: Sequence[int], packed: bytes | memoryview
) -> bool:
    """Tell whether packed rows hold zeros wherever a pair's second position does not exist.

    Takes what :func:`unpack_rows` does.
    """
    source = memoryview(packed)
    at = 0
    for state, _, _, count in _parts(layout, first, stops):
        pair_size = _absent_pair_bytes(state, count)
        codes_size = _codes_per_head_bytes(state, count)
        for head in range(1, 1 + state.head_count if pair_size else 0):
            end = at + head * codes_size
            pair = source[end - pair_size : end].tobytes()
            if any(pair[2::4]) or any(pair[3::4]):
                return False
        at += _size_bytes(state, count)
    return True


def _parts(
    layout: StateLayout, first: int, stops: Sequence[int]
) -> Iterator[tuple[State, int, int, int]]:
    """Yield what is packed, in order: state, page of the sequence, offset in it, rows there."""
    for state, offset, stop in zip(layout.states, layout.offsets_bytes, stops, strict=True):
        if state.is_paged:
            for position in range(first, stop, PAGE_TOKENS):
                yield state, position // PAGE_TOKENS, offset, min(stop - position, PAGE_TOKENS)


def _codes_per_head_bytes(state: State, count: int) -> int:
    """Return the bytes of the codes of *count* rows of one head, whole pairs where they pair."""
    rows = count + (count & 1) if state.kind is StateKind.PAGED_VALUES else count
    return 2 * rows * state.head_dim


def _size_bytes(state: State, count: int) -> int:
    """Return the bytes of *count* rows of all heads, exponents included."""
    return state.head_count * (_codes_per_head_bytes(state, count) + count)


def _absent_pair_bytes(state: State, count: int) -> int:
    """Return the bytes of a last pair of which only the first position exists, 0 without one."""
    return 4 * state.head_dim if count & 1 and state.kind is StateKind.PAGED_VALUES else 0


def _append_pieces(
    pieces: list[memoryview | bytearray], pool: memoryview, start: int, state: State, count: int
) -> None:
    """Append codes, then exponents, of a page that is not full; *start* is the state's there."""
    pair_size = _absent_pair_bytes(state, count)
    whole = _codes_per_head_bytes(state, count) - pair_size
    exponents = start + state.codes_size_bytes
    zeros = bytes(state.head_dim)
    for at in range(start, exponents, 2 * PAGE_TOKENS * state.head_dim):
        pieces.append(pool[at : at + whole])
        if pair_size:
            pair = bytearray(pool[at + whole : at + whole + pair_size])
            pair[2::4] = pair[3::4] = zeros
            pieces.append(pair)
    for at in range(exponents, exponents + PAGE_TOKENS * state.head_count, PAGE_TOKENS):
        pieces.append(pool[at : at + count])


def _copy_pieces(
    pool: memoryview, start: int, state: State, count: int, source: memoryview
) -> None:
    """Copy what :func:`_append_pieces` appends to where that found it."""
    codes_size = _codes_per_head_bytes(state, count)
    exponents = start + state.codes_size_bytes
    taken = 0
    for at in range(start, exponents, 2 * PAGE_TOKENS * state.head_dim):
        pool[at : at + codes_size] = source[taken : taken + codes_size]
        taken += codes_size
    for at in range(exponents, exponents + PAGE_TOKENS * state.head_count, PAGE_TOKENS):
        pool[at : at + count] = source[taken : taken + count]
        taken += count
