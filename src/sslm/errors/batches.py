"""Errors of files of requests, and of the files that their answers go to."""

from sslm.errors.base import ArtifactError, StateError
from sslm.errors.status import Status


class BatchLineSyntaxError(ArtifactError):
    """A line of requests is no JSON object as requests have it; nothing was computed."""

    status = Status.BATCH_LINE_SYNTAX
    message = "{place} is no request: {reason}"
    place: str
    reason: str


class BatchLineSizeError(ArtifactError):
    """A line of requests is too long to be read; nothing was computed."""

    status = Status.BATCH_LINE_SIZE
    message = "line {line} of {path!r} has more than {at_most} bytes"
    path: str
    line: int
    at_most: int


class BatchRowIdError(ArtifactError):
    """A line of requests has no id by which its answer could be found; nothing was computed."""

    status = Status.BATCH_ROW_ID
    message = "'custom_id' in line {line} of {path!r} is {found}, expected {expected}"
    path: str
    line: int
    found: str
    expected: str


class BatchRowIdTwiceError(ArtifactError):
    """Two rows have one id, so that nobody could tell their answers apart; nothing was computed."""

    status = Status.BATCH_ROW_ID_TWICE
    message = "the id {row_id!r} stands twice in {where}: the second time in {place}"
    row_id: str
    where: str
    place: str


class BatchRowCountError(ArtifactError):
    """A file has more requests than one job takes; nothing was computed."""

    status = Status.BATCH_ROW_COUNT
    message = "{path!r} has more than {at_most} requests; split it"
    path: str
    at_most: int


class BatchInputChangedError(ArtifactError):
    """A file of requests was changed while it was read; the answers until there are kept."""

    status = Status.BATCH_INPUT_CHANGED
    message = "line {line} of {path!r} is not what it was when the job began; start the job anew"
    path: str
    line: int


class BatchOutputMismatchError(ArtifactError):
    """A file of answers is another job's; nothing of it was touched."""

    status = Status.BATCH_OUTPUT_MISMATCH
    message = (
        "{path!r} is not what this job has written: line {line} differs in {what}. Name another "
        "file, or run the job that it is of"
    )
    path: str
    line: int
    what: str


class BatchFieldError(ArtifactError):
    """A request has a field that is not known here; it is not ignored."""

    status = Status.BATCH_FIELD
    message = "the field {field!r} is not known; the fields here are {known}"
    field: str
    known: str


class BatchValueError(ArtifactError):
    """A field of a request has a value that it cannot have."""

    status = Status.BATCH_VALUE
    message = "the field {field!r} is {found}, expected {expected}"
    field: str
    found: str
    expected: str


class BatchModelError(ArtifactError):
    """A request asks for another model than the one that answers."""

    status = Status.BATCH_MODEL
    message = (
        "the request asks for the model {found!r}, and {name!r} answers; leave the field out, name "
        "the model that is meant, or let any name do (--any-model)"
    )
    found: str
    name: str


class BatchBusyError(StateError):
    """Another process writes the file of answers; nothing was touched."""

    status = Status.BATCH_BUSY
    message = "{path!r} is being written by another process; wait until it has ended"
    path: str
