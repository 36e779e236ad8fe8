"""A whole file as a private copy in memory."""

import mmap
import os
import stat
from contextlib import suppress
from io import RawIOBase
from pathlib import Path
from typing import Protocol

from sslm.errors.artifact import CopyMemoryError
from sslm.errors.reading import TruncatedFileError, UnreadableFileError


class FileBytes(Protocol):
    """The bytes of a file, mapped or copied."""

    view: memoryview

    def close(self) -> None:
        """Give the memory back; may be called again."""


class CopiedFile:
    """A regular file, copied into memory that begins at a page, so that alignments hold.

    What happens to the file afterwards does not matter.

    Args:
        path: Of a regular file; an empty one gives an empty view.

    Raises:
        UnreadableFileError: If the system refuses, or *path* is a folder, a pipe or a device.
        CopyMemoryError: If the system has not enough memory.
        TruncatedFileError: If the file became shorter meanwhile.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self._memory: mmap.mmap | None = None
        self.view = memoryview(b"")
        name = os.fspath(path)
        try:
            # Opening a pipe waits for its writer, so the kind is asked for first.
            if not stat.S_ISREG(Path(path).stat().st_mode):
                raise UnreadableFileError(name, "it is not a regular file")
            with Path(path).open("rb", buffering=0) as file:
                size = os.fstat(file.fileno()).st_size
                if size:
                    self._memory = _anonymous_memory(name, size)
                    _fill(file, memoryview(self._memory))
                    self.view = memoryview(self._memory).toreadonly()
        except OSError as error:
            raise UnreadableFileError(name, error.strerror or str(error)) from error

    def close(self) -> None:
        """Give the memory back; may be called again. Views that others took stay valid."""
        with suppress(BufferError):
            self.view.release()
            if self._memory is not None:
                self._memory.close()


def _anonymous_memory(name: str, size_bytes: int) -> mmap.mmap:
    try:
        return mmap.mmap(-1, size_bytes)
    except (OSError, OverflowError) as error:
        raise CopyMemoryError(name, size_bytes) from error


def _fill(file: RawIOBase, memory: memoryview) -> None:
    """Read until *memory* is full; one call gives at most 2 GiB."""
    done = 0
    while done < memory.nbytes:
        count = file.readinto(memory[done:])
        if not count:
            raise TruncatedFileError("the file", done, memory.nbytes - done, 0)
        done += count
