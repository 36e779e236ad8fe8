"""Languages of numbers, in the canonical spelling.

A number is spelled in decimal: an integral part without leading zeros, then a fraction without
trailing zeros if it is not integral; there is no exponent, and no minus sign before zero. So each
number has one spelling. Bounds are compared digit by digit and multiples by the remainder of what
has been read, so that nothing is ever rounded: 0.3 is a multiple of 0.1.
"""

from decimal import Decimal
from typing import Final

from sslm import limits
from sslm.errors.schema import SchemaBudgetError, SchemaNumberError
from sslm.schema.documents.document import Number
from sslm.schema.regular.language import (
    EMPTY,
    NOTHING,
    Both,
    Bytes,
    Either,
    Language,
    Machine,
    OneOf,
    Repeat,
    Sequence,
    Whole,
    optional,
    sequence,
)

_DIGIT: Final = OneOf(((0x30, 0x39),))
_LEADING: Final = OneOf(((0x31, 0x39),))
_DIGITS: Final = Repeat(_DIGIT, 0, None)
_SOME_DIGITS: Final = Repeat(_DIGIT, 1, None)
_POINT: Final = Bytes(b".")
_MINUS: Final = Bytes(b"-")
_ZERO: Final = Bytes(b"0")
_ANY_FRACTION: Final = optional(Sequence((_POINT, _SOME_DIGITS)))
_UNSIGNED: Final = Sequence((_SOME_DIGITS, _ANY_FRACTION))

_FRACTION: Final = Sequence((_POINT, _DIGITS, _LEADING))
_POSITIVE_INTEGER: Final = Sequence((_LEADING, _DIGITS))
_INTEGER: Final = Either((_ZERO, Sequence((optional(_MINUS), _POSITIVE_INTEGER))))
_NUMBER: Final = Either(
    (
        _ZERO,
        Sequence((optional(_MINUS), _ZERO, _FRACTION)),
        Sequence((optional(_MINUS), _POSITIVE_INTEGER, optional(_FRACTION))),
    )
)


def decimals(
    *,
    minimum: Number | None = None,
    maximum: Number | None = None,
    exclusive_minimum: Number | None = None,
    exclusive_maximum: Number | None = None,
    multiple_of: Number | None = None,
    integral: bool = False,
) -> Language:
    """Return all numbers that satisfy every condition given.

    Raises:
        SchemaNumberError: If a bound is not finite or has too many digits, or *multiple_of* is
            not positive.
        SchemaBudgetError: If *multiple_of* has too many remainders.
    """
    parts: list[Language] = [_INTEGER if integral else _NUMBER]
    if minimum is not None:
        parts.append(_at_least(minimum, inclusive=True))
    if exclusive_minimum is not None:
        parts.append(_at_least(exclusive_minimum, inclusive=False))
    if maximum is not None:
        parts.append(_at_most(maximum, inclusive=True))
    if exclusive_maximum is not None:
        parts.append(_at_most(exclusive_maximum, inclusive=False))
    if multiple_of is not None:
        parts.append(_multiples(multiple_of))
    return Whole(parts[0]) if len(parts) == 1 else Both(tuple(parts))


def integers(least: int | None = None, most: int | None = None) -> Language:
    """Return all integers from *least* to *most*, None for no bound; raises SchemaNumberError."""
    return decimals(minimum=least, maximum=most, integral=True)


def _digits(number: Number) -> tuple[bool, str, str]:
    """Return whether a number is negative, and its digits before and behind the point."""
    exact = Decimal(number)
    if not exact.is_finite():
        raise SchemaNumberError(str(number), "is not finite")
    sign, digits, exponent = exact.as_tuple()
    assert isinstance(exponent, int)
    most = limits.SCHEMA_NUMBER_DIGITS_MAX
    text = "".join(map(str, digits)).lstrip("0")
    if not text:
        return False, "0", ""
    if max(len(text), len(text) + exponent, -exponent) > most:
        shown = f"{exact:.3e}"
        raise SchemaNumberError(shown, f"has more than {most} digits before or behind the point")
    if exponent >= 0:
        return bool(sign), text + "0" * exponent, ""
    padded = text.rjust(1 - exponent, "0")
    return bool(sign), padded[:exponent], padded[exponent:].rstrip("0")


def _at_least(number: Number, *, inclusive: bool) -> Language:
    negative, integer, fraction = _digits(number)
    if negative:
        return Either((_UNSIGNED, Sequence((_MINUS, _low(integer, fraction, inclusive)))))
    return _high(integer, fraction, inclusive)


