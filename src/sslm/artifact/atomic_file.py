"""Files that appear complete or not at all."""

import os
import re
import secrets
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO, Final

from sslm.artifact.file_lock import is_still_at, open_lock_file, try_lock
from sslm.artifact.write_errors import named_write_errors

_ENDING: Final = ".partial"
_RANDOM_BYTES: Final = 6


@contextmanager
def atomic_file(path: str | os.PathLike[str]) -> Iterator[BinaryIO]:
    """Write a file under a temporary name in its own folder; give it its name at the end.

    The bytes are on the disk before the name is. An existing file is replaced in one step. If
    anything fails, an interrupt included, neither the temporary nor the new file is left; the
    temporary of a process that was killed is removed by the next one that writes this file.

    Args:
        path: The name that the file gets.

    Yields:
        The file, open for writing at any place.

    Raises:
        DiskFullError: If the disk, or the quota on it, has no room.
        UnwritableFileError: If the system refuses for another reason.
    """
    target = Path(path)
    _sweep(target)
    random = secrets.token_hex(_RANDOM_BYTES)
    partial = target.with_name(f".{target.name}.{random}{_ENDING}")
    with named_write_errors(path):
        try:
            with partial.open("xb") as file:
                # Locked while it is unfinished: that tells it from what a killed process left.
                if not (try_lock(file.fileno()) and is_still_at(file.fileno(), partial)):
                    raise FileNotFoundError(f"{partial} was removed while it was made")
                yield file
                file.flush()
                os.fsync(file.fileno())
            partial.replace(target)
        except BaseException:
            with suppress(OSError):
                partial.unlink()
            raise
        sync_folder(target.parent)


def _sweep(target: Path) -> None:
    """Remove temporaries of this file whose writers have ended."""
    prefix = re.escape(f".{target.name}.")
    name = re.compile(rf"{prefix}[0-9a-f]{{{2 * _RANDOM_BYTES}}}{re.escape(_ENDING)}")
    with suppress(OSError):
        for path in [path for path in target.parent.iterdir() if name.fullmatch(path.name)]:
            handle = open_lock_file(path, 0)
            try:
                is_left = try_lock(handle)
                if is_left and os.name == "posix":
                    path.unlink()
            finally:
                os.close(handle)
            if is_left and os.name != "posix":
                # There, a file that is open cannot be removed.
                path.unlink()


def sync_folder(folder: Path) -> None:
    """Make the new name last through a power cut, where the system lets a folder be opened."""
    with suppress(OSError):
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)
