"""The program ``sslm``: its commands, and how errors become exit codes."""

import errno
import os
import signal
import sys
import traceback
from typing import Annotated, Final

import typer

from sslm.cli import (
    chat,
    convert,
    doctor,
    evaluate,
    generate,
    inspect,
    list_models,
    prove,
    pull,
    rm,
    tokenize,
    verify,
)
from sslm.cli.exit_codes import (
    BAD_INPUT_FILE,
    INTERNAL,
    INTERRUPTED,
    OUT_OF_BUDGET,
    USAGE,
    exit_code,
)
from sslm.cli.output import error_facts, note, print_json, print_text, shown, use_utf8
from sslm.errors.base import SslmError
from sslm.version import VERSION

COMMANDS: Final = (
    prove,
    generate,
    chat,
    pull,
    list_models,
    rm,
    convert,
    inspect,
    verify,
    doctor,
    tokenize,
    evaluate,
)
"""Modules with a ``register(app)`` each, in the order of ``sslm --help``."""

app = typer.Typer(
    name="sslm",
    help="Small language models, bit for bit the same, within limits you set.",
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)
for _module in COMMANDS:
    _module.register(app)


# Some releases of typer carry a click of their own, so its base class is found through typer.
_UsageProblem: Final = next(
    kind for kind in typer.BadParameter.__mro__ if kind.__name__ == "ClickException"
)


def main() -> None:
    """Run the command line and exit with a code of API: 0, or that of the error's family."""
    use_utf8()
    # Unwind as for an interrupt, so that nothing half-written is left.
    signal.signal(signal.SIGTERM, _terminate)
    sys.exit(run(sys.argv[1:]))


def _terminate(number: int, frame: object) -> None:
    del frame
    raise SystemExit(128 + number)


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
        note(context.get_help())
        raise typer.Exit(USAGE)


def run(arguments: list[str]) -> int:
    """Run one command; return its exit code instead of raising."""
    try:
        # Not app(): it turns an interrupt, and a pipe that was closed, into exit codes of its own.
        command = typer.main.get_command(app)
        with command.make_context("sslm", list(arguments)) as context:
            result = command.invoke(context)
    except Exception as error:
        return _explain(error, is_json="--json" in arguments)
    except KeyboardInterrupt as error:
        return _explain(error, is_json="--json" in arguments)
    return result if isinstance(result, int) else 0


def _explain(error: BaseException, *, is_json: bool) -> int:
    """Say what went wrong, where a person or a program will look; return the exit code."""
    if isinstance(error, _UsageProblem):
        if is_json:
            print_json({"error": {"type": "UsageError", "message": str(error)}})
        error.show()  # type: ignore[attr-defined]
        return USAGE
    match error:
        case SslmError():
            if is_json:
                print_json(error_facts(error))
            note(shown(f"error: {error}"))
            code = exit_code(error)
        case typer.Exit():
            code = error.exit_code
        case KeyboardInterrupt() | typer.Abort():
            if is_json:
                print_json({"error": {"type": "Interrupted", "message": "interrupted"}})
            note("interrupted")
            code = INTERRUPTED
        case BrokenPipeError():
            # Whoever read stdout has seen enough; Python would complain again when it flushes.
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            code = 0
        case OSError():
            # What commands read and write of models has names of its own; this is stdin or stdout.
            note(f"error: cannot read or write: {error.strerror or error}")
            code = OUT_OF_BUDGET if error.errno == errno.ENOSPC else BAD_INPUT_FILE
        case _:
            trace = "".join(traceback.format_exception(error))
            note(f"internal error; please report it:\n{trace}")
            code = INTERNAL
    return code
