"""``sslm convert``: a GGUF file becomes an artifact."""

import time
from pathlib import Path
from typing import Annotated, Final

import typer

from sslm.cli.cores import use_blas_threads
from sslm.cli.failures import about_file
from sslm.cli.options.model import JsonOption, NoProgressOption
from sslm.cli.options.values import output_option
from sslm.cli.screen.output import print_json, print_text, progress
from sslm.errors.commands import OutputExistsError

_EPILOG: Final = "Example: sslm convert model.gguf -o model.sslm"


def register(app: typer.Typer) -> None:
    """Add the command to the program."""
    app.command("convert", epilog=_EPILOG)(convert)


def convert(
    *,
    source: Annotated[Path, typer.Argument(metavar="SRC", help="A GGUF file.")],
    out: Annotated[
        Path, output_option("--out", "-o", metavar="OUT.sslm", about="The artifact to write.")
    ],
    weights: Annotated[
        str, typer.Option("--weights", help="Format of the layers' weights: int8 or int4.")
    ] = "int8",
    head_weights: Annotated[
        str,
        typer.Option("--head-weights", help="Format of embedding and output: int8 or int4."),
    ] = "int8",
    force: Annotated[
        bool, typer.Option("--force", help="Replace OUT.sslm if it exists, in one step.")
    ] = False,
    as_json: JsonOption = False,
    no_progress: NoProgressOption = False,
) -> None:
    """Convert a GGUF model to an artifact, verified before it gets its name.

    The same source and version give the same bytes on every machine.
    """
    from sslm.artifact.atomic_file import require_no_input, require_replaceable

    if require_replaceable(out) and not force:
        require_no_input(out, {"the source": source})
        raise OutputExistsError(str(out))
    use_blas_threads()
    # Imported when it is used: asking for help needs none of it.
    from sslm.answering.results import NANOSECONDS_PER_MS
    from sslm.convert.conversion import convert_gguf

    started_ns = time.perf_counter_ns()
    with about_file(str(source)), progress(is_shown=not no_progress) as report:
        done = convert_gguf(
            source,
            out,
            weights=weights,
            head_weights=head_weights,
            is_replaced=force,
            on_progress=report,
        )
    elapsed_ms = (time.perf_counter_ns() - started_ns) // NANOSECONDS_PER_MS
    if as_json:
        print_json(
            {
                "path": done.path,
                "model_id": done.model_id,
                "sha256": done.file_sha256,
                "size_bytes": done.file_size_bytes,
                "source_sha256": done.source_sha256,
                "elapsed_ms": elapsed_ms,
            }
        )
        return
    print_text(
        f"{done.path}\n"
        f"  model_id  {done.model_id}\n"
        f"  sha256    {done.file_sha256}\n"
        f"  size      {done.file_size_bytes} bytes\n"
        f"  source    {done.source_sha256}\n"
        f"  time      {elapsed_ms} ms\n"
    )
