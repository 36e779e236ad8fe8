"""``sslm list``: the models of the cache, with those that are known but not there."""

from typing import TYPE_CHECKING, Final

import typer

from sslm.cli.options.model import CacheDirOption, JsonOption
from sslm.cli.screen.output import note, print_json, print_table, shown

if TYPE_CHECKING:
    from sslm.catalog.cache import CachedModel

_EPILOG: Final = "Example: sslm list --json"


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


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command(
        "list",
        help="List the models in the cache, and the known ones that would be fetched.",
        epilog=_EPILOG,
    )(list_command)


def list_command(json: JsonOption = False, cache_dir: CacheDirOption = None) -> None:
    """Print what is there, and what could be."""
    from sslm.catalog.cache import Cache, cache_folder
    from sslm.catalog.known_models import KNOWN_MODELS

    cache = Cache(cache_folder(cache_dir))
    models = cache.models()
    there = {model.name for model in models}
    absent = [known for known in KNOWN_MODELS.values() if known.name not in there]
    if json:
        print_json(
            {
                "cache_dir": str(cache.folder),
                "models": [model_facts(model) for model in models],
                "known": [{"name": known.name, "about": known.about} for known in absent],
                "ignored": [str(path) for path in cache.ignored()],
            }
        )
        return
    rows = [
        [model.name, str(model.size_bytes), origin_text(model), str(model.path)] for model in models
    ]
    rows += [[known.name, "", "", f"not fetched yet: {known.about}"] for known in absent]
    print_table(["name", "bytes", "origin", "where"], rows, right=("bytes",))
    for path in cache.ignored():
        note(f"ignored, as it is no regular file: {path}")
    note(f"cache: {cache.folder}")
