"""What units take is learnt from the last ones, and what was out of the common is forgotten."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sslm.program.program import SegmentKind
from sslm.runtime.slices.unit_costs import ROW_COUNTS, UnitCosts

LAYER, HEAD = SegmentKind.LAYER, SegmentKind.HEAD


def note(costs: UnitCosts, ns: int, *, rows: int = 1, times: int = 1) -> None:
    """Learn that the longest layer of a slice took so long."""
    for _ in range(times):
        costs.note_unit(LAYER, rows, ns)


def test_nothing_is_known_at_first() -> None:
    costs = UnitCosts()
    assert costs.most_ns(LAYER, 1) is None
    assert costs.rows_within(10**9, 64) == 1
    assert (costs.look_ns, costs.tail_ns) == (0, 0)


def test_the_kinds_are_apart() -> None:
    costs = UnitCosts()
    costs.note_unit(LAYER, 5, 100)
    costs.note_unit(HEAD, 1, 45)
    assert (costs.most_ns(LAYER, 5), costs.most_ns(HEAD, 1)) == (100, 45)


def test_what_was_not_run_tells_nothing() -> None:
    costs = UnitCosts()
    costs.note_unit(LAYER, 5, 0)
    assert costs.most_ns(LAYER, 5) is None


def test_the_longest_but_for_an_eighth() -> None:
    costs = UnitCosts()
    known = []
    for ns in (1, 2, 3, 4, 5, 6, 7, 8, 9, 10):
        note(costs, ns)
        known.append(costs.most_ns(LAYER, 1))
    assert known == [1, 1, 2, 3, 4, 5, 6, 7, 8, 8]
    for ns in (*range(11, 17), 100, 100):
        note(costs, ns)
    assert costs.most_ns(LAYER, 1) == 16
    note(costs, 100)
    assert costs.most_ns(LAYER, 1) == 100


@pytest.mark.parametrize("count", [0, 1, 7, 16])
def test_a_pause_of_the_thread_counts_for_nothing(count: int) -> None:
    """Whenever it comes; also at first, from the second unit on."""
    costs = UnitCosts()
    note(costs, 100, times=count)
    note(costs, 10**9)
    note(costs, 100)
    assert costs.most_ns(LAYER, 1) == 100


def test_chunks_are_as_large_as_before_after_a_pause() -> None:
    """A pause while a chunk runs, then small ones that were slow too, then the usual times."""
    costs = UnitCosts()
    budget_ns = 4000

    def advance(count: int, *, is_slow: bool = False) -> list[int]:
        chosen = []
        for _ in range(count):
            rows = costs.rows_within(budget_ns, 64)
            note(costs, 30_000 if is_slow else 300 + 10 * rows, rows=rows)
            chosen.append(rows)
        return chosen

    usual = advance(12)[-1]
    assert usual > 16
    assert advance(1, is_slow=True) == [usual]
    assert advance(100)[-1] == usual
    # Of as many as are remembered, all were slow: nothing else is known.
    assert advance(100, is_slow=True)[-1] == 1
    assert advance(100)[-1] == usual


def test_what_is_done_besides_is_known_too() -> None:
    costs = UnitCosts()
    for ns in (5, 10**9, 6):
        costs.note_look(ns)
        costs.note_tail(ns)
    assert (costs.look_ns, costs.tail_ns) == (6, 10**9)
    for _ in range(256):
        costs.note_tail(7)
    assert costs.tail_ns == 7


def test_other_sizes_are_bounded_by_those_that_are_known() -> None:
    costs = UnitCosts()
    note(costs, 100, rows=4)
    assert [costs.most_ns(LAYER, rows) for rows in (1, 4, 8, 6)] == [100, 100, 200, 150]
    note(costs, 130, rows=16)
    assert [costs.most_ns(LAYER, rows) for rows in (1, 8, 5, 32)] == [100, 130, 125, 260]


def test_what_was_not_measured_lately_is_forgotten() -> None:
    costs = UnitCosts()
    note(costs, 10**9, rows=64)
    note(costs, 100, rows=32, times=63)
    assert costs.most_ns(LAYER, 64) == 10**9
    note(costs, 100, rows=32)
    assert costs.most_ns(LAYER, 64) == 200


@given(
    fixed_ns=st.integers(1, 1000),
    row_ns=st.integers(0, 200),
    budget_ns=st.integers(1, 5000),
    most=st.sampled_from([1, 7, 61, 64]),
)
def test_two_layers_of_a_chunk_fit_the_budget(
    fixed_ns: int, row_ns: int, budget_ns: int, most: int
) -> None:
    """Whatever rows cost, chunks grow until more would not fit, and never beyond."""

    def cost(rows: int) -> int:
        return fixed_ns + row_ns * rows

    costs = UnitCosts()
    chosen = []
    for _ in range(12):
        chosen.append(costs.rows_within(budget_ns, most))
        note(costs, cost(chosen[-1]), rows=chosen[-1])
    assert chosen[0] == 1
    assert all(rows == 1 or 2 * cost(rows) <= budget_ns for rows in chosen)
    assert max(chosen) <= most
    assert len(set(chosen[9:])) == 1
    if most == 64 and 4 * cost(64) <= budget_ns:
        # Not the largest by far if many small ones fit as well, but no worse than it.
        best = max(rows * (budget_ns // max(1, cost(rows))) for rows in ROW_COUNTS)
        assert 2 * chosen[-1] * (budget_ns // max(1, cost(chosen[-1]))) >= best
