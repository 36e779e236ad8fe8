"""How much one call may do: units of work, time, or both."""

from collections.abc import Sequence
from typing import NamedTuple

from sslm import limits
from sslm.errors.runtime import BudgetMissingError, OptionRangeError
from sslm.errors.showing import briefly, int_range
from sslm.program.program import SegmentKind
from sslm.runtime.unit_costs import MARGIN_NS_MIN, UnitCosts

NANOSECONDS_PER_MS = 1_000_000

_MARGIN_SHARE_BITS = 1
_SPLIT_UNITS = 2


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

    Where time is bounded, work is done only if it is known to fit, except for the call's first
    unit: a call always gets on; and a unit of which nothing is known is tried out while time is
    left. Where only units are, no clock is read, and what a call does
    depends on nothing else.

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
        self._deadline_ns = 0 if max_ms is None else costs.now_ns() + self._max_ns
        self._units_left = limits.SLICE_UNITS_MAX if units is None else units
        self._started_ns = 0 if max_ms is None else costs.work_ns()
        self._call_count = self._unit_count = 0
        self._run_ns_before = costs.run_ns

    @property
    def is_spent(self) -> bool:
        """Whether no unit is left; whether one fits the time depends on the unit."""
        return self._units_left < 1

    def chunk_rows(self, row_count_max: int) -> int:
        """Return how many rows a chunk may have, so that a layer of it fits the whole time."""
        if self.costs is None:
            return row_count_max
        return self.costs.rows_within(self._max_ns, row_count_max)

    def fitting(self, parts: Sequence[Part]) -> int:
        """Return how many units of *parts*, in their order, fit; at least 1 of a call's first ones.

        Args:
            parts: At least one, with at least one unit.
        """
        if self.costs is None:
            return min(sum(part.units for part in parts), self._units_left)
        margin_ns = min(self.costs.margin_ns, self._max_ns >> _MARGIN_SHARE_BITS)
        left_ns = self._deadline_ns - self.costs.now_ns() - self.costs.call_ns - margin_ns
        units = 0
        for part in parts:
            most_ns = self.costs.most_ns(part.kind, part.rows)
            if most_ns is None:
                # One by one while nothing is known of their kind, and nothing else beside it.
                units += int(units == 0 and left_ns > 0)
                break
            fitting = min(part.units, max(0, left_ns) // max(1, most_ns))
            units += fitting
            left_ns -= fitting * most_ns
            if fitting < part.units:
                break
        if self.costs.margin_ns > MARGIN_NS_MIN and units > _SPLIT_UNITS:
            # Where slices were late, look at the clock once more half way.
            units = -(-units // 2)
        return min(max(units, int(not self._call_count)), self._units_left)

    def spend(self, units: int) -> None:
        """Note that so many units were run."""
        self._call_count += 1
        self._unit_count += units
        self._units_left -= units

    def end(self) -> None:
        """Learn what calls take besides the units that they run, and whether time was kept."""
        if self.costs is not None and self._call_count:
            elapsed_ns = self.costs.work_ns() - self._started_ns
            run_ns = self.costs.run_ns - self._run_ns_before
            self.costs.note_calls(self._call_count, elapsed_ns - run_ns)
            # A single unit had to be run, however long it takes.
            if self._unit_count > 1:
                self.costs.note_slice(elapsed_ns, self._max_ns)


def _nanoseconds(max_ms: float) -> int:
    is_number = isinstance(max_ms, (int, float)) and not isinstance(max_ms, bool)
    # Infinity is beyond the limit, and NaN compares with nothing.
    if not (is_number and 0 <= max_ms <= limits.SLICE_MS_MAX):
        expected = f"a number of milliseconds from 0 to {limits.SLICE_MS_MAX}"
        raise OptionRangeError("max_ms", briefly(max_ms), expected)
    return int(max_ms * NANOSECONDS_PER_MS)
