"""Progress bars on a terminal."""

import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Final

from rich.console import Console
from rich.progress import (
    BarColumn,
    Progress,
    TaskID,
    TaskProgressColumn,
    TextColumn,
    TimeElapsedColumn,
)

from sslm.progress import StageProgress

_REDRAW_NS: Final = 100_000_000
"""Between two drawings: ten a second look smooth, and cost nothing beside the work."""


class Bars:
    """One bar for each kind of work, drawn when it reports, by the thread that works.

    Args:
        delay_ns: Nothing is drawn for so long, so that short work leaves no flicker.
    """

    def __init__(self, delay_ns: int) -> None:
        columns = (
            TextColumn("{task.description:>12}", markup=False),
            BarColumn(),
            TaskProgressColumn(),
        )
        self._progress = Progress(
            *columns,
            TimeElapsedColumn(),
            console=Console(stderr=True),
            transient=True,
            auto_refresh=False,
            redirect_stdout=False,
            redirect_stderr=False,
        )
        self._tasks: dict[str, TaskID] = {}
        self._next_ns = time.monotonic_ns() + delay_ns
        self._is_drawn = False

    def report(self, what: str, done: int, total: int) -> None:
        """Take note, and draw if it is time to."""
        if what not in self._tasks:
            self._tasks[what] = self._progress.add_task(what, total=total or None)
        self._progress.update(self._tasks[what], completed=done, total=total or None)
        now_ns = time.monotonic_ns()
        if now_ns < self._next_ns:
            return
        self._next_ns = now_ns + _REDRAW_NS
        # Work is no worse if nobody can see how far it is.
        with suppress(OSError):
            if not self._is_drawn:
                self._is_drawn = True
                self._progress.start()
            self._progress.refresh()

    def clear(self) -> None:
        """Take the bars away."""
        if self._is_drawn:
            with suppress(OSError):
                self._progress.stop()


@contextmanager
def bars(delay_ns: int) -> Iterator[StageProgress]:
    """Draw what is reported, and take it away at the end."""
    drawing = Bars(delay_ns)
    try:
        yield drawing.report
    finally:
        drawing.clear()
