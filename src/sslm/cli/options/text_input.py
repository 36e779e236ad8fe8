"""Text that commands read from files or stdin, within a bound."""

import os
import sys
from pathlib import Path
from typing import BinaryIO, Final

from sslm import limits
from sslm.cli.screen.output import note
from sslm.errors.reading import FieldError, UnreadableFileError, unreadable
from sslm.errors.status import Status
from sslm.errors.text import TextTooLongError
from sslm.threads import open_file

_SIZE_BYTES_MAX: Final = 4 * limits.TEXT_SIZE_CHARS_MAX


def read_text_file(path: Path) -> str:
    """Return the text of a UTF-8 file, line ends as they are.

    Raises:
        UnreadableFileError: If the system refuses.
        TextTooLongError: If it is longer than a text may be.
        FieldError: If it is not UTF-8.
    """
    name = str(path)
    try:
        with open_file(path, "rb") as file:
            data = read_bounded(name, file)
    except OSError as error:
        raise unreadable(name, error) from error
    return decode_text(name, data)


def require_stdin() -> None:
    """Raise UnreadableFileError if stdin was closed when the program started."""
    # Then use_utf8() has put this in its place; a stdin that is there goes by its number.
    if getattr(sys.stdin, "name", None) == os.devnull:
        raise UnreadableFileError("stdin", "it is closed")


def read_stdin() -> str:
    """Return the text of stdin, to its last byte; a person is told how to end it.

    Raises:
        UnreadableFileError: If it is closed.
        TextTooLongError: If it is longer than a text may be.
        FieldError: If it is not UTF-8.
    """
    require_stdin()
    if sys.stdin.isatty():
        end = "Ctrl-Z and Enter" if sys.platform == "win32" else "Ctrl-D on a line of its own"
        note(f"type the text; {end} ends it")
    return decode_text("stdin", read_bounded("stdin", sys.stdin.buffer))


def typed_text(line: str) -> str:
    """Return a line that was typed; raise FieldError if it was no UTF-8.

    Bytes that are none come as what stands for them, where the terminal was read so.
    """
    return decode_text("stdin", line.encode("utf-8", "surrogateescape"))


def argument_text(argument: str) -> str:
    """Return a word of the command line as the text it is in UTF-8, whatever the locale.

    What is no UTF-8 stays apart from any text, and is refused by name when it is used.
    """
    try:
        data = os.fsencode(argument)
    except UnicodeEncodeError:
        return argument
    return data.decode("utf-8", "surrogateescape")


def read_bounded(name: str, file: BinaryIO) -> bytes:
    """Read a stream to its end; raise TextTooLongError as soon as it is too long."""
    data = file.read(_SIZE_BYTES_MAX + 1)
    if len(data) > _SIZE_BYTES_MAX:
        # A character takes at most four bytes, so there are more than the limit.
        at_least = limits.TEXT_SIZE_CHARS_MAX + 1
        raise TextTooLongError(name, at_least, limits.TEXT_SIZE_CHARS_MAX)
    return data


def decode_text(name: str, data: bytes) -> str:
    """Return UTF-8 bytes as text; raise FieldError if they are none."""
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as error:
        raise FieldError(
            Status.BAD_UTF8, field=name, offset_bytes=error.start, reason=error.reason
        ) from None
