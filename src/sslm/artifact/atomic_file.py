"""Files that appear complete or not at all."""

import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO

from sslm.artifact.write_errors import named_write_errors


@contextmanager
def atomic_file(path: str | os.PathLike[str]) -> Iterator[BinaryIO]:
    """Write a file under a temporary name in its own folder; give it its name at the end.

    The bytes are on the disk before the name is. An existing file is replaced in one step. If
    anything fails, an interrupt included, neither the temporary nor the new file is left.

    Args:
        path: The name that the file gets.

    Yields:
        The file, open for writing at any place.

    Raises:
        DiskFullError: If the disk, or the quota on it, has no room.
        UnwritableFileError: If the system refuses for another reason.
    """
    target = Path(path)
    partial = target.with_name(f".{target.name}.{secrets.token_hex(6)}.partial")
    with named_write_errors(path):
        try:
            with partial.open("xb") as file:
                yield file
                file.flush()
                os.fsync(file.fileno())
            partial.replace(target)
        except BaseException:
            with suppress(OSError):
                partial.unlink()
            raise
        sync_folder(target.parent)


def sync_folder(folder: Path) -> None:
    """Make the new name last through a power cut, where the system lets a folder be opened."""
    with suppress(OSError):
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)
