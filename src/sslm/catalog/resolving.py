"""Telling names from paths, with help for a name that is nobody's."""

import difflib
import os
from typing import Final

from sslm.catalog.cache import Cache
from sslm.catalog.known_models import DEFAULT_NAME, KNOWN_MODELS
from sslm.errors.catalog import UnknownModelError

_SEPARATORS: Final = ("/", "\\")
_FILE_ENDINGS: Final = (".sslm", ".gguf")


def is_path(name_or_path: str | os.PathLike[str]) -> bool:
    """Tell a path from a name: it has a separator, ends as model files do, or is no text."""
    if not isinstance(name_or_path, str):
        return True
    has_separator = any(separator in name_or_path for separator in _SEPARATORS)
    return has_separator or name_or_path.lower().endswith(_FILE_ENDINGS)


def unknown_model(name: str, cache: Cache) -> UnknownModelError:
    """Return the error for a name that is nobody's, with the names there are."""
    names = sorted({*KNOWN_MODELS, *(model.name for model in cache.models())})
    nearest = difflib.get_close_matches(name.lower(), names, n=1, cutoff=0) or [DEFAULT_NAME]
    return UnknownModelError(name, nearest[0], ", ".join(names))
