"""Telling names from paths, with help for a name that is nobody's."""

import difflib
import os
from pathlib import Path
from typing import Final

from sslm.catalog.cache import Cache
from sslm.catalog.hub_reference import PREFIX
from sslm.catalog.known_models import KNOWN_MODELS
from sslm.errors.catalog import NotPulledError, UnknownModelError

_SEPARATORS: Final = ("/", "\\")
_FILE_ENDINGS: Final = (".sslm", ".gguf")


def is_path(name_or_path: str | os.PathLike[str]) -> bool:
    """Tell a path from a name: it has a separator, ends as model files do, or is no text."""
    if not isinstance(name_or_path, str):
        return True
    has_separator = any(separator in name_or_path for separator in _SEPARATORS)
    return has_separator or name_or_path.lower().endswith(_FILE_ENDINGS)


def require_no_reference(name_or_path: str) -> None:
    """Raise NotPulledError if this names a file of a hub, where only a file or a name will do."""
    if name_or_path.startswith(PREFIX) and not Path(name_or_path).exists():
        raise NotPulledError(name_or_path)


def unknown_model(name: str, cache: Cache) -> UnknownModelError | NotPulledError:
    """Return the error for a name of which the cache has no model, with the names there are."""
    if name in KNOWN_MODELS:
        return NotPulledError(name)
    names = sorted({*KNOWN_MODELS, *(model.name for model in cache.models())})
    nearest = difflib.get_close_matches(name.lower(), names, n=1)
    return UnknownModelError(name, " or ".join(nearest) or None, ", ".join(names))
