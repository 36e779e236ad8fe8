"""Numbers of a chat template: whole ones of few bits, and the same on every machine."""

from typing import Any, Final, TypeVar

from jinja2.filters import FILTERS

from sslm.errors.text import TemplateFailedError, TemplateWorkError

_T = TypeVar("_T")

INTEGER_BITS_MAX: Final = 60
"""Bits of any integer: arithmetic takes constant time, and no two but -1 and -2 share a hash."""

_POWER_BITS_MAX: Final = 1024
"""Bits of a power by a rough estimate, before it is computed and measured."""

ROUNDING_DIGITS_MAX: Final = 22
"""Decimal places to which a number is rounded: ten to that power is exact as a fraction, too."""


def bits(value: object) -> int:
    """Return the bits of an integer; 0 for anything else."""
    return value.bit_length() if isinstance(value, int) else 0


def measured(value: _T) -> _T:
    """Return *value*, unless it is too large an integer."""
    if bits(value) > INTEGER_BITS_MAX:
        raise TemplateWorkError("a number of too many bits", INTEGER_BITS_MAX)
    return value


def rounded(value: Any, precision: int = 0, method: str = "common") -> Any:
    """Return a number with so many decimal places: Jinja's filter, within bounds."""
    require_numbers("round", value, precision)
    if not -ROUNDING_DIGITS_MAX <= precision <= ROUNDING_DIGITS_MAX:
        raise TemplateFailedError(f"round takes at most {ROUNDING_DIGITS_MAX} decimal places")
    return measured(FILTERS["round"](value, precision, method))


def remainder(value: Any, divisor: Any) -> Any:
    """Return what is left of *value* after a division; both must be numbers."""
    require_numbers("%", value, divisor)
    return value % divisor


def require_small_power(base: Any, exponent: Any) -> None:
    """Raise an error if a power is not one of small whole numbers."""
    # The power of two floats is the C library's, and not the same on every machine.
    if not isinstance(base, int) or not isinstance(exponent, int) or exponent < 0:
        raise TemplateFailedError("** takes whole numbers, and no negative exponent")
    if bits(base) * exponent > _POWER_BITS_MAX:
        raise TemplateWorkError("a number of too many bits", INTEGER_BITS_MAX)


def require_numbers(operator: str, *operands: object) -> None:
    """Raise an error if an operand is no number."""
    # Of texts, % formats, to any width; of views, - gives a set, whose order is no one's choice.
    for operand in operands:
        if not isinstance(operand, int | float):
            found = type(operand).__name__
            raise TemplateFailedError(f"{operator} takes numbers, found a {found}")
