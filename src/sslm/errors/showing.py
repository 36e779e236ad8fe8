"""Showing any value in a message: in few characters, and never with an error of its own."""

import reprlib
from decimal import Decimal
from json import JSONDecodeError
from typing import Final

_TEXT_SIZE_CHARS_MAX: Final = 2000
"""Characters of one text in a message: a path, a list of names or a reason fits."""

_NUMBER_LIMIT: Final = 10**60
"""From here on a number is described; Python refuses to write one of more than 4,300 digits."""


class _Repr(reprlib.Repr):
    def repr_Decimal(self, value: Decimal, level: int) -> str:  # noqa: N802 (named by the type)
        """Numbers of JSON are Decimals here, and who wrote 2.0 there knows of none."""
        return self.repr_str(str(value), level).strip("'")


_REPR: Final = _Repr()
_REPR.maxstring = _REPR.maxother = _REPR.maxlong = 80


def briefly(value: object) -> str:
    """Return ``repr(value)``, with its middle left out where it is long."""
    if isinstance(value, int) and not -_NUMBER_LIMIT < value < _NUMBER_LIMIT:
        return f"an integer of {value.bit_length()} bits"
    try:
        return _REPR.repr(value)
    except (MemoryError, RecursionError):
        raise
    except Exception:
        # Somebody else's __repr__ can raise anything, and so do huge numbers inside of others.
        return f"a value of type {type(value).__name__}"


def json_problem(error: JSONDecodeError) -> str:
    """Return what is wrong with a text that should be JSON, and where."""
    # "Unterminated string starting at" has one of its own.
    return f"{error.msg.removesuffix(' at')} at character {error.pos}"


def int_range(lowest: int, highest: int | None = None) -> str:
    """Return what is expected of a whole number, in the words that every option has for it."""
    if highest is None:
        return f"an integer, at least {lowest}"
    return f"an integer from {lowest} to {highest}"


def presentable(fact: object) -> object:
    """Return a fact as it is, or what stands for it in a message if that would be too long.

    A lone surrogate, which no terminal and no file takes, becomes its escape sequence.
    """
    if isinstance(fact, int) and not -_NUMBER_LIMIT < fact < _NUMBER_LIMIT:
        return briefly(fact)
    if not isinstance(fact, str):
        return fact
    text = fact
    if len(text) > _TEXT_SIZE_CHARS_MAX:
        text = f"{text[:_TEXT_SIZE_CHARS_MAX]} … ({len(text)} characters)"
    return text if text.isascii() else text.encode(errors="backslashreplace").decode()
