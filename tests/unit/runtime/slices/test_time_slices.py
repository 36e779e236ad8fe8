"""A call does what its budget allows, no more than is known to fit, and at least one unit."""

from types import SimpleNamespace
from typing import Any

import pytest

from sslm import limits
from sslm.errors.runtime import BudgetMissingError, OptionRangeError
from sslm.program.program import SegmentKind
from sslm.runtime.slices.time_slices import Part, SliceBudget
from sslm.runtime.slices.unit_costs import UnitCosts
from tests.timed_plans import MS, US, ToyClock

LAYER, HEAD = SegmentKind.LAYER, SegmentKind.HEAD
PROGRAM: Any = SimpleNamespace(
    segments=[SimpleNamespace(kind=kind) for kind in (SegmentKind.EMBED, *[LAYER] * 30)],
    first_head_index=31,
)
"""As much of a program of many layers as is looked at."""


def known(clock: ToyClock, *, layer_ns: int = 300 * US) -> UnitCosts:
    """Return costs that know what a layer of one row takes."""
    costs = UnitCosts(clock, clock)
    costs.note_unit(LAYER, 1, layer_ns)
    return costs


LAYERS = [Part(LAYER, 1, 30)]


def run(budget: SliceBudget, clock: ToyClock, *, units: int, unit_ns: int = 300 * US) -> int:
    """Run a slice of so many layers, or of as many as fit; return how many were run."""
    parts = [Part(LAYER, 1, units)]
    time = budget.slice_time(parts)
    assert time is not None
    time.begin()
    count = 0
    for _ in time.segments(PROGRAM, 1, 1 + units):
        clock.ns += unit_ns
        count += 1
    time.end()
    budget.spend(parts, [count], time)
    return count


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

    budget = SliceBudget(UnitCosts(clock, clock), units=5)
    assert budget.costs is None
    assert budget.chunk_rows(64) == 64
    assert budget.slice_time(LAYERS) is None
    assert budget.fitting([Part(LAYER, 64, 3)]) == 3
    budget.spend([Part(LAYER, 64, 3)], [3], None)
    assert budget.fitting([Part(LAYER, 64, 3)]) == 2
    budget.spend([Part(LAYER, 64, 3)], [2, 1], None)
    assert budget.is_spent
    assert not budget.is_over
    budget.end()


@pytest.mark.parametrize(
    ("max_ms", "units"), [(0, 1), (0.01, 1), (0.6, 1), (0.65, 2), (2, 6), (3.2, 10)]
)
def test_as_many_as_fit_but_for_a_sixteenth_of_the_time(max_ms: float, units: int) -> None:
    clock = ToyClock()
    budget = SliceBudget(known(clock), max_ms=max_ms)
    assert budget.fitting(LAYERS) == 30
    assert run(budget, clock, units=30) == units
    assert budget.is_over
    assert not budget.is_spent


def test_the_first_unit_is_always_run() -> None:
    clock = ToyClock()
    budget = SliceBudget(known(clock), max_ms=1)
    clock.ns += 5 * MS
    assert budget.fitting(LAYERS) == 30
    assert not budget.is_over
    assert run(budget, clock, units=30) == 1


def test_a_unit_that_takes_longer_ends_a_slice_earlier() -> None:
    clock = ToyClock()
    assert run(SliceBudget(known(clock), max_ms=2), clock, units=30, unit_ns=500 * US) == 3
    assert run(SliceBudget(UnitCosts(clock, clock), max_ms=2), clock, units=30) == 6


def test_another_slice_is_begun_only_if_its_first_unit_fits() -> None:
    clock = ToyClock()
    budget = SliceBudget(known(clock), max_ms=2)
    assert run(budget, clock, units=3) == 3
    assert not budget.is_over
    clock.ns += 975 * US - 300 * US
    assert budget.fitting(LAYERS) == 30
    clock.ns += US
    assert budget.fitting(LAYERS) == 0
    # Of these nothing is known.
    assert budget.fitting([Part(HEAD, 1, 30)]) == 30


def test_both_bounds_hold() -> None:
    costs = known(ToyClock())
    assert SliceBudget(costs, units=2, max_ms=2).fitting(LAYERS) == 2
    assert SliceBudget(costs, units=200, max_ms=2).fitting(LAYERS) == 30


def test_units_that_were_not_run_are_not_spent() -> None:
    clock = ToyClock()
    budget = SliceBudget(known(clock), units=9, max_ms=2)
    assert run(budget, clock, units=2) == 2
    assert run(budget, clock, units=7) == 4
    assert budget.fitting([Part(HEAD, 1, 30)]) == 3
    assert budget.is_over
    assert not budget.is_spent


def test_where_all_failed_there_is_time_for_others() -> None:
    clock = ToyClock()
    budget = SliceBudget(known(clock), max_ms=2)
    time = budget.slice_time(LAYERS)
    budget.spend(LAYERS, [0, 0], time)
    assert not budget.is_over


def test_rows_of_a_chunk_fit_half_of_the_time() -> None:
    costs = known(ToyClock())
    assert SliceBudget(costs, max_ms=0.2).chunk_rows(64) == 1
    assert SliceBudget(costs, max_ms=2.5).chunk_rows(64) == 4
    assert SliceBudget(costs, max_ms=4.8).chunk_rows(64) == 8
    assert SliceBudget(costs, units=1).chunk_rows(64) == 64
    costs.note_look(300 * US)
    assert SliceBudget(costs, max_ms=4.8).chunk_rows(64) == 4


def test_a_slice_expects_its_longest_kind_of_unit() -> None:
    costs = known(ToyClock())
    parts = [*LAYERS, Part(HEAD, 1, 5)]
    costs.note_unit(HEAD, 1, 500 * US)
    time = SliceBudget(costs, max_ms=9).slice_time(parts)
    assert time is not None
    assert time.unit_ns == 500 * US


def test_what_a_slice_took_is_learnt() -> None:
    clock = ToyClock()
    costs = UnitCosts(clock, clock)
    budget = SliceBudget(costs, max_ms=2)
    clock.ns += 50 * US
    run(budget, clock, units=30)
    clock.ns += 70 * US
    budget.end()
    assert costs.most_ns(LAYER, 1) == 300 * US
    assert (costs.look_ns, costs.tail_ns) == (50 * US, 70 * US)
    # What comes behind the last unit has to fit too.
    assert run(SliceBudget(costs, max_ms=1.95), clock, units=30) == 5
    assert run(SliceBudget(UnitCosts(clock, clock), max_ms=1.95), clock, units=30) == 6


def test_what_came_behind_a_slice_takes_no_more_than_a_quarter() -> None:
    clock = ToyClock()
    costs = known(clock)
    costs.note_tail(100 * MS)
    assert run(SliceBudget(costs, max_ms=3.2), clock, units=30) == 7


def test_one_of_which_not_all_ran_tells_nothing() -> None:
    clock = ToyClock()
    costs = UnitCosts(clock, clock)
    budget = SliceBudget(costs, max_ms=2)
    time = budget.slice_time(LAYERS)
    assert time is not None
    time.layer_ns = 100
    budget.spend(LAYERS, [1, 0], time)
    assert costs.most_ns(LAYER, 1) is None
