"""Whichever allocation of a call fails: it is refused by name, and nothing has changed."""

from collections.abc import Callable
from itertools import count
from typing import NoReturn

import pytest

from sslm.backends.reference.backend import ReferencePlan
from sslm.errors.runtime import MemoryRefusedError
from sslm.program.plan import Plan
from sslm.runtime.saves.saving import restore, restore_into, save
from sslm.runtime.sequences.kv_pool import KvPool
from sslm.runtime.sequences.options import SequenceOptions
from sslm.runtime.sequences.prefix import Prefix
from sslm.runtime.sequences.sequence import Sequence
from sslm.runtime.slices.stepper import advance
from tests.sequences import LONGEST, MODELS, new_pool, new_sequence, reference_plan, run, step
from tests.simulation.allocations import failing_allocation
from tests.tiny_models import MODEL_ID

OPTIONS = SequenceOptions(context_tokens=LONGEST, reserved_tokens=100)


@pytest.fixture(scope="module", params=MODELS)
def plan(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> ReferencePlan:
    return reference_plan(request.param, tmp_path_factory.mktemp("model"))


class World:
    """A sequence with a chosen token, one in the middle of a chunk, and a fresh one."""

    def __init__(self, plan: ReferencePlan) -> None:
        self.pool = new_pool(plan)
        self.chosen, self.midway, self.fresh = (new_sequence(plan, self.pool) for _ in range(3))
        self.chosen.push([3] * 64)
        run(plan, self.chosen)
        self.midway.push([5] * 70)
        step(plan, self.midway)
        step(plan, self.midway, units=1)
        self.snapshot = self.midway.snapshot()
        self.saved = save(self.midway)
        self.sequences = self.chosen, self.midway, self.fresh

    def seen(self) -> object:
        pages = [list(one.state.hold.pages) for one in self.sequences]
        tables = [one.memory.pages.tolist() for one in self.sequences]
        saves = [save(one) for one in self.sequences]
        return pages, tables, saves, self.pool.held_page_count


CALLS: dict[str, Callable[[Plan, World], object]] = {
    "create": lambda plan, world: Sequence(plan.program, world.pool, MODEL_ID, OPTIONS),
    "push": lambda plan, world: world.chosen.push([1, 2]),
    "prefill": lambda plan, world: world.midway.prefill([1] * 100),
    "decode": lambda plan, world: world.chosen.decode(),
    "snapshot": lambda plan, world: world.midway.snapshot(),
    "adopt": lambda plan, world: world.fresh.adopt(world.snapshot),
    "reset": lambda plan, world: world.midway.reset(),
    "freeze": lambda plan, world: Prefix(world.chosen).freeze(),
    "save": lambda plan, world: save(world.midway),
    "save ids": lambda plan, world: save(world.midway, kv=False),
    "save a snapshot": lambda plan, world: save(world.snapshot),
    "restore": lambda plan, world: restore(
        world.saved, plan.program, world.pool, MODEL_ID, OPTIONS
    ),
    "restore into": lambda plan, world: restore_into(world.fresh, world.saved),
}


@pytest.mark.parametrize("call", CALLS)
def test_a_call_without_memory_is_refused_and_changes_nothing(
    plan: ReferencePlan, call: str
) -> None:
    world = World(plan)
    before = world.seen()
    for fails_at in count(1):
        with failing_allocation(fails_at) as allocations:
            try:
                CALLS[call](plan, world)
            except MemoryRefusedError:
                assert allocations.has_failed
            else:
                assert not allocations.has_failed
        if not allocations.has_failed:
            break
        assert world.seen() == before
    # A reset asks for none, so that it is always possible.
    assert (fails_at == 1) == (call == "reset")


def test_a_slice_without_memory_is_refused_for_each_of_its_sequences(plan: ReferencePlan) -> None:
    class Poor(ReferencePlan):
        def _compute(self, *_: object, **__: object) -> NoReturn:
            raise MemoryError

    program, pool = plan.program, KvPool(plan.program.state_layout, 8)
    sequences = [new_sequence(plan, pool) for _ in range(2)]
    for sequence in sequences:
        sequence.push([1] * 3)
    poor = Poor(program, plan._tensors)
    outcomes = advance(poor, sequences, budget_units=1, row_count_max=64)
    assert [type(outcome.error) for outcome in outcomes] == [MemoryRefusedError] * 2
    assert outcomes[0].error.size_bytes == 2 * 3 * 4 * program.residual.width  # type: ignore[union-attr]
    for sequence in sequences:
        run(plan, sequence)
    assert sequences[0].digest == sequences[1].digest
