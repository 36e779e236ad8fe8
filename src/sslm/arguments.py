"""Numbers that callers give, of whatever type, as plain integers in their range."""

import operator
from typing import SupportsIndex

from sslm.errors.runtime import OptionRangeError
from sslm.errors.showing import briefly, int_range


def checked_int(option: str, value: object, *, lowest: int, highest: int) -> int:
    """Return an option that is a whole number in its range, as a plain integer.

    Integers of other libraries are welcome; a truth value is none, though Python counts it.

    Raises:
        OptionRangeError: If it is of another type, or out of range.
    """
    if isinstance(value, SupportsIndex) and not isinstance(value, bool):
        try:
            number = operator.index(value)
        except TypeError:  # An array has an index if it is one integer.
            pass
        else:
            if lowest <= number <= highest:
                return number
    raise OptionRangeError(option, briefly(value), int_range(lowest, highest))
