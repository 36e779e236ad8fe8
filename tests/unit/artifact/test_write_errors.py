"""What the system says when it does not let us write: who is at fault decides what is raised."""

import errno
import os

import pytest

from sslm.artifact.atomic_file import require_replaceable
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


def test_a_name_that_is_no_unicode_is_not_said_to_have_a_zero_byte() -> None:
    for name, reason in (("\ud800", "it is no valid Unicode"), ("a\0", "no path has a zero byte")):
        with pytest.raises(UnwritableFileError, match=reason):
            require_replaceable(name)
