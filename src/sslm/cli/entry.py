"""Where the program starts: signals are taken care of before anything that takes time."""

import sys

from sslm.cli import signals
from sslm.version import VERSION

_OUT_OF_BUDGET = 5
_SHORT = ("Cannot allocate memory", "failed to map segment")


def main() -> None:
    """Run the command line and exit: 0, the code of an error's family, or 128 plus a signal."""
    signals.end_at_once()
    if sys.argv[1:] == ["--version"]:
        # Asked by scripts, again and again; it needs nothing of what follows.
        try:
            print(f"sslm {VERSION}", flush=True)  # noqa: T201
        except OSError as error:
            from sslm.cli.failures import explain

            sys.exit(explain(error, is_json=False))
        return
    # What takes long, and holds nothing that would have to be cleaned up, comes after.
    try:
        from sslm.cli.app import run
        from sslm.cli.failures import explain
        from sslm.cli.screen.output import use_utf8
    except (MemoryError, ImportError, OSError) as error:
        if isinstance(error, MemoryError) or any(words in str(error) for words in _SHORT):
            # What would explain it is what could not be loaded.
            sys.stderr.write("error: there is not enough memory to start; end other programs\n")
            sys.exit(_OUT_OF_BUDGET)
        raise

    use_utf8()
    arguments = sys.argv[1:]
    try:
        signals.unwind()
        code = run(arguments)
        # The answer is out, or what was half done is gone: nothing is left to unwind.
        signals.ignore()
    except (KeyboardInterrupt, SystemExit) as error:
        # Here if the signal came while an error was being told.
        signals.ignore()
        code = explain(error, is_json=False)
    sys.exit(code)
