"""A call does what its budget allows, no more than is known to fit, and at least one unit."""

from typing import Any

import pytest

from sslm import limits
from sslm.errors.runtime import BudgetMissingError, OptionRangeError
from sslm.program.program import SegmentKind
from sslm.runtime.time_slices import Part, SliceBudget
from sslm.runtime.unit_costs import UnitCosts
from tests.timed_plans import MS, US, ToyClock
from tests.toy_programs import moving_average_model

LAYER, HEAD = SegmentKind.LAYER, SegmentKind.HEAD
PROGRAM = moving_average_model().program


def known(clock: ToyClock, *, layer_ns: int = 300 * US) -> UnitCosts:
    """Return costs that know what a layer of one row takes."""
    costs = UnitCosts(clock)
    costs.margin_ns = 0
    costs.note_run(PROGRAM, 1, 2, rows=1, scored=0, elapsed_ns=layer_ns)
    return costs


def test_there_must_be_a_budget() -> None:
    with pytest.raises(
        BudgetMissingError, match=r"give layers \(a number of units\), max_ms, or both"
    ):
        SliceBudget(UnitCosts())


@pytest.mark.parametrize("units", [0, -1, limits.SLICE_UNITS_MAX + 1])
def test_units_out_of_range(units: int) -> None:
    with pytest.raises(OptionRangeError, match="budget of units"):
        SliceBudget(UnitCosts(), units=units)


@pytest.mark.parametrize(
    "max_ms", [-1, -0.001, float("nan"), float("inf"), 86_400_001, True, "1", []]
)
def test_milliseconds_out_of_range(max_ms: Any) -> None:
    with pytest.raises(OptionRangeError, match="max_ms"):
        SliceBudget(UnitCosts(), max_ms=max_ms)


def test_units_alone_read_no_clock() -> None:
    def clock() -> int:
        raise AssertionError

    budget = SliceBudget(UnitCosts(clock), units=5)
    assert budget.costs is None
    assert budget.chunk_rows(64) == 64
    assert budget.fitting([Part(LAYER, 64, 3)]) == 3
    budget.spend(3)
    assert budget.fitting([Part(LAYER, 64, 3)]) == 2
    budget.spend(2)
    assert budget.is_spent


def test_as_many_as_fit_the_time() -> None:
    clock = ToyClock()
    budget = SliceBudget(known(clock), max_ms=2)
    assert budget.fitting([Part(LAYER, 1, 30)]) == 6
    clock.ns += 2 * MS - 301 * US
    assert budget.fitting([Part(LAYER, 1, 30)]) == 1
    budget.spend(1)
    assert budget.fitting([Part(LAYER, 1, 30)]) == 1
    clock.ns += 2 * US
    assert budget.fitting([Part(LAYER, 1, 30)]) == 0
    clock.ns += MS
    assert budget.fitting([Part(LAYER, 1, 30)]) == 0


@pytest.mark.parametrize("max_ms", [0, 0.01])
def test_the_first_unit_is_always_run(max_ms: float) -> None:
    clock = ToyClock()
    budget = SliceBudget(known(clock), max_ms=max_ms)
    clock.ns += MS
    assert budget.fitting([Part(LAYER, 1, 30)]) == 1
    budget.spend(1)
    assert budget.fitting([Part(LAYER, 1, 30)]) == 0


def test_one_by_one_while_nothing_is_known() -> None:
    clock = ToyClock()
    budget = SliceBudget(known(clock), max_ms=100)
    assert budget.fitting([Part(HEAD, 1, 30)]) == 1
    budget.spend(1)
    clock.ns += 100 * MS - 1
    assert budget.fitting([Part(HEAD, 1, 30)]) == 1
    clock.ns += 1
    assert budget.fitting([Part(HEAD, 1, 30)]) == 0


def test_both_bounds_hold() -> None:
    costs = known(ToyClock())
    assert SliceBudget(costs, units=2, max_ms=2).fitting([Part(LAYER, 1, 30)]) == 2
    assert SliceBudget(costs, units=20, max_ms=2).fitting([Part(LAYER, 1, 30)]) == 6


def test_rows_of_a_chunk_fit_the_whole_time() -> None:
    costs = known(ToyClock())
    assert SliceBudget(costs, max_ms=0.2).chunk_rows(64) == 1
    assert SliceBudget(costs, max_ms=2.5).chunk_rows(64) == 8
    assert SliceBudget(costs, units=1).chunk_rows(64) == 64


def test_one_part_after_the_other() -> None:
    clock = ToyClock()
    costs = known(clock)
    parts = [Part(LAYER, 1, 4), Part(HEAD, 1, 5)]
    # Nothing is known of the head: it is not run beside something else.
    assert SliceBudget(costs, max_ms=9).fitting(parts) == 4
    costs.note_run(PROGRAM, 3, 4, rows=1, scored=1, elapsed_ns=500 * US)
    assert [SliceBudget(costs, max_ms=ms).fitting(parts) for ms in (1.1, 1.6, 1.7, 2.3, 9)] == [
        3,
        4,
        5,
        6,
        9,
    ]
    assert SliceBudget(costs, units=5).fitting(parts) == 5


def test_time_beside_the_units_is_left_for_it() -> None:
    clock = ToyClock()
    costs = known(clock)
    budget = SliceBudget(costs, max_ms=2)
    costs.note_run(PROGRAM, 1, 2, rows=1, scored=0, elapsed_ns=300 * US)
    clock.ns += 700 * US
    budget.spend(1)
    budget.end()
    assert costs.call_ns == 400 * US
    assert SliceBudget(costs, max_ms=2).fitting([Part(LAYER, 1, 30)]) == 5


def test_a_margin_is_kept_for_what_was_late() -> None:
    costs = known(ToyClock())

    def fitting(max_ms: float) -> int:
        return SliceBudget(costs, max_ms=max_ms).fitting([Part(LAYER, 1, 30)])

    # In two halves, so that the clock is looked at in between.
    for margin_us, units in ((0, 6), (200, 6), (300, 5), (301, 3), (10_000, 2)):
        costs.margin_ns = margin_us * US
        assert fitting(2) == units
    # At most half of the time: the rest is of use in any case.
    assert [fitting(ms) for ms in (0.6, 1.2, 1.8, 2.4, 3.0)] == [1, 2, 2, 2, 3]


@pytest.mark.parametrize(("units", "margin_ns"), [(1, 0), (2, 250 * US)])
def test_a_unit_that_had_to_be_run_is_not_late(units: int, margin_ns: int) -> None:
    clock = ToyClock()
    costs = known(clock)
    budget = SliceBudget(costs, max_ms=1)
    budget.spend(units)
    clock.ns += 2 * MS
    budget.end()
    assert costs.margin_ns == margin_ns
