"""Putting a file of a hub into the cache."""

from pathlib import Path, PurePosixPath
from typing import Final

from sslm.catalog.adding import add_once, convert, is_sound, waiting
from sslm.catalog.cache import Cache, CachedModel, conversion_key
from sslm.catalog.hub import HubFile, fetch_file, find_file
from sslm.catalog.hub_reference import HubReference
from sslm.catalog.known_models import KNOWN_MODELS
from sslm.catalog.names import name_of_file
from sslm.catalog.offline import is_offline
from sslm.errors.catalog import ModelNameError, OfflineError
from sslm.errors.engine import ModelHashMismatchError
from sslm.progress import StageProgress, untold_stage

WEIGHTS: Final = "int8"
"""Weight format of what is pulled."""


def pull_from_hub(
    reference: HubReference,
    cache: Cache,
    *,
    sha256: str | None = None,
    download: bool = True,
    on_progress: StageProgress = untold_stage,
) -> CachedModel:
    """Fetch and convert a file of a hub, unless this very file was converted before.

    Args:
        reference: Which one.
        cache: Where it is kept, under the file's name without the ending, in lower case.
        sha256: 64 hex digits in lower case, that the file has to have, or None.
        download: Whether anything may be fetched; the environment may forbid it too.
        on_progress: Called often.

    Raises:
        OfflineError: If fetching is switched off.
        ModelNameError: If the file's name cannot be that of a model.
        ModelHashMismatchError: If the file is not the one asked for.
        SslmError: As :func:`find_file` and :func:`fetch_file` do, and what is wrong with the file.
    """
    if not download or is_offline():
        raise OfflineError(str(reference), reference.manual_command, reference.local_name)
    on_progress("ask the hub", 0, 1)
    with cache.work_folder(str(reference), waiting(on_progress)) as folder:
        file = find_file(reference, folder)
    on_progress("ask the hub", 1, 1)
    if sha256 is not None and file.sha256 is not None:
        _require(file, file.sha256, sha256)
    name = name_of_file(PurePosixPath(file.name))
    if name in KNOWN_MODELS:
        raise ModelNameError(
            name, "it is the name of a model that is known; fetch the file by hand"
        )
    return _add(reference, file, name, cache, sha256=sha256, on_progress=on_progress)


def _add(
    reference: HubReference,
    file: HubFile,
    name: str,
    cache: Cache,
    *,
    sha256: str | None,
    on_progress: StageProgress,
) -> CachedModel:
    # A small file may have no hash on the hub; its commit and path name its bytes as well.
    stated = file.sha256 or f"hub {file.repo} {file.commit} {file.name}"
    key = conversion_key(stated, {"weights": WEIGHTS})
    origin = {"kind": "hub", "repo": file.repo, "commit": file.commit, "file": file.name}

    def cached() -> CachedModel | None:
        found = cache.find(name, key)
        return found if found and is_sound(found.path) else None

    def make(folder: Path) -> Path:
        path, digest = fetch_file(reference, file, folder, on_progress)
        if sha256 is not None:
            _require(file, digest, sha256)
        origin["sha256"] = digest
        draft = folder / "model.sslm"
        convert(path, draft, weights=WEIGHTS, source_sha256=digest, on_progress=on_progress)
        return draft

    return add_once(
        cache, (name, key), cached, make, origin=origin, on_progress=on_progress, is_successor=True
    )


def _require(file: HubFile, found: str, expected: str) -> None:
    if found != expected:
        raise ModelHashMismatchError(f"hf:{file.repo}@{file.commit}/{file.name}", found, expected)
