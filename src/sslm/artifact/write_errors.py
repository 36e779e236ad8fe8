"""What the system says when it does not let us write, in our own words."""

import errno
import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from sslm.errors.artifact import DiskFullError, UnwritableFileError

_FULL: Final = frozenset({errno.ENOSPC, errno.EFBIG, getattr(errno, "EDQUOT", errno.ENOSPC)})


@contextmanager
def named_write_errors(path: str | os.PathLike[str]) -> Iterator[None]:
    """Translate the system's errors of a block that writes *path*.

    Raises:
        DiskFullError: If the disk, or the quota on it, has no room.
        UnwritableFileError: If the system refuses for another reason.
    """
    try:
        yield
    except OSError as error:
        kind = DiskFullError if error.errno in _FULL else UnwritableFileError
        raise kind(os.fspath(path), error.strerror or str(error)) from error
