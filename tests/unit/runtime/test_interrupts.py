"""An interrupt leaves a sequence as it was before a call or as it is after it, or says that not."""

from collections.abc import Callable
from functools import partial
from itertools import count
from pathlib import Path
from types import CodeType

import pytest

import sslm.runtime
from sslm.backends.native import NativeBackend
from sslm.backends.reference.backend import ReferencePlan
from sslm.errors.runtime import ObjectClosedError, SequenceInterruptedError
from sslm.program.choice import MICRO, Choice
from sslm.program.plan import Plan
from sslm.runtime.sequences.kv_pool import KvPool
from sslm.runtime.sequences.options import SequenceOptions
from sslm.runtime.sequences.sequence import Sequence
from sslm.runtime.slices.stepper import advance, finished
from tests.interrupting import interrupted_at_line
from tests.tiny_models import ALL_UNITS, MODEL_ID, tiny_llama
from tests.toy_programs import moving_average_model

RUNTIME = str(Path(str(sslm.runtime.__file__)).parent)
PROMPT = [index * 7 % 37 for index in range(12)]
MORE = [5, 6, 7]
LONGEST = 80
PENALTY = Choice(presence=2 * MICRO)


@pytest.fixture(scope="module", params=["native llama", "recurrent"])
def plan(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Plan:
    if request.param == "recurrent":
        toy = moving_average_model()
        return ReferencePlan(toy.program, toy.tensors)
    model = tiny_llama(tmp_path_factory.mktemp("model"))
    return NativeBackend().compile(
        model.program, model.tensors, row_count_max=64, context_tokens=LONGEST
    )


def is_watched(code: CodeType) -> bool:
    """Tell code of the runtime, and where a plan hands over its results."""
    return code.co_filename.startswith(RUNTIME) or code.co_name == "commit"


class Bench:
    """A sequence in the middle of a chunk, and what there is to do with it."""

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        self.pool = KvPool(plan.program.state_layout, 6)
        self.sequence = self.fresh()

    def fresh(self) -> Sequence:
        options = SequenceOptions(
            context_tokens=LONGEST, chunk_tokens=8, reserved_tokens=0, chooses=True
        )
        return Sequence(self.plan.program, self.pool, MODEL_ID, options)

    def step(self, units: int = ALL_UNITS) -> None:
        finished(advance(self.plan, [self.sequence], budget_units=units, row_count_max=64))

    def run(self) -> None:
        while self.sequence.has_work:
            self.step()

    def end(self) -> object:
        """Compute what is pending and two tokens more; return all that must be equal."""
        self.run()
        for _ in range(2):
            self.sequence.decode()
            self.run()
        one = self.sequence
        stats = one.stats()
        counts = stats.layers_run, stats.layers_ceiling, stats.saturations, stats.resident_pages
        return one.token_ids, one.selected, one.digest, counts


def begun(plan: Plan) -> Bench:
    """After one slice of the first chunk."""
    bench = Bench(plan)
    bench.sequence.push(PROMPT)
    bench.step(1)
    return bench


def last_chunk(plan: Plan) -> Bench:
    """Before the last layer of the last chunk."""
    bench = begun(plan)
    bench.step()
    bench.step(1)
    return bench


def at_rest(plan: Plan) -> Bench:
    bench = begun(plan)
    bench.run()
    return bench


def chosen_otherwise(plan: Plan) -> Bench:
    """In the middle of scoring the last position again."""
    bench = at_rest(plan)
    bench.sequence.choose(PENALTY)
    bench.step(1)
    return bench


STEPS: dict[str, tuple[Callable[[Plan], Bench], Callable[[Bench], object]]] = {
    "push": (begun, lambda bench: bench.sequence.push(MORE)),
    "prefill": (begun, lambda bench: bench.sequence.prefill(MORE)),
    "decode": (at_rest, lambda bench: bench.sequence.decode()),
    "slice": (begun, lambda bench: bench.step(1)),
    "rest of a chunk": (begun, lambda bench: bench.step()),
    "last slice": (last_chunk, lambda bench: bench.step()),
    "stats": (begun, lambda bench: bench.sequence.stats()),
    "snapshot": (begun, lambda bench: bench.sequence.snapshot().release()),
    "choose": (at_rest, lambda bench: bench.sequence.choose(PENALTY)),
    "choose again": (chosen_otherwise, lambda bench: bench.sequence.choose(None)),
    "reset": (begun, lambda bench: bench.sequence.reset()),
}
COMPUTING = ("slice", "rest of a chunk", "last slice")


@pytest.mark.parametrize("name", STEPS)
def test_an_interrupt_at_any_line_leaves_what_was_or_what_comes(plan: Plan, name: str) -> None:
    begin, act = STEPS[name]
    before, after = begin(plan), begin(plan)
    act(after)
    if name == "reset":
        after.sequence.push(MORE)
    ends = [before.end(), after.end()]
    torn = interrupted = 0
    for line in count(1):
        bench = begin(plan)
        if not interrupted_at_line(line, partial(act, bench), is_watched):
            break
        interrupted += 1
        try:
            bench.sequence.stats()
            if not bench.sequence.token_ids and not bench.sequence.pending_count:
                bench.sequence.push(MORE)
            assert bench.sequence.choice in (before.sequence.choice, after.sequence.choice)
            assert bench.end() in ends, line
        except SequenceInterruptedError:
            torn += 1
            bench.sequence.reset()
            bench.sequence.push(PROMPT)
            assert bench.end() == ends[0]
        bench.sequence.close()
        assert bench.pool.held_page_count == 0
        bench.pool.close()
    assert interrupted > 3
    # Kernels hand their results over in one piece.
    assert bool(torn) == (isinstance(plan, ReferencePlan) and name in COMPUTING)


def test_an_interrupt_at_any_line_of_an_adoption(plan: Plan) -> None:
    """From within a chunk, and with a full page that is shared."""
    bench = Bench(plan)
    fresh = bench.sequence.stats().saturations
    bench.sequence.push(PROMPT * 6)
    while bench.sequence.position < 64:
        bench.step()
    bench.step(1)
    snapshot = bench.sequence.snapshot()
    expected = bench.end()
    bench.sequence.close()
    for line in count(1):
        bench.sequence = bench.fresh()
        if not interrupted_at_line(line, lambda: bench.sequence.adopt(snapshot), is_watched):
            break
        if not bench.sequence.pending_count:
            assert bench.sequence.stats().saturations == fresh
            bench.sequence.adopt(snapshot)
        assert bench.end() == expected, line
        bench.sequence.close()
        assert bench.pool.held_page_count == 1
    assert line > 20
    bench.sequence.close()
    snapshot.release()
    bench.pool.close()


def test_an_interrupt_at_any_line_of_closing(plan: Plan) -> None:
    """While the error is still looked at, as in a with statement, and after it."""
    for line in count(1):
        bench = begun(plan)
        if not interrupted_at_line(line, bench.sequence.close, is_watched):
            break
        bench.sequence.close()
        assert bench.pool.held_page_count == 0
        bench.pool.close()


def test_what_an_interrupt_leaves_in_use_is_given_back_with_its_error(plan: Plan) -> None:
    """However little of the call was left, and although the sequence itself is kept."""
    bench = begun(plan)
    for line in count(1):
        sequence = bench.fresh()
        sequence.push(PROMPT)
        error: list[BaseException] = []
        ended = not interrupted_at_line(line, lambda: sequence.push(MORE), is_watched, error)  # noqa: B023
        sequence.close()
        with pytest.raises(ObjectClosedError):
            sequence.push(MORE)
        error.clear()
        assert bench.pool.held_page_count == 1
        if ended:
            return
