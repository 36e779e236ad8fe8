"""Numbers of a schema document as exact values with one spelling each."""

from decimal import Decimal, InvalidOperation

from sslm.limits import SCHEMA_NUMBER_DIGITS_MAX

Number = int | Decimal
"""An integral number is an int; any other is a Decimal."""


def exact_number(text: str) -> Number | None:
    """Return the value of a JSON number.

    Args:
        text: As JSON spells it, exponents included; the caller has checked that it is one.

    Returns:
        The value; None if its plain spelling has more than ``SCHEMA_NUMBER_DIGITS_MAX`` digits.
    """
    # Far more than the digits with sign, point and exponent: longer ones are not even read.
    if len(text) > 2 * SCHEMA_NUMBER_DIGITS_MAX:
        return None
    try:
        value = Decimal(text)
    except InvalidOperation:
        return None
    _, digits, exponent = value.as_tuple()
    if not isinstance(exponent, int):
        return None
    if not any(digits):
        return 0
    if max(len(digits), len(digits) + exponent, -exponent) > SCHEMA_NUMBER_DIGITS_MAX:
        return None
    plain = format(value, "f")
    whole, _, fraction = plain.partition(".")
    fraction = fraction.rstrip("0")
    return Decimal(f"{whole}.{fraction}") if fraction else int(whole)


def number_text(value: Number) -> str:
    """Return the one spelling: plain decimal notation without an exponent or needless digits."""
    return str(value) if isinstance(value, int) else format(value, "f")