def _at_most(number: Number, *, inclusive: bool) -> Language:
    negative, integer, fraction = _digits(number)
    if negative:
        return Sequence((_MINUS, _high(integer, fraction, inclusive)))
    return Either((Sequence((_MINUS, _UNSIGNED)), _low(integer, fraction, inclusive)))


def _between(low: int, high: int) -> Language:
    return OneOf(((0x30 + low, 0x30 + high),)) if low <= high else NOTHING


def _high(integer: str, fraction: str, inclusive: bool) -> Language:
    """Return the unsigned numbers from one on, canonical ones among them."""
    rest: Language = _DIGITS if inclusive else _SOME_DIGITS
    if fraction:
        for digit in map(int, reversed(fraction)):
            greater = Sequence((_between(digit + 1, 9), _DIGITS))
            rest = Either((greater, Sequence((_between(digit, digit), rest))))
        rest = Sequence((_POINT, rest))
    else:
        # Any canonical fraction is above zero.
        rest = _ANY_FRACTION if inclusive else Sequence((_POINT, _SOME_DIGITS))
    free: Language = _ANY_FRACTION
    for digit in map(int, reversed(integer)):
        greater = Sequence((_between(digit + 1, 9), free))
        rest = Either((greater, Sequence((_between(digit, digit), rest))))
        free = Sequence((_DIGIT, free))
    longer = Sequence((Repeat(_DIGIT, len(integer) + 1, None), _ANY_FRACTION))
    return Either((rest, longer))


def _low(integer: str, fraction: str, inclusive: bool) -> Language:
    """Return the unsigned numbers up to one, canonical ones among them."""
    rest: Language = EMPTY if inclusive else NOTHING
    if fraction:
        for digit in map(int, reversed(fraction)):
            smaller = Sequence((_between(0, digit - 1), _DIGITS))
            # Where the number ends before, it is smaller.
            rest = Either((EMPTY, smaller, Sequence((_between(digit, digit), rest))))
        rest = optional(Sequence((_POINT, rest)))
    free: Language = _ANY_FRACTION
    for digit in map(int, reversed(integer)):
        smaller = Sequence((_between(0, digit - 1), free))
        rest = Either((smaller, Sequence((_between(digit, digit), rest))))
        free = Sequence((_DIGIT, free))
    return Either((rest, Sequence((Repeat(_DIGIT, 1, len(integer) - 1), _ANY_FRACTION))))


def _multiples(number: Number) -> Language:
    """Return the multiples of a number, canonical spellings and others of them."""
    negative, integer, fraction = _digits(number)
    divisor = int(integer + fraction)
    if negative or not divisor:
        raise SchemaNumberError(str(number), "is not positive, as multipleOf has to be")
    zeros = len(integer) - len(integer.rstrip("0")) if not fraction else 0
    divisor //= 10**zeros
    places = len(fraction)
    most = limits.SCHEMA_REMAINDERS_MAX
    if divisor * (places + 1) > most:
        raise SchemaBudgetError("remainders", most, f"multipleOf {number}")
    multiples = _remainders(divisor, places)
    scaled = sequence(multiples, Bytes(b"0" * zeros)) if zeros else multiples
    return Sequence((optional(_MINUS), Either((_ZERO, scaled))))


def _remainders(divisor: int, places: int) -> Language:
    """Return the unsigned multiples of ``divisor / 10**places``.

    A state is how many digits of the fraction have been read and the remainder of all digits read;
    the start is the remainder 0 before any digit, and a point is a state between.
    """
    step = places + 1
    rows: list[tuple[tuple[int, int, int], ...]] = []
    accepting = set()
    # State 0 is the start; 1 + remainder * step + digits of the fraction, after a digit; then,
    # after the last of these, 1 + divisor * step + remainder, after the point.
    point = 1 + divisor * step

    def reading(remainder: int, place: int) -> tuple[tuple[int, int, int], ...]:
        digits = ((0x30 + d, (remainder * 10 + d) % divisor) for d in range(10))
        return tuple((byte, byte, 1 + after * step + place) for byte, after in digits)

    rows.append(reading(0, 0))
    for remainder in range(divisor):
        for place in range(step):
            if remainder * 10 ** (places - place) % divisor == 0:
                accepting.add(len(rows))
            if place == 0:
                leave = ((0x2E, 0x2E, point + remainder),) if places else ()
                rows.append(reading(remainder, 0) + leave)
            else:
                rows.append(reading(remainder, place + 1) if place < places else ())
    if places:
        rows += [reading(remainder, 1) for remainder in range(divisor)]
    return Machine(tuple(rows), frozenset(accepting))
