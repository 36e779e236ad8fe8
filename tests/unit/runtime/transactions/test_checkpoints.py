"""What is saved, what it is charged, and what goes when there is no more room."""

from array import array
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from sslm import limits
from sslm.errors.runtime import OptionRangeError, SequenceBusyError
from sslm.errors.sessions import CheckpointBudgetError
from sslm.program.plan import Plan
from sslm.runtime.sequences.kv_pool import KvPool
from sslm.runtime.sequences.snapshot import NO_ADAPTER, Snapshot
from sslm.runtime.transactions.checkpoints import (
    CheckpointBudget,
    Checkpoints,
    charged_bytes,
    private_bytes_max,
)
from tests.sequences import MODELS, PROMPT, new_pool, new_sequence, reference_plan, run
from tests.tiny_models import MODEL_ID

FACTS = 32 + 32 + 32 + 48
COUNTS = (1, 63, 64, 65, 128, 140)
IDS = (PROMPT * 2)[: COUNTS[-1]]


class Saved:
    """Snapshots of one growing sequence after each of COUNTS, and their pool."""

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        self.pool: KvPool = new_pool(plan)
        self.layout = plan.program.state_layout
        self.snapshots: list[Snapshot] = []
        with new_sequence(plan, self.pool) as sequence:
            for start, stop in zip((0, *COUNTS), COUNTS, strict=False):
                sequence.push(IDS[start:stop])
                run(plan, sequence)
                self.snapshots.append(sequence.snapshot())

    def private(self, snapshot: Snapshot) -> int:
        count = len(snapshot.token_ids)
        rows = 4 * count + 4 * self.plan.program.residual.width + FACTS
        pages = 8 * (count // 64)
        return rows + pages + len(snapshot.tail) + self.layout.fixed_size_bytes


@pytest.fixture(params=MODELS)
def saved(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Saved]:
    found = Saved(reference_plan(request.param, tmp_path))
    yield found
    for snapshot in found.snapshots:
        snapshot.release()
    assert found.pool.held_page_count == 0


def set_of(size_bytes: int, count: int = limits.CHECKPOINT_COUNT_MAX) -> Checkpoints:
    return Checkpoints(budget=CheckpointBudget(size_bytes=size_bytes, count=count))


def counts(checkpoints: Checkpoints) -> list[int]:
    return [len(one.token_ids) for one in checkpoints.saved]


def test_a_page_is_charged_once_and_private_bytes_to_each(saved: Saved) -> None:
    for subset in (saved.snapshots[:1], saved.snapshots[2:4], saved.snapshots):
        pages = max(len(one.token_ids) for one in subset) // 64
        expected = pages * saved.layout.page_size_bytes + sum(map(saved.private, subset))
        assert charged_bytes(subset) == expected
    assert charged_bytes([]) == 0
    assert saved.pool.held_page_count == COUNTS[-1] // 64
    most = private_bytes_max(saved.plan.program, COUNTS[-1])
    assert all(saved.private(one) <= most for one in saved.snapshots)


def test_the_longest_exact_beginning_is_found(saved: Saved) -> None:
    checkpoints = set_of(1 << 30)
    for snapshot in saved.snapshots:
        checkpoints = checkpoints.adding(snapshot)

    def found(ids: list[int], model_id: bytes = MODEL_ID, adapter: bytes = NO_ADAPTER) -> int:
        one = checkpoints.longest_prefix(model_id, adapter, array("i", ids))
        return 0 if one is None else len(one.token_ids)

    for count, longest in ((1, 1), (62, 1), (63, 63), (64, 64), (127, 65), (128, 128)):
        assert found(IDS[:count]) == longest
    assert found([*IDS, 1, 2]) == 140
    assert found([*IDS[:100], IDS[100] ^ 1, *IDS[101:]]) == 65
    assert found([IDS[0] ^ 1, *IDS[1:]]) == 0
    # A name does not matter, and another model or adapter is another computation.
    assert found(IDS, model_id=bytes(32)) == 0
    assert found(IDS, adapter=MODEL_ID) == 0


def test_the_least_used_go_first(saved: Saved) -> None:
    checkpoints = set_of(1 << 30, count=3)
    for snapshot in saved.snapshots[:3]:
        checkpoints = checkpoints.adding(snapshot)
    checkpoints = checkpoints.used(saved.snapshots[0]).adding(saved.snapshots[3])
    assert counts(checkpoints) == [64, 1, 65]
    # What is there already stays the same object, and counts as used.
    with new_sequence(saved.plan, saved.pool) as sequence:
        sequence.push(IDS[:64])
        run(saved.plan, sequence)
        again = sequence.snapshot()
    checkpoints = checkpoints.adding(again)
    assert counts(checkpoints) == [1, 65, 64]
    assert not checkpoints.holds(again)
    assert checkpoints.holds(saved.snapshots[2])
    again.release()


def test_no_byte_more_than_the_budget(saved: Saved) -> None:
    exact = charged_bytes(saved.snapshots)
    checkpoints = set_of(exact)
    for snapshot in saved.snapshots:
        checkpoints = checkpoints.adding(snapshot)
        assert checkpoints.size_bytes <= exact
    assert checkpoints.size_bytes == exact
    tight = set_of(exact - 1)
    for snapshot in saved.snapshots:
        tight = tight.adding(snapshot)
        assert tight.size_bytes < exact
    assert counts(tight) == list(COUNTS[1:])


def test_what_alone_is_too_large_costs_no_other(saved: Saved) -> None:
    *small, large = saved.snapshots
    budget = charged_bytes([large]) - 1
    checkpoints = set_of(budget).adding(small[0])
    with pytest.raises(CheckpointBudgetError) as refused:
        checkpoints.adding(large)
    facts = refused.value.facts()
    assert facts == {
        "token_count": 140,
        "needed_bytes": budget + 1,
        "limit_bytes": budget,
        "limit_count": limits.CHECKPOINT_COUNT_MAX,
    }
    assert counts(checkpoints) == [1]
    assert counts(set_of(budget).adding_what_fits([small[1], large])) == [63]
    for none in (set_of(1 << 30, count=0), set_of(0)):
        with pytest.raises(CheckpointBudgetError):
            none.adding(small[0])


def test_only_what_is_at_rest_is_kept(saved: Saved) -> None:
    with new_sequence(saved.plan, saved.pool) as sequence:
        sequence.push(IDS[:5])
        waiting = sequence.snapshot()
    with pytest.raises(SequenceBusyError):
        set_of(1 << 30).adding(waiting)


@pytest.mark.parametrize(
    "odd", [{"size_bytes": -1}, {"size_bytes": 1 << 63}, {"size_bytes": 1, "count": 65}]
)
def test_budgets_have_bounds(odd: dict[str, Any]) -> None:
    with pytest.raises(OptionRangeError):
        CheckpointBudget(**odd)
