"""What units take is learnt so that slices rather end early than late."""

from hypothesis import given
from hypothesis import strategies as st

from sslm.program.program import SegmentKind
from sslm.runtime.unit_costs import MARGIN_NS_MIN, ROW_COUNTS, UnitCosts
from tests.toy_programs import moving_average_model

PROGRAM = moving_average_model().program
LAYER, HEAD = SegmentKind.LAYER, SegmentKind.HEAD


def note(costs: UnitCosts, ns: int, *, rows: int = 1, times: int = 1) -> None:
    """Learn that one layer took so long."""
    for _ in range(times):
        costs.note_run(PROGRAM, 1, 2, rows=rows, scored=1, elapsed_ns=ns)


def test_nothing_is_known_at_first() -> None:
    costs = UnitCosts()
    assert costs.most_ns(LAYER, 1) is None
    assert costs.rows_within(10**9, 64) == 1


def test_the_kinds_are_apart() -> None:
    costs = UnitCosts()
    costs.note_run(PROGRAM, 0, 3, rows=5, scored=1, elapsed_ns=200)
    costs.note_run(PROGRAM, 3, 6, rows=5, scored=1, elapsed_ns=90)
    assert (costs.most_ns(LAYER, 5), costs.most_ns(HEAD, 1)) == (100, 45)
    costs.note_run(PROGRAM, 2, 5, rows=5, scored=1, elapsed_ns=290)
    assert (costs.most_ns(LAYER, 5), costs.most_ns(HEAD, 1)) == (152, 68)
    assert costs.run_ns == 200 + 90 + 290


def test_a_run_of_both_kinds_tells_nothing_while_one_is_unknown() -> None:
    costs = UnitCosts()
    costs.note_run(PROGRAM, 0, 3, rows=5, scored=1, elapsed_ns=200)
    costs.note_run(PROGRAM, 0, 6, rows=5, scored=1, elapsed_ns=10**9)
    assert (costs.most_ns(LAYER, 5), costs.most_ns(HEAD, 1)) == (100, None)


def test_calls_cost_something_too() -> None:
    costs = UnitCosts()
    assert costs.call_ns == 0
    for count, elapsed_ns, known in ((2, 3200, 1600), (1, 3000, 3000), (1, 1400, 2900)):
        costs.note_calls(count, elapsed_ns)
        assert costs.call_ns == known


def test_up_at_once_down_slowly() -> None:
    costs = UnitCosts()
    for ns, known in ((1600, 1600), (3000, 3000), (1400, 2900), (2900, 2900), (0, 2719)):
        note(costs, ns)
        assert costs.most_ns(LAYER, 1) == known
    note(costs, 0, times=200)
    assert costs.most_ns(LAYER, 1) == 15


def test_a_pause_of_the_thread_counts_at_most_double() -> None:
    costs = UnitCosts()
    note(costs, 100)
    note(costs, 10**9)
    assert costs.most_ns(LAYER, 1) == 200


def test_who_was_late_keeps_a_margin() -> None:
    costs = UnitCosts()
    costs.note_slice(3_995_000, 4_000_000)
    assert costs.margin_ns == MARGIN_NS_MIN == 300_000
    costs.note_slice(4_209_600, 4_000_000)
    assert costs.margin_ns == 719_200
    costs.note_slice(4_100_000, 4_000_000)
    assert costs.margin_ns == 919_200
    costs.note_slice(4_000_000, 4_000_000)
    assert costs.margin_ns == 919_088
    for _ in range(20_000):
        costs.note_slice(1, 4_000_000)
    assert MARGIN_NS_MIN - 100 < costs.margin_ns <= MARGIN_NS_MIN


def test_one_that_was_very_late_does_not_cost_all_others_their_time() -> None:
    costs = UnitCosts()
    costs.note_slice(10**9, 4_000_000)
    assert costs.margin_ns == 1_300_000
    for _ in range(10):
        costs.note_slice(10**9, 4_000_000)
    assert costs.margin_ns == 2_000_000
    costs.note_slice(10**9, 100_000)
    assert costs.margin_ns == 2_000_000


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
    fixed_ns=st.integers(0, 1000),
    row_ns=st.integers(0, 200),
    budget_ns=st.integers(1, 5000),
    most=st.sampled_from([1, 7, 61, 64]),
)
def test_no_layer_of_a_chunk_exceeds_the_budget(
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
    assert all(rows == 1 or cost(rows) <= budget_ns for rows in chosen)
    assert max(chosen) <= most
    assert len(set(chosen[9:])) == 1
    if most == 64 and 2 * cost(64) <= budget_ns:
        # Not the largest by far if many small ones fit as well, but no worse than it.
        best = max(rows * (budget_ns // max(1, cost(rows))) for rows in ROW_COUNTS)
        assert 2 * chosen[-1] * (budget_ns // max(1, cost(chosen[-1]))) >= best
