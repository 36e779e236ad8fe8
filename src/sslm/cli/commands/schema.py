"""``sslm schema``: compile what answers have to look like, and keep it with a model."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from sslm.cli.commands import schema_add, schema_show
from sslm.cli.commands.schema_show import facts_of, lines_of
from sslm.cli.exit_codes import REQUEST_REFUSED, USAGE
from sslm.cli.failures import about_file
from sslm.cli.options.local_model import local_model_path, local_tokenizer
from sslm.cli.options.model import (
    DEFAULT_MODEL,
    CacheDirOption,
    JsonOption,
    ModelOption,
    NoProgressOption,
)
from sslm.cli.options.schema import SchemaChoices, with_schema_options
from sslm.cli.options.signatures import Program
from sslm.cli.options.values import output_option
from sslm.cli.screen.output import complain, print_json, print_table, print_text, progress, shown
from sslm.cli.screen.unmeasured import compiling

if TYPE_CHECKING:
    from sslm.schema.documents.refusals import Unsupported

_ABOUT: Final = "Compile JSON Schemas for a model: every answer parses and validates."
_EPILOG: Final = "Example: sslm schema check order.json"


def register(app: typer.Typer) -> None:
    """Add the group of commands."""
    group = Program(name="schema", help=_ABOUT)
    group.callback(invoke_without_command=True, epilog=_EPILOG)(_without_command)
    group.command("check", epilog=_EPILOG)(with_schema_options(check))
    group.command(
        "compile", epilog="Example: sslm schema compile order.json -m model.sslm -o order.sslms"
    )(with_schema_options(compile_command))
    schema_show.register(group)
    schema_add.register(group)
    app.add_typer(group, name="schema")


def _without_command(context: typer.Context) -> None:
    """Compile JSON Schemas for a model: every answer parses and validates."""
    if context.invoked_subcommand is None:
        complain(context.get_help())
        raise typer.Exit(USAGE)


FileArgument = Annotated[
    Path, typer.Argument(metavar="FILE", help="A JSON Schema.", show_default=False)
]


def check(
    *,
    file: FileArgument,
    choices: SchemaChoices,
    as_json: JsonOption = False,
    no_progress: NoProgressOption = False,
) -> int:
    """Say whether a JSON Schema can be enforced, and what of it cannot; exit 4 then.

    No model is needed.
    """
    with (
        progress(is_shown=not no_progress) as report,
        compiling(report) as tell,
        about_file(str(file)),
    ):
        refusals = choices.check(file, tell)
        states = None if refusals else choices.state_count(file, tell)
    if as_json:
        facts = [
            {"pointer": one.pointer, "keyword": one.keyword, "hint": one.hint} for one in refusals
        ]
        print_json({"ok": not refusals, "refusals": facts, "states": states})
    elif refusals:
        _print_refusals(refusals)
    else:
        print_text(f"{shown(str(file))}: all of it can be enforced, with {states} states\n")
    return REQUEST_REFUSED if refusals else 0


def _print_refusals(refusals: "list[Unsupported]") -> None:
    rows = [[one.pointer or "the root", one.keyword, one.hint] for one in refusals]
    print_table(["where", "keyword", "why, or what to write instead"], rows)


def compile_command(
    *,
    file: FileArgument,
    model: ModelOption = DEFAULT_MODEL,
    out: Annotated[
        Path, output_option("--out", "-o", metavar="OUT.sslms", about="The file to write.")
    ],
    name: Annotated[
        str | None,
        typer.Option("--name", metavar="NAME", help="Of the schema; by default the file's."),
    ] = None,
    canonical_spans: Annotated[
        bool,
        typer.Option(
            "--canonical-spans/--no-canonical-spans",
            help="Whether text without a choice is split into tokens as the tokenizer does it.",
        ),
    ] = True,
    force: Annotated[
        bool, typer.Option("--force", help="Replace OUT.sslms if it exists, in one step.")
    ] = False,
    choices: SchemaChoices,
    cache_dir: CacheDirOption = None,
    as_json: JsonOption = False,
    no_progress: NoProgressOption = False,
) -> None:
    """Compile a JSON Schema for the vocabulary of a model."""
    from sslm.artifact.atomic_file import require_no_input, require_place
    from sslm.artifact.schema_files import write_prepared_schema

    path = local_model_path(model, cache_dir)
    require_no_input(out, {"FILE": file, "MODEL": path})
    require_place(out, is_replaced=force)
    with progress(is_shown=not no_progress) as report:
        report("reading the vocabulary", 0, 0)
        with about_file(str(path)):
            tokenizer = local_tokenizer(path)
        with compiling(report) as tell, about_file(str(file)):
            spans = canonical_spans
            schema = choices.compile(
                file, tokenizer, name=name, canonical_spans=spans, on_progress=tell
            )
    write_prepared_schema(out, schema.prepared, is_replaced=force)
    facts = {"path": str(out), **facts_of(schema)}
    if as_json:
        print_json(facts)
    else:
        print_text(f"{shown(str(out))}\n{lines_of(schema)}")
