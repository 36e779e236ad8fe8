"""What can be wrong with the bytes of any file, whatever its format."""

import errno
import os
from typing import Final

from sslm.errors.base import ArtifactError, ResourceError
from sslm.errors.causes import ManyCausesError, causes_of
from sslm.errors.status import Status

_SHORTAGES: Final = frozenset({errno.ENOMEM, errno.EMFILE, errno.ENFILE, errno.ENOBUFS})
"""What the system says when it is short of memory or descriptors, whatever file was asked for."""


class FieldError(ManyCausesError, ArtifactError):
    """A field of a file, of whatever format, is cut, out of its bounds, or in a wrong place."""

    causes = causes_of("""
        TRUNCATED_FILE (field offset_bytes wanted_bytes available_bytes): the file ends inside
            {field!r}: {wanted_bytes} bytes are needed at byte {offset_bytes}, {available_bytes} are
            left; get the file again, or save it again
        FIELD_TOO_LARGE: {field!r} at byte {offset_bytes} is {found}, at most {at_most} is accepted
        FIELD_TOO_SMALL: {field!r} at byte {offset_bytes} is {found}, at least {at_least} is needed
        BAD_UTF8 (field offset_bytes reason): {field!r} is not valid UTF-8: {reason} at byte
            {offset_bytes} of the file
        NON_ZERO_PADDING (field offset_bytes found): padding {field!r} holds {found:#04x} at byte
            {offset_bytes}, it must be zero
        TRAILING_BYTES: {field!r} must end at byte {offset_bytes}, but {extra_bytes} bytes follow
        OVERLAPPING_BYTES: {first!r} and {second!r} both claim byte {offset_bytes}
        MISALIGNED_OFFSET: {field!r} starts at byte {offset_bytes}, which is no multiple of
            {alignment_bytes}
    """)


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
