"""``sslm batch``: answer a file of requests."""

import datetime
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from sslm import limits
from sslm.cli.cores import use_blas_threads
from sslm.cli.exit_codes import REQUEST_REFUSED
from sslm.cli.options.choice import schema_source
from sslm.cli.options.model import (
    DEFAULT_BACKEND,
    DEFAULT_MAX_TOKENS,
    DEFAULT_MODEL,
    DEFAULT_THREADS,
    DEFAULT_TIER,
    BackendOption,
    CacheDirOption,
    ContextTokensOption,
    JsonOption,
    MemoryBytesOption,
    ModelOption,
    NoProgressOption,
    OfflineOption,
    Sha256Option,
    ThreadsOption,
    TierOption,
    open_model,
)
from sslm.cli.options.values import number, output_option, refusal, word_option
from sslm.cli.screen.output import note, print_json, progress

if TYPE_CHECKING:
    from sslm.answer_schemas.schema import Schema
    from sslm.engine.model import Model
    from sslm.serving.batch_job import JobSummary

_STREAM: Final = "-"
_DEFAULT_BATCH_SIZE: Final = 8
_SUFFIX: Final = ".sslm"
_EPILOG: Final = (
    "Example: sslm batch IN.jsonl -o OUT.jsonl, where a line of IN.jsonl is "
    '{"custom_id": "1", "method": "POST", "url": "/v1/completions", '
    '"body": {"prompt": "The capital of France is", "max_tokens": 16}}. '
    "Exit 4 if rows were refused; their lines say why."
)

_SourceArgument = Annotated[
    Path,
    typer.Argument(metavar="IN", help="The requests, one a line.", show_default=False),
]
_OutOption = Annotated[
    Path,
    output_option("--out", "-o", metavar="OUT", about="The answers, one a line."),
]
_MaxTokensOption = Annotated[
    int,
    typer.Option(
        "--max-tokens",
        parser=number(1, limits.CONTEXT_TOKENS_MAX),
        metavar="N",
        help="Most tokens of the answers to requests that do not say it.",
    ),
]
_SeedOption = Annotated[
    int,
    typer.Option(
        "--seed",
        parser=number(0, limits.SEED_MAX),
        metavar="N",
        help="With its custom_id, gives the seed of each request that does not say one.",
    ),
]
_BatchSizeOption = Annotated[
    int,
    typer.Option(
        "--batch-size",
        parser=number(1, limits.BATCH_SIZE_MAX),
        metavar="N",
        help="How many are computed at one time, as far as --memory-bytes admits them.",
    ),
]
_DateOption = Annotated[
    datetime.datetime | None,
    typer.Option(
        "--date",
        formats=["%Y-%m-%d"],
        metavar="YYYY-MM-DD",
        help="Today, for chat templates that mention it.",
    ),
]
_AnyModelOption = Annotated[
    bool,
    typer.Option(
        "--any-model",
        help="Answer requests whatever model they ask for; else the model's name, its model_id "
        "or nothing has to stand there.",
    ),
]
_SchemaOption = Annotated[
    str | None,
    typer.Option(
        "--schema",
        metavar="FILE|NAME",
        help="Answer requests that say nothing of a schema with JSON that satisfies this one: a "
        ".json or .sslms file, or the name of one in the model's file.",
    ),
]
_FinishOption = Annotated[
    str | None,
    word_option(
        "--finish",
        "fit",
        "cut",
        about="Whether answers that follow schemas are completed within their tokens, or cut off, "
        "if their requests do not say it.  [default: fit]",
    ),
]
_DeadlineOption = Annotated[
    float | None,
    typer.Option(
        "--deadline-s", metavar="SECONDS", help="Stop after so long; exit 5. It can go on."
    ),
]


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command(
        "batch",
        help="Answer IN, a file of requests (OpenAI batch lines), into OUT, in the same order. "
        "After a kill, an interrupt or a full disk the same command goes on where OUT ends; OUT is "
        "byte for byte the same however often that was.",
        epilog=_EPILOG,
    )(batch_command)


