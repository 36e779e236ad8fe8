"""``sslm generate``: continue a text."""

from contextlib import ExitStack
from typing import TYPE_CHECKING, Annotated, Final

import typer

from sslm import limits
from sslm.cli.cores import use_blas_threads
from sslm.cli.options.choice import AnswersOption, takes_choosing
from sslm.cli.options.model import (
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
    TextBytesOption,
    ThreadsOption,
    TierOption,
    open_model,
)
from sslm.cli.options.record import RecordOption, RecordSegmentsOption, require_recordable
from sslm.cli.options.text_input import argument_text, read_stdin
from sslm.cli.screen.answers import keep_silent, read_answer, show_answers, show_end
from sslm.cli.screen.output import print_text, progress
from sslm.cli.screen.unmeasured import unmeasured

if TYPE_CHECKING:
    from sslm.answering.request import AnswerOptions
    from sslm.answering.results import Completion
    from sslm.engine.model import Model

_STDIN: Final = "-"
_EPILOG: Final = 'Example: sslm generate "The capital of France is" --max-tokens 32 --stop "."'


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command(
        "generate",
        help="Continue PROMPT ('-' reads it from stdin, to the last byte). Raw text, no chat "
        "template.",
        epilog=_EPILOG,
    )(takes_choosing(generate_command))


def generate_command(
    *,
    choosing: "AnswerOptions",
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
    text_bytes: TextBytesOption = limits.TEXT_BYTES_DEFAULT,
    max_tokens: MaxTokensOption = DEFAULT_MAX_TOKENS,
    stop: StopOption = None,
    n: AnswersOption = None,
    deadline_s: DeadlineOption = None,
    record: RecordOption = None,
    record_segments: RecordSegmentsOption = False,
    sha256: Sha256Option = None,
    json: JsonOption = False,
    cache_dir: CacheDirOption = None,
    offline: OfflineOption = False,
    no_progress: NoProgressOption = False,
) -> None:
    """Print the continuation as it comes, or one JSON object at its end."""
    require_recordable(record, has_segments=record_segments, n=n)
    use_blas_threads()
    text = read_stdin() if prompt == _STDIN else prompt
    options: AnswerOptions = {**choosing, "max_tokens": max_tokens, "stop": stop}
    with open_model(
        model,
        backend=backend,
        tier=tier,
        threads=threads,
        context_tokens=context_tokens,
        memory_bytes=memory_bytes,
        text_bytes=text_bytes,
        sha256=sha256,
        cache_dir=cache_dir,
        offline=offline,
        no_progress=no_progress,
    ) as opened:
        if n is not None:
            answers = _several(opened, text, n, deadline_s, options, no_progress=no_progress)
            show_answers(answers, opened, is_json=json)
            return
        completion = read_answer(
            lambda on_progress, on_schema_progress: opened.stream(
                text,
                deadline_s=deadline_s,
                record=record,
                record_segments=record_segments,
                on_progress=on_progress,
                **(options | {"on_schema_progress": on_schema_progress}),
            ),
            on_text=keep_silent if json else print_text,
            no_progress=no_progress,
            schema=options.get("schema"),
        )
        show_end(completion, opened, is_json=json)


def _several(
    model: "Model",
    prompt: str,
    n: int,
    deadline_s: float | None,
    options: "AnswerOptions",
    *,
    no_progress: bool,
) -> "list[Completion]":
    """Return several answers; show how many there are."""
    with progress(is_shown=not no_progress) as report, ExitStack() as first:
        if options.get("schema") is not None:
            # It is compiled before, which may take longer than the answers.
            told = first.enter_context(unmeasured(report, "the first answer"))
            options = options | {"on_schema_progress": told}

        def tell(done: int, total: int) -> None:
            first.close()
            report("answers", done, total)

        return model.generate_n(prompt, n, deadline_s=deadline_s, on_progress=tell, **options)
