"""``sslm bench``: how fast a model runs here, beside how fast its weights can be read at all."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from sslm import limits
from sslm.cli.commands.verify import ModelArgument
from sslm.cli.options.model import (
    DEFAULT_MODEL,
    DEFAULT_TIER,
    EXPECTED_THREADS,
    CacheDirOption,
    JsonOption,
    NoProgressOption,
    OfflineOption,
    TierOption,
    open_model,
    read_thread_count,
)
from sslm.cli.options.values import listed, number, numbers
from sslm.cli.screen.output import note, print_json, print_table, print_text, progress

if TYPE_CHECKING:
    from sslm.bench import Case, FittedCases, Measurement
    from sslm.engine.model import Model

_EPILOG: Final = "Example: sslm bench model.sslm -p 512 -n 128 -t 1,2 --plot roofline.svg"


_token_counts: Final = numbers(0, limits.CONTEXT_TOKENS_MAX)
_batches: Final = numbers(1, limits.BENCH_BATCH_MAX)


def _thread_counts(text: str) -> tuple[int, ...]:
    return listed(text, read_thread_count, f"{EXPECTED_THREADS}, or several such as 1,cores")


def _picture(text: str) -> Path:
    from sslm.bench.plot import ENDINGS

    path = Path(text)
    if path.suffix[1:].lower() not in ENDINGS:
        raise typer.BadParameter(f"{text!r} does not end in .{' or .'.join(ENDINGS)}")
    return path


def _list_option(short: str, long: str, parser: Any, help_text: str) -> Any:
    return typer.Option(long, short, parser=parser, metavar="N,…", help=help_text)


PromptsOption = Annotated[
    Any, _list_option("-p", "--n-prompt", _token_counts, "Tokens of a prompt; 0 for none.")
]
GenerationsOption = Annotated[
    Any, _list_option("-n", "--n-gen", _token_counts, "Tokens to generate; 0 for none.")
]
BatchesOption = Annotated[
    Any, _list_option("-b", "--batch", _batches, "Sequences generated together.")
]
DepthsOption = Annotated[
    Any, _list_option("-d", "--n-depth", _token_counts, "Tokens that are there before.")
]
ThreadCountsOption = Annotated[
    Any,
    typer.Option(
        "--threads",
        "-t",
        envvar="SSLM_THREADS",
        parser=_thread_counts,
        metavar="N,…|cores",
        help="How many threads compute.",
    ),
]
RepetitionsOption = Annotated[
    Any,
    typer.Option(
        "--repetitions",
        "-r",
        parser=number(1, limits.BENCH_REPETITION_COUNT_MAX),
        metavar="N",
        help="Of each test; medians are told.",
    ),
]
PlotOption = Annotated[
    Path | None,
    typer.Option(
        "--plot",
        parser=_picture,
        metavar="FILE",
        help="Draw the roofline, as .png or .svg; needs the extra sslm[bench].",
    ),
]


def register(app: typer.Typer) -> None:
    """Add the command to the program."""
    app.command("bench", epilog=_EPILOG)(bench)


def bench(
    *,
    context: typer.Context,
    model: ModelArgument = DEFAULT_MODEL,
    prompts: PromptsOption = "128,512",
    generations: GenerationsOption = "128",
    batches: BatchesOption = "1,4,16",
    depths: DepthsOption = "0,2000",
    threads: ThreadCountsOption = "1,cores",
    repetitions: RepetitionsOption = "5",
    plot: PlotOption = None,
    force: Annotated[bool, typer.Option("--force", help="Replace FILE if it exists.")] = False,
    tier: TierOption = DEFAULT_TIER,
    cache_dir: CacheDirOption = None,
    offline: OfflineOption = False,
    as_json: JsonOption = False,
    no_progress: NoProgressOption = False,
) -> None:
    """Measure prefill and decode, and how near decode comes to the speed of reading the weights.

    Generations are measured with every batch at the first depth, and at every depth with the first
    batch; prompts at the first depth. What does not fit the model's context is shortened or left
    out, unless it was asked for. Times are no part of the promise of equal bits.
    """
    from sslm.bench import LENGTHS, all_cases, fit_cases, measure
    from sslm.bench.plot import require_picture

    cases = all_cases(
        prompts=prompts, generations=generations, batches=batches, depths=depths, threads=threads
    )
    if not cases:
        raise typer.BadParameter("there is nothing to measure", param_hint="-p and -n")
    if plot is not None:
        require_picture(plot, is_replaced=force)
    with open_model(
        model,
        tier=tier,
        threads="1",
        cache_dir=cache_dir,
        offline=offline,
        no_progress=no_progress,
        context_tokens=1,
    ) as opened:
        fitted = fit_cases(
            cases,
            opened.artifact.config.max_position_embeddings,
            fixed=[name for name in LENGTHS if _is_asked(context, name)],
        )
        _note_changes(fitted, opened)
        with progress(is_shown=not no_progress) as report:
            found = measure(
                opened.artifact,
                fitted.cases,
                tier=tier,
                repetitions=repetitions,
                on_progress=lambda done, total: report("bench", done, total),
            )
        if plot is not None:
            _draw(plot, found, opened, force=force)
        if as_json:
            print_json(_facts(opened, found, fitted))
        else:
            _show(opened, found)


def _is_asked(context: typer.Context, option: str) -> bool:
    source = context.get_parameter_source(option)
    return source is not None and source.name != "DEFAULT"


def _note_changes(fitted: "FittedCases", opened: "Model") -> None:
    """Tell once, and not for each number of threads, what is not measured as it was asked for."""
    limit = opened.artifact.config.max_position_embeddings
    names = {
        case.name: f"measured as {instead.name}" if instead else "left out"
        for case, instead in fitted.changes.items()
    }
    for name, what in names.items():
        note(f"the model's context holds {limit} tokens: {name} is {what}")


def _draw(plot: Path, found: "tuple[Measurement, ...]", opened: "Model", *, force: bool) -> None:
    from sslm.artifact.atomic_file import atomic_file
    from sslm.bench.plot import draw

    # Before there is a file: what the drawing reads, fonts for one, is no writing.
    picture = draw(found, opened.path.name, ending=plot.suffix[1:].lower())
    with atomic_file(plot, is_replaced=force) as file:
        file.write(picture)


def _show(opened: "Model", found: "tuple[Measurement, ...]") -> None:
    size_mb = opened.artifact.weights_size_bytes / 1e6
    print_text(f"{opened.path.name}, weights of {size_mb:.1f} MB, tier {opened.tier}\n\n")
    head = ["test", "threads", "tokens/s", "spread", "ms/token", "MB/token", "GB/s", "of ceiling"]
    rows = [
        [
            one.case.name,
            str(one.case.threads),
            f"{one.tokens_per_s:.1f}",
            f"{one.spread:.0%}",
            f"{one.ms_per_token:.3f}",
            f"{one.bytes_per_token / 1e6:.2f}",
            f"{one.bytes_per_s / 1e9:.2f}",
            f"{one.share_of_ceiling:.0%} of {one.ceiling / 1e9:.1f}",
        ]
        for one in found
    ]
    print_table(head, rows, right=head[1:])
    print_text("\nwhere the time goes, in percent; G/s: billion products of linear and logits\n\n")
    kinds = _kinds(found)
    rows = [
        [
            one.case.name,
            str(one.case.threads),
            *(f"{100 * one.op_shares.get(kind, 0):.1f}" for kind in kinds),
            f"{one.linear_products_per_s / 1e9:.0f}",
        ]
        for one in found
    ]
    head = ["test", "threads", *(kind.replace("_", " ") for kind in kinds), "G/s"]
    print_table(head, rows, right=head[1:])


def _kinds(found: "tuple[Measurement, ...]") -> list[str]:
    """Return the kinds of ops that ran, by how much time they take somewhere."""
    most: dict[str, float] = {}
    for one in found:
        for kind, share in one.op_shares.items():
            most[kind] = max(share, most.get(kind, 0))
    return sorted(most, key=lambda kind: -most[kind])


def _facts(
    opened: "Model", found: "tuple[Measurement, ...]", fitted: "FittedCases"
) -> dict[str, object]:
    return {
        "path": str(opened.path),
        "model_id": opened.model_id,
        "tier": opened.tier,
        "weights_size_bytes": opened.artifact.weights_size_bytes,
        "context_tokens": opened.artifact.config.max_position_embeddings,
        "adapted": [
            {
                "name": case.name,
                "threads": case.threads,
                "measured_as": instead.name if instead else None,
            }
            for case, instead in fitted.changes.items()
        ],
        "tests": [_test_facts(one, one.case) for one in found],
    }


def _test_facts(one: "Measurement", case: "Case") -> dict[str, object]:
    return {
        "name": case.name,
        "kind": case.kind,
        "tokens": case.tokens,
        "batch": case.batch,
        "depth": case.depth,
        "threads": case.threads,
        "seconds": list(one.seconds),
        "tokens_per_s": one.tokens_per_s,
        "spread": one.spread,
        "ms_per_token": one.ms_per_token,
        "bytes_per_token": one.bytes_per_token,
        "bytes_per_s": one.bytes_per_s,
        "ceiling_bytes_per_s": one.ceiling,
        "mapped_ceilings_bytes_per_s": list(one.mapped_ceilings),
        "huge_ceilings_bytes_per_s": list(one.huge_ceilings),
        "share_of_ceiling": one.share_of_ceiling,
        "products": one.products,
        "op_ns": one.op_ns,
        "linear_products_per_s": one.linear_products_per_s,
    }