def batch_command(
    *,
    source: _SourceArgument,
    out: _OutOption,
    model: ModelOption = DEFAULT_MODEL,
    backend: BackendOption = DEFAULT_BACKEND,
    tier: TierOption = DEFAULT_TIER,
    threads: ThreadsOption = DEFAULT_THREADS,
    context_tokens: ContextTokensOption = None,
    memory_bytes: MemoryBytesOption = None,
    max_tokens: _MaxTokensOption = DEFAULT_MAX_TOKENS,
    seed: _SeedOption = 0,
    batch_size: _BatchSizeOption = _DEFAULT_BATCH_SIZE,
    date: _DateOption = None,
    any_model: _AnyModelOption = False,
    schema: _SchemaOption = None,
    finish: _FinishOption = None,
    deadline_s: _DeadlineOption = None,
    sha256: Sha256Option = None,
    json: JsonOption = False,
    cache_dir: CacheDirOption = None,
    offline: OfflineOption = False,
    no_progress: NoProgressOption = False,
) -> None:
    """Answer what OUT does not have yet; say at the end what has come of it."""
    _require_files(source, out)
    use_blas_threads()
    from sslm.serving.batch_input import BatchInput
    from sslm.serving.batch_job import BatchJob
    from sslm.serving.batch_lines import JobOptions

    day = date.date() if date else None
    requests = BatchInput(source)
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
        given = _given_schema(schema, opened, no_progress=no_progress)
        options = JobOptions(
            seed=seed,
            max_tokens=max_tokens,
            context_tokens=opened.context_tokens,
            date=day.isoformat() if day else None,
            model=_name(model),
            is_any_model=any_model,
            schemas=opened.schemas_sha256,
            schema=given.digest if given else None,
            finish=finish,
        )
        job = BatchJob(opened, requests, options, date=day, schema=given, batch_size=batch_size)
        with progress(is_shown=not no_progress) as report, _told_what_is_left(job.summary):
            job.run(
                out,
                deadline_s=deadline_s,
                on_progress=lambda done, total: report("rows", done, total),
            )
        _tell(job.summary, opened, is_json=json)
    if job.summary.refused:
        raise typer.Exit(REQUEST_REFUSED)


def _require_files(source: Path, out: Path) -> None:
    if str(source) == _STREAM:
        # It is read twice.
        raise refusal("it is '-'", "the path of a file", param_hint="IN")
    if source.exists() and out.exists() and source.samefile(out):
        raise refusal("it is IN", "another file", param_hint="--out")


def _given_schema(text: str | None, model: "Model", *, no_progress: bool) -> "Schema | None":
    """Return the schema of a file or a name, before anything is written."""
    if text is None:
        return None
    from sslm.answer_schemas.schema import Schema

    source = schema_source(text)
    with progress(is_shown=not no_progress) as report:
        if isinstance(source, str):
            return model.schema(source, on_progress=report)
        if source.suffix.lower() == ".sslms":
            return Schema.load(source, tokenizer=model.tokenizer, on_progress=report)
        return Schema.compile(source, tokenizer=model.tokenizer, on_progress=report)


def _name(model: str) -> str:
    """Return the name by which requests may ask for a model: that of its file, if it is a path."""
    return Path(model).name.removesuffix(_SUFFIX)


@contextmanager
def _told_what_is_left(summary: "JobSummary") -> Iterator[None]:
    """Say on stderr how far a job came that does not come to its end."""
    try:
        yield
    except BaseException:
        done = summary.answered + summary.refused
        if done:
            note(f"{done} of {summary.rows} rows are written; the same command writes the others")
        raise


def _tell(summary: "JobSummary", model: "Model", *, is_json: bool) -> None:
    if is_json:
        facts = {"model_id": model.model_id, "backend": model.backend, "tier": model.tier}
        print_json(asdict(summary) | facts)
        return
    resumed = f", {summary.resumed} of them before" if summary.resumed else ""
    note(
        f"{summary.rows} rows: {summary.answered} answered, {summary.refused} refused{resumed}; "
        f"sha256 {summary.sha256}"
    )
