"""``sslm generate``: continue a text."""

import sys
from typing import Annotated, Final

import typer

from sslm.cli.answers import completion_facts, note_cut, note_digest, read_answer
from sslm.cli.blas import use_blas_threads
from sslm.cli.options import (
    DEFAULT_BACKEND,
    DEFAULT_MAX_TOKENS,
    DEFAULT_MODEL,
    DEFAULT_THREADS,
    DEFAULT_TIER,
    BackendOption,
    CacheDirOption,
    ContextTokensOption,
    DeadlineOption,
    JsonOption,
    MaxTokensOption,
    MemoryBytesOption,
    ModelOption,
    NoProgressOption,
    OfflineOption,
    Sha256Option,
    StopOption,
    ThreadsOption,
    TierOption,
    open_model,
)
from sslm.cli.output import print_json, print_text
from sslm.cli.text_input import argument_text, read_stdin

_STDIN: Final = "-"
_EPILOG: Final = 'Example: sslm generate "The capital of France is" --max-tokens 32 --stop "."'


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command(
        "generate",
        help="Continue PROMPT ('-' reads it from stdin, to the last byte). Raw text, no chat "
        "template.",
        epilog=_EPILOG,
    )(generate_command)


def generate_command(
    *,
    prompt: Annotated[
        str,
        typer.Argument(
            parser=argument_text,
            metavar="PROMPT",
            help="The text to continue, or '-' for stdin.",
            show_default=False,
        ),
    ],
    model: ModelOption = DEFAULT_MODEL,
    backend: BackendOption = DEFAULT_BACKEND,
    tier: TierOption = DEFAULT_TIER,
    threads: ThreadsOption = DEFAULT_THREADS,
    context_tokens: ContextTokensOption = None,
    memory_bytes: MemoryBytesOption = None,
    max_tokens: MaxTokensOption = DEFAULT_MAX_TOKENS,
    stop: StopOption = None,
    deadline_s: DeadlineOption = None,
    sha256: Sha256Option = None,
    json: JsonOption = False,
    cache_dir: CacheDirOption = None,
    offline: OfflineOption = False,
    no_progress: NoProgressOption = False,
) -> None:
    """Print the continuation as it comes, or one JSON object at its end."""
    use_blas_threads()
    text = read_stdin() if prompt == _STDIN else prompt
    with open_model(
        model,
        backend=backend,
        tier=tier,
        threads=threads,
        context_tokens=context_tokens,
        memory_bytes=memory_bytes,
        sha256=sha256,
        cache_dir=cache_dir,
        offline=offline,
        no_progress=no_progress,
    ) as opened:
        completion = read_answer(
            lambda on_progress: opened.stream(
                text,
                max_tokens=max_tokens,
                stop=stop,
                deadline_s=deadline_s,
                on_progress=on_progress,
            ),
            on_text=_keep_silent if json else print_text,
            no_progress=no_progress,
        )
        # A line's end for a person, but not for a pipe: there stdout is the answer alone.
        if sys.stdout.isatty() and not json:
            print_text("\n")
        note_cut(completion, max_tokens)
        if json:
            print_json(completion_facts(completion, opened))
            return
        note_digest(completion)


def _keep_silent(text: str) -> None:
    del text
