"""``sslm replay``: a recorded request, executed again."""

from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from sslm import limits
from sslm.cli.cores import use_blas_threads
from sslm.cli.exit_codes import DIFFERENT
from sslm.cli.failures import about_file
from sslm.cli.options.choice import takes_choosing
from sslm.cli.options.model import (
    DEFAULT_BACKEND,
    DEFAULT_THREADS,
    DEFAULT_TIER,
    BackendOption,
    CacheDirOption,
    DeadlineOption,
    JsonOption,
    NoProgressOption,
    StopOption,
    ThreadsOption,
    TierOption,
    backend_threads,
    open_model,
)
from sslm.cli.options.record import RecordOption, RecordSegmentsOption, require_recordable
from sslm.cli.options.values import number, refusal
from sslm.cli.screen.answers import keep_silent, read_answer, show_end
from sslm.cli.screen.output import print_json, print_text, progress, shown
from sslm.errors.showing import int_range

if TYPE_CHECKING:
    from sslm.answering.request import AnswerOptions
    from sslm.engine.model import Model
    from sslm.evidence.records import Record
    from sslm.evidence.replay import ReplayDifference, ReplayReport

_RecordArgument = Annotated[
    Path, typer.Argument(metavar="FILE", help="What --record wrote.", show_default=False)
]
_ModelOption = Annotated[
    str | None,
    typer.Option(
        "--model",
        "-m",
        metavar="MODEL",
        help="A cached name, or the path of a .sslm file; by default it is looked for in the cache "
        "by what the record says of it.",
    ),
]
_SliceUnitsOption = Annotated[
    int | None,
    typer.Option(
        "--slice-units",
        parser=number(1, limits.SLICE_UNITS_MAX),
        metavar="N",
        help="Compute so many layers, or blocks of the head, a call.",
    ),
]
_FromOption = Annotated[
    int | None,
    typer.Option(
        "--from",
        parser=number(0, limits.CONTEXT_TOKENS_MAX),
        metavar="N",
        help="Keep N tokens of the answer and go on from there: as the record says, or as the "
        "options do that are for answers.",
    ),
]
_NewTokensOption = Annotated[
    int | None,
    typer.Option(
        "--max-tokens",
        parser=number(1, limits.CONTEXT_TOKENS_MAX),
        metavar="N",
        help="With --from: most new tokens; by default what the recorded request had left.",
    ),
]
_EPILOG: Final = "Example: sslm replay run.sslmr --backend reference"


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command(
        "replay",
        help="Execute a recorded request again, on any backend, with any threads and slices: "
        "identical, or the first difference (token, segment, operation). Exit 1 if different.",
        epilog=_EPILOG,
    )(takes_choosing(replay_command))


def replay_command(
    *,
    choosing: "AnswerOptions",
    record: _RecordArgument,
    model: _ModelOption = None,
    backend: BackendOption = DEFAULT_BACKEND,
    tier: TierOption = DEFAULT_TIER,
    threads: ThreadsOption = DEFAULT_THREADS,
    slice_units: _SliceUnitsOption = None,
    branch_from: _FromOption = None,
    max_tokens: _NewTokensOption = None,
    stop: StopOption = None,
    deadline_s: DeadlineOption = None,
    new_record: RecordOption = None,
    record_segments: RecordSegmentsOption = False,
    json: JsonOption = False,
    cache_dir: CacheDirOption = None,
    no_progress: NoProgressOption = False,
) -> int:
    """Replay a record, or branch from it; return the exit code."""
    from sslm.catalog.replaying import recorded_model, replay
    from sslm.evidence.records import read_record

    use_blas_threads()
    with about_file(str(record)):
        read = read_record(record)
        path = recorded_model(read, model, cache_dir)
    given: dict[str, Any] = {
        **choosing,
        "max_tokens": max_tokens,
        "stop": stop,
        "deadline_s": deadline_s,
        "record": new_record,
        "record_segments": record_segments or None,
    }
    options = {name: value for name, value in given.items() if value is not None}
    if branch_from is None:
        schema = options.pop("schema", None)
        _require_none(options, "nothing without --from")
        count = backend_threads(backend, threads)
        with about_file(str(record)), progress(is_shown=not no_progress) as report:
            found = replay(
                read,
                path,
                backend=backend,
                tier=tier,
                threads=count,
                schema=schema,
                slice_units=slice_units,
                on_progress=lambda done, total: report("replay", done, total),
            )
        _show(found, is_json=json)
        return 0 if found.identical else DIFFERENT
    _require_none({"slice_units": slice_units}, "nothing beside --from")
    require_recordable(new_record, has_segments=record_segments)
    most = len(read.token_ids)
    if branch_from > most:
        raise refusal(f"it is {branch_from}", int_range(0, most), param_hint="--from")
    with open_model(
        str(path),
        backend=backend,
        tier=tier,
        threads=threads,
        context_tokens=read.context_tokens,
        no_progress=no_progress,
    ) as opened:
        _branch(opened, read, branch_from, options, is_json=json, no_progress=no_progress)
    return 0


def _require_none(options: Mapping[str, object], expected: str) -> None:
    """Refuse an option that has no meaning together with what else is given."""
    for name, value in options.items():
        if value is not None:
            raise refusal("it is given", expected, param_hint="--" + name.replace("_", "-"))


def _branch(
    model: "Model",
    record: "Record",
    token_count: int,
    options: dict[str, Any],
    *,
    is_json: bool,
    no_progress: bool,
) -> None:
    """Print what is kept of the recorded answer, and go on from there."""
    kept = model.kept_text(record, token_count)
    if not is_json:
        print_text(kept)
    completion = read_answer(
        lambda on_progress, _: model.branch(
            record, token_count, on_progress=on_progress, **options
        ),
        on_text=keep_silent if is_json else print_text,
        no_progress=no_progress,
    )
    show_end(completion, model, is_json=is_json, facts={"kept_text": kept})


def _show(found: "ReplayReport", *, is_json: bool) -> None:
    if is_json:
        print_json(asdict(found))
        return
    difference = found.first_difference
    verdict = "identical" if difference is None else f"DIFFERENT: {_told(difference)}"
    print_text(
        f"{verdict}\n"
        f"  model_id  {found.model_id}\n"
        f"  digest    {found.digest} (recorded: {found.recorded_digest})\n"
        f"  ran       {len(found.token_ids)} tokens on {found.backend} {found.tier}, "
        f"threads {found.threads}\n"
    )


def _told(difference: "ReplayDifference") -> str:
    """Say where a difference is: token, segment, operation."""
    places = [f"token {difference.token_index + 1}"]
    if difference.segment is not None:
        places.append(f"segment {difference.segment}")
    if difference.op is not None:
        places.append(f"operation {difference.op}")
    chosen = ""
    if difference.found != difference.expected:
        chosen = f" (found {_id(difference.found)}, recorded {_id(difference.expected)})"
    return shown(f"{', '.join(places)}{chosen}: {difference.reason}")


def _id(token_id: int | None) -> str:
    return "no token" if token_id is None else f"token id {token_id}"
