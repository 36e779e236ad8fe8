"""How a command that failed says so: a line for a person, an object for a program, an exit code."""

import errno
import math
import os
import re
import signal
import sys
import traceback
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import Final

import typer

from sslm.artifact.write_errors import is_of_storage
from sslm.cli.exit_codes import (
    BAD_INPUT_FILE,
    INTERNAL,
    INTERRUPTED,
    OUT_OF_BUDGET,
    SIGNALLED,
    USAGE,
    exit_code,
    message_as_typed,
)
from sslm.cli.screen.output import complain, end_line, print_json, shown, silence
from sslm.cli.signals import told
from sslm.errors.base import ArtifactError, NumericError, SchemaError, SslmError
from sslm.errors.runtime import MemoryShortError
from sslm.errors.status import Status

# Some releases of typer carry a click of their own, so its base class is found through typer.
_UsageProblem: Final = next(
    kind for kind in typer.BadParameter.__mro__ if kind.__name__ == "ClickException"
)
_SHORT: Final = re.compile(
    r"can't allocate (?:read )?lock|\[digital envelope routines\]|malloc failure"
    r"|failed to map segment|returned NULL without setting an exception"
    r"|error return without exception set"
)
"""How Python, OpenSSL and the loader of libraries tell that memory is short by other errors.

The last two are of NumPy and CPython 3.11, which lose their ``MemoryError`` here and there.
"""

_NO_MEMORY: Final = b"error: the system has no memory left; end other programs, or ask for less\n"

_STRAY_WORDS: Final = "unexpected extra argument"


@contextmanager
def about_file(name: str) -> Iterator[None]:
    """Let what is wrong with a file be told with its name, where the error does not have it."""
    try:
        yield
    except (ArtifactError, NumericError, SchemaError) as error:
        if name not in str(error) and not hasattr(error, "__notes__"):
            error.add_note(name)
        raise


def explain(error: BaseException, *, is_json: bool) -> int:
    """Say what went wrong, where a person or a program will look; return the exit code."""
    try:
        return _explain(error, is_json=is_json)
    except MemoryError:
        # There is none to say it with, either.
        with suppress(OSError):
            os.write(2, _NO_MEMORY)
        return OUT_OF_BUDGET


def _explain(error: BaseException, *, is_json: bool) -> int:
    if isinstance(error, typer.Exit):
        return error.exit_code
    if isinstance(error, BrokenPipeError):
        # Whoever read stdout has seen enough.
        silence(sys.stdout)
        return 0
    kind, status, message, code = _facts(error)
    if is_json:
        facts = _plain(error.facts()) if isinstance(error, SslmError) else {}
        _try_json(kind, status, message, code, facts)
    if isinstance(error, _UsageProblem):
        message = f"{_usage(error)}error: {message}"
    elif code == INTERNAL and not isinstance(error, SslmError):
        trace = "".join(traceback.format_exception(error))
        message = f"internal error; please report it:\n{trace}"
    elif code < SIGNALLED:
        message = f"error: {message}"
    end_line()
    complain(shown(message))
    return code


def _facts(error: BaseException) -> tuple[str, int | None, str, int]:
    """Return an error's cause, status, message, and exit code."""
    if _is_memory_short(error):
        error = MemoryShortError(str(error) or "an allocation failed")
    if isinstance(error, SslmError):
        message = ": ".join([*getattr(error, "__notes__", []), message_as_typed(error)])
        return error.cause, int(error.status), message, exit_code(error)
    if isinstance(error, _UsageProblem):
        return "UsageError", None, _usage_message(error), USAGE
    if isinstance(error, (KeyboardInterrupt, typer.Abort)):
        return "Interrupted", None, told(signal.SIGINT), INTERRUPTED
    if isinstance(error, SystemExit) and isinstance(error.code, int) and error.code > SIGNALLED:
        return "Terminated", None, told(error.code - SIGNALLED), error.code
    if isinstance(error, OSError):
        # What commands read and write of models has names of its own; this is stdin or stdout.
        code = OUT_OF_BUDGET if is_of_storage(error) else BAD_INPUT_FILE
        reason = error.strerror or str(error)
        return "StreamError", None, f"cannot read stdin or write to stdout: {reason}", code
    return "InternalError", int(Status.INTERNAL), str(error) or type(error).__name__, INTERNAL


def _is_memory_short(error: BaseException) -> bool:
    """Tell whether an error is of memory, whatever the libraries of others call it."""
    if isinstance(error, OSError):
        return error.errno == errno.ENOMEM
    kinds = (RuntimeError, ValueError, ImportError, SystemError)
    is_foreign = isinstance(error, kinds) and not isinstance(error, SslmError)
    return isinstance(error, MemoryError) or (is_foreign and _SHORT.search(str(error)) is not None)


def _plain(facts: Mapping[str, object]) -> dict[str, object]:
    """Return facts as JSON can carry them: bytes in hexadecimal, other kinds as text."""
    return {name: _plain_fact(fact) for name, fact in facts.items()}


def _plain_fact(fact: object) -> object:
    if isinstance(fact, bytes):
        return fact.hex()
    if isinstance(fact, (list, tuple)):
        return [_plain_fact(item) for item in fact]
    is_plain = fact is None or isinstance(fact, (str, int))
    # JSON has no spelling for infinities and what is not a number.
    return fact if is_plain or (isinstance(fact, float) and math.isfinite(fact)) else str(fact)


def _try_json(
    kind: str, status: int | None, message: str, code: int, facts: dict[str, object]
) -> None:
    found = {"type": kind, "status": status, "message": message, "exit_code": code, "facts": facts}
    try:
        print_json({"error": found})
    except OSError:
        # Where stdout is what failed, the line on stderr has to do.
        silence(sys.stdout)


def _usage(error: BaseException) -> str:
    """Return the lines above a usage error: how the command is called, and where that is told."""
    context = getattr(error, "ctx", None)
    if context is None:
        return ""
    return f"{context.get_usage()}\nTry '{context.command_path} --help' for help.\n\n"


def _usage_message(error: BaseException) -> str:
    message: str = error.format_message()  # type: ignore[attr-defined]
    if _STRAY_WORDS in message:
        message += ". A text of several words needs quotes around it"
    return message
