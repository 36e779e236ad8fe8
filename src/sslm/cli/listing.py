"""Models of the cache as output carries them."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from sslm.catalog.cache import CachedModel


def model_facts(model: "CachedModel") -> dict[str, object]:
    """Return a model as JSON output carries it."""
    return {
        "name": model.name,
        "key": model.key,
        "path": str(model.path),
        "size_bytes": model.size_bytes,
    }
