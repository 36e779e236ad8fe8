"""Opening a file as what was asked for."""

import re
from pathlib import Path
from typing import Final

from sslm.artifact import Artifact, read_artifact
from sslm.engine.options import checked_int
from sslm.errors.engine import ModelHashMismatchError, NotAnArtifactError
from sslm.errors.runtime import OptionRangeError
from sslm.errors.showing import briefly

DEFAULT_CONTEXT_TOKENS: Final = 4096


def open_artifact(path: Path, *, mmap: bool, copy_at_most_bytes: int | None = None) -> Artifact:
    """Open a ``.sslm`` file.

    Args:
        path: Of the file.
        mmap: Whether it is mapped, or copied and then verified.
        copy_at_most_bytes: Largest copy, or None for no bound.

    Raises:
        NotAnArtifactError: If it is a GGUF file.
        MemoryBudgetError: If a copy would be larger than its bound.
        ArtifactError: If it is not one we accept.
    """
    if path.suffix.lower() == ".gguf":
        raise NotAnArtifactError(str(path))
    return read_artifact(path, mmap=mmap, copy_at_most_bytes=copy_at_most_bytes)


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
