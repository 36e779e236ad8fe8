"""The options that several commands share, with one meaning in all of them."""

import os
import re
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from sslm import limits
from sslm.catalog.offline import OFF_WORDS, OFFLINE_VARIABLES, is_offline
from sslm.cli.cores import physical_cores
from sslm.cli.failures import about_file
from sslm.cli.options.text_input import argument_text
from sslm.cli.options.values import integer, refusal, whole_number
from sslm.cli.screen.output import note, progress, shown
from sslm.errors.showing import briefly, int_range

if TYPE_CHECKING:
    from sslm.engine.model import Model

DEFAULT_MODEL: Final = "smollm2-135m"
DEFAULT_BACKEND: Final = "auto"
DEFAULT_TIER: Final = "auto"
DEFAULT_THREADS: Final = "cores"
DEFAULT_MAX_TOKENS: Final = 256

_BACKENDS: Final = ("auto", "native", "reference")
_REFERENCE_TIER: Final = "numpy"
_MODEL_VARIABLE: Final = "SSLM_MODEL"
_ON_WORDS: Final = frozenset({"1", "true", "t", "yes", "y", "on"})
_SIZE: Final = re.compile(r"([0-9]{1,19})([KMGT]i?)?B?", re.IGNORECASE | re.ASCII)
_POWERS: Final = {"": 0, "K": 1, "M": 2, "G": 3, "T": 4}


def _checked_threads(threads: str) -> str:
    thread_count(threads)
    return threads


def _checked_backend(backend: str) -> str:
    if backend not in _BACKENDS:
        raise typer.BadParameter(f"{backend!r} is none of {', '.join(_BACKENDS)}")
    return backend


def _checked_tier(tier: str) -> str:
    """Refuse a name that is no tier anywhere; whether it runs here is known later."""
    if tier != DEFAULT_TIER:
        from sslm.native_library import TIERS

        tiers = (DEFAULT_TIER, *TIERS, _REFERENCE_TIER)
        if tier not in tiers:
            raise typer.BadParameter(f"{tier!r} is none of {', '.join(tiers)}")
    return tier


def size_bytes(size: str) -> int:
    """Read a size: a whole number of bytes, or of K, M, G, T (1000) or Ki, Mi, Gi, Ti (1024).

    A B at the end changes nothing, nor do small letters.

    Raises:
        typer.BadParameter: If it is none.
    """
    match = _SIZE.fullmatch(size.strip())
    if match is None:
        raise typer.BadParameter(f"{size!r} is no size such as 1000000, 500M or 2GiB")
    unit = (match[2] or "").upper()
    base = 1024 if unit.endswith("I") else 1000
    return int(match[1]) * int(base ** _POWERS[unit[:1]])


def _text_bytes(size: str | int) -> int:
    """Read a size; the default is read, too, and is a number already."""
    return size if isinstance(size, int) else size_bytes(size)


def _folder(text: str) -> Path:
    """Return the folder; an empty text is mostly a variable that was not set, and means no folder.

    In the environment it counts as none.
    """
    if not text:
        raise typer.BadParameter("it is empty; leave the option out for the user's cache")
    return Path(text)


def _offline(is_asked: bool) -> bool:
    """Return whether the option or the environment forbids fetching."""
    values = {name: os.environ.get(name, "").strip() for name in OFFLINE_VARIABLES}
    for name, value in values.items():
        if value.lower() not in _ON_WORDS | OFF_WORDS:
            raise typer.BadParameter(f"{value!r} is neither 1 nor 0", param_hint=name)
    return is_asked or is_offline()


