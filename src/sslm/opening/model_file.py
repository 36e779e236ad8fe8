"""Opening a file as what was asked for."""

import os
import re
from pathlib import Path
from typing import Final

from sslm import limits
from sslm.arguments import checked_int, checked_path, require_name
from sslm.artifact import Artifact, read_artifact
from sslm.errors.engine import ModelHashMismatchError, NotAnArtifactError
from sslm.errors.runtime import OptionRangeError
from sslm.errors.showing import briefly
from sslm.program.parallel_for import ParallelFor

DEFAULT_CONTEXT_TOKENS: Final = 4096


BUFFER_PATH: Final = Path("<buffer>")
"""What stands for the path of a model that was opened from bytes in memory."""


def model_source(option: str, value: object) -> Path | memoryview:
    """Return the path of a model's file, or the bytes of one.

    Args:
        option: The name of the argument.
        value: A text, a path, or a readable buffer in one piece.

    Raises:
        OptionRangeError: If it is anything else.
    """
    if isinstance(value, (str, os.PathLike)):
        return checked_path(option, value)
    try:
        return memoryview(value).cast("B")  # type: ignore[arg-type]
    except TypeError as error:
        expected = "a str, a path as pathlib has them, or a buffer in one piece"
        raise OptionRangeError(option, briefly(value), expected) from error


def open_artifact(
    source: Path | memoryview, *, mmap: bool, copy_at_most_bytes: int | None = None
) -> Artifact:
    """Open a ``.sslm`` file.

    Args:
        source: Path of the file, or its bytes.
        mmap: Whether it is mapped, or copied and then verified.
        copy_at_most_bytes: Largest copy, or None for no bound.

    Raises:
        NotAnArtifactError: If it is a GGUF file.
        MemoryBudgetError: If a copy would be larger than its bound.
        ArtifactError: If it is not one we accept.
    """
    if isinstance(source, Path) and source.suffix.lower() == ".gguf":
        raise NotAnArtifactError(str(source))
    return read_artifact(source, mmap=mmap, copy_at_most_bytes=copy_at_most_bytes)


def require_sha256(path: Path, artifact: Artifact, sha256: str) -> str:
    """Return the file's hash in hex, or raise unless it is this one.

    Args:
        path: For the error.
        artifact: Open.
        sha256: 64 hex digits, or the whole line that sha256sum prints: hash, two spaces, name.

    Raises:
        OptionRangeError: If *sha256* is neither.
        ModelHashMismatchError: If it is another file's.
    """
    expected = checked_sha256(sha256)
    found = artifact.file_sha256().hex()
    if found != expected:
        raise ModelHashMismatchError(str(path), found, sha256)
    return found


def checked_sha256(sha256: str) -> str:
    """Return a hash as 64 hex digits in lower case.

    Args:
        sha256: 64 hex digits, or the whole line that sha256sum prints: hash, two spaces, name.

    Raises:
        OptionRangeError: If it is neither.
    """
    words = sha256.split() if isinstance(sha256, str) else []
    digits = words[0].lower() if words else ""
    if not re.fullmatch("[0-9a-f]{64}", digits):
        raise OptionRangeError("sha256", briefly(sha256), "64 hex digits, as sha256sum prints them")
    return digits


def context_of(artifact: Artifact, context_tokens: int | None) -> int:
    """Return the positions that a model is opened for: those asked for, or the default.

    Raises:
        OptionRangeError: If more are asked for than the model has.
    """
    limit = artifact.config.max_position_embeddings
    if context_tokens is None:
        return min(limit, DEFAULT_CONTEXT_TOKENS)
    return checked_int("context_tokens", context_tokens, lowest=1, highest=limit)


def checked_threads(backend: object, tier: object, threads: int, parallel_for: object) -> int:
    """Return how many threads compute, once all that says how is checked.

    Raises:
        OptionRangeError: If one of them is of another type or out of range, or cannot share the
            work beside another.
    """
    require_name("backend", backend)
    require_name("tier", tier)
    threads = checked_int("threads", threads, lowest=1, highest=limits.THREAD_COUNT_MAX)
    if parallel_for is not None and not isinstance(parallel_for, ParallelFor):
        raise OptionRangeError("parallel_for", briefly(parallel_for), "a ParallelFor or None")
    if backend == "reference" and threads > 1:
        raise OptionRangeError("threads", str(threads), "1: the reference has no more")
    if backend == "reference" and parallel_for is not None:
        raise OptionRangeError("parallel_for", "a hook", "None: the reference shares nothing")
    if parallel_for is not None and threads > 1:
        raise OptionRangeError("threads", str(threads), "1 beside parallel_for")
    return threads


def require_no_spare_workspace(backend: str, workspace: object) -> None:
    """Raise OptionRangeError if memory is lent to a backend that would not use it."""
    if backend == "reference" and workspace is not None:
        raise OptionRangeError("workspace", "a buffer", "None: the reference has no scratch")
