"""A whole file as a private copy in memory."""

import os
from contextlib import suppress
from io import RawIOBase
from pathlib import Path
from typing import Protocol

from sslm.errors.artifact import CopyMemoryError
from sslm.errors.base import SslmError
from sslm.errors.reading import FieldError, unreadable
from sslm.errors.runtime import MemoryBudgetError
from sslm.errors.status import Status
from sslm.formats.mapped_file import open_regular_file
from sslm.memory import address_of, anonymous_memory
from sslm.program.states import STATE_ALIGNMENT_BYTES


class FileBytes(Protocol):
    """The bytes of a file, mapped or copied."""

    view: memoryview

    def close(self) -> None:
        """Give the memory back; may be called again."""


class CopiedFile:
    """A regular file, copied into memory that begins at a page, so that alignments hold.

    The memory is this process's own, in huge pages where the system has them. What happens to the
    file afterwards does not matter.

    Args:
        path: Of a regular file; an empty one gives an empty view.
        size_at_most_bytes: Largest file to copy, or None for no bound.

    Raises:
        MemoryBudgetError: If the file is larger than that; nothing was allocated for it.
        UnreadableFileError: If the system refuses, or *path* is a folder, a pipe or a device.
        CopyMemoryError: If the system has not enough memory.
        FieldError: If the file became shorter meanwhile.
    """

    def __init__(
        self, path: str | os.PathLike[str], *, size_at_most_bytes: int | None = None
    ) -> None:
        self.view = memoryview(b"")
        name = os.fspath(path)
        try:
            with open_regular_file(Path(path)) as file:
                size = os.fstat(file.fileno()).st_size
                if size_at_most_bytes is not None and size > size_at_most_bytes:
                    raise MemoryBudgetError("a copy of the file", size, size_at_most_bytes)
                if size:
                    memory = _memory_for(name, size)
                    _fill(file, memory)
                    self.view = memory.toreadonly()
        except (OSError, ValueError) as error:
            if isinstance(error, SslmError):
                raise
            raise unreadable(path, error) from error

    def close(self) -> None:
        """Give the memory back; may be called again. Views that others took stay valid."""
        with suppress(BufferError):
            self.view.release()


class LentBytes:
    """The bytes of a file that the caller has in memory, used where they lie if that will do.

    Args:
        content: All of the file. Nobody may change it while it is used.
        is_copied: Whether to copy it in any case. What begins between multiples of 64 is copied
            too, as kernels could not read it where it lies.
        copy_at_most_bytes: Largest copy, or None for no bound.

    Raises:
        MemoryBudgetError: If a copy would be larger than that; nothing was allocated for it.
        CopyMemoryError: If the system has not enough memory for a copy.
    """

    def __init__(
        self, content: memoryview, *, is_copied: bool, copy_at_most_bytes: int | None = None
    ) -> None:
        size = content.nbytes
        self.view = content.toreadonly()
        if size and (is_copied or address_of(self.view) % STATE_ALIGNMENT_BYTES):
            if copy_at_most_bytes is not None and size > copy_at_most_bytes:
                raise MemoryBudgetError("a copy of the buffer", size, copy_at_most_bytes)
            memory = _memory_for("the buffer", size)
            memory[:] = content
            self.view = memory.toreadonly()

    def close(self) -> None:
        """Let go of the memory; may be called again. Views that others took stay valid."""
        with suppress(BufferError):
            self.view.release()


def _memory_for(name: str, size_bytes: int) -> memoryview:
    try:
        return anonymous_memory(size_bytes)
    except (OSError, OverflowError) as error:
        raise CopyMemoryError(name, size_bytes) from error


def _fill(file: RawIOBase, memory: memoryview) -> None:
    """Read until *memory* is full; one call gives at most 2 GiB."""
    done = 0
    while done < memory.nbytes:
        count = file.readinto(memory[done:])
        if not count:
            raise FieldError(
                Status.TRUNCATED_FILE,
                field="the file",
                offset_bytes=done,
                wanted_bytes=memory.nbytes - done,
                available_bytes=0,
            )
        done += count
