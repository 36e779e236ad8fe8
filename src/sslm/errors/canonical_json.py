"""What can be wrong with canonical JSON in a file of ours."""

from sslm.errors.base import ArtifactError
from sslm.errors.status import Status


class JsonSyntaxError(ArtifactError):
    """A section that must be JSON is not."""

    status = Status.JSON_SYNTAX
    message = "{section} is not JSON: {reason}"
    section: str
    reason: str


class JsonNotCanonicalError(ArtifactError):
    """A section is JSON, but not in the one spelling that the format allows."""

    status = Status.JSON_NOT_CANONICAL
    message = (
        "{section} is not canonical JSON from byte {offset_bytes} of the section on: keys are "
        "sorted and unique, there are no spaces, and escapes are as short as they can be"
    )
    section: str
    offset_bytes: int


class JsonUnknownKeyError(ArtifactError):
    """An object has a key that the format does not know."""

    status = Status.JSON_UNKNOWN_KEY
    message = "{place} has the unknown key {key!r}"
    place: str
    key: str


class JsonMissingKeyError(ArtifactError):
    """An object lacks a key that the format requires."""

    status = Status.JSON_MISSING_KEY
    message = "{place} lacks the key {key!r}"
    place: str
    key: str


class JsonTypeError(ArtifactError):
    """A value is of another type than the format says."""

    status = Status.JSON_TYPE
    message = "{place} is {found}, expected {expected}"
    place: str
    found: str
    expected: str


class JsonRangeError(ArtifactError):
    """A number, or the length of a text or list, is out of its bounds."""

    status = Status.JSON_RANGE
    message = "{place} is {found}, it must be from {at_least} to {at_most}"
    place: str
    found: int
    at_least: int
    at_most: int


class JsonTextError(ArtifactError):
    """A text does not have the form that the format gives it."""

    status = Status.JSON_TEXT
    message = "{place} is {found!r}, expected {expected}"
    place: str
    found: str
    expected: str
