"""Checking what a caller asked for."""

from sslm.errors.runtime import OptionRangeError


def require_int(option: str, value: object, *, lowest: int, highest: int) -> None:
    """Raise unless an option is a whole number in its range.

    Raises:
        OptionRangeError: If it is of another type, a bool included, or out of range.
    """
    if isinstance(value, bool) or not isinstance(value, int) or not lowest <= value <= highest:
        raise OptionRangeError(option, repr(value), f"an integer from {lowest} to {highest}")
