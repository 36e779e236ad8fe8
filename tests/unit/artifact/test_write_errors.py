"""What the system says when it does not let us write: who is at fault decides what is raised."""

import errno
import os

import pytest

from sslm.artifact.write_errors import named_write_errors
from sslm.cli.exit_codes import exit_code
from sslm.errors.artifact import DiskFullError, StorageFailedError, UnwritableFileError
from sslm.errors.base import SslmError

KINDS: dict[type[SslmError], tuple[str, ...]] = {
    DiskFullError: ("ENOSPC", "EDQUOT", "EFBIG"),
    StorageFailedError: ("EIO", "EROFS", "ENOLCK", "EMFILE", "ENFILE", "ENOMEM"),
    UnwritableFileError: ("EACCES", "EPERM", "ENOENT", "ENOTDIR", "EISDIR", "ENAMETOOLONG"),
}


@pytest.mark.parametrize(
    ("kind", "name"), [(kind, name) for kind, names in KINDS.items() for name in names]
)
def test_a_failing_storage_is_no_wrong_name(kind: type[SslmError], name: str) -> None:
    number = getattr(errno, name, None)
    if number is None:
        pytest.skip(f"this system has no {name}")
    with pytest.raises(kind) as caught, named_write_errors("out.sslm"):
        raise OSError(number, os.strerror(number))
    assert type(caught.value) is kind
    assert exit_code(caught.value) == (4 if kind is UnwritableFileError else 5)
