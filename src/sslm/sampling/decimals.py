"""Decimals that callers give, in any of the types that have them, as whole parts of one."""

import operator
import re
from dataclasses import dataclass
from decimal import ROUND_FLOOR, Context, Decimal
from typing import Final, SupportsIndex

from sslm import limits
from sslm.errors.runtime import OptionRangeError
from sslm.errors.showing import briefly
from sslm.program.choice import MICRO

DecimalLike = int | float | str | Decimal
"""What a decimal may be given as; a float stands for its shortest decimal."""

_SPELLING: Final = re.compile(r"[+-]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]{1,9})?")
_HALF: Final = Decimal("0.5")
_MAGNITUDE_MAX: Final = Decimal(10**12)
"""Far beyond every range, and so small that all parts of it fit the context below."""
# Rounds down alone: n <= x holds for whole n and halves exactly if it holds for x rounded so.
_EXACT_FLOOR: Final = Context(prec=50, rounding=ROUND_FLOOR, traps=[])


@dataclass(frozen=True, slots=True, kw_only=True)
class DecimalRange:
    """Which decimals an option takes.

    Args:
        lowest: Smallest, in parts.
        highest: Largest, in parts.
        expected: The range in words, for errors.
        has_zero: Whether 0 is taken too, below the smallest; not what would be rounded to it.
        parts: What one has; values are rounded to the nearest of them, halves up.
    """

    lowest: int
    highest: int
    expected: str
    has_zero: bool = False
    parts: int = MICRO


def parts_of(option: str, value: object, allowed: DecimalRange) -> int:
    """Return a decimal in whole parts, rounded to the nearest, halves up.

    Args:
        option: Its name, for errors.
        value: An integer, a float, a text such as ``"0.7"`` or ``"7e-1"``, or a Decimal.
        allowed: Its range, which holds for the rounded value.

    Raises:
        OptionRangeError: If it is of another type, no finite number, or out of range.
    """
    exact = _decimal(value)
    if exact is not None and exact.is_finite() and -_MAGNITUDE_MAX <= exact <= _MAGNITUDE_MAX:
        scaled = _EXACT_FLOOR.multiply(exact, Decimal(allowed.parts))
        parts = int(_EXACT_FLOOR.add(scaled, _HALF).to_integral_value(ROUND_FLOOR))
        is_in_range = allowed.lowest <= parts <= allowed.highest or (allowed.has_zero and not exact)
        # What is negative stays so, however little.
        if is_in_range and (exact >= 0 or allowed.lowest < 0):
            return parts
    is_typed = isinstance(value, (int, float, str, Decimal))
    kind = "" if is_typed else ", as an int, a float, a str or a Decimal"
    raise OptionRangeError(option, briefly(value), f"{allowed.expected}{kind}")


def decimal_of(parts: int, parts_of_one: int = MICRO) -> Decimal:
    """Return the decimal of whole parts exactly; one has a power of two or ten of them."""
    exact = _EXACT_FLOOR.divide(Decimal(parts), Decimal(parts_of_one))
    if exact == exact.to_integral_value():
        # Not by normalizing it, which gives a whole number of tens an exponent.
        return exact.quantize(Decimal(1), context=_EXACT_FLOOR)
    return exact.normalize(_EXACT_FLOOR)


def _decimal(value: object) -> Decimal | None:
    """Return the exact value, or None if it is not of a type that has one."""
    if isinstance(value, Decimal):
        return value
    if isinstance(value, float):
        # Of subclasses too, whose own text may be another one.
        return Decimal(float.__repr__(value))
    if isinstance(value, str):
        is_number = len(value) <= limits.DECIMAL_SIZE_CHARS_MAX and _SPELLING.fullmatch(value)
        return Decimal(value) if is_number else None
    return _whole(value)


def _whole(value: object) -> Decimal | None:
    if not isinstance(value, SupportsIndex) or isinstance(value, bool):
        return None
    try:
        number = operator.index(value)
    except TypeError:  # An array has an index if it is one integer.
        return None
    return Decimal(number) if abs(number) <= _MAGNITUDE_MAX else None
