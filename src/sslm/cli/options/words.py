"""Options whose values are one of several words."""

from collections.abc import Callable
from typing import Any

import typer


def word_option(flag: str, *words: str, about: str) -> Any:
    """Declare an option that is one of *words*, which its help shows with what it is *about*."""
    return typer.Option(flag, parser=_one_of(words), metavar="|".join(words), help=about)


def _one_of(words: tuple[str, ...]) -> Callable[[str], str]:
    def read(word: str) -> str:
        if word not in words:
            raise typer.BadParameter(f"{word!r} is none of {', '.join(words)}")
        return word

    return read
