"""Models of the cache as output carries them."""

from typing import TYPE_CHECKING

from sslm.cli.screen.output import shown

if TYPE_CHECKING:
    from sslm.catalog.cache import CachedModel


def model_facts(model: "CachedModel") -> dict[str, object]:
    """Return a model as JSON output carries it."""
    from sslm.catalog.origins import read_origin

    return {
        "name": model.name,
        "key": model.key,
        "path": str(model.path),
        "size_bytes": model.size_bytes,
        "origin": read_origin(model.path) or None,
    }


def origin_text(model: "CachedModel") -> str:
    """Return in a few words where a model came from."""
    from sslm.catalog.origins import read_origin

    origin = read_origin(model.path)
    if origin.get("kind") == "hub":
        repo, commit, file = (origin.get(name, "?") for name in ("repo", "commit", "file"))
        return shown(f"hf:{repo}@{commit[:8]}/{file}")
    if origin.get("kind") == "package":
        return shown(origin.get("package", "?"))
    return shown(origin.get("file", "unknown"))
