"""Rounding against Python integers."""

from fractions import Fraction
from math import floor

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from sslm.numerics.rounding import INT32_MAX, div_round, rshift_round, saturate, scale_shift

VALUES = st.integers(-(2**62) + 1, 2**62 - 1)
HALF_UP = Fraction(1, 2)


def rounded(numerator: int, denominator: int) -> int:
    """The nearest integer to a fraction; the larger one of two equally near."""
    return floor(Fraction(numerator, denominator) + HALF_UP)


def int64(value: int) -> np.ndarray:
    return np.array([value], dtype=np.int64)


@given(value=VALUES, shift=st.integers(0, 300))
@example(value=2**62 - 1, shift=62)
@example(value=2**62 - 1, shift=63)
@example(value=-(2**62) + 1, shift=63)
@example(value=2**62 - 1, shift=1)
@example(value=-(2**61), shift=62)
@example(value=2**61, shift=62)
@example(value=-1, shift=1)
def test_rshift_round_is_the_nearest_integer_halves_up(value: int, shift: int) -> None:
    assert rshift_round(int64(value), shift).tolist() == [rounded(value, 2**shift)]


@pytest.mark.parametrize(
    ("value", "shift", "expected"),
    [
        (-3, 1, -1),
        (3, 1, 2),
        (-1, 1, 0),
        (1, 1, 1),
        (-5, 1, -2),
        (-6, 2, -1),
        (-7, 2, -2),
        (7, 0, 7),
    ],
)
def test_rshift_round_of_halves(value: int, shift: int, expected: int) -> None:
    assert rshift_round(int64(value), shift).tolist() == [expected]


def test_rshift_round_broadcasts_its_shifts() -> None:
    values = np.array([[7], [-7]], dtype=np.int64)
    assert rshift_round(values, [0, 1, 2, 90]).tolist() == [[7, 4, 2, 0], [-7, -3, -2, 0]]


@given(value=VALUES, right=st.integers(0, 300))
@example(value=2**62 - 1, right=63)
def test_scale_shift_rounds_to_the_right(value: int, right: int) -> None:
    assert scale_shift(int64(value), right).tolist() == [rounded(value, 2**right)]


@given(left=st.integers(0, 62), data=st.data())
def test_scale_shift_is_exact_to_the_left(left: int, data: st.DataObject) -> None:
    largest = (2**63 - 1) >> left
    value = data.draw(st.integers(max(-largest, -(2**62) + 1), min(largest, 2**62 - 1)))
    assert scale_shift(int64(value), -left).tolist() == [value << left]


def test_scale_shift_takes_a_shift_for_each_row() -> None:
    values = np.array([[3, -3], [3, -3], [3, -3]], dtype=np.int64)
    shifts = np.array([[1], [0], [-4]], dtype=np.int64)
    assert scale_shift(values, shifts).tolist() == [[2, -1], [3, -3], [48, -48]]


@given(numerator=st.integers(-(2**80), 2**80), divisor=st.integers(1, 2**40))
@example(numerator=-3, divisor=2)
@example(numerator=-(2**55), divisor=2**32 - 1)
def test_div_round_is_the_nearest_integer_halves_up(numerator: int, divisor: int) -> None:
    assert div_round(numerator, divisor) == rounded(numerator, divisor)


@given(
    st.lists(
        st.integers(-(2**63), 2**63 - 1) | st.sampled_from([-(2**31), 1 - 2**31, 2**31 - 1, 2**31]),
        min_size=4,
        max_size=4,
    )
)
def test_saturate_clamps_and_counts_each_row(values: list[int]) -> None:
    rows = np.array(values, dtype=np.int64).reshape(2, 2)
    clamped, counts = saturate(rows)
    expected = [[max(-INT32_MAX, min(INT32_MAX, v)) for v in row] for row in rows.tolist()]
    assert clamped.tolist() == expected
    pairs = zip(expected, rows.tolist(), strict=True)
    assert counts.tolist() == [sum(a != b for a, b in zip(*pair, strict=True)) for pair in pairs]
