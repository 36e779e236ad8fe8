"""Opening models by name or path."""

import os
from pathlib import Path

from sslm import limits
from sslm.arguments import checked_path, require_bool, require_callback
from sslm.catalog.adding import add_known_model
from sslm.catalog.cache import Cache, cache_folder
from sslm.catalog.known_models import DEFAULT_NAME, KNOWN_MODELS
from sslm.catalog.resolving import is_path, unknown_model
from sslm.engine.model import Model
from sslm.errors.base import ArtifactError
from sslm.errors.catalog import CachedModelError
from sslm.errors.engine import ModelHashMismatchError
from sslm.opening.model_file import checked_sha256, model_source
from sslm.program.parallel_for import ParallelFor
from sslm.progress import StageProgress, untold_stage


def load(
    name_or_path: str | os.PathLike[str] | bytes | bytearray | memoryview = DEFAULT_NAME,
    *,
    sha256: str | None = None,
    backend: str = "auto",
    tier: str = "auto",
    threads: int = 1,
    parallel_for: ParallelFor | None = None,
    context_tokens: int | None = None,
    memory_bytes: int | None = None,
    text_bytes: int | None = limits.TEXT_BYTES_DEFAULT,
    workspace: object = None,
    download: bool = True,
    mmap: bool = True,
    cache_dir: str | os.PathLike[str] | None = None,
    on_progress: StageProgress | None = None,
) -> Model:
    """Open a model; a known one is fetched and converted first if it is not in the cache.

    Args:
        name_or_path: A name, a path (it has a separator or ends in ``.sslm``) or a file's bytes.
        sha256: What ``sha256sum`` prints for the ``.sslm`` file, to insist on it.
        backend: ``auto`` (native), ``native`` or ``reference``.
        tier: A CPU tier by name, or ``auto`` for the best; a forced one is refused, never replaced.
        threads: 1 starts no thread.
        parallel_for: What shares the work on threads of the host's own, or None.
        context_tokens: Most tokens of prompt and answer; None for the model's, at most 4,096.
        memory_bytes: Most bytes that weights, scratch and sequences take, or None for no bound.
        text_bytes: Most bytes of one prompt or rendered conversation, or None for no bound.
        workspace: A buffer of the caller's for the scratch, or None; see :class:`sslm.Model`.
        download: Whether a known model may be fetched; the environment may forbid it too.
        mmap: Whether the file is mapped, and must not change meanwhile, or copied and verified.
        cache_dir: Where converted models are kept; None for ``SSLM_CACHE_DIR`` or the user's cache.
        on_progress: Told what takes long, how far it is, and out of how much; or None.

    Raises:
        OptionRangeError: If an argument is of another type; nothing was fetched.
        UnknownModelError: If there is no model of this name.
        OfflineError: If the model would have to be fetched and must not be.
        NetworkError: If it cannot be fetched; one class per cause.
        CachedModelError: If the cached file is damaged, or is not the known model.
        SslmError: As :class:`sslm.Model` does.
    """
    source = model_source("name_or_path", name_or_path)
    _require_types(cache_dir, download, mmap, on_progress)
    sha256 = None if sha256 is None else checked_sha256(sha256)
    cache = Cache(cache_folder(cache_dir))
    name = name_or_path if isinstance(name_or_path, str) and not is_path(name_or_path) else None
    tell = on_progress or (lambda what, done, total: None)
    path = source if name is None else model_path(name, cache, download=download, on_progress=tell)
    try:
        model = Model(
            path,
            sha256=sha256,
            backend=backend,
            tier=tier,
            threads=threads,
            parallel_for=parallel_for,
            context_tokens=context_tokens,
            memory_bytes=memory_bytes,
            text_bytes=text_bytes,
            workspace=workspace,
            mmap=mmap,
        )
    except ArtifactError as error:
        if name is None or isinstance(error, ModelHashMismatchError):
            raise
        raise CachedModelError(name, str(path), str(error)) from error
    _require_known(name, model)
    return model


def _require_known(name: str | None, model: Model) -> None:
    """Close the model and raise if it has the name of a known one and is not that one."""
    known = None if name is None else KNOWN_MODELS.get(name)
    if known is not None and known.model_id not in (None, model.model_id):
        model.close()
        raise CachedModelError(known.name, str(model.path), f"its model_id is {model.model_id}")


def _require_types(cache_dir: object, download: object, mmap: object, on_progress: object) -> None:
    """Raise OptionRangeError for what is of another type, before anything is fetched for it."""
    if cache_dir is not None:
        checked_path("cache_dir", cache_dir)
    require_bool("download", download)
    require_bool("mmap", mmap)
    require_callback("on_progress", on_progress)


def model_path(
    name_or_path: str | os.PathLike[str],
    cache: Cache,
    *,
    download: bool,
    on_progress: StageProgress = untold_stage,
) -> Path:
    """Return the path of a model's file, once a known one is there.

    Args:
        name_or_path: As for :func:`load`.
        cache: Where names are looked up.
        download: Whether a known model may be fetched.
        on_progress: As for :func:`load`.

    Raises:
        UnknownModelError, OfflineError, NetworkError: As :func:`load` does.
    """
    if is_path(name_or_path):
        return Path(name_or_path)
    name = str(name_or_path)
    known = KNOWN_MODELS.get(name)
    if known is not None:
        return add_known_model(known, cache, download=download, on_progress=on_progress).path
    found = cache.find(name)
    if found is None:
        raise unknown_model(name, cache)
    return found.path
