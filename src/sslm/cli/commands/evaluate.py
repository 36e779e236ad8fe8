"""``sslm eval``: perplexity of an artifact beside that of its float32 source."""

from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from sslm.cli.commands.verify import ModelArgument
from sslm.cli.cores import use_blas_threads
from sslm.cli.failures import about_file
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
    ThreadsOption,
    TierOption,
    open_model,
    thread_count,
)
from sslm.cli.options.text_input import read_text_file
from sslm.cli.options.values import integer, number
from sslm.cli.screen.output import print_json, print_text, progress
from sslm.errors.runtime import OptionRangeError

if TYPE_CHECKING:
    from sslm.convert.evaluate import Evaluation


SourceOption = Annotated[
    Path, typer.Option("--source", metavar="FILE.gguf", help="What MODEL was converted from.")
]
TextOption = Annotated[Path, typer.Option("--text", metavar="FILE", help="UTF-8 text to predict.")]
ContextOption = Annotated[
    int | None,
    typer.Option(
        "--context",
        parser=integer,
        metavar="N",
        help="Tokens of one window; by default 512, or all that the model's context holds.",
    ),
]
StrideOption = Annotated[
    int | None,
    typer.Option(
        "--stride", parser=integer, metavar="N", help="Tokens between windows [the context]."
    ),
]
LimitTokensOption = Annotated[
    int | None,
    typer.Option(
        "--limit-tokens", metavar="N", parser=number(2), help="Read only so much of the text."
    ),
]


_DEFAULT_CONTEXT: Final = 512
_EPILOG: Final = (
    "Example: sslm eval model.sslm --source model.gguf --text book.txt --limit-tokens 4096"
)


def register(app: typer.Typer) -> None:
    """Add the command to the program."""
    app.command("eval", epilog=_EPILOG)(evaluate)


def evaluate(
    *,
    source: SourceOption,
    text: TextOption,
    model: ModelArgument = DEFAULT_MODEL,
    context: ContextOption = None,
    stride: StrideOption = None,
    limit_tokens: LimitTokensOption = None,
    any_source: Annotated[
        bool, typer.Option("--any-source", help="Compare with a file that MODEL is not made from.")
    ] = False,
    backend: BackendOption = DEFAULT_BACKEND,
    tier: TierOption = DEFAULT_TIER,
    threads: ThreadsOption = DEFAULT_THREADS,
    cache_dir: CacheDirOption = None,
    offline: OfflineOption = False,
    as_json: JsonOption = False,
    no_progress: NoProgressOption = False,
) -> None:
    """Measure how far an artifact is from its float32 source on a text.

    The exact perplexity and log-likelihood of MODEL are the same on every machine; the other
    perplexities and the divergence are floats, outside the promise of equal bits.
    """
    count = thread_count(threads)
    use_blas_threads(count)
    # Imported when they are used: asking for help needs none of them.
    from sslm.convert.artifact_evaluation import evaluate_artifact, require_source
    from sslm.convert.source import GgufModelSource
    from sslm.opening.runner import Runner, open_backend

    content = read_text_file(text)
    with (
        _own_names(),
        open_model(
            model,
            backend="reference",
            threads="1",
            context_tokens=1 if context is None else context,
            cache_dir=cache_dir,
            offline=offline,
            no_progress=no_progress,
        ) as opened,
        about_file(str(source)),
        GgufModelSource.open(source) as weights,
        progress(is_shown=not no_progress) as report,
    ):
        if not any_source:
            require_source(opened.artifact, source)
        if context is None:
            context = min(_DEFAULT_CONTEXT, opened.artifact.config.max_position_embeddings)
        # The evaluation scores every row of a window, which requests on a model never do.
        chosen = open_backend(backend, tier=tier, threads=count)
        with closing(Runner(opened.artifact, chosen, context_tokens=context)) as runner:
            found = evaluate_artifact(
                opened.artifact,
                runner,
                weights,
                content,
                context=context,
                stride=context if stride is None else stride,
                token_limit=limit_tokens,
                on_progress=lambda done, total: report("tokens", done, total),
            )
    if as_json:
        exact = {"exact_perplexity": str(found.exact_perplexity)}
        print_json(asdict(found) | exact | {"perplexity_change": found.perplexity_change})
    else:
        print_text(_lines(found))


@contextmanager
def _own_names() -> Iterator[None]:
    """Let an error about the context name the option of this command."""
    try:
        yield
    except OptionRangeError as error:
        if error.option != "context_tokens":
            raise
        raise OptionRangeError("context", error.found, error.expected) from error


def _lines(found: "Evaluation") -> str:
    return (
        f"perplexity         {found.perplexity:.4f}\n"
        f"exact perplexity   {found.exact_perplexity} "
        f"(log-likelihood {found.log_likelihood_q20} / 2^20)\n"
        f"source perplexity  {found.source_perplexity:.4f}\n"
        f"change             {found.perplexity_change:+.4%} "
        f"(standard error {_percent(found.standard_error)}, "
        f"by windows {_percent(found.clustered_standard_error)})\n"
        f"kl                 {found.kl:.6f} nats\n"
        f"same first choice  {found.top1_agreement:.2%}\n"
        f"tokens             {found.tokens} in {found.windows} windows\n"
    )


def _percent(error: float | None) -> str:
    return "unknown" if error is None else f"{error:.4%}"
