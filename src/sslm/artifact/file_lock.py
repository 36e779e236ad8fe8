"""A lock between processes, which the system takes back when its holder ends."""

import errno
import os
import stat
import sys
from contextlib import suppress
from functools import cache

if sys.platform == "win32":
    import msvcrt
    from typing import Final

    _LOCKED_OFFSET: Final = 1 << 30
    """Far beyond the contents: others may then read those while the lock is held."""

    def try_lock(file: int) -> bool:
        """Lock an open file until it is closed; return whether nobody else held it."""
        try:
            os.lseek(file, _LOCKED_OFFSET, os.SEEK_SET)
            msvcrt.locking(file, msvcrt.LK_NBLCK, 1)
        except OSError:
            return False
        return True

else:
    import fcntl

    def try_lock(file: int) -> bool:
        """Lock an open file until it is closed; return whether nobody else held it."""
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        found = os.fstat(file)
        _locked_here()[file] = (found.st_dev, found.st_ino)
        return True

    @cache
    def _locked_here() -> dict[int, tuple[int, int]]:
        """Return which descriptors of this process are locked, with the files that they were of.

        A fork has the same descriptors, and the system takes a lock back when the last of them is
        closed: a child that lives on would hold the locks of a parent that was killed.
        """
        locked: dict[int, tuple[int, int]] = {}

        def let_go() -> None:
            for file, place in locked.items():
                with suppress(OSError):
                    found = os.fstat(file)
                    # Unless it was closed, and its number given to something else.
                    if (found.st_dev, found.st_ino) == place:
                        nothing = os.open(os.devnull, os.O_RDWR)
                        os.dup2(nothing, file, inheritable=False)
                        os.close(nothing)
            locked.clear()

        os.register_at_fork(after_in_child=let_go)
        return locked


def open_lock_file(
    path: str | os.PathLike[str], making: int = os.O_CREAT, *, folder: int | None = None
) -> int:
    """Open a file to be locked; a link in its place is refused, so nothing elsewhere is touched.

    Args:
        path: The file.
        making: ``os.O_CREAT`` makes it if it is not there; with ``os.O_EXCL`` it must not be; with
            0 it must be.
        folder: The descriptor of the folder in which *path* is a name, where the system has that.

    Returns:
        The file's descriptor.

    Raises:
        OSError: If it is no regular file, or the system refuses.
    """
    safety = getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)
    if not safety and os.path.islink(path):  # noqa: PTH114
        raise OSError(errno.ELOOP, os.strerror(errno.ELOOP))
    flags = os.O_RDWR | safety | getattr(os, "O_BINARY", 0) | making
    file = os.open(path, flags, 0o666, dir_fd=folder)
    if not stat.S_ISREG(os.fstat(file).st_mode):
        os.close(file)
        raise OSError(errno.EINVAL, "it is no regular file")
    return file


def is_still_at(file: int, path: str | os.PathLike[str]) -> bool:
    """Tell whether an open file is what its path names, or was removed or replaced meanwhile."""
    try:
        return os.path.samestat(os.fstat(file), os.lstat(path))
    except OSError:
        return False
