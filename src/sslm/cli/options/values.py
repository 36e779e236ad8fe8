"""Values of options: whole numbers, one of several words, files to write."""

from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import typer

from sslm import limits
from sslm.errors.showing import briefly, int_range

_DIGITS_MAX = 20
_STREAM: Final = "-"


def integer(text: str | int) -> int:
    """Read an option that is any whole number; what uses it says which ones may be.

    A default comes as the number that it is.
    """
    try:
        return int(text)
    except ValueError:  # Python's own limit of digits included.
        raise refusal(f"it is {briefly(text)}", "an integer") from None


def number(lowest: int, highest: int | None = None) -> Callable[[str | int], int]:
    """Return what reads an option that is a whole number in a range, both ends included.

    A default comes as the number that it is.
    """
    expected = int_range(lowest, highest)

    def read(text: str | int) -> int:
        found = whole_number(str(text), lowest, highest)
        if found is None:
            raise refusal(f"it is {briefly(text)}", expected)
        return found

    return read


def numbers(lowest: int, highest: int) -> Callable[[str], tuple[int, ...]]:
    """Return what reads an option that lists whole numbers, such as ``1,2``; each counts once."""
    expected = f"{int_range(lowest, highest)}, or several such as 1,2"
    return lambda text: listed(text, lambda word: whole_number(word, lowest, highest), expected)


def listed(text: str, read: Callable[[str], int | None], expected: str) -> tuple[int, ...]:
    """Read a list of numbers, each of which *read* returns, or None where it is none.

    Raises:
        typer.BadParameter: If there are too many, or one is none.
    """
    words = [word.strip() for word in text.split(",")]
    most = limits.BENCH_VALUE_COUNT_MAX
    if len(words) > most:
        raise refusal(f"it has {len(words)} values", f"at most {most}")
    found: dict[int, None] = {}
    for word in words:
        value = read(word)
        if value is None:
            raise refusal(f"it has {briefly(word)}", expected)
        found[value] = None
    return tuple(found)


def whole_number(text: str, lowest: int, highest: int | None = None) -> int | None:
    """Return a number of decimal digits that is in its range, or None."""
    if not (text.isascii() and text.isdecimal() and len(text) <= _DIGITS_MAX):
        return None
    found = int(text)
    return found if lowest <= found and (highest is None or found <= highest) else None


def refusal(found: str, expected: str, *, param_hint: str | None = None) -> typer.BadParameter:
    """Return the error of an option's value, in the words that the Python API has for it."""
    return typer.BadParameter(f"{found}, expected {expected}", param_hint=param_hint)


def word_option(flag: str, *words: str, about: str) -> Any:
    """Declare an option that is one of *words*, which its help shows with what it is *about*."""
    return typer.Option(flag, parser=_one_of(words), metavar="|".join(words), help=about)


def _one_of(words: tuple[str, ...]) -> Callable[[str], str]:
    def read(word: str) -> str:
        if word not in words:
            raise typer.BadParameter(f"{word!r} is none of {', '.join(words)}")
        return word

    return read


def output_option(*flags: str, metavar: str, about: str) -> Any:
    """Declare an option that names a file to write; its help says what it is *about*."""
    return typer.Option(*flags, parser=_path, metavar=metavar, help=about, show_default=False)


def _path(text: str) -> Path:
    """Return the path of a file to write; a stream is none, since files get their names at the end.

    Raises:
        typer.BadParameter: If it is ``-``.
    """
    if text == _STREAM:
        raise refusal("it is '-'", "the path of a file (./- if that is its name)")
    return Path(text)
