"""Options that name a file to write."""

from pathlib import Path
from typing import Any, Final

import typer

from sslm.cli.options.numbers import refusal

_STREAM: Final = "-"


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
