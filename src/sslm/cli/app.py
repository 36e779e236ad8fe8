"""The program ``sslm``: its commands, and how errors become exit codes."""

from typing import Annotated, Final

import typer

from sslm.cli.commands import (
    batch,
    bench,
    chat,
    convert,
    doctor,
    evaluate,
    generate,
    inspect,
    list_models,
    prove,
    pull,
    replay,
    rm,
    schema,
    tokenize,
    verify,
)
from sslm.cli.exit_codes import USAGE
from sslm.cli.failures import explain
from sslm.cli.options.signatures import Program
from sslm.cli.screen.output import complain, print_text
from sslm.version import VERSION

COMMANDS: Final = (
    prove,
    generate,
    chat,
    batch,
    pull,
    list_models,
    rm,
    convert,
    inspect,
    schema,
    verify,
    replay,
    doctor,
    tokenize,
    bench,
    evaluate,
)
"""Modules with a ``register(app)`` each, in the order of ``sslm --help``."""

app = Program(
    name="sslm",
    help="Small language models, bit for bit the same, within limits you set.",
)
for _module in COMMANDS:
    _module.register(app)


@app.callback(invoke_without_command=True)
def _options(
    context: typer.Context,
    version: Annotated[bool, typer.Option("--version", help="Print the version and exit.")] = False,
) -> None:
    """Small language models, bit for bit the same, within limits you set."""
    if version:
        print_text(f"sslm {VERSION}\n")
        raise typer.Exit
    if context.invoked_subcommand is None:
        complain(context.get_help())
        raise typer.Exit(USAGE)


def run(arguments: list[str]) -> int:
    """Run one command; return its exit code instead of raising."""
    if arguments[:1] == ["help"]:
        arguments = [*arguments[1:], "--help"]
    try:
        # Not app(): it turns an interrupt, and a pipe that was closed, into exit codes of its own.
        command = typer.main.get_command(app)
        with command.make_context("sslm", list(arguments)) as context:
            result = command.invoke(context)
    except BaseException as error:
        return explain(error, is_json=_wants_json(arguments))
    return result if isinstance(result, int) else 0


def _wants_json(arguments: list[str]) -> bool:
    """Tell whether the option is among the arguments, even where they could not be understood."""
    options = arguments[: arguments.index("--")] if "--" in arguments else arguments
    return "--json" in options
