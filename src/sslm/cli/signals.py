"""What signals do to a command: it unwinds once, and ends with 128 plus the signal's number."""

# What the module signal is made of: signal itself loads enumerations first, and takes ten times as
# long, in which a signal would still show a traceback.
import _signal as signal  # type: ignore[import-not-found]
import os
import sys
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import FrameType

GRACE_NS = 1_000_000_000
"""How long one signal keeps the next ones from being noticed: a key that is pressed twice must not
stop the cleanup. What takes longer can be interrupted again."""

_NAMES = ("SIGINT", "SIGTERM", "SIGHUP", "SIGBREAK")
_NUMBERS = tuple(getattr(signal, name) for name in _NAMES if hasattr(signal, name))
_RETRY_S = 1


def end_at_once() -> None:
    """Let a signal end the process without a word of Python's; for when there is nothing to undo.

    What was ignored when the process started, as under ``nohup``, stays ignored, here and below.
    """
    _handle(_end)


def unwind() -> None:
    """Let a signal raise where the program is: KeyboardInterrupt, or SystemExit for the others."""
    unwinding = _Unwinding()
    sys.unraisablehook = unwinding.retry
    _handle(unwinding.interrupt)


def ignore() -> None:
    """Let nothing disturb the end of the process, of which the interpreter makes a little work.

    A handler in Python would be gone before the process is.
    """
    _handle(signal.SIG_IGN)


def told(number: int) -> str:
    """Return the word for how a signal ends a command."""
    return "interrupted" if number == signal.SIGINT else "terminated"


def _handle(handler: object) -> None:
    for number in _NUMBERS:
        if signal.getsignal(number) != signal.SIG_IGN:
            signal.signal(number, handler)


def _end(number: int, frame: "FrameType | None") -> None:
    del frame
    # Straight to the system: the interpreter may be in the middle of an import.
    try:
        os.write(2, f"{told(number)}\n".encode())
    finally:
        os._exit(128 + number)


def _send(number: int) -> None:
    """Signal the main thread, also where it waits for something."""
    import threading

    if hasattr(signal, "pthread_kill"):
        signal.pthread_kill(threading.main_thread().ident or 0, number)
    else:
        signal.raise_signal(number)


class _Unwinding:
    """Raises for a signal, and not again until there was time to clean up."""

    def __init__(self) -> None:
        self._raised_ns = -GRACE_NS

    def interrupt(self, number: int, frame: "FrameType | None") -> None:
        del frame
        now_ns = time.monotonic_ns()
        if now_ns - self._raised_ns < GRACE_NS:
            return
        self._raised_ns = now_ns
        if number == signal.SIGINT:
            raise KeyboardInterrupt
        raise SystemExit(128 + number)

    def retry(self, unraisable: "sys.UnraisableHookArgs") -> None:
        """Signal again what was raised where nothing can be raised, as in a finalizer."""
        error = unraisable.exc_value
        if not isinstance(error, (KeyboardInterrupt, SystemExit)):
            sys.__unraisablehook__(unraisable)
            return
        code = error.code if isinstance(error, SystemExit) else None
        number = code - 128 if isinstance(code, int) else signal.SIGINT
        self._raised_ns = -GRACE_NS
        # From another thread, and a little later, when the main one is out of the finalizer.
        import threading

        again = threading.Timer(_RETRY_S, _send, (number,))
        again.daemon = True
        again.start()
