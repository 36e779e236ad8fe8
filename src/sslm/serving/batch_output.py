"""A file of answers that grows line by line, whatever interrupts the job that writes it."""

import io
import os
import re
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from sslm import limits
from sslm.artifact.atomic_file import require_replaceable, sync_folder
from sslm.artifact.file_lock import is_still_at, try_lock
from sslm.artifact.write_errors import named_write_errors
from sslm.closing import Closing
from sslm.errors.batches import BatchBusyError, BatchOutputMismatchError
from sslm.errors.reading import unreadable
from sslm.hashes import Sha256
from sslm.serving.batch_lines import is_refusal

_PIECE_BYTES: Final = 1 << 16
"""Longer than any head with what tells a refusal behind it."""
_FACT: Final = re.compile(rb'"(model_id|arithmetic_version|job)": ("[^"]*"|[0-9]+)')
_DIFFERENCES: Final = {
    b"model_id": "the model",
    b"arithmetic_version": "the version of the arithmetic",
    b"job": "the options (seed, max_tokens, context_tokens, date, the model's name)",
}


@dataclass(slots=True)
class Written:
    """What a file of answers holds.

    Args:
        rows: Whole lines.
        refused: Those of them that are refusals.
    """

    rows: int = 0
    refused: int = 0


class BatchOutput(Closing):
    """A file of answers, locked against other processes; a context manager.

    Each line is written at once, and made to outlast a power cut within about a second. A process
    that is killed leaves whole lines and the beginning of one, which is cut off by the next one.

    Args:
        path: Of a regular file, which is made if it is not there.

    Raises:
        BatchBusyError: If another process writes it.
        OutputIsFolderError, OutputNotFileError: If something else lies there.
        UnwritableFileError, DiskFullError: If the system refuses.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.written = Written()
        self._name = str(path)
        is_new = not require_replaceable(path)
        self._size_bytes = 0
        self._hash = Sha256()
        self._synced_ns = time.monotonic_ns()
        with named_write_errors(path):
            self._file = _open(path)
            try:
                if not try_lock(self._file) or not is_still_at(self._file, path):
                    raise BatchBusyError(self._name)
                if is_new:
                    sync_folder(path.absolute().parent)
            except BaseException:
                os.close(self._file)
                raise

    def resume(self, heads: Iterator[bytes]) -> None:
        """Compare what is there with how the lines of a job begin; cut off an unfinished last one.

        Args:
            heads: Of all lines of the job, of which as many are taken as there are lines.

        Raises:
            BatchOutputMismatchError: If the file is another job's; nothing was touched.
            UnreadableFileError, UnwritableFileError: If the system refuses.
        """
        try:
            tail = self._compare(heads)
        except OSError as error:
            raise unreadable(self._name, error) from error
        with named_write_errors(self.path):
            if tail:
                os.ftruncate(self._file, self._size_bytes)

    def append(self, line: bytes, *, refused: bool) -> None:
        """Write a line.

        Raises:
            DiskFullError, UnwritableFileError: If the system refuses; whole lines are kept.
        """
        with named_write_errors(self.path):
            try:
                left = memoryview(line)
                while left:
                    left = left[os.write(self._file, left) :]
            except OSError:
                # If this fails too, whoever goes on finds the beginning of a line.
                with suppress(OSError):
                    os.ftruncate(self._file, self._size_bytes)
                raise
            self._note(line, is_refused=refused)
            if time.monotonic_ns() - self._synced_ns >= limits.BATCH_SYNC_NS:
                self.sync()

    def sync(self) -> None:
        """Make what was written outlast a power cut.

        Raises:
            DiskFullError, UnwritableFileError: If the system refuses.
        """
        with named_write_errors(self.path):
            os.fsync(self._file)
        self._synced_ns = time.monotonic_ns()

    def sha256(self) -> str:
        """Return what ``sha256sum`` prints for the whole lines."""
        return self._hash.hexdigest()

    def close(self) -> None:
        """Let others have the file; may be called again."""
        file, self._file = self._file, -1
        if file >= 0:
            try:
                with suppress(OSError):
                    os.fsync(file)
            finally:
                os.close(file)

    def _note(self, line: bytes, *, is_refused: bool) -> None:
        self._size_bytes += len(line)
        self._hash.update(line)
        self.written.rows += 1
        self.written.refused += is_refused

    def _compare(self, heads: Iterator[bytes]) -> bytes:
        """Take note of whole lines that are as they should be; return the beginning of another."""
        os.lseek(self._file, 0, os.SEEK_SET)
        with io.BufferedReader(io.FileIO(self._file, closefd=False)) as file:
            while piece := file.readline(_PIECE_BYTES):
                head, beginning = next(heads, None), piece
                self._require(head, beginning)
                size, hashed = len(piece), self._hash.copy()
                hashed.update(piece)
                while not piece.endswith(b"\n"):
                    piece = file.readline(_PIECE_BYTES)
                    if not piece:
                        return beginning
                    size += len(piece)
                    hashed.update(piece)
                self._size_bytes, self._hash = self._size_bytes + size, hashed
                self.written.rows += 1
                self.written.refused += is_refusal(beginning)
        return b""

    def _require(self, head: bytes | None, found: bytes) -> None:
        """Raise unless a line, or what a killed process or a power cut left of it, is the job's."""
        line = self.written.rows + 1
        if head is None:
            raise BatchOutputMismatchError(self._name, line, "being one more than there are rows")
        is_whole = found.endswith(b"\n")
        if found.startswith(head) or (not is_whole and head.startswith(found.rstrip(b"\0"))):
            return
        expected, there = dict(_FACT.findall(head)), dict(_FACT.findall(found[: 2 * len(head)]))
        what = next(
            (told for fact, told in _DIFFERENCES.items() if expected[fact] != there.get(fact)),
            "the request",
        )
        raise BatchOutputMismatchError(self._name, line, what if there else "all of it")


def _open(path: Path) -> int:
    flags = os.O_RDWR | os.O_CREAT | os.O_APPEND
    for name in ("O_NOFOLLOW", "O_NONBLOCK", "O_BINARY", "O_CLOEXEC"):
        flags |= getattr(os, name, 0)
    return os.open(path, flags, 0o666)
