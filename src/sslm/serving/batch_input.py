"""A file of requests, one a line: its ids are compared first, then its rows are given."""

import codecs
from array import array
from collections.abc import Iterator
from dataclasses import dataclass
from io import BufferedReader
from pathlib import Path

from sslm import limits
from sslm.errors.batches import (
    BatchInputChangedError,
    BatchLineSizeError,
    BatchLineSyntaxError,
    BatchRowCountError,
    BatchRowIdError,
    BatchRowIdTwiceError,
)
from sslm.errors.reading import unreadable
from sslm.errors.showing import briefly
from sslm.formats.mapped_file import open_regular_file
from sslm.hashes import Sha256
from sslm.serving.json_text import JsonValue, read_json

_HASH_BYTES = 16
_SHORT_HASH_BYTES = 8


@dataclass(frozen=True, slots=True)
class InputRow:
    """One request of a file.

    Args:
        line: Its number, from 1.
        row_id: Its ``custom_id``.
        data: The line without its end.
    """

    line: int
    row_id: str
    data: bytes

    def fields(self) -> dict[str, JsonValue]:
        """Return what the line says; it was read before."""
        fields = read_json(f"line {self.line}", self.data)
        if not isinstance(fields, dict):
            raise AssertionError("a row is an object")
        return fields


class BatchInput:
    """Requests in a file, of which one line is in memory at a time.

    The whole file is read when this is made, so that what is wrong with it is known before
    anything is computed, and read again when its rows are asked for. Empty lines are skipped.

    Args:
        path: Of a regular file.

    Attributes:
        row_count: How many requests there are.

    Raises:
        UnreadableFileError: If the system refuses, or it is no regular file.
        BatchLineSizeError, BatchLineSyntaxError: If a line cannot be understood.
        BatchRowIdError, BatchRowIdTwiceError: If a row has no id, or another one's.
        BatchRowCountError: If there are too many.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        # Eight bytes for each, by which a second reading knows them again.
        self._hashes = array("Q")
        seen: set[int] = set()
        for row in self._read():
            if len(self._hashes) == limits.BATCH_ROW_COUNT_MAX:
                raise BatchRowCountError(str(path), limits.BATCH_ROW_COUNT_MAX)
            name = _number(row.row_id.encode("utf-8"), _HASH_BYTES)
            if name in seen:
                raise BatchRowIdTwiceError(row.row_id, str(path), f"line {row.line}")
            seen.add(name)
            self._hashes.append(_number(row.data, _SHORT_HASH_BYTES))
        self.row_count = len(self._hashes)

    def rows(self) -> Iterator[InputRow]:
        """Read the file again.

        Raises:
            BatchInputChangedError: If it is not what it was.
            UnreadableFileError: If the system refuses.
        """
        count, line = 0, 0
        try:
            for row in self._read():
                line = row.line
                is_known = count < self.row_count
                if not is_known or _number(row.data, _SHORT_HASH_BYTES) != self._hashes[count]:
                    raise BatchInputChangedError(str(self.path), line)
                count += 1
                yield row
        except (BatchLineSizeError, BatchLineSyntaxError, BatchRowIdError):
            raise BatchInputChangedError(str(self.path), line + 1) from None
        if count < self.row_count:
            raise BatchInputChangedError(str(self.path), line + 1)

    def _read(self) -> Iterator[InputRow]:
        name = str(self.path)
        for line, data in self._lines():
            place = f"line {line} of {name!r}"
            fields = read_json(place, data)
            if not isinstance(fields, dict):
                raise BatchLineSyntaxError(place, "it is no object")
            yield InputRow(line, _row_id(name, line, fields), data)

    def _lines(self) -> Iterator[tuple[int, bytes]]:
        name, most = str(self.path), limits.BATCH_LINE_SIZE_BYTES_MAX
        try:
            with open_regular_file(self.path) as raw:
                file, line = BufferedReader(raw), 0
                # One more for the end of the line.
                while data := file.readline(most + 2):
                    line += 1
                    data = data.rstrip(b"\r\n")
                    if line == 1:
                        # Some editors write a mark of the byte order; it is none of the text.
                        data = data.removeprefix(codecs.BOM_UTF8)
                    if len(data) > most:
                        raise BatchLineSizeError(name, line, most)
                    if data.strip():
                        yield line, data
        except OSError as error:
            raise unreadable(name, error) from error


def _row_id(path: str, line: int, fields: dict[str, JsonValue]) -> str:
    most = limits.BATCH_ROW_ID_SIZE_CHARS_MAX
    found = fields.get("custom_id")
    if not isinstance(found, str) or not 1 <= len(found) <= most:
        shown = briefly(found) if "custom_id" in fields else "missing"
        raise BatchRowIdError(path, line, shown, f"a text of 1 to {most} characters")
    return found


def _number(data: bytes, size_bytes: int) -> int:
    return int.from_bytes(Sha256(data).digest()[:size_bytes], "little")
