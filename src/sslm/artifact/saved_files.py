"""Saved sequences, or records, in files, each of which is complete or not there."""

import os
from pathlib import Path

from sslm import limits
from sslm.artifact.atomic_file import atomic_file, require_place
from sslm.artifact.file_bytes import CopiedFile
from sslm.errors.commands import OutputNotFileError
from sslm.errors.reading import unreadable
from sslm.errors.records import NotARecordError
from sslm.errors.saves import NotASaveError
from sslm.formats.mapped_file import open_regular_file
from sslm.formats.records.writer import MAGIC as RECORD_MAGIC
from sslm.formats.saves.writer import MAGIC as SAVE_MAGIC


def write_saved_file(path: str | os.PathLike[str], blob: bytes) -> None:
    """Write a save to a file, whose former content is replaced in one step.

    Whatever ends the process, a power cut included, leaves the former file or the new one, whole.

    Args:
        path: The file's name.
        blob: As :func:`sslm.runtime.saves.saving.save` returns it.

    Raises:
        DiskFullError: If the disk, or the quota on it, has no room; the former file is still there.
        UnwritableFileError: If the system refuses for another reason; likewise.
        ArgumentError: If something lies there that is no regular file.
    """
    with atomic_file(path) as file:
        file.write(blob)


def read_saved_file(
    path: str | os.PathLike[str], *, size_at_most_bytes: int | None = None
) -> memoryview:
    """Return the bytes of a file that begins as a save does, copied: it may change afterwards.

    Args:
        path: The file's name.
        size_at_most_bytes: The largest file to take in: what
            ``save_size_bytes_max`` says for the sequence that is to be restored. None is any.

    Raises:
        NotASaveError: If it begins otherwise; no more of it was read.
        MemoryBudgetError: If it is larger than allowed; likewise.
        CopyMemoryError: If the system has not enough memory.
        FieldError: If it became shorter meanwhile.
        UnreadableFileError: If the system refuses, or it is a folder, a pipe or a device.
    """
    found = beginning_of(path, len(SAVE_MAGIC))
    if found != SAVE_MAGIC:
        raise NotASaveError(found)
    return CopiedFile(path, size_at_most_bytes=size_at_most_bytes).view


def require_record_place(path: str | os.PathLike[str]) -> None:
    """Raise before a request is computed what would keep its record from being written.

    A record, or an empty file, is replaced; nothing else is.

    Raises:
        OutputNotFileError: If something lies there that is neither.
        UnwritableFileError, DiskFullError: If the system does not let us make a file there.
        ArgumentError: As :func:`sslm.artifact.atomic_file.require_place` does.
    """
    require_place(path, is_replaced=True)
    if os.path.lexists(path) and beginning_of(path, len(RECORD_MAGIC)) not in (b"", RECORD_MAGIC):
        raise OutputNotFileError(os.fspath(path), "it is no record of a request")


def read_record_file(path: str | os.PathLike[str]) -> memoryview:
    """Return the bytes of a file that begins as a record does, copied.

    Raises:
        NotARecordError: If it begins otherwise; no more of it was read.
        MemoryBudgetError: If it is larger than records are; likewise.
        CopyMemoryError, FieldError, UnreadableFileError: As :func:`read_saved_file` does.
    """
    found = beginning_of(path, len(RECORD_MAGIC))
    if found != RECORD_MAGIC:
        raise NotARecordError(found)
    return CopiedFile(path, size_at_most_bytes=limits.RECORD_SIZE_BYTES_MAX).view


def beginning_of(path: str | os.PathLike[str], size_bytes: int) -> bytes:
    """Return the first bytes of a regular file, fewer if it has no more.

    Raises:
        UnreadableFileError: If the system refuses, or it is a folder, a pipe or a device.
    """
    try:
        with open_regular_file(Path(path)) as file:
            return file.read(size_bytes) or b""
    except (OSError, ValueError) as error:
        raise unreadable(path, error) from error
