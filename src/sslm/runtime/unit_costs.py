"""What a unit of work takes on this machine, as lately measured."""

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from sslm.program.program import Program, SegmentKind
from sslm.program.stepping import head_blocks_between, layers_between

ROW_COUNTS: Final = (1, 2, 4, 8, 16, 32, 48, 64)
"""Rows that a chunk is given where time decides. Kernels work in blocks of rows of such sizes."""

MARGIN_NS_MIN: Final = 300_000
"""Nanoseconds that a slice leaves unused if none was ever late."""

_DECAY_BITS: Final = 4
_RISE_MAX: Final = 2
_KEPT_NOTES: Final = 64
_FIRST_CALL_NS: Final = 200_000
_MARGIN_DECAY_BITS: Final = 13


@dataclass(slots=True)
class _Cost:
    """What a unit of one size took: the highest of late, and when it was noted last."""

    ns: int
    noted_at: int

    def note(self, ns: int, now: int) -> None:
        # Up at once, down slowly: who relies on it rather stops early. But no further up than
        # twice, as a thread that was not running for a while says nothing about the work.
        self.ns = (
            min(ns, _RISE_MAX * self.ns)
            if ns > self.ns
            else self.ns - ((self.ns - ns) >> _DECAY_BITS)
        )
        self.noted_at = now


class _Kind:
    """Costs of one kind of unit, by rows; what was not measured lately is forgotten."""

    def __init__(self) -> None:
        self._costs: dict[int, _Cost] = {}
        self._count = 0

    def note(self, rows: int, ns: int) -> None:
        self._count += 1
        known = self._costs.get(rows)
        if known is None:
            self._costs[rows] = _Cost(ns, self._count)
        else:
            known.note(ns, self._count)
        oldest = self._count - _KEPT_NOTES
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
    """Learns what units take, by their kind and rows.

    Times decide only how far a slice goes, never what it computes.

    Args:
        clock: Returns nanoseconds, by which time is told.
        work_clock: Returns those by which work is measured: of the thread, if it does all of the
            work, as one that is kept waiting for the processor has not more of it. None is *clock*.

    Attributes:
        now_ns: The clock.
        work_ns: The clock of work.
        run_ns: Nanoseconds of all runs so far.
        call_ns: What a call takes besides its units, as far as is known.
        margin_ns: What slices leave unused, as some took longer than they might.
    """

    def __init__(
        self,
        clock: Callable[[], int] = time.perf_counter_ns,
        work_clock: Callable[[], int] | None = None,
    ) -> None:
        self.now_ns = clock
        self.work_ns = work_clock or clock
        self.run_ns = 0
        self.call_ns = 0
        self.margin_ns = MARGIN_NS_MIN
        self._layer = _Kind()
        self._head = _Kind()

    def note_run(
        self, program: Program, first: int, last: int, *, rows: int, scored: int, elapsed_ns: int
    ) -> None:
        """Learn from a run of segments first … last - 1.

        Args:
            program: What ran.
            first: Its first segment.
            last: One past its last.
            rows: Of all spans.
            scored: Those of them that got logits.
            elapsed_ns: What the run took.
        """
        self.run_ns += elapsed_ns
        layers = layers_between(program, first, last)
        blocks = head_blocks_between(program, first, last)
        if layers and blocks:
            layer_ns, block_ns = self._layer.most(rows), self._head.most(scored)
            if layer_ns is None or block_ns is None:
                return
            # Who took how much of it is not known: each as much as was expected of it.
            expected_ns = max(1, layers * layer_ns + blocks * block_ns)
            self._layer.note(rows, layer_ns * elapsed_ns // expected_ns)
            self._head.note(scored, block_ns * elapsed_ns // expected_ns)
        elif layers:
            self._layer.note(rows, elapsed_ns // layers)
        elif blocks:
            self._head.note(scored, elapsed_ns // blocks)

    def note_calls(self, count: int, elapsed_ns: int) -> None:
        """Learn what *count* calls took besides their runs, all together."""
        # The first ones do what later ones find done, and are no measure.
        cost = _Cost(self.call_ns or min(elapsed_ns // count, _FIRST_CALL_NS), 0)
        cost.note(elapsed_ns // count, 0)
        self.call_ns = cost.ns

    def note_slice(self, elapsed_ns: int, max_ns: int) -> None:
        """Learn how long a slice took, and how long it might.

        So that of thousands of slices one is too long, each that is widens the margin by twice as
        much, and all others let it shrink by an 8192nd. But by no more than a quarter of its time
        at once: the longest ones tell of something else than slices.
        """
        over_ns = elapsed_ns - max_ns
        if over_ns > 0:
            wider_ns = min(self.margin_ns + min(2 * over_ns, max_ns >> 2), max_ns >> 1)
            self.margin_ns = max(self.margin_ns, wider_ns)
        elif self.margin_ns > MARGIN_NS_MIN:
            self.margin_ns -= self.margin_ns >> _MARGIN_DECAY_BITS

    def most_ns(self, kind: SegmentKind, rows: int) -> int | None:
        """Return what a unit takes at most, as far as is known; None if nothing is."""
        return self._of(kind).most(rows)

    def rows_within(self, budget_ns: int, row_count_max: int) -> int:
        """Return how many rows a chunk may have so that a layer of it fits a budget.

        Of the sizes that fit, that by which most rows get through a layer in the whole budget; a
        size that was never measured counts as well as it may turn out. 1 if none fits, and if
        nothing is known yet.
        """
        kind = self._layer
        sizes = [rows for rows in {*ROW_COUNTS, row_count_max} if rows <= row_count_max]
        costs = ((rows, kind.most(rows)) for rows in sizes)
        fitting = [rows for rows, most in costs if most is not None and most <= budget_ns]
        return max(
            fitting,
            key=lambda rows: (rows * (budget_ns // max(1, kind.least(rows))), rows),
            default=1,
        )

    def _of(self, kind: SegmentKind) -> _Kind:
        return self._head if kind is SegmentKind.HEAD else self._layer
