"""What the system says when it does not let us write, in our own words."""

import errno
import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from sslm.errors.artifact import DiskFullError, StorageFailedError, UnwritableFileError

_FULL: Final = frozenset({errno.ENOSPC, errno.EFBIG, getattr(errno, "EDQUOT", errno.ENOSPC)})

_FAILURES: Final = (
    *("EIO", "EROFS", "ENOLCK", "EMFILE", "ENFILE", "ENOMEM", "ENOBUFS", "ENXIO", "ENODEV"),
    *("ESTALE", "ETIMEDOUT", "EREMOTEIO", "ENOLINK", "EBUSY", "EAGAIN", "EINTR", "ENOTCONN"),
    *("EHOSTDOWN", "ENOMEDIUM", "EUCLEAN"),
)
"""Errors of storage and of what the system lends to reach it; not every system has each."""

_FAILED: Final = frozenset(getattr(errno, name) for name in _FAILURES if hasattr(errno, name))


def is_of_storage(error: OSError) -> bool:
    """Tell whether disk, quota, or the system's means are at fault, and not what was asked for."""
    return error.errno in _FULL or error.errno in _FAILED


@contextmanager
def named_write_errors(path: str | os.PathLike[str]) -> Iterator[None]:
    """Translate the system's errors of a block that writes *path*.

    Raises:
        DiskFullError: If the disk, or the quota on it, has no room.
        StorageFailedError: If the storage, or what the system lends to reach it, fails.
        UnwritableFileError: If the system refuses for another reason.
    """
    try:
        yield
    except OSError as error:
        kind: type[DiskFullError | StorageFailedError | UnwritableFileError] = UnwritableFileError
        if is_of_storage(error):
            kind = DiskFullError if error.errno in _FULL else StorageFailedError
        raise kind(os.fspath(path), error.strerror or str(error)) from error
