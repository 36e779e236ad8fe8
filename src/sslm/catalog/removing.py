"""Taking models out of the cache."""

import difflib
import os
from collections.abc import Callable, Sequence

from sslm.catalog.cache import Cache, CachedModel, cache_folder
from sslm.errors.catalog import UnknownCachedModelError


def remove(
    names: Sequence[str] | None,
    *,
    cache_dir: str | os.PathLike[str] | None = None,
    on_wait: Callable[[int, str], None] = lambda waited_s, holder: None,
) -> list[CachedModel]:
    """Remove models, all or none of them, and return what they were.

    Args:
        names: Each a model's name, for all its conversions, or NAME-KEY for one of them, as its
            file is called. Beginnings of names are not accepted. None removes all.
        cache_dir: The cache; None for ``SSLM_CACHE_DIR`` or the user's.
        on_wait: As for :meth:`Cache.locked`.

    Raises:
        UnknownCachedModelError: If there is no model of a name; nothing is removed then.
        ModelInUseError: If one is open, on a system that does not remove open files; those
            before it are removed.
        CacheBusyError, UnwritableFileError: As :meth:`Cache.locked` does.
    """
    cache = Cache(cache_folder(cache_dir))
    chosen(cache, names)
    if not cache.folder.exists():
        return []
    with cache.locked("removing models", on_wait):
        models = chosen(cache, names)
        for model in models:
            cache.remove(model)
    return models


def chosen(cache: Cache, names: Sequence[str] | None) -> list[CachedModel]:
    """Return the models that :func:`remove` would remove, each once.

    Raises:
        UnknownCachedModelError: If there is no model of a name.
    """
    models = cache.models()
    if names is None:
        return models
    wanted = set()
    for name in names:
        found = [one.path for one in models if name in (one.name, f"{one.name}-{one.key}")]
        if not found:
            raise _unknown(name, cache, models)
        wanted.update(found)
    return [model for model in models if model.path in wanted]


def _unknown(name: str, cache: Cache, models: Sequence[CachedModel]) -> UnknownCachedModelError:
    names = sorted({model.name for model in models})
    beginning = [one for one in names if name and one.startswith(name.lower())]
    nearest = beginning or difflib.get_close_matches(name.lower(), names, n=1)
    return UnknownCachedModelError(
        name, str(cache.folder), " or ".join(nearest) or None, ", ".join(names) or None
    )
