"""``sslm verify``: does this machine compute this file right?"""

from dataclasses import asdict
from typing import Annotated, Final

import typer

from sslm.cli.cores import use_blas_threads
from sslm.cli.exit_codes import DIFFERENT
from sslm.cli.options.model import (
    DEFAULT_BACKEND,
    DEFAULT_MODEL,
    DEFAULT_THREADS,
    DEFAULT_TIER,
    BackendOption,
    CacheDirOption,
    JsonOption,
    NoProgressOption,
    OfflineOption,
    Sha256Option,
    ThreadsOption,
    TierOption,
    open_model,
)
from sslm.cli.screen.output import print_json, print_text, progress

ModelArgument = Annotated[
    str,
    typer.Argument(
        metavar="MODEL",
        envvar="SSLM_MODEL",
        help="A known or cached name, or the path of a .sslm file.",
        show_default=True,
    ),
]


_EPILOG: Final = "Example: sslm verify model.sslm --sha256 HEX"


def register(app: typer.Typer) -> None:
    """Add the command to the program."""
    app.command("verify", epilog=_EPILOG)(verify)


def verify(
    *,
    model: ModelArgument = DEFAULT_MODEL,
    sha256: Sha256Option = None,
    backend: BackendOption = DEFAULT_BACKEND,
    tier: TierOption = DEFAULT_TIER,
    threads: ThreadsOption = DEFAULT_THREADS,
    cache_dir: CacheDirOption = None,
    offline: OfflineOption = False,
    as_json: JsonOption = False,
    no_progress: NoProgressOption = False,
) -> int:
    """Replay the artifact's golden runs here; exit 1 if anything differs.

    They show that this machine computes this file right, and say nothing about who made the file:
    for that, give --sha256.
    """
    use_blas_threads()
    opened = open_model(
        model,
        sha256=sha256,
        backend=backend,
        tier=tier,
        threads=threads,
        cache_dir=cache_dir,
        offline=offline,
        no_progress=no_progress,
    )
    with opened, progress(is_shown=not no_progress) as report:
        found = opened.verify(lambda done, total: report("golden runs", done, total))
        model_id = opened.model_id
    if as_json:
        print_json(asdict(found) | {"model_id": model_id})
    else:
        verdict = "ok" if found.ok else f"DIFFERENT: {found.first_difference}"
        print_text(
            f"{verdict}\n"
            f"  model_id  {model_id}\n"
            f"  digest    {found.digest}\n"
            f"  ran       {found.run_count} golden runs on {found.backend} {found.tier}, "
            f"threads {found.threads}\n"
        )
    return 0 if found.ok else DIFFERENT
