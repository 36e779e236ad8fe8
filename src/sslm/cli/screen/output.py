"""What commands print: the answer or JSON on stdout, everything else on stderr."""

import io
import json
import logging
import os
import re
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from typing import Final, TextIO, cast

from sslm.progress import StageProgress

_DELAY_NS: Final = 1_000_000_000
"""Work that is done within so long shows no progress."""
_LINE_NS: Final = 10_000_000_000
"""Where stderr is no terminal: between two lines about one piece of work."""
_DUMB_TERMINALS: Final = frozenset({"dumb", "unknown"})

_CONTROL: Final = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f]|\r(?!\n)")
_JSON_CONTROL: Final = re.compile(r"[\x7f-\x9f]")
_LOGGER: Final = logging.getLogger("sslm.cli")
_is_quiet: Final = ContextVar("is_quiet", default=False)


def print_json(facts: Mapping[str, object]) -> None:
    """Write one JSON object and a newline to stdout."""
    text = json.dumps(facts, ensure_ascii=False)
    # JSON escapes the other control characters itself.
    sys.stdout.write(_JSON_CONTROL.sub(lambda one: f"\\u{ord(one[0]):04x}", text) + "\n")
    sys.stdout.flush()


def print_text(text: str) -> None:
    """Write text to stdout at once: as it is, but so that it cannot steer a terminal."""
    sys.stdout.write(_harmless(text) if sys.stdout.isatty() else text)
    sys.stdout.flush()
    _begun_line.note(text)


@contextmanager
def quiet() -> Iterator[None]:
    """Let errors be all that is written to stderr."""
    token = _is_quiet.set(True)
    try:
        yield
    finally:
        _is_quiet.reset(token)


def note(text: str) -> None:
    """Write a line for a person to stderr, unless they want none."""
    if not _is_quiet.get():
        complain(text)


def complain(text: str) -> None:
    """Write a line to stderr; an answer is no worse if nobody can read it.

    Where both streams are one pipe or file, it does not go on with a line of stdout.
    """
    _begun_line.release()
    if _begun_line.is_begun and not sys.stdout.isatty() and _are_one_file():
        text = "\n" + text
        _begun_line.is_begun = False
    _write_error(text)


def complain_between(text: str) -> None:
    """Write a line to stderr when stdout is not in the middle of one; until then it waits."""
    _begun_line.complain(text)


def end_line() -> None:
    """End the line that was begun on a terminal, so that what is said next has its own."""
    if _begun_line.is_begun and sys.stdout.isatty():
        with suppress(OSError):
            print_text("\n")


@contextmanager
def lines_between() -> Iterator[None]:
    """Let what :func:`complain_between` got be written at the end of the block at the latest."""
    _begun_line.is_begun = False
    try:
        yield
    finally:
        _begun_line.release()


class _BegunLine:
    """Whether stdout is in the middle of a line, and what waits for the end of that."""

    def __init__(self) -> None:
        self.is_begun = False
        self._waiting: list[str] = []

    def note(self, text: str) -> None:
        """Learn what was written to stdout."""
        if text:
            self.is_begun = not text.endswith("\n")
        if not self.is_begun:
            self.release()

    def complain(self, text: str) -> None:
        """Write a line to stderr, or let it wait."""
        self._waiting.append(text)
        if not self.is_begun:
            self.release()

    def release(self) -> None:
        """Write what waits."""
        while self._waiting:
            _write_error(self._waiting.pop(0))


_begun_line: Final = _BegunLine()


def _are_one_file() -> bool:
    """Tell whether stdout and stderr go to the same place, as with 2>&1."""
    try:
        out, err = (os.fstat(stream.fileno()) for stream in (sys.stdout, sys.stderr))
    except (OSError, ValueError):
        return False
    # Windows numbers no pipes.
    return out.st_ino != 0 and os.path.samestat(out, err)


def _write_error(text: str) -> None:
    try:
        sys.stderr.write(_harmless(text) + "\n")
        sys.stderr.flush()
    except OSError:
        silence(sys.stderr)


