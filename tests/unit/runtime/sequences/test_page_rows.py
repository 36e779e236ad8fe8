"""Rows come out of pages without a byte of what does not exist, and go back where they were."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sslm.program.states import State, StateKind, StateLayout, lay_out_states
from sslm.runtime.sequences.page_rows import (
    absent_halves_are_zero,
    pack_rows,
    packed_size_bytes,
    unpack_rows,
)

Bytes = npt.NDArray[np.uint8]

POOL_PAGES = 7
CANARY = 0xA5


def _state(name: str, kind: StateKind, head_count: int, head_dim: int) -> State:
    return State(
        name=name,
        kind=kind,
        segment_index=1,
        head_count=head_count,
        head_dim=head_dim,
        fraction_bits=0,
    )


LAYOUT = lay_out_states(
    (
        _state("k", StateKind.PAGED_KEYS, 2, 5),
        _state("f", StateKind.FIXED, 1, 20),
        _state("v", StateKind.PAGED_VALUES, 2, 5),
        _state("w", StateKind.PAGED_VALUES, 3, 1),
    )
)


@dataclass(frozen=True)
class _Part:
    """Views of the rows of one state in one page, indexed by position: what packing must find."""

    kind: StateKind
    codes: tuple[npt.NDArray[np.int16], npt.NDArray[np.int16]]
    """[head, pair, 2, dim] of the whole pairs, then [head, 1 or 0, dim] of what is left of one."""
    exponents: Bytes


def _parts(
    pool: Bytes, layout: StateLayout, pages: list[int], first: int, stops: list[int]
) -> Iterator[_Part]:
    for state, offset, stop in zip(layout.states, layout.offsets_bytes, stops, strict=True):
        if not state.is_paged:
            continue
        heads, dim = state.head_count, state.head_dim
        for page in range(first // 64, -(-stop // 64)):
            at = pages[page] * layout.page_size_bytes + offset
            codes = pool[at : at + 128 * heads * dim].view(np.int16)
            exponents = pool[at + 128 * heads * dim :][: 64 * heads].reshape(heads, 64)
            if state.kind is StateKind.PAGED_KEYS:
                codes = codes.reshape(heads, 32, 2, dim)
            else:
                codes = codes.reshape(heads, 32, dim, 2).swapaxes(2, 3)
            pairs, rest = divmod(min(64, stop - 64 * page), 2)
            yield _Part(
                state.kind,
                (codes[:, :pairs], codes[:, pairs : pairs + rest, 0]),
                exponents[:, : 2 * pairs + rest],
            )


def _packed_with_numpy(
    pool: Bytes, layout: StateLayout, pages: list[int], first: int, stops: list[int]
) -> bytes:
    """The packed form, from its description."""
    packed = b""
    for part in _parts(pool, layout, pages, first, stops):
        pairs, rest = part.codes
        if part.kind is StateKind.PAGED_VALUES:
            padded = np.stack([rest, np.zeros_like(rest)], axis=2)
            codes = np.concatenate([pairs, padded], axis=1).swapaxes(2, 3)
        else:
            codes = np.concatenate([pairs.reshape(len(pairs), -1, pairs.shape[3]), rest], axis=1)
        packed += codes.tobytes() + part.exponents.tobytes()
    return packed


def _random_pool(seed: int) -> Bytes:
    """Pages of bytes that are never the canary's."""
    generator = np.random.default_rng(seed)
    return generator.integers(0, CANARY, POOL_PAGES * LAYOUT.page_size_bytes, np.uint8)


STOPS = st.lists(st.integers(0, 200), min_size=4, max_size=4)
PAGES = st.permutations(range(POOL_PAGES))


@given(first=st.sampled_from([0, 64, 128]), stops=STOPS, pages=PAGES, seed=st.integers(0, 99))
def test_packing_is_what_the_description_says(
    first: int, stops: list[int], pages: list[int], seed: int
) -> None:
    pool = _random_pool(seed)
    expected = _packed_with_numpy(pool, LAYOUT, pages, first, stops)
    assert pack_rows(LAYOUT, pool.data, pages, first, stops) == expected
    assert packed_size_bytes(LAYOUT, first, stops) == len(expected)
    assert absent_halves_are_zero(LAYOUT, first, stops, expected)


@given(first=st.sampled_from([0, 64, 128]), stops=STOPS, pages=PAGES)
def test_what_does_not_exist_is_neither_packed_nor_written(
    first: int, stops: list[int], pages: list[int]
) -> None:
    source = _random_pool(3)
    stale = np.full_like(source, CANARY)
    for there, here in zip(
        _parts(stale, LAYOUT, pages, first, stops),
        _parts(source, LAYOUT, pages, first, stops),
        strict=True,
    ):
        there.codes[0][:], there.codes[1][:] = here.codes
        there.exponents[:] = here.exponents
    packed = pack_rows(LAYOUT, stale.data, pages, first, stops)
    assert CANARY not in packed

    target = np.full_like(source, CANARY)
    unpack_rows(LAYOUT, target.data, pages, first, stops, packed)
    # Only the absent half of a pair may differ from what stood there, and is zero.
    changed = target != stale
    assert not target[changed].any()
    odd_values = [
        state.head_count * state.head_dim
        for state, stop in zip(LAYOUT.states, stops, strict=True)
        if state.kind is StateKind.PAGED_VALUES and stop > first and stop % 2
    ]
    assert changed.sum() == 2 * sum(odd_values)


@pytest.mark.parametrize("where", [-2, -1])
def test_an_absent_half_that_is_not_zero_is_seen(where: int) -> None:
    layout = lay_out_states((_state("v", StateKind.PAGED_VALUES, 2, 3),))
    pool = memoryview(bytes(layout.page_size_bytes))
    packed = bytearray(pack_rows(layout, pool, [0], 0, [3]))
    # Two heads of two pairs of three dims, then three exponents a head.
    assert len(packed) == 2 * 2 * 3 * 4 + 2 * 3
    for head in (1, 2):
        packed[24 * head + where] = 1
        assert not absent_halves_are_zero(layout, 0, [3], bytes(packed))
        packed[24 * head + where] = 0
    packed[24 - 3] = 1
    assert absent_halves_are_zero(layout, 0, [3], bytes(packed))


def test_other_pages_stay_as_they_are() -> None:
    source, target = _random_pool(5), _random_pool(6)
    before = target.copy()
    stops = [130] * 4
    packed = pack_rows(LAYOUT, source.data, [0, 1, 2], 64, stops)
    unpack_rows(LAYOUT, target.data, [6, 4, 2], 64, stops, packed)
    pages = target.reshape(POOL_PAGES, -1)
    assert (pages[[0, 1, 3, 5, 6]] == before.reshape(POOL_PAGES, -1)[[0, 1, 3, 5, 6]]).all()
    assert pack_rows(LAYOUT, target.data, [6, 4, 2], 64, stops) == packed