ModelOption = Annotated[
    str,
    typer.Option(
        "--model",
        "-m",
        envvar=_MODEL_VARIABLE,
        metavar="MODEL",
        help="A known or cached name, or the path of a .sslm file.",
    ),
]
BackendOption = Annotated[
    str,
    typer.Option(
        "--backend",
        envvar="SSLM_BACKEND",
        parser=_checked_backend,
        metavar="NAME",
        help="auto, native or reference.",
    ),
]
TierOption = Annotated[
    str,
    typer.Option(
        "--tier",
        envvar="SSLM_TIER",
        parser=_checked_tier,
        metavar="NAME",
        help="A CPU tier by name, as sslm doctor lists them; auto takes the best.",
    ),
]
ThreadsOption = Annotated[
    str,
    typer.Option(
        "--threads",
        "-t",
        envvar="SSLM_THREADS",
        parser=_checked_threads,
        metavar="N|cores",
        help="How many threads compute; cores for one on each physical core.",
    ),
]
ContextTokensOption = Annotated[
    int | None,
    typer.Option(
        "--context-tokens",
        parser=integer,
        metavar="N",
        help="Most tokens of prompt and answer; by default the model's, at most 4096.",
    ),
]
MemoryBytesOption = Annotated[
    int | None,
    typer.Option(
        "--memory-bytes",
        metavar="SIZE",
        parser=size_bytes,
        help="Refuse to take more memory than this, such as 500M (millions of bytes) or 2GiB; no "
        "bound if left out.",
    ),
]
TextBytesOption = Annotated[
    int,
    typer.Option(
        "--text-bytes",
        metavar="SIZE",
        parser=_text_bytes,
        help="Refuse a prompt, or a conversation with all around it, of more bytes than this.",
    ),
]
StateBytesOption = Annotated[
    int | None,
    typer.Option(
        "--state-bytes",
        metavar="SIZE",
        parser=size_bytes,
        help="Refuse a context whose states take more than this; no bound if left out.",
    ),
]
CheckpointBytesOption = Annotated[
    int | None,
    typer.Option(
        "--checkpoint-bytes",
        metavar="SIZE",
        parser=size_bytes,
        help="Keep at most so much of what was computed, 0 for nothing; by default enough for a "
        "whole context, within --memory-bytes.",
    ),
]
MaxTokensOption = Annotated[
    int,
    typer.Option("--max-tokens", parser=integer, metavar="N", help="Most tokens of the answer."),
]
DeadlineOption = Annotated[
    float | None,
    typer.Option(
        "--deadline-s",
        metavar="SECONDS",
        help="Give up if an answer takes longer; exit 5.",
    ),
]
StopOption = Annotated[
    list[str] | None,
    typer.Option(
        "--stop",
        parser=argument_text,
        metavar="TEXT",
        help="End the answer before this text; repeatable.",
    ),
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
        parser=_folder,
        metavar="DIR",
        help="Where converted models are kept; by default the user's cache folder.",
    ),
]
OfflineOption = Annotated[
    bool,
    typer.Option(
        "--offline",
        callback=_offline,
        help="Never fetch anything; fail if it would be needed.  [env var: "
        f"{', '.join(OFFLINE_VARIABLES)}]",
    ),
]
NoProgressOption = Annotated[
    bool, typer.Option("--no-progress", help="Show no progress on stderr.")
]


EXPECTED_THREADS: Final = f"cores, or {int_range(1, limits.THREAD_COUNT_MAX)}"


def thread_count(threads: str) -> int:
    """Read the value of ``--threads``.

    Raises:
        typer.BadParameter: If it is neither ``cores`` nor a number from 1 to the most there may be.
    """
    count = read_thread_count(threads)
    if count is None:
        raise refusal(f"it is {briefly(threads)}", EXPECTED_THREADS)
    return count


def read_thread_count(threads: str) -> int | None:
    """Return a number of threads, or None where the text is none."""
    if threads == DEFAULT_THREADS:
        return min(physical_cores(), limits.THREAD_COUNT_MAX)
    return whole_number(threads, 1, limits.THREAD_COUNT_MAX)


def backend_threads(backend: str, threads: str) -> int:
    """Read the value of ``--threads`` for a backend: the reference has one thread.

    Raises:
        typer.BadParameter: As :func:`thread_count` does.
    """
    count = thread_count(threads)
    return 1 if backend == "reference" and threads == DEFAULT_THREADS else count


def open_model(
    model: str,
    *,
    backend: str = DEFAULT_BACKEND,
    tier: str = DEFAULT_TIER,
    threads: str = DEFAULT_THREADS,
    context_tokens: int | None = None,
    memory_bytes: int | None = None,
    text_bytes: int | None = limits.TEXT_BYTES_DEFAULT,
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
    from sslm.catalog.resolving import require_no_reference
    from sslm.errors.catalog import UnknownModelError

    require_no_reference(model)
    count = backend_threads(backend, threads)
    try:
        with about_file(model), progress(is_shown=not no_progress) as report:
            return load(
                model,
                sha256=sha256,
                backend=backend,
                tier=tier,
                threads=count,
                context_tokens=context_tokens,
                memory_bytes=memory_bytes,
                text_bytes=text_bytes,
                download=not offline,
                cache_dir=cache_dir,
                on_progress=report,
            )
    except UnknownModelError:
        if os.environ.get(_MODEL_VARIABLE) == model:
            note(shown(f"{_MODEL_VARIABLE} names the model {model}"))
        raise
