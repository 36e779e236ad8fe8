"""A folder whose entries are looked at, opened, and removed without following a link.

Where the system allows it, each step goes through the folder's own descriptor. Whoever puts a link
in the place of the folder, or of anything on the way to it, then changes nothing elsewhere.
"""

import errno
import os
import shutil
import stat
from contextlib import suppress
from pathlib import Path
from typing import Final, Self

from sslm.artifact.file_lock import open_lock_file
from sslm.closing import Closing

_HAS_DESCRIPTORS: Final = (
    {os.open, os.stat, os.unlink, os.rmdir, os.mkdir, os.rename, os.utime} <= os.supports_dir_fd
    and os.listdir in os.supports_fd
    and hasattr(os, "O_NOFOLLOW")
)
_REPARSE_TAGS_OF_LINKS: Final = frozenset({0xA000_0003, 0xA000_000C})
"""Windows: junctions with mounted folders, and symbolic links. Other tags are of real files."""


def is_link(found: os.stat_result) -> bool:
    """Tell whether what ``lstat`` found leads elsewhere: a symbolic link, or a junction."""
    tag = getattr(found, "st_reparse_tag", 0)
    return stat.S_ISLNK(found.st_mode) or tag in _REPARSE_TAGS_OF_LINKS


def is_own_folder(found: os.stat_result) -> bool:
    """Tell whether what ``lstat`` found is a folder, and neither a link nor a junction."""
    return stat.S_ISDIR(found.st_mode) and not is_link(found)


def is_own_file(found: os.stat_result) -> bool:
    """Tell whether what ``lstat`` found is a regular file, and not a link."""
    return stat.S_ISREG(found.st_mode) and not is_link(found)


class OwnFolder(Closing):
    """An open folder, which stays the same whatever its path comes to mean; a context manager.

    Args:
        path: Where it is.
        follows_links: Whether *path* itself may be a link, as a folder may that the user named.

    Raises:
        OSError: If it is not there, or is a link and must not be.
    """

    def __init__(self, path: Path, *, follows_links: bool = False) -> None:
        self.path = path
        self._file: int | None = None
        if not follows_links:
            _require_own_folder(path, os.lstat(path))
        if _HAS_DESCRIPTORS:
            self._file = os.open(path, _opening(follows_links))
        self._found = path.stat() if self._file is None else os.fstat(self._file)

    def folder(self, name: str) -> Self:
        """Open a folder in this one.

        Raises:
            OSError: If it is not there, or is anything else, links included.
        """
        _require_own_folder(self.path / name, self.status(name))
        inner = object.__new__(type(self))
        inner.path, inner._file = self.path / name, None
        if self._file is not None:
            inner._file = os.open(name, _opening(False), dir_fd=self._file)
        inner._found = self.status(name) if inner._file is None else os.fstat(inner._file)
        return inner

    def names(self) -> list[str]:
        """Return the names of what is in it."""
        return os.listdir(self.path if self._file is None else self._file)  # noqa: PTH208

    def status(self, name: str) -> os.stat_result:
        """Return what ``lstat`` finds in it."""
        return os.stat(self._place(name), dir_fd=self._file, follow_symlinks=False)

    def holds(self, name: str, inner: "OwnFolder") -> bool:
        """Tell whether a name in it is still that of a folder that was opened."""
        with suppress(OSError):
            return os.path.samestat(self.status(name), inner._found)
        return False

    def make_folder(self, name: str, mode: int = 0o777) -> None:
        """Make a folder in it."""
        os.mkdir(self._place(name), mode, dir_fd=self._file)

    def lock_file(self, name: str, making: int = os.O_CREAT) -> int:
        """Open a file in it to be locked, as :func:`open_lock_file` does."""
        return open_lock_file(self._place(name), making, folder=self._file)

    def take(self, path: Path, name: str) -> None:
        """Move a file here, in place of a file that has the name."""
        if self._file is None:
            path.replace(self.path / name)
        else:
            os.rename(path, name, dst_dir_fd=self._file)

    def set_modified(self, name: str, time_ns: int) -> None:
        """Set when an entry was changed."""
        follows = os.utime not in os.supports_follow_symlinks
        times = (time_ns, time_ns)
        os.utime(self._place(name), ns=times, dir_fd=self._file, follow_symlinks=follows)

    def remove_file(self, name: str) -> None:
        """Remove a regular file; nothing else of this name, and nothing is fine too.

        Raises:
            OSError: If the system refuses.
        """
        with suppress(FileNotFoundError):
            if is_own_file(self.status(name)):
                os.unlink(self._place(name), dir_fd=self._file)

    def remove_empty_folder(self, name: str) -> None:
        """Remove a folder without entries; a junction would be removed in place of one.

        Raises:
            OSError: If it is not empty, or the system refuses.
        """
        if is_own_folder(self.status(name)):
            os.rmdir(self._place(name), dir_fd=self._file)

    def remove(self, name: str) -> None:
        """Remove an entry of any kind as far as the system lets us; of a link only the link."""
        with suppress(OSError):
            if is_own_folder(self.status(name)):
                # An empty one goes even where no descriptor can be had to look into it.
                with suppress(OSError):
                    os.rmdir(self._place(name), dir_fd=self._file)
                    return
                shutil.rmtree(self._place(name), ignore_errors=True, dir_fd=self._file)
            else:
                os.unlink(self._place(name), dir_fd=self._file)

    def close(self) -> None:
        """Give the descriptor back; may be called again."""
        file, self._file = self._file, None
        if file is not None:
            os.close(file)

    def _place(self, name: str) -> str | Path:
        return self.path / name if self._file is None else name


def _opening(follows_links: bool) -> int:
    flags = os.O_RDONLY | getattr(os, "O_DIRECTORY", 0)
    return flags if follows_links else flags | getattr(os, "O_NOFOLLOW", 0)


def _require_own_folder(path: Path, found: os.stat_result) -> None:
    if is_link(found):
        raise OSError(errno.ELOOP, f"{path.name} in it is a link; link the whole folder")
    if not stat.S_ISDIR(found.st_mode):
        raise NotADirectoryError(errno.ENOTDIR, f"{path.name} in it is no folder")
