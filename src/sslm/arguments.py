"""Arguments of public calls, checked: numbers, names, paths and callbacks."""

import difflib
import operator
import os
from collections.abc import Iterable
from pathlib import Path
from typing import SupportsIndex

from sslm.errors.choosing import UnknownOptionError
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


def require_known(given: Iterable[str], known: Iterable[str]) -> None:
    """Raise UnknownOptionError if an option is given by a name that a call does not know."""
    names = list(known)
    for name in given:
        if name not in names:
            nearest = difflib.get_close_matches(name.lower(), names, n=1)
            advice = f"did you mean {nearest[0]!r}?" if nearest else f"there are {', '.join(names)}"
            raise UnknownOptionError(name, advice)


def require_bool(option: str, value: object) -> None:
    """Raise OptionRangeError unless an option is True or False: a text such as "no" would count."""
    if not isinstance(value, bool):
        raise OptionRangeError(option, briefly(value), "True or False")


def require_name(option: str, value: object) -> None:
    """Raise OptionRangeError unless an option is a text."""
    if not isinstance(value, str):
        raise OptionRangeError(option, briefly(value), "a name")


def require_callback(option: str, value: object) -> None:
    """Raise OptionRangeError unless an option can be called, or is None."""
    if value is not None and not callable(value):
        raise OptionRangeError(option, briefly(value), "a function or None")


def checked_path(option: str, value: object) -> Path:
    """Return a path that is given as a text or as an object that stands for one.

    Raises:
        OptionRangeError: If it is anything else, bytes included.
    """
    if isinstance(value, (str, os.PathLike)):
        text = os.fspath(value)
        if isinstance(text, str):
            return Path(text)
    raise OptionRangeError(option, briefly(value), "a str or a path, as pathlib has them")
