"""What can be wrong with the bytes of any file, whatever its format."""

import errno
import os
from typing import Final

from sslm.errors.base import ArtifactError, ResourceError
from sslm.errors.status import Status

_SHORTAGES: Final = frozenset({errno.ENOMEM, errno.EMFILE, errno.ENFILE, errno.ENOBUFS})
"""What the system says when it is short of memory or descriptors, whatever file was asked for."""


class TruncatedFileError(ArtifactError):
    """A field reaches past the last byte."""

    status = Status.TRUNCATED_FILE
    message = (
        "the file ends inside {field!r}: {wanted_bytes} bytes are needed at byte {offset_bytes}, "
        "{available_bytes} are left; get the file again, or save it again"
    )
    field: str
    offset_bytes: int
    wanted_bytes: int
    available_bytes: int


class FieldTooLargeError(ArtifactError):
    """A number in the file is above the limit for it."""

    status = Status.FIELD_TOO_LARGE
    message = "{field!r} at byte {offset_bytes} is {found}, at most {at_most} is accepted"
    field: str
    offset_bytes: int
    found: int
    at_most: int


class FieldTooSmallError(ArtifactError):
    """A number in the file is below the limit for it."""

    status = Status.FIELD_TOO_SMALL
    message = "{field!r} at byte {offset_bytes} is {found}, at least {at_least} is needed"
    field: str
    offset_bytes: int
    found: int
    at_least: int


class BadUtf8Error(ArtifactError):
    """Text in the file is not valid UTF-8."""

    status = Status.BAD_UTF8
    message = "{field!r} is not valid UTF-8: {reason} at byte {offset_bytes} of the file"
    field: str
    offset_bytes: int
    reason: str


class NonZeroPaddingError(ArtifactError):
    """Bytes between fields, which must be zero, are not."""

    status = Status.NON_ZERO_PADDING
    message = "padding {field!r} holds {found:#04x} at byte {offset_bytes}, it must be zero"
    field: str
    offset_bytes: int
    found: int


class TrailingBytesError(ArtifactError):
    """Bytes follow the place where the content must end."""

    status = Status.TRAILING_BYTES
    message = "{field!r} must end at byte {offset_bytes}, but {extra_bytes} bytes follow"
    field: str
    offset_bytes: int
    extra_bytes: int


class OverlappingBytesError(ArtifactError):
    """Two parts of the file claim the same bytes."""

    status = Status.OVERLAPPING_BYTES
    message = "{first!r} and {second!r} both claim byte {offset_bytes}"
    first: str
    second: str
    offset_bytes: int


class MisalignedOffsetError(ArtifactError):
    """A part of the file does not start where its alignment requires."""

    status = Status.MISALIGNED_OFFSET
    message = "{field!r} starts at byte {offset_bytes}, which is no multiple of {alignment_bytes}"
    field: str
    offset_bytes: int
    alignment_bytes: int


class UnreadableFileError(ArtifactError):
    """The operating system does not let us read the file, or it is not a regular file."""

    status = Status.UNREADABLE_FILE
    message = "cannot read {path!r}: {reason}"
    path: str
    reason: str


class ReadResourcesError(ResourceError):
    """The system lacks the memory or the descriptors to read a file, which is not at fault."""

    status = Status.READ_RESOURCES
    message = (
        "cannot read {path!r}, as the system has nothing left to do it with: {reason}; free some, "
        "or raise the limit, and try again"
    )
    path: str
    reason: str


def unreadable(
    path: str | os.PathLike[str], error: OSError | ValueError
) -> UnreadableFileError | ReadResourcesError:
    """Return our error for what the system said when a file was opened, read or mapped."""
    reason = getattr(error, "strerror", None) or str(error)
    is_short = getattr(error, "errno", None) in _SHORTAGES
    return (ReadResourcesError if is_short else UnreadableFileError)(os.fspath(path), reason)
