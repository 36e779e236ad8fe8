from decimal import Decimal, localcontext
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sslm.errors.runtime import OptionRangeError
from sslm.program.choice import DAMPING_BITS, MICRO
from sslm.sampling.decimals import DecimalRange, decimal_of, parts_of

WIDE = DecimalRange(lowest=-(10**15), highest=10**15, expected="anything")
TEMPERATURE = DecimalRange(
    lowest=MICRO // 100, highest=100 * MICRO, has_zero=True, expected="0, or 0.01 to 100"
)


def _rounded(value: Fraction, parts: int = MICRO) -> int:
    """Return the nearest part, halves up, by the rule as it is written."""
    scaled = 2 * value * parts + 1
    return scaled.numerator // (2 * scaled.denominator)


@pytest.mark.parametrize(
    ("value", "micro"),
    [
        (0.7, 700_000),
        ("0.7", 700_000),
        ("7e-1", 700_000),
        ("+.7", 700_000),
        ("1.", 1_000_000),
        (Decimal("0.70"), 700_000),
        (1, 1_000_000),
        (np.int64(2), 2_000_000),
        (np.float64(0.1), 100_000),
        (0.1 + 0.2, 300_000),
        ("0.0000005", 1),
        ("-0.0000005", 0),
        ("-0.0000006", -1),
        ("0.00000049999999999999999999999999999999999999999999", 0),
        (-0.0, 0),
        (2.5e-7, 0),
        ("1e-999999999", 0),
        (Decimal("1e-999999999"), 0),
    ],
)
def test_a_decimal_of_any_type_is_rounded_to_millionths(value: object, micro: int) -> None:
    assert parts_of("x", value, WIDE) == micro


@pytest.mark.parametrize(
    "value",
    [
        *(True, False, None, b"1", [1], 1j, Fraction(1, 2), np.float32(1), np.bool_(True)),
        *(float("nan"), float("inf"), -float("inf"), Decimal("nan"), Decimal("snan")),
        *("nan", "inf", "", " 1", "1 ", "1_0", "0x1", "٣", "1e", "--1", "1,5", "0" * 65),
        *(10**3000, -(10**3000), 1e300, "1e999999999", Decimal("1e999999"), np.array([1, 2])),
    ],
    ids=repr,
)
def test_what_is_no_decimal_is_refused(value: object) -> None:
    with pytest.raises(OptionRangeError, match=r"x is .*, expected anything"):
        parts_of("x", value, WIDE)


def test_a_type_that_is_none_of_those_is_told() -> None:
    with pytest.raises(OptionRangeError, match=r"100, as an int, a float, a str or a Decimal$"):
        parts_of("t", np.float32(0.5), TEMPERATURE)
    with pytest.raises(OptionRangeError, match=r"to 100$"):
        parts_of("t", 1000.0, TEMPERATURE)


@pytest.mark.parametrize("value", [0, "0.01", 100, "0.0099995", "100.0000004999"])
def test_a_range_holds_for_the_rounded_value(value: object) -> None:
    found = parts_of("t", value, TEMPERATURE)
    assert found == 0 or 10_000 <= found <= 100_000_000


@pytest.mark.parametrize(
    "value", ["0.0000004", "1e-400", "0.0099994", "100.0000005", -1, "-0.0000001"]
)
def test_out_of_a_range_is_refused(value: object) -> None:
    with pytest.raises(OptionRangeError, match=r"expected 0, or 0\.01 to 100"):
        parts_of("t", value, TEMPERATURE)


@given(st.decimals(min_value=-(10**6), max_value=10**6, allow_nan=False, allow_infinity=False))
def test_rounding_is_exact_however_many_digits_there_are(value: Decimal) -> None:
    assert parts_of("x", value, WIDE) == _rounded(Fraction(value))
    exact_halves = DecimalRange(
        lowest=-(2**60), highest=2**60, parts=1 << DAMPING_BITS, expected="anything"
    )
    assert parts_of("x", value, exact_halves) == _rounded(Fraction(value), 1 << DAMPING_BITS)


@given(st.floats(min_value=-1000, max_value=1000))
def test_a_float_stands_for_its_shortest_decimal(value: float) -> None:
    assert parts_of("x", value, WIDE) == parts_of("x", repr(value), WIDE)


def test_whoever_calls_has_no_say_in_how_decimals_are_computed() -> None:
    with localcontext() as context:
        context.prec = 1
        assert parts_of("x", "12.345678", WIDE) == 12_345_678
        assert decimal_of(12_345_678) == Decimal("12.345678")


@pytest.mark.parametrize("parts", [MICRO, 1 << DAMPING_BITS])
@given(count=st.integers(min_value=-(2**30), max_value=2**30))
def test_what_is_told_comes_to_the_same_again(parts: int, count: int) -> None:
    told = decimal_of(count, parts)
    allowed = DecimalRange(lowest=-(2**60), highest=2**60, parts=parts, expected="anything")
    assert parts_of("x", told, allowed) == parts_of("x", str(told), allowed) == count
    assert "E" not in str(told) or abs(count) < parts


@pytest.mark.parametrize(
    ("count", "text"), [(0, "0"), (MICRO, "1"), (100 * MICRO, "100"), (-1_500_000, "-1.5")]
)
def test_decimals_are_told_as_a_person_writes_them(count: int, text: str) -> None:
    assert str(decimal_of(count)) == text
