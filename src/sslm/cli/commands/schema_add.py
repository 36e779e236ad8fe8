"""``sslm schema add``: a model file with compiled schemas in it."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from sslm.cli.failures import about_file
from sslm.cli.options.local_model import local_model_path
from sslm.cli.options.model import CacheDirOption, JsonOption, NoProgressOption
from sslm.cli.options.schema import SchemaChoices, with_schema_options
from sslm.cli.options.values import output_option, refusal
from sslm.cli.screen.output import print_json, print_text, progress, shown
from sslm.cli.screen.unmeasured import unmeasured
from sslm.progress import StageProgress

if TYPE_CHECKING:
    from sslm.answer_schemas.schema import Schema
    from sslm.text.tokenizer import Tokenizer


def register(group: typer.Typer) -> None:
    """Add the command to the group."""
    epilog = "Example: sslm schema add model.sslm order.json greeting.sslms -o with-schemas.sslm"
    group.command("add", epilog=epilog)(with_schema_options(add))


def add(
    *,
    model: Annotated[str, typer.Argument(metavar="MODEL", help="A .sslm file, or a cached name.")],
    files: Annotated[
        list[Path],
        typer.Argument(metavar="FILE...", help="JSON Schemas, or .sslms files for this model."),
    ],
    out: Annotated[
        Path, output_option("--out", "-o", metavar="OUT.sslm", about="The model file to write.")
    ],
    name: Annotated[
        str | None,
        typer.Option("--name", metavar="NAME", help="Of the schema, if it is one FILE."),
    ] = None,
    force: Annotated[
        bool, typer.Option("--force", help="Replace OUT.sslm if it exists, in one step.")
    ] = False,
    choices: SchemaChoices,
    cache_dir: CacheDirOption = None,
    as_json: JsonOption = False,
    no_progress: NoProgressOption = False,
) -> None:
    """Write a model file with schemas in it: a new one, with the same model_id.

    What a .sslms file holds is compiled again, and compared, before it comes in.
    """
    from sslm.artifact import read_artifact
    from sslm.artifact.adding_schemas import add_schemas
    from sslm.artifact.atomic_file import require_no_input, require_place

    if name is not None and len(files) > 1:
        raise refusal("it is given", "one FILE, or no --name", param_hint="--name")
    source = local_model_path(model, cache_dir)
    require_no_input(out, {f"the FILE {file}": file for file in files})
    if not force:
        # With it, the model file with the schemas takes the place of the one without them.
        require_no_input(out, {"MODEL": source})
    require_place(out, is_replaced=force)
    with progress(is_shown=not no_progress) as report:
        report("reading the vocabulary", 0, 0)
        with about_file(str(source)), read_artifact(source) as artifact:
            tokenizer, model_id = artifact.tokenizer(), artifact.model_id.hex()
        schemas = _prepared(files, name, tokenizer, choices, report)
        with about_file(str(source)):
            add_schemas(
                source,
                out,
                [schema.prepared for schema in schemas],
                is_replaced=force,
                on_progress=lambda done, total: report("writing the file", done, total),
            )
    _show(out, model_id, schemas, is_json=as_json)


def _prepared(
    files: list[Path],
    name: str | None,
    tokenizer: "Tokenizer",
    choices: SchemaChoices,
    report: StageProgress,
) -> "list[Schema]":
    from sslm.answer_schemas.schema import Schema
    from sslm.cli.commands.schema_show import is_schema_file

    found = []
    for index, file in enumerate(files):
        report("compiling schemas", index, len(files))
        what = f"compiling {shown(file.name)}"
        with unmeasured(report, what) as tell, about_file(str(file)):
            if is_schema_file(file):
                schema = Schema.load(file, tokenizer=tokenizer, on_progress=tell)
            else:
                schema = choices.compile(file, tokenizer, on_progress=tell)
            found.append(schema if name is None else schema.renamed(name))
    report("compiling schemas", len(files), len(files))
    return found


def _show(out: Path, model_id: str, schemas: "list[Schema]", *, is_json: bool) -> None:
    size = out.stat().st_size
    added = [{"name": one.name, "size_bytes": one.size_bytes} for one in schemas]
    if is_json:
        print_json({"path": str(out), "model_id": model_id, "size_bytes": size, "added": added})
        return
    names = ", ".join(f"{one.name} ({one.size_bytes} bytes)" for one in schemas)
    print_text(
        f"{shown(str(out))}\n"
        f"  model_id  {model_id}\n"
        f"  size      {size} bytes\n"
        f"  added     {names}\n"
    )
