"""``sslm rm``: take models out of the cache."""

import sys
from typing import TYPE_CHECKING, Annotated, Final

import typer

from sslm.cli.commands.list_models import model_facts
from sslm.cli.options.model import CacheDirOption, JsonOption
from sslm.cli.screen.output import note, print_json, print_text
from sslm.errors.catalog import RemovalUnconfirmedError

if TYPE_CHECKING:
    from sslm.catalog.cache import Cache, CachedModel

_EPILOG: Final = "Example: sslm rm stories260k; or: sslm rm --all --yes"


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command(
        "rm",
        help="Remove models from the cache: all conversions of a NAME, or one by NAME-KEY. "
        "A model that is open somewhere stays usable there.",
        epilog=_EPILOG,
    )(rm_command)


def rm_command(
    *,
    names: Annotated[
        list[str] | None, typer.Argument(metavar="NAME...", help="What to remove.")
    ] = None,
    all_models: Annotated[bool, typer.Option("--all", help="Remove every model.")] = False,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask about --all.")] = False,
    json: JsonOption = False,
    cache_dir: CacheDirOption = None,
) -> None:
    """Remove models, and say how many bytes that frees."""
    from sslm.catalog.cache import Cache, cache_folder
    from sslm.catalog.removing import remove

    if bool(names) == all_models:
        words = "name models or give --all, not both" if names else "name models, or give --all"
        raise typer.BadParameter(words, param_hint="NAME...")
    cache = Cache(cache_folder(cache_dir))
    # A note about where a model came from goes with it.
    known = {model.path: model_facts(model) for model in cache.models()}
    if all_models and not yes and not _is_confirmed(cache):
        note("nothing was removed")
        removed = []
    else:
        removed = remove(None if all_models else names, cache_dir=cache_dir, on_wait=_note_wait)
    facts = [known.get(model.path) or model_facts(model) for model in removed]
    _report(removed, facts, cache, is_json=json)


def _is_confirmed(cache: "Cache") -> bool:
    """Ask a person, and return the answer; where there is none, refuse."""
    models = cache.models()
    size_bytes = sum(model.size_bytes for model in models)
    if models and not sys.stdin.isatty():
        raise RemovalUnconfirmedError(len(models), size_bytes, str(cache.folder))
    count = "1 model" if len(models) == 1 else f"{len(models)} models"
    question = f"Remove {count} ({size_bytes} bytes) from {cache.folder}?"
    return not models or typer.confirm(question, err=True)


def _note_wait(waited_s: int, holder: str) -> None:
    if waited_s % 60 == 0:
        note(f"waiting for {holder} ({waited_s} s)")


def _report(
    removed: "list[CachedModel]", facts: list[dict[str, object]], cache: "Cache", *, is_json: bool
) -> None:
    freed_bytes = sum(model.size_bytes for model in removed)
    ignored = [str(path) for path in cache.ignored()]
    if is_json:
        print_json(
            {
                "removed": facts,
                "freed_bytes": freed_bytes,
                "ignored": ignored,
            }
        )
        return
    for model in removed:
        print_text(f"removed {model.name}-{model.key}  {model.size_bytes} bytes\n")
    print_text(f"freed {freed_bytes} bytes\n")
    for path in ignored:
        note(f"left {path}: it is no regular file")
