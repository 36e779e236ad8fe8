"""Block floating point against Python integers."""

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from sslm.limits import CODE_MAX
from sslm.numerics.block_float import bfp16

LARGEST = 2**62 - 1


def round_shift(value: int, shift: int) -> int:
    return value if shift == 0 else (value + (1 << (shift - 1))) >> shift


def plain_bfp16(row: list[int]) -> tuple[list[int], int]:
    largest = max(map(abs, row))
    shift = 0
    while round_shift(largest, shift) > CODE_MAX:
        shift += 1
    return [round_shift(value, shift) for value in row], shift


@st.composite
def rows(draw: st.DrawFn) -> list[int]:
    bound = 2 ** draw(st.integers(0, 62)) - 1
    return draw(st.lists(st.integers(-bound, bound), min_size=1, max_size=6))


@given(row=rows())
@example(row=[LARGEST, -LARGEST])
@example(row=[-LARGEST])
@example(row=[2**31 - 1, -(2**31) + 1, 1, -1])
@example(row=[32639])
@example(row=[32640, -32640])
@example(row=[65279, -65279])
@example(row=[65278])
@example(row=[0, 0])
def test_codes_and_exponent_are_those_of_the_definition(row: list[int]) -> None:
    codes, exponent = bfp16(np.array([row], dtype=np.int64))
    assert (codes[0].tolist(), int(exponent[0])) == plain_bfp16(row)


@given(row=rows())
def test_codes_split_into_two_signed_bytes(row: list[int]) -> None:
    codes, _ = bfp16(np.array(row, dtype=np.int64))
    high = (codes + 128) >> 8
    low = codes - 256 * high
    assert np.abs(codes).max() <= CODE_MAX
    assert high.min() >= -128
    assert high.max() <= 127
    assert low.min() >= -128
    assert low.max() <= 127


@pytest.mark.parametrize(("largest", "exponent"), [(2**31 - 1, 17), (LARGEST, 48), (0, 0)])
def test_largest_exponents(largest: int, exponent: int) -> None:
    assert bfp16(np.array([largest], dtype=np.int64))[1] == exponent


def test_each_row_has_its_own_exponent() -> None:
    stacked = np.array([[[1, -2], [1 << 20, 3]], [[0, 0], [-(1 << 40), 1]]], dtype=np.int64)
    codes, exponents = bfp16(stacked)
    assert exponents.tolist() == [[0, 6], [0, 26]]
    assert codes.tolist() == [[[1, -2], [1 << 14, 0]], [[0, 0], [-(1 << 14), 0]]]
