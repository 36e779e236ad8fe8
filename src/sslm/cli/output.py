"""What commands print: the answer or JSON on stdout, everything else on stderr."""

import io
import json
import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import Protocol

from rich.console import Console
from rich.progress import (
    BarColumn,
    Progress,
    TaskID,
    TaskProgressColumn,
    TextColumn,
    TimeElapsedColumn,
)
from rich.table import Table
from rich.text import Text

from sslm.errors.base import SslmError


class Report(Protocol):
    """Told what is being done, how far it is, and out of how much."""

    def __call__(self, what: str, done: int, total: int) -> None:
        """Take note."""


def print_json(facts: Mapping[str, object]) -> None:
    """Write one JSON object and a newline to stdout."""
    sys.stdout.write(json.dumps(facts, ensure_ascii=False) + "\n")
    sys.stdout.flush()


def print_text(text: str) -> None:
    """Write text to stdout as it is, at once."""
    sys.stdout.write(text)
    sys.stdout.flush()


def note(text: str) -> None:
    """Write a line for a person to stderr; an answer is no worse if nobody can read it."""
    with suppress(OSError):
        sys.stderr.write(text + "\n")
        sys.stderr.flush()


def shown(text: str) -> str:
    """Return text that may come from a file so that none of it can steer the terminal."""
    return "".join(one if one.isprintable() or one == "\n" else repr(one)[1:-1] for one in text)


def use_utf8() -> None:
    """Write UTF-8 whatever the locale, and what is no text as escapes, so that no print fails."""
    if sys.stdout is None:
        sys.stdout = open(os.devnull, "w")  # noqa: PTH123, SIM115
    if sys.stderr is None:
        sys.stderr = open(os.devnull, "w")  # noqa: PTH123, SIM115
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(encoding="utf-8", errors="backslashreplace")


def print_table(
    head: Sequence[str], rows: Sequence[Sequence[str]], *, right: Sequence[str] = ()
) -> None:
    """Write a table to stdout: fitted to it where that is a terminal, else one line a row.

    Args:
        head: Names of the columns.
        rows: Each with a cell for every column.
        right: Names of the columns that are aligned to the right.
    """
    if sys.stdout.isatty():
        table = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False)
        for name in head:
            table.add_column(name, justify="right" if name in right else "left", overflow="fold")
        for row in rows:
            table.add_row(*(Text(cell) for cell in row))
        Console().print(table)
        return
    widths = [max(len(row[index]) for row in (head, *rows)) for index in range(len(head))]
    for row in (head, *rows):
        cells = (
            cell.rjust(width) if name in right else cell.ljust(width)
            for name, cell, width in zip(head, row, widths, strict=True)
        )
        print_text("  ".join(cells).rstrip() + "\n")


def error_facts(error: SslmError) -> dict[str, object]:
    """Return an error as JSON output carries it."""
    return {
        "error": {
            "type": type(error).__name__,
            "status": int(error.status),
            "message": str(error),
        }
    }


@contextmanager
def progress(*, is_shown: bool) -> Iterator[Report]:
    """Show a progress bar on stderr while a long piece of work reports.

    Nothing is drawn where stderr is no terminal; then each new kind of work gets one line.
    """
    if not is_shown:
        yield lambda what, done, total: None
        return
    console = Console(stderr=True)
    if not console.is_terminal:
        yield _line_per_kind()
        return
    columns = (TextColumn("{task.description:>12}"), BarColumn(), TaskProgressColumn())
    with Progress(*columns, TimeElapsedColumn(), console=console, transient=True) as bars:
        tasks: dict[str, TaskID] = {}

        def report(what: str, done: int, total: int) -> None:
            if what not in tasks:
                tasks[what] = bars.add_task(what, total=total)
            bars.update(tasks[what], completed=done, total=total)

        yield report


def _line_per_kind() -> Report:
    seen: set[str] = set()

    def report(what: str, done: int, total: int) -> None:
        del done, total
        if what not in seen:
            seen.add(what)
            note(f"{what} ...")

    return report
