"""Numbers: exactly those that satisfy their bounds, each in one spelling."""

import math
from collections.abc import Callable
from decimal import Decimal
from fractions import Fraction
from itertools import product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sslm import limits
from sslm.errors.schema import SchemaBudgetError, SchemaNumberError
from sslm.schema.documents.document import Number, exact_number, number_text
from sslm.schema.regular.automaton import Automaton
from sslm.schema.regular.compiler import LanguageCompiler, compile_language
from sslm.schema.values.decimals import decimals, integers

TEXTS = ["".join(one) for n in range(1, 6) for one in product("-.0159", repeat=n)]


def _is_canonical(text: str) -> bool:
    """Say once more, in other words, which spellings of numbers are canonical."""
    unsigned = text.removeprefix("-")
    integer, point, fraction = unsigned.partition(".")
    return (
        integer.isdigit()
        and (integer == "0" or integer[0] != "0")
        and (not point or (fraction.isdigit() and fraction[-1] != "0"))
        and text != "-0"
    )


CANONICAL = [text for text in TEXTS if _is_canonical(text)]


def _accepted(automaton: Automaton) -> list[str]:
    return [text for text in TEXTS if automaton.matches(text.encode())]


def test_a_number_has_one_spelling() -> None:
    assert _accepted(compile_language(decimals())) == CANONICAL
    assert _accepted(compile_language(integers())) == [t for t in CANONICAL if "." not in t]
    assert len({Fraction(text) for text in CANONICAL}) == len(CANONICAL)


BOUNDS = ["0", "5", "-5", "0.5", "-0.5", "1.05", "-1.05", "59", "150", "-99.5", "0.0015", "10", "1"]


@pytest.mark.parametrize("bound", [*BOUNDS, "9.9E+2", "-0.0", "1E-3", "0.10"])
def test_bounds_are_compared_exactly(bound: str) -> None:
    number, exact = Decimal(bound), Fraction(bound)
    cases: dict[str, Callable[[Fraction], bool]] = {
        "minimum": lambda x: x >= exact,
        "maximum": lambda x: x <= exact,
        "exclusive_minimum": lambda x: x > exact,
        "exclusive_maximum": lambda x: x < exact,
    }
    for keyword, holds in cases.items():
        for integral in (False, True):
            given_bounds: dict[str, Number] = {keyword: number}
            automaton = compile_language(decimals(**given_bounds, integral=integral))
            expected = [t for t in CANONICAL if holds(Fraction(t)) and not (integral and "." in t)]
            assert _accepted(automaton) == expected


@pytest.mark.parametrize(
    "divisor", ["1", "2", "5", "7", "10", "50", "150", "0.5", "0.01", "0.05", "1.5", "0.15", "2.50"]
)
def test_multiples_are_exact(divisor: str) -> None:
    exact = Fraction(divisor)
    for integral in (False, True):
        automaton = compile_language(decimals(multiple_of=Decimal(divisor), integral=integral))
        assert _accepted(automaton) == [
            t
            for t in CANONICAL
            if (Fraction(t) / exact).denominator == 1 and not (integral and "." in t)
        ]


NUMBERS = st.decimals(
    allow_nan=False, allow_infinity=False, min_value=-1000, max_value=1000, places=2
)


@settings(max_examples=60, deadline=None)
@given(
    low=NUMBERS, high=NUMBERS, step=st.sampled_from(["0.25", "3", "0.1"]), probes=st.lists(NUMBERS)
)
def test_conditions_hold_together(
    low: Decimal, high: Decimal, step: str, probes: list[Decimal]
) -> None:
    language = decimals(minimum=low, exclusive_maximum=high, multiple_of=Decimal(step))
    compiler = LanguageCompiler()
    expected = math.ceil(Fraction(low) / Fraction(step)) * Fraction(step) < Fraction(high)
    assert compiler.is_empty(language) != expected
    if expected:
        automaton = compiler.automaton(language)
        for probe in [*probes, low, high, low + Decimal(step), high - Decimal("0.01")]:
            holds = low <= probe < high and (Fraction(probe) / Fraction(step)).denominator == 1
            assert automaton.matches(_spelled(probe)) == holds


def _spelled(number: Number) -> bytes:
    exact = exact_number(str(number))
    assert exact is not None
    return number_text(exact).encode()


def test_large_numbers_stay_exact() -> None:
    automaton = compile_language(integers(-(1 << 63), (1 << 64) - 1))
    for edge, inside in (
        (-(1 << 63) - 1, False),
        (-(1 << 63), True),
        ((1 << 64) - 1, True),
        (1 << 64, False),
    ):
        assert automaton.matches(str(edge).encode()) == inside
    largest = Decimal("1.7976931348623157E+308")
    automaton = compile_language(decimals(minimum=-largest, maximum=largest))
    assert automaton.matches(_spelled(largest))
    assert not automaton.matches(_spelled(largest + Decimal("1E+293")))
    assert automaton.state_count < 2000


def test_one_bound_of_many_digits_takes_few_states() -> None:
    digits = limits.SCHEMA_NUMBER_DIGITS_MAX
    automaton = compile_language(decimals(maximum=10**digits - 2))
    assert automaton.state_count < 3 * digits


@pytest.mark.parametrize(
    "number",
    [
        Decimal("NaN"),
        Decimal("Infinity"),
        Decimal("-Infinity"),
        Decimal("sNaN"),
        Decimal("1E+400"),
        Decimal("1E-401"),
        10**400,
        Decimal("1E+999999999999"),
    ],
)
def test_a_number_out_of_bounds_is_refused(number: Number) -> None:
    with pytest.raises(SchemaNumberError):
        decimals(maximum=number)


@pytest.mark.parametrize("number", [0, -1, Decimal("-0.5"), Decimal("0.0")])
def test_multiples_of_what_is_not_positive_are_refused(number: Number) -> None:
    with pytest.raises(SchemaNumberError, match="not positive"):
        decimals(multiple_of=number)


def test_too_many_remainders_are_refused() -> None:
    with pytest.raises(SchemaBudgetError, match=r"multipleOf 0\.123456789"):
        decimals(multiple_of=Decimal("0.123456789"))
    assert compile_language(decimals(multiple_of=10**300)).matches(b"9" + b"0" * 300)