def silence(stream: TextIO) -> None:
    """Let what is written to a stream from now on go nowhere, because it cannot be written.

    What could not be written is kept by Python, and would fail again at the end of the process.
    """
    with suppress(OSError, ValueError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


def shown(text: str) -> str:
    """Return text that may come from a file so that none of it can steer the terminal."""
    return "".join(one if one.isprintable() or one == "\n" else repr(one)[1:-1] for one in text)


def _harmless(text: str) -> str:
    """Return text with its control characters, other than tabs and line ends, as escapes."""
    return _CONTROL.sub(lambda one: repr(one[0])[1:-1], text)


def use_utf8() -> None:
    """Speak UTF-8 whatever the locale; write what is no text as escapes, so that no print fails.

    What a person types that is no UTF-8 stays apart from any text, and is refused by name later. A
    stream that was closed is an empty one, or one that nobody reads.
    """
    # In the order of their numbers, because a file that is opened takes the lowest one.
    sys.stdin = sys.stdin or _nowhere("r")
    sys.stdout = sys.stdout or _nowhere("w")
    sys.stderr = sys.stderr or _nowhere("w")
    if isinstance(sys.stdin, io.TextIOWrapper):
        sys.stdin.reconfigure(encoding="utf-8", errors="surrogateescape")
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(encoding="utf-8", errors="backslashreplace")


def _nowhere(mode: str) -> TextIO:
    return cast(TextIO, open(os.devnull, mode, encoding="utf-8"))  # noqa: PTH123


def print_table(
    head: Sequence[str], rows: Sequence[Sequence[str]], *, right: Sequence[str] = ()
) -> None:
    """Write a table to stdout, one line a row: however narrow a terminal, paths stay whole.

    Args:
        head: Names of the columns.
        rows: Each with a cell for every column.
        right: Names of the columns that are aligned to the right.
    """
    if sys.stdout.isatty():
        rows = [[shown(cell) for cell in row] for row in rows]
    for line in table_lines(head, rows, right=right):
        print_text(line + "\n")


def table_lines(
    head: Sequence[str], rows: Sequence[Sequence[str]], *, right: Sequence[str] = ()
) -> list[str]:
    """Return the lines of a table, as :func:`print_table` writes them."""
    widths = [max(len(row[index]) for row in (head, *rows)) for index in range(len(head))]
    return [
        "  ".join(
            cell.rjust(width) if name in right else cell.ljust(width)
            for name, cell, width in zip(head, row, widths, strict=True)
        ).rstrip()
        for row in (head, *rows)
    ]


@contextmanager
def progress(*, is_shown: bool) -> Iterator[StageProgress]:
    """Show on stderr how far a long piece of work is, once it has taken a second.

    On a terminal that is a bar for each kind of work, gone at the end. Elsewhere it is a line when
    the kind of work changes, every ten seconds, and when what has a line is done. Each kind is
    logged when it begins, too.
    """
    if not is_shown or _is_quiet.get():
        yield _logged(lambda what, done, total: None)
    elif _can_draw():
        from sslm.cli.screen.bars import bars

        with bars(_DELAY_NS) as report:
            yield _logged(report)
    else:
        yield _logged(_Lines().report)


def _logged(report: StageProgress) -> StageProgress:
    seen: set[str] = set()

    def log_and_report(what: str, done: int, total: int) -> None:
        if what not in seen:
            seen.add(what)
            _LOGGER.info("%s ...", what)
        report(what, done, total)

    return log_and_report


def _can_draw() -> bool:
    return sys.stderr.isatty() and os.environ.get("TERM", "").lower() not in _DUMB_TERMINALS


class _Lines:
    """Progress as lines of text."""

    def __init__(self) -> None:
        self._what = ""
        self._unfinished: set[str] = set()
        self._next_ns = time.monotonic_ns() + _DELAY_NS

    def report(self, what: str, done: int, total: int) -> None:
        now_ns = time.monotonic_ns()
        is_new = what != self._what and bool(self._what)
        # Who was told of its beginning is told of its end, too.
        is_end = what in self._unfinished and 0 < total <= done
        if now_ns < self._next_ns and not is_new and not is_end:
            return
        self._what = what
        self._next_ns = now_ns + _LINE_NS
        if total <= done:
            self._unfinished.discard(what)
        else:
            self._unfinished.add(what)
        note(f"{what}: {100 * done // total} %" if total else what)
