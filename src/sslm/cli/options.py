"""The options that several commands share, with one meaning in all of them."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from sslm import limits
from sslm.cli.cores import physical_cores
from sslm.cli.output import progress

if TYPE_CHECKING:
    from sslm.engine.model import Model

DEFAULT_MODEL: Final = "smollm2-135m"
DEFAULT_BACKEND: Final = "auto"
DEFAULT_TIER: Final = "auto"
DEFAULT_THREADS: Final = "cores"
DEFAULT_MAX_TOKENS: Final = 256

ModelOption = Annotated[
    str,
    typer.Option(
        "--model",
        "-m",
        envvar="SSLM_MODEL",
        metavar="MODEL",
        help="A known or cached name, or the path of a .sslm file.",
    ),
]
BackendOption = Annotated[
    str,
    typer.Option("--backend", envvar="SSLM_BACKEND", help="auto, native or reference."),
]
TierOption = Annotated[
    str,
    typer.Option("--tier", envvar="SSLM_TIER", help="A CPU tier by name; auto takes the best."),
]
ThreadsOption = Annotated[
    str,
    typer.Option(
        "--threads",
        "-t",
        envvar="SSLM_THREADS",
        metavar="N|cores",
        help="How many threads compute; cores for one on each physical core.",
    ),
]
ContextTokensOption = Annotated[
    int | None,
    typer.Option(
        "--context-tokens",
        metavar="N",
        help="Most tokens of prompt and answer; by default the model's, at most 4096.",
    ),
]
MemoryBytesOption = Annotated[
    int | None,
    typer.Option(
        "--memory-bytes",
        metavar="N",
        help="Refuse to take more bytes than this; no bound if left out.",
    ),
]
MaxTokensOption = Annotated[
    int,
    typer.Option("--max-tokens", metavar="N", help="Most tokens of the answer."),
]
StopOption = Annotated[
    list[str] | None,
    typer.Option("--stop", metavar="TEXT", help="End the answer before this text; repeatable."),
]
Sha256Option = Annotated[
    str | None,
    typer.Option(
        "--sha256",
        metavar="HEX",
        help="What sha256sum has to print for the file, or it is refused.",
    ),
]
JsonOption = Annotated[
    bool, typer.Option("--json", help="Print one JSON object on stdout, and nothing else there.")
]
CacheDirOption = Annotated[
    Path | None,
    typer.Option(
        "--cache-dir",
        envvar="SSLM_CACHE_DIR",
        metavar="DIR",
        help="Where converted models are kept; by default the user's cache folder.",
    ),
]
OfflineOption = Annotated[
    bool,
    typer.Option(
        "--offline",
        envvar=["SSLM_OFFLINE", "HF_HUB_OFFLINE"],
        help="Never fetch anything; fail if it would be needed.",
    ),
]
NoProgressOption = Annotated[
    bool, typer.Option("--no-progress", help="Show no progress on stderr.")
]


def thread_count(threads: str) -> int:
    """Read the value of ``--threads``.

    Raises:
        typer.BadParameter: If it is neither ``cores`` nor a number from 1 to the most there may be.
    """
    if threads == "cores":
        return min(physical_cores(), limits.THREAD_COUNT_MAX)
    if threads.isascii() and threads.isdecimal() and len(threads) <= 9:
        count = int(threads)
        if 1 <= count <= limits.THREAD_COUNT_MAX:
            return count
    raise typer.BadParameter(
        f"{threads!r} is neither 'cores' nor a number from 1 to {limits.THREAD_COUNT_MAX}",
        param_hint="--threads",
    )


def open_model(
    model: str,
    *,
    backend: str = DEFAULT_BACKEND,
    tier: str = DEFAULT_TIER,
    threads: str = DEFAULT_THREADS,
    context_tokens: int | None = None,
    memory_bytes: int | None = None,
    sha256: str | None = None,
    cache_dir: Path | None = None,
    offline: bool = False,
    no_progress: bool = False,
) -> "Model":
    """Open the model that the shared options name, with progress on stderr where it takes long.

    The arguments are the values of the options of the same names. Close the model afterwards; it
    is a context manager.

    Raises:
        typer.BadParameter: If ``threads`` is no number of threads.
        SslmError: As :func:`sslm.load` does.
    """
    # Imported when a model is opened: asking for help needs none of it.
    from sslm.catalog.loading import load

    count = thread_count(threads)
    if backend == "reference" and threads == DEFAULT_THREADS:
        count = 1
    with progress(is_shown=not no_progress) as report:
        return load(
            model,
            sha256=sha256,
            backend=backend,
            tier=tier,
            threads=count,
            context_tokens=context_tokens,
            memory_bytes=memory_bytes,
            download=not offline,
            cache_dir=cache_dir,
            on_progress=report,
        )
