"""What needs a lock or a thread, or an error that says it cannot be had."""

import _thread
import threading
from collections.abc import Callable
from pathlib import Path
from typing import BinaryIO, cast

from sslm.errors.native import ThreadStartError


def new_lock() -> threading.Lock:
    """Return a lock, or raise MemoryError where Python says RuntimeError."""
    try:
        return threading.Lock()
    except RuntimeError as error:
        raise MemoryError(*error.args) from error


def new_reentrant_lock() -> threading.RLock:
    """Return a lock that its thread may take again, or raise MemoryError."""
    try:
        return threading.RLock()
    except RuntimeError as error:
        raise MemoryError(*error.args) from error


def open_file(path: Path, mode: str) -> BinaryIO:
    """Open a file with a buffer, or raise MemoryError where Python says RuntimeError of its lock.

    Args:
        path: Of the file.
        mode: Of bytes, as for :func:`open`.

    Raises:
        OSError: If the system refuses.
    """
    try:
        return cast(BinaryIO, path.open(mode))
    except RuntimeError as error:
        raise MemoryError(*error.args) from error


class _End:
    """What the new thread alone holds, so that its end is seen even if it never ran a line."""

    __slots__ = ("_on_end",)

    def __init__(self, on_end: Callable[[], None]) -> None:
        self._on_end = on_end

    def __del__(self) -> None:
        self._on_end()


def start_thread(run: Callable[[], None], on_end: Callable[[], None]) -> None:
    """Start a daemon thread without waiting for it.

    ``threading.Thread.start`` waits until the new thread says that it runs. A thread that has no
    memory for its first step never says so, and its starter would wait for ever.

    Args:
        run: What the thread does. A MemoryError ends it quietly.
        on_end: Called once when the thread has ended, or could not begin, for whatever reason.

    Raises:
        ThreadStartError: If the system refuses the thread, or the interpreter is ending.
    """
    try:
        _thread.start_new_thread(_run, (run, _End(on_end)))
    except RuntimeError as error:
        raise ThreadStartError(1) from error


def _run(run: Callable[[], None], end: _End) -> None:
    try:
        run()
    except MemoryError:
        # Whoever waits for the end finds out how far it came; a trace on stderr would help nobody.
        return
