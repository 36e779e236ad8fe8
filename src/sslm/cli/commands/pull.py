"""``sslm pull``: put a model into the cache."""

from typing import Annotated, Final

import typer

from sslm.cli.commands.list_models import model_facts
from sslm.cli.cores import use_blas_threads
from sslm.cli.failures import about_file
from sslm.cli.options.model import (
    CacheDirOption,
    JsonOption,
    NoProgressOption,
    OfflineOption,
    Sha256Option,
)
from sslm.cli.screen.output import note, print_json, print_text, progress

_EPILOG: Final = (
    "Example: sslm pull smollm2-135m; or: sslm pull ./my-model.gguf --sha256 HEX; or: "
    "sslm pull hf:ORG/REPO/model.gguf"
)


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command(
        "pull",
        help="Put a model into the cache: a known one by NAME, a .gguf or .sslm file by PATH, or "
        "a GGUF file of a hub. A file is then known by its own name without the ending, in lower "
        "case.",
        epilog=_EPILOG,
    )(pull_command)


def pull_command(
    *,
    model: Annotated[
        str,
        typer.Argument(
            metavar="NAME|hf:ORG/REPO[@REV][/FILE]|PATH",
            help="What to put there.",
            show_default=False,
        ),
    ],
    sha256: Sha256Option = None,
    json: JsonOption = False,
    cache_dir: CacheDirOption = None,
    offline: OfflineOption = False,
    no_progress: NoProgressOption = False,
) -> None:
    """Fetch, convert or copy a model, and print its name with its place."""
    from sslm.catalog.cache import Cache, cache_folder
    from sslm.catalog.pulling import pull

    use_blas_threads()
    with about_file(model), progress(is_shown=not no_progress) as report:
        pulled = pull(
            model, sha256=sha256, download=not offline, cache_dir=cache_dir, on_progress=report
        )
    if json:
        print_json(model_facts(pulled))
    else:
        print_text(f"{pulled.name}  {pulled.size_bytes} bytes  {pulled.path}\n")
        note(f"use it as: -m {pulled.name} (names of models are in lower case)")
    for other in Cache(cache_folder(cache_dir)).others(pulled.name, pulled.key):
        name = f"{other.name}-{other.key}"
        note(f"{other.name} now means this one; {name} is there too: sslm rm {name} removes it")
