"""Quantizing rounds as IEEE 754 does, and packs without loss."""

from decimal import ROUND_HALF_EVEN, Decimal
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from sslm.backends.reference.panels import panel_rows
from sslm.convert.quantize import (
    GAIN_BITS,
    MANTISSA_BITS,
    Mantissas,
    pack_int4_panels,
    pack_panels,
    quantize_rows,
    to_mantissas,
)
from sslm.program.tensors import Encoding, Tensor
from tests.unit.backends.plain_model import int4_weight

FLOATS = st.floats(width=32, allow_nan=False, allow_infinity=False)
MATRICES = arrays.arrays(
    np.float32, arrays.array_shapes(min_dims=2, max_dims=2, max_side=6), elements=FLOATS
)


def half_even(number: float) -> int:
    return int(Decimal(number).to_integral_value(ROUND_HALF_EVEN))


@given(weights=MATRICES)
def test_codes_are_the_quotients_rounded_to_even(weights: np.ndarray) -> None:
    codes, scales = quantize_rows(weights)
    assert codes.dtype == np.int8
    assert scales.dtype == np.float64
    for row, row_codes, scale in zip(weights, codes.tolist(), scales.tolist(), strict=True):
        largest = max(abs(float(weight)) for weight in row)
        assert scale == largest / 127
        quotients = [float(weight) / scale if scale else 0.0 for weight in row]
        assert row_codes == [half_even(quotient) for quotient in quotients]
        assert max(map(abs, row_codes)) == (127 if largest else 0)
        for weight, code in zip(row.tolist(), row_codes, strict=True):
            # Half a code, and what two roundings to 53 bits add.
            error = abs(Fraction(weight) - code * Fraction(scale))
            assert error <= Fraction(scale) * (Fraction(1, 2) + Fraction(1, 1 << 40))


def test_halves_go_to_even() -> None:
    codes, scales = quantize_rows(np.array([[127, 0.5, 1.5, -0.5, -1.5, 2.5]], dtype=np.float32))
    assert scales.tolist() == [1.0]
    assert codes.tolist() == [[127, 0, 2, 0, -2, 2]]


def test_rows_of_zeros_have_scale_zero() -> None:
    codes, scales = quantize_rows(np.array([[0, -0.0], [1e-45, 0]], dtype=np.float32))
    assert codes.tolist() == [[0, 0], [127, 0]]
    assert scales[0] == 0
    assert scales[1] > 0


SCALES = st.floats(min_value=-1e30, max_value=1e30, allow_subnormal=False) | st.just(0.0)


@given(values=st.lists(SCALES, min_size=1, max_size=6), bits=st.integers(1, 31))
def test_mantissas_are_nearest_and_as_wide_as_they_may_be(values: list[float], bits: int) -> None:
    found = to_mantissas(np.array(values), bits)
    largest = max(map(abs, values))
    mantissas = found.values.tolist()
    assert found.values.dtype == np.int32
    assert max(map(abs, mantissas)) < 1 << bits
    unit = Fraction(2) ** -found.exponent
    for value, mantissa in zip(values, mantissas, strict=True):
        assert abs(Fraction(value) - mantissa * unit) <= unit / 2
    if largest:
        # One bit more would not have fitted.
        assert Fraction(largest) / unit * 2 >= (1 << bits) - Fraction(1, 2)


@pytest.mark.parametrize("bits", [MANTISSA_BITS, GAIN_BITS])
def test_the_largest_mantissa_has_all_its_bits(bits: int) -> None:
    """So its relative error, and that of any scale as large, is at most 2**-bits."""
    for value in (1.0, 0.75, 1.9999999999, 3.0e-7, 1 / 127):
        found = to_mantissas(np.array([value]), bits)
        error = abs(
            Fraction(int(found.values[0])) * Fraction(2) ** -found.exponent / Fraction(value) - 1
        )
        assert error <= Fraction(1, 1 << bits)


def test_a_value_that_rounds_up_to_the_limit_takes_the_exponent_below() -> None:
    found = to_mantissas(np.array([2.0 - 2.0**-50]), 4)
    assert (found.values.tolist(), found.exponent) == ([8], 2)


def test_zeros_are_zeros_at_any_exponent() -> None:
    found = to_mantissas(np.zeros(3), 24)
    assert found.values.tolist() == [0, 0, 0]
    assert found.exponent <= 62


@given(
    values=st.lists(st.integers(-(2**24) + 1, 2**24 - 1), min_size=1, max_size=4),
    exponent=st.integers(-50, 400),
    highest=st.sampled_from([62, 110]),
)
def test_at_most_rounds_halves_up(values: list[int], exponent: int, highest: int) -> None:
    found = Mantissas(np.array(values, dtype=np.int32), exponent).at_most(highest)
    assert found.exponent == min(exponent, highest)
    shift = max(0, exponent - highest)
    assert found.values.tolist() == [(2 * value + (1 << shift)) >> (shift + 1) for value in values]
    assert found.values.dtype == np.int32


@given(
    codes=arrays.arrays(
        np.int8, st.tuples(st.integers(1, 40), st.integers(1, 11)), elements=st.integers(-127, 127)
    )
)
def test_panels_hold_every_code_where_it_belongs(codes: np.ndarray) -> None:
    packed = pack_panels(codes)
    rows, columns = codes.shape
    panels = -(-columns // 4)
    assert len(packed) == -(-rows // 16) * 16 * panels * 4
    expected = bytearray(len(packed))
    for n in range(rows):
        for k in range(columns):
            at = ((n // 16 * panels + k // 4) * 16 + n % 16) * 4 + k % 4
            expected[at] = int(codes[n, k]) & 0xFF
    assert packed == bytes(expected)
    tensor = Tensor(
        name="w",
        encoding=Encoding.PANEL_INT8,
        shape=(rows, columns),
        exponent=0,
        data=memoryview(packed),
    )
    assert panel_rows(tensor, 0, rows).tolist() == codes.tolist()


@given(rows=st.integers(1, 40), columns=st.integers(1, 150), seed=st.integers(0, 1 << 20))
def test_int4_panels_hold_every_code_and_scale_where_it_belongs(
    rows: int, columns: int, seed: int
) -> None:
    random = np.random.default_rng(seed)
    groups = -(-columns // 32)
    codes = random.integers(-7, 8, (rows, columns), dtype=np.int8)
    scales = random.integers(1, 65, (rows, groups), dtype=np.int8)
    packed = pack_int4_panels(codes, scales)
    tensor = Tensor(
        name="w",
        encoding=Encoding.PANEL_INT4,
        shape=(rows, columns),
        exponent=0,
        data=memoryview(packed),
    )
    expected = [
        [int(codes[n, k]) * int(scales[n, k // 32]) for k in range(columns)] for n in range(rows)
    ]
    assert [[int4_weight(tensor, n, k) for k in range(columns)] for n in range(rows)] == expected
    assert panel_rows(tensor, 0, rows).tolist() == expected
    assert panel_rows(tensor, rows // 2, rows // 2 + 1).tolist() == [expected[rows // 2]]
    # Scales of padding are 1, its codes 0, and the bytes that align the codes are 0.
    empty = pack_int4_panels(np.zeros_like(codes), np.ones_like(scales))
    scales_size_bytes = -(-groups * 16 // 64) * 64
    panel = b"\1" * groups * 16 + bytes(scales_size_bytes - groups * 16) + b"\x88" * groups * 256
    assert empty == panel * -(-rows // 16)
