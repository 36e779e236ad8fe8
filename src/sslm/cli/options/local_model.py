"""Model files that are there, without opening them to run."""

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from sslm.text.tokenizer import Tokenizer


def local_model_path(model: str, cache_dir: Path | None) -> Path:
    """Return the file that a path or a cached name means; nothing is fetched.

    Raises:
        UnknownModelError: If the cache has no model of this name.
        ArgumentError: If it is a reference to a model elsewhere.
    """
    from sslm.catalog.cache import Cache, cache_folder
    from sslm.catalog.resolving import is_path, require_no_reference, unknown_model

    require_no_reference(model)
    if is_path(model):
        return Path(model)
    cache = Cache(cache_folder(cache_dir))
    found = cache.find(model)
    if found is None:
        raise unknown_model(model, cache)
    return found.path


def local_tokenizer(path: Path) -> "Tokenizer":
    """Return the tokenizer of a model file, which is checked as it is when it is opened to run."""
    from sslm.artifact import read_artifact

    with read_artifact(path) as artifact:
        return artifact.tokenizer()
