"""Saved sequences in files, each of which is complete or not there."""

import os
from pathlib import Path

from sslm.artifact.atomic_file import atomic_file
from sslm.artifact.file_bytes import CopiedFile
from sslm.errors.reading import UnreadableFileError
from sslm.errors.saves import NotASaveError
from sslm.formats.mapped_file import open_regular_file
from sslm.formats.save_blob import MAGIC


def write_saved_file(path: str | os.PathLike[str], blob: bytes) -> None:
    """Write a save to a file, whose former content is replaced in one step.

    Whatever ends the process, a power cut included, leaves the former file or the new one, whole.

    Args:
        path: The file's name.
        blob: As :func:`sslm.runtime.saving.save` returns it.

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
            :func:`sslm.runtime.saving.save_size_bytes_max` says for the sequence that is to be
            restored. None is any.

    Raises:
        NotASaveError: If it begins otherwise; no more of it was read.
        MemoryBudgetError: If it is larger than allowed; likewise.
        CopyMemoryError: If the system has not enough memory.
        TruncatedFileError: If it became shorter meanwhile.
        UnreadableFileError: If the system refuses, or it is a folder, a pipe or a device.
    """
    _require_magic(path)
    return CopiedFile(path, size_at_most_bytes=size_at_most_bytes).view


def _require_magic(path: str | os.PathLike[str]) -> None:
    try:
        with open_regular_file(Path(path)) as file:
            found = file.read(len(MAGIC)) or b""
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise UnreadableFileError(os.fspath(path), reason) from error
    if found != MAGIC:
        raise NotASaveError(found)
