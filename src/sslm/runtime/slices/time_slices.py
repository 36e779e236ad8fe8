"""How much one call may do: units of work, time, or both."""

from collections.abc import Sequence
from typing import NamedTuple

from sslm import limits
from sslm.errors.runtime import BudgetMissingError, OptionRangeError
from sslm.errors.showing import briefly, int_range
from sslm.program.program import SegmentKind
from sslm.program.slice_time import SliceTime
from sslm.runtime.slices.unit_costs import UnitCosts

NANOSECONDS_PER_MS = 1_000_000


_SPARE_BITS = 4
"""A sixteenth of the time is spared, as units may take longer than they did before."""
_TAIL_BITS = 2
"""Of the time, at most a quarter is left to what comes behind a slice, however long it took."""


class Part(NamedTuple):
    """Units of one kind that follow one another.

    Args:
        kind: Layer or head.
        rows: That each of them has; of the head, those that get logits.
        units: How many there are.
    """

    kind: SegmentKind
    rows: int
    units: int


class SliceBudget:
    """What is left of one call's budget, from its construction on.

    Where time is bounded, a slice is begun only if its first unit is known to fit, or nothing is
    known of it, except for the call's first one: a call always gets on. The slice itself ends in
    time. Where only units are, no clock is read, and what a call does depends on nothing else.

    Args:
        costs: What units take, by the clock that time is told by.
        units: Layers of chunks and blocks of the head, at least 1, or None for any number. What
            several sequences share counts once.
        max_ms: Milliseconds from 0, or None for any time.

    Attributes:
        costs: As given if time is bounded, else None.

    Raises:
        BudgetMissingError: If there is neither.
        OptionRangeError: If one is out of range.
    """

    def __init__(
        self, costs: UnitCosts, *, units: int | None = None, max_ms: float | None = None
    ) -> None:
        if units is None and max_ms is None:
            raise BudgetMissingError
        if units is not None and not 1 <= units <= limits.SLICE_UNITS_MAX:
            expected = int_range(1, limits.SLICE_UNITS_MAX)
            raise OptionRangeError("the budget of units", str(units), expected)
        self.costs = None if max_ms is None else costs
        self._max_ns = 0 if max_ms is None else _nanoseconds(max_ms)
        self._end_ns = 0
        self._slice_ended_ns = 0
        if max_ms is not None:
            tail_ns = min(costs.tail_ns, self._max_ns >> _TAIL_BITS)
            spare_ns = self._max_ns >> _SPARE_BITS
            self._end_ns = costs.now_ns() + self._max_ns - tail_ns - spare_ns
            self._slice_ended_ns = costs.work_ns()
        self._units_left = limits.SLICE_UNITS_MAX if units is None else units
        self._slice_count = 0
        self._is_over = False

    @property
    def is_spent(self) -> bool:
        """Whether no unit is left."""
        return self._units_left < 1

    @property
    def is_over(self) -> bool:
        """Whether there is no time left even for looking what comes next."""
        if self.costs is None or not self._slice_count:
            return False
        return self._is_over or self.costs.now_ns() + self.costs.look_ns > self._end_ns

    def chunk_rows(self, row_count_max: int) -> int:
        """Return how many rows a chunk may have, so that layers of it fit the whole time."""
        if self.costs is None:
            return row_count_max
        besides_ns = self.costs.look_ns + self.costs.tail_ns
        return self.costs.rows_within(self._max_ns - besides_ns, row_count_max)

    def fitting(self, parts: Sequence[Part]) -> int:
        """Return how many units of *parts*, in their order, may be begun; 0 if the first won't fit.

        Args:
            parts: At least one, with at least one unit.
        """
        if self.costs is not None and self._slice_count:
            most_ns = self.costs.most_ns(parts[0].kind, parts[0].rows) or 0
            if self.costs.now_ns() + most_ns > self._end_ns:
                return 0
        return min(sum(part.units for part in parts), self._units_left)

    def slice_time(self, parts: Sequence[Part]) -> SliceTime | None:
        """Return what ends a slice of *parts* in time, or None if time is not bounded."""
        if self.costs is None:
            return None
        known = (self.costs.most_ns(part.kind, part.rows) or 0 for part in parts)
        return SliceTime(
            self.costs.now_ns,
            self.costs.work_ns,
            deadline_ns=self._end_ns,
            unit_ns=max(known),
        )

    def spend(self, parts: Sequence[Part], units: Sequence[int], time: SliceTime | None) -> None:
        """Note what a slice came to, and learn from it.

        Args:
            parts: What was begun.
            units: How many units each sequence ran of them, at least one sequence.
            time: What bounded it, or None.
        """
        self._slice_count += 1
        self._units_left -= max(units)
        if self.costs is None or time is None:
            return
        self.costs.note_look(time.began_ns - self._slice_ended_ns)
        self._slice_ended_ns = time.ended_ns
        # Where all of them failed, there is time for others.
        planned = min(sum(part.units for part in parts), self._units_left + max(units))
        self._is_over = 0 < max(units) < planned
        if min(units):
            for part in parts:
                self.costs.note_unit(part.kind, part.rows, time.longest_ns(part.kind))

    def end(self) -> None:
        """Learn what a call takes behind its last slice, if that was ended by time."""
        if self.costs is not None and self._is_over:
            self.costs.note_tail(self.costs.work_ns() - self._slice_ended_ns)


def _nanoseconds(max_ms: float) -> int:
    is_number = isinstance(max_ms, (int, float)) and not isinstance(max_ms, bool)
    # Infinity is beyond the limit, and NaN compares with nothing.
    if not (is_number and 0 <= max_ms <= limits.SLICE_MS_MAX):
        expected = f"a number of milliseconds from 0 to {limits.SLICE_MS_MAX}"
        raise OptionRangeError("max_ms", briefly(max_ms), expected)
    return int(max_ms * NANOSECONDS_PER_MS)
