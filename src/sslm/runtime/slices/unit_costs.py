"""What a unit of work takes on this machine, as lately measured."""

import time
from collections import deque
from collections.abc import Callable
from typing import Final

from sslm.program.program import SegmentKind

ROW_COUNTS: Final = (1, 2, 4, 8, 16, 32, 48, 64)
"""Rows that a chunk is given where time decides. Kernels work in blocks of rows of such sizes."""

_KEPT_NOTES: Final = 16
_KEPT_TAILS: Final = 256
_OUTLIER_SHARE: Final = 8
_SHARE_BITS: Final = 1
_FORGOTTEN_AFTER_NOTES: Final = 64


class _Cost:
    """What something took the last times.

    Attributes:
        noted_at: When it was noted last.
    """

    def __init__(self) -> None:
        self._recent: deque[int] = deque(maxlen=_KEPT_NOTES)
        self.noted_at = 0

    def note(self, ns: int, now: int = 0) -> None:
        self._recent.append(ns)
        self.noted_at = now

    @property
    def ns(self) -> int:
        """The longest of late, but for an eighth, which may tell of something else; 0 at first."""
        last = len(self._recent) - 1
        return sorted(self._recent)[last - -(-last // _OUTLIER_SHARE)] if self._recent else 0


class _Kind:
    """Costs of one kind of unit, by rows; what was not measured lately is forgotten."""

    def __init__(self) -> None:
        self._costs: dict[int, _Cost] = {}
        self._count = 0

    def note(self, rows: int, ns: int) -> None:
        self._count += 1
        self._costs.setdefault(rows, _Cost()).note(ns, self._count)
        oldest = self._count - _FORGOTTEN_AFTER_NOTES
        self._costs = {n: cost for n, cost in self._costs.items() if cost.noted_at > oldest}

    def most(self, rows: int) -> int | None:
        """Return what a unit takes at most: no row takes longer than when there are fewer."""
        costs = self._costs
        if rows in costs:
            return costs[rows].ns
        bounds = (cost.ns * max(rows, n) // n for n, cost in costs.items())
        return min(bounds, default=None)

    def least(self, rows: int) -> int:
        """Return what a unit takes at least: as much as one of fewer rows, if one is known."""
        if rows in self._costs:
            return self._costs[rows].ns
        return max((cost.ns for n, cost in self._costs.items() if n <= rows), default=1)


class UnitCosts:
    """Learns what units take, by their kind and rows, and forgets what was out of the common.

    Times decide only how far a slice goes, never what it computes.

    Args:
        clock: Returns nanoseconds, by which time is told and units are measured.
        work_clock: Returns those of the calling thread's work, by which is measured what it does
            besides.

    Attributes:
        now_ns: The clock.
        work_ns: The clock of work.
    """

    def __init__(
        self,
        clock: Callable[[], int] = time.perf_counter_ns,
        work_clock: Callable[[], int] = time.thread_time_ns,
    ) -> None:
        self.now_ns = clock
        self.work_ns = work_clock
        self._look = _Cost()
        self._tails: deque[int] = deque(maxlen=_KEPT_TAILS)
        self._layer = _Kind()
        self._head = _Kind()

    @property
    def look_ns(self) -> int:
        """What it takes to choose and begin a slice, as far as is known."""
        return self._look.ns

    @property
    def tail_ns(self) -> int:
        """What a call takes at most behind its last slice, as far as is known."""
        return max(self._tails, default=0)

    def note_unit(self, kind: SegmentKind, rows: int, ns: int) -> None:
        """Learn what the longest unit of a slice took; 0 tells nothing."""
        if ns:
            self._of(kind).note(rows, ns)

    def note_look(self, ns: int) -> None:
        """Learn what it took to choose and begin a slice."""
        self._look.note(ns)

    def note_tail(self, ns: int) -> None:
        """Learn what a call took behind its last slice."""
        self._tails.append(ns)

    def most_ns(self, kind: SegmentKind, rows: int) -> int | None:
        """Return what a unit takes at most, as far as is known; None if nothing is."""
        return self._of(kind).most(rows)

    def rows_within(self, budget_ns: int, row_count_max: int) -> int:
        """Return how many rows a chunk may have so that a layer of it fits a budget well.

        Of the sizes of which a layer takes at most half of it, as one may take twice as long, that
        by which most rows get through a layer in the whole budget; a size that was never measured
        counts as well as it may turn out. 1 if none fits, and if nothing is known yet.
        """
        kind = self._layer
        sizes = [rows for rows in {*ROW_COUNTS, row_count_max} if rows <= row_count_max]
        costs = ((rows, kind.most(rows)) for rows in sizes)
        largest_ns = budget_ns >> _SHARE_BITS
        fitting = [rows for rows, most in costs if most is not None and most <= largest_ns]
        return max(
            fitting,
            key=lambda rows: (rows * (budget_ns // max(1, kind.least(rows))), rows),
            default=1,
        )

    def _of(self, kind: SegmentKind) -> _Kind:
        return self._head if kind is SegmentKind.HEAD else self._layer
