"""Files of which every byte is known: size, hash, comparison."""

from pathlib import Path
from typing import Final, Protocol

from sslm.catalog.known_models import PinnedFile
from sslm.errors.catalog import FetchedFileMismatchError
from sslm.errors.reading import UnreadableFileError, unreadable
from sslm.hashes import Sha256
from sslm.progress import Progress, untold
from sslm.threads import open_file

_BLOCK_SIZE_BYTES: Final = 1 << 20


class Readable(Protocol):
    """What bytes can be read from."""

    def read(self, size: int, /) -> bytes:
        """Return at most *size* bytes; none at the end."""


class Writable(Protocol):
    """What bytes can be written to."""

    def write(self, data: bytes, /) -> object:
        """Take all of *data*."""


class NamedReader:
    """A stream whose errors name its file, wherever it is read.

    Args:
        source: What is read.
        path: What an error calls it.
    """

    def __init__(self, source: Readable, path: Path) -> None:
        self._source = source
        self._path = path

    def read(self, size: int, /) -> bytes:
        """Return at most *size* bytes; none at the end.

        Raises:
            UnreadableFileError: If the system refuses.
        """
        try:
            return self._source.read(size)
        except OSError as error:
            raise unreadable(self._path, error) from error


def sha256_of_copy(
    source: Readable,
    target: Writable | None,
    *,
    size_bytes_max: int,
    on_progress: Progress = untold,
) -> tuple[int, str]:
    """Read a stream to its end or just beyond a bound, copying what is within it.

    Args:
        source: Read once.
        target: Gets what is read, or nothing does.
        size_bytes_max: Bytes after which reading stops.
        on_progress: Called with bytes read, and the bound.

    Returns:
        The number of bytes read, more than the bound if there are more, and their hex SHA-256.
    """
    digest = Sha256()
    done = 0
    while done <= size_bytes_max:
        block = source.read(min(_BLOCK_SIZE_BYTES, size_bytes_max + 1 - done))
        if not block:
            break
        digest.update(block)
        done += len(block)
        if target is not None:
            target.write(block)
        on_progress(min(done, size_bytes_max), size_bytes_max)
    return done, digest.hexdigest()


def file_sha256(path: Path, on_progress: Progress = untold) -> str:
    """Return what ``sha256sum`` prints for a regular file.

    Raises:
        UnreadableFileError: If the system refuses, or it is no regular file.
    """
    try:
        # Opening a pipe waits for its writer, so the kind is asked for first.
        if not path.is_file():
            raise UnreadableFileError(str(path), "it is not there, or is not a regular file")
        with open_file(path, "rb") as file:
            size_bytes = path.stat().st_size
            return sha256_of_copy(file, None, size_bytes_max=size_bytes, on_progress=on_progress)[1]
    except OSError as error:
        raise unreadable(path, error) from error


def require_pinned(
    path: Path,
    pinned: PinnedFile,
    on_progress: Progress = untold,
) -> None:
    """Refuse a file that is not the pinned one.

    Raises:
        FetchedFileMismatchError: If its size or hash is another.
        UnreadableFileError: If it cannot be read.
    """
    try:
        size_bytes = path.stat().st_size
    except OSError as error:
        raise unreadable(path, error) from error
    if size_bytes != pinned.size_bytes:
        expected = f"{pinned.size_bytes} bytes"
        raise FetchedFileMismatchError(path.name, "size", f"{size_bytes} bytes", expected)
    digest = file_sha256(path, on_progress)
    if digest != pinned.sha256:
        raise FetchedFileMismatchError(path.name, "SHA-256", digest, pinned.sha256)
