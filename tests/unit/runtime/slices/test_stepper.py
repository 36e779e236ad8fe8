"""No result depends on chunks, slices, neighbours or who had a page before."""

from collections.abc import Callable
from collections.abc import Sequence as Spans
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from sslm.backends.native import NativeBackend
from sslm.backends.reference.backend import ReferencePlan
from sslm.errors.native import PlanBusyError, PlanClosedError, RunCancelledError
from sslm.errors.runtime import (
    ObjectClosedError,
    OptionRangeError,
    SequenceBusyError,
    SequenceInUseError,
    SequenceReleasedError,
)
from sslm.program.plan import Plan
from sslm.program.sequence_data import SequenceData
from sslm.program.slice_time import SliceTime
from sslm.program.spans import Span
from sslm.program.stepping import advance_by_runs
from sslm.runtime.guards import Cancellation
from sslm.runtime.sequences.kv_pool import KvPool
from sslm.runtime.sequences.options import SequenceOptions
from sslm.runtime.sequences.sequence import Sequence
from sslm.runtime.slices.stepper import advance, finished
from tests.data import shared_data
from tests.eager_runs import at_once
from tests.plan_doubles import PlanDouble
from tests.tiny_models import ALL_UNITS, MODEL_ID, Outcome, generate, quantized, tiny_llama
from tests.toy_programs import moving_average_model

Prompt = list[int]
MODELS = ("odd llama", "stories260K", "recurrent")


class Case:
    """A plan, a prompt longer than a page, and what a lone run in one piece answers."""

    def __init__(self, plan: ReferencePlan, *, prompt: Prompt, max_tokens: int) -> None:
        self.plan = plan
        self.prompt = prompt
        self.max_tokens = max_tokens
        self.alone = self.answer()

    def answer(self, **options: Any) -> Outcome:
        (outcome,) = generate(self.plan, [self.prompt], max_tokens=self.max_tokens, **options)
        return outcome


def _odd_llama(folder: Path) -> Case:
    model = tiny_llama(folder)
    plan = ReferencePlan(model.program, model.tensors)
    return Case(plan, prompt=[index * 53 % 275 for index in range(70)], max_tokens=4)


def _stories(_: Path) -> Case:
    path = shared_data("stories260K/stories260K-F32.gguf")
    model = quantized(path, [[1, 403, 407, 261, 378]])
    plan = ReferencePlan(model.program, model.tensors)
    return Case(plan, prompt=[1, 403, 407, 261, 378, 432, 383, 286] * 9, max_tokens=3)


def _recurrent(_: Path) -> Case:
    model = moving_average_model()
    plan = ReferencePlan(model.program, model.tensors)
    return Case(plan, prompt=[index * 5 % 37 for index in range(130)], max_tokens=12)


_BUILDERS: dict[str, Callable[[Path], Case]] = dict(
    zip(MODELS, (_odd_llama, _stories, _recurrent), strict=True)
)


@pytest.fixture(scope="module", params=MODELS)
def case(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Case:
    return _BUILDERS[request.param](tmp_path_factory.mktemp("model"))


@pytest.mark.parametrize("chunk_tokens", [1, 2, 7, 63, 64])
def test_chunks(case: Case, chunk_tokens: int) -> None:
    assert case.answer(chunk_tokens=chunk_tokens) == case.alone


@pytest.mark.parametrize("budget_units", [1, 2, 7])
@pytest.mark.parametrize("chunk_tokens", [7, 64])
def test_slices(case: Case, budget_units: int, chunk_tokens: int) -> None:
    outcome = case.answer(budget_units=budget_units, chunk_tokens=chunk_tokens)
    assert outcome == case.alone


@pytest.mark.parametrize("budget_units", [1, ALL_UNITS])
@pytest.mark.parametrize("row_count_max", [64, 71, 1000])
def test_neighbours(case: Case, budget_units: int, row_count_max: int) -> None:
    """Among others of other lengths, in one pool, in runs with and without room for all."""
    prompts = [case.prompt[:3], case.prompt, case.prompt[:65], case.prompt[::-1][:20]]
    outcomes = generate(
        case.plan,
        prompts,
        max_tokens=case.max_tokens,
        budget_units=budget_units,
        row_count_max=row_count_max,
        pool=KvPool(case.plan.program.state_layout, 12),
    )
    assert outcomes[1] == case.alone
    assert len({outcome.digest for outcome in outcomes}) == 4


def test_pages_of_an_earlier_user(case: Case) -> None:
    """Pages come back in another order, full of another sequence's keys and values."""
    pool = KvPool(case.plan.program.state_layout, 5)
    generate(case.plan, [case.prompt[::-1]], max_tokens=2, pool=pool)
    kept = pool.hold()
    kept.take(1)
    (outcome,) = generate(case.plan, [case.prompt], max_tokens=case.max_tokens, pool=pool)
    assert outcome == case.alone


def test_pushing_one_token_at_a_time(case: Case) -> None:
    length = len(case.prompt)
    options = SequenceOptions(context_tokens=length)
    pool = KvPool(case.plan.program.state_layout, 3)
    with Sequence(case.plan.program, pool, MODEL_ID, options) as sequence:
        for token_id in case.prompt:
            sequence.push([token_id])
            finished(advance(case.plan, [sequence], budget_units=ALL_UNITS, row_count_max=64))
        assert sequence.selected == case.alone.token_ids[0]


# What advance itself promises.


class Recorder(PlanDouble):
    """A plan that notes its runs."""

    def __init__(self) -> None:
        model = moving_average_model()
        super().__init__(ReferencePlan(model.program, model.tensors))
        self.runs: list[tuple[int, int, list[int]]] = []

    def run(
        self, first: int, last: int, spans: Spans[Span], *, cancel: memoryview | None = None
    ) -> None:
        self.runs.append((first, last, [span.row_count for span in spans]))
        super().run(first, last, spans, cancel=cancel)

    def advance(
        self,
        sequences: Spans[SequenceData],
        *,
        budget_units: int,
        row_count_max: int,
        time: SliceTime | None = None,
        cancel: memoryview | None = None,
    ) -> None:
        del time
        advance_by_runs(
            self.program,
            at_once(partial(self.run, cancel=cancel)),
            sequences,
            budget_units=budget_units,
            row_count_max=row_count_max,
        )

    def sequence(self, token_count: int) -> Sequence:
        pool = KvPool(self.program.state_layout, 4)
        options = SequenceOptions(context_tokens=200)
        sequence = Sequence(self.program, pool, MODEL_ID, options)
        sequence.push([1] * token_count)
        return sequence


@pytest.mark.published_call(
    "sslm_decode_step",
    case="what stands at the same layer reads its weights once",
    here="advance(plan, sequences)",
)
def test_equal_stages_share_a_run() -> None:
    plan = Recorder()
    sequences = [plan.sequence(2), plan.sequence(70), plan.sequence(3)]
    outcomes = advance(plan, sequences, budget_units=1, row_count_max=100)
    assert [outcome.sequence for outcome in outcomes] == sequences
    assert finished(outcomes) == []
    # The long one ends its first chunk before the head, and shares the way up to there.
    assert plan.runs == [(0, 2, [2, 64, 3])]
    ended = finished(advance(plan, sequences, budget_units=9, row_count_max=100))
    assert plan.runs[1:] == [(2, 3, [64]), (2, 6, [2, 3])]
    assert [(sequence, chunk.span.row_count) for sequence, chunk in ended] == [
        (sequences[0], 2),
        (sequences[1], 64),
        (sequences[2], 3),
    ]
    assert [sequence.pending_count for sequence in sequences] == [0, 6, 0]


def test_units_are_layers_and_blocks_of_the_head() -> None:
    """Two layers, then two blocks: what comes before and after them belongs to them."""
    plan = Recorder()
    sequence = plan.sequence(2)
    for _ in range(4):
        assert sequence.selected is None
        advance(plan, [sequence], budget_units=1, row_count_max=64)
    assert [(first, last) for first, last, _ in plan.runs] == [(0, 2), (2, 3), (3, 4), (4, 6)]
    assert sequence.selected is not None


def test_runs_have_no_more_rows_than_the_plan_takes() -> None:
    plan = Recorder()
    sequences = [plan.sequence(count) for count in (30, 40, 20, 4, 64)]
    advance(plan, sequences, budget_units=1, row_count_max=64)
    assert plan.runs == [(0, 2, [30]), (0, 2, [40, 20, 4]), (0, 2, [64])]


def test_nothing_to_advance() -> None:
    assert advance(Recorder(), [], budget_units=1, row_count_max=64) == []


def test_what_cannot_be_advanced_keeps_no_other_from_it() -> None:
    plan = Recorder()
    idle, closed, used, good = (plan.sequence(count) for count in (0, 1, 1, 3))
    closed.close()
    use = used.begin_use()
    outcomes = advance(plan, [idle, closed, used, good], budget_units=ALL_UNITS, row_count_max=64)
    errors = [type(outcome.error) for outcome in outcomes]
    assert errors == [SequenceBusyError, ObjectClosedError, SequenceInUseError, type(None)]
    assert outcomes[3].chunk is not None
    assert plan.runs == [(0, 6, [3])]
    with pytest.raises(SequenceBusyError):
        finished(outcomes)
    use.end()
    assert advance(plan, [used], budget_units=1, row_count_max=64)[0].error is None


def test_a_run_that_fails_fails_each_of_its_sequences_and_leaves_them_where_they_stood() -> None:
    plan = Recorder()
    sequences = [plan.sequence(2), plan.sequence(3)]
    cancellation = Cancellation()
    cancellation.set()
    outcomes = advance(plan, sequences, budget_units=1, row_count_max=64, cancellation=cancellation)
    assert {type(outcome.error) for outcome in outcomes} == {RunCancelledError}
    assert finished(advance(plan, sequences, budget_units=ALL_UNITS, row_count_max=64))
    assert [sequence.position for sequence in sequences] == [2, 3]


@pytest.mark.parametrize("budget_units", [1, ALL_UNITS])
@pytest.mark.parametrize("backend", ["reference", "scalar"])
def test_a_plan_that_refuses_the_call_ends_no_chunk(backend: str, budget_units: int) -> None:
    """Not even one that the call before had moved, or brought to its end."""
    toy = moving_average_model()
    if backend == "reference":
        plan: Plan = ReferencePlan(toy.program, toy.tensors)
    else:
        plan = NativeBackend(backend).compile(
            toy.program, toy.tensors, row_count_max=64, context_tokens=200
        )
    options = SequenceOptions(context_tokens=200)
    with Sequence(toy.program, KvPool(toy.program.state_layout, 4), MODEL_ID, options) as sequence:
        sequence.push([1, 2])
        advance(plan, [sequence], budget_units=budget_units, row_count_max=64)
        sequence.push([3])
        seen = sequence.token_ids, sequence.pending_count
        (outcome,) = advance(BusyPlan(plan), [sequence], budget_units=1, row_count_max=64)
        assert (type(outcome.error), outcome.chunk) == (PlanBusyError, None)
        plan.close()
        if backend != "reference":
            (outcome,) = advance(plan, [sequence], budget_units=1, row_count_max=64)
            assert (type(outcome.error), outcome.chunk) == (PlanClosedError, None)
        assert (sequence.token_ids, sequence.pending_count) == seen


class BusyPlan(PlanDouble):
    """Another thread is running it."""

    def advance(self, *_: object, **__: object) -> None:
        raise PlanBusyError


class ClosingPlan(Recorder):
    """Somebody closes a sequence while it runs."""

    victim: Sequence

    def run(
        self, first: int, last: int, spans: Spans[Span], *, cancel: memoryview | None = None
    ) -> None:
        self.victim.close()
        assert all(span.memory.pool.nbytes for span in spans)
        super().run(first, last, spans, cancel=cancel)


def test_a_sequence_that_is_closed_while_it_runs_says_so_and_its_pages_come_back() -> None:
    plan = ClosingPlan()
    plan.victim, other = plan.sequence(2), plan.sequence(3)
    pool = plan.victim.state.hold.pool
    outcomes = advance(plan, [plan.victim, other], budget_units=ALL_UNITS, row_count_max=64)
    assert isinstance(outcomes[0].error, SequenceReleasedError)
    assert outcomes[1].error is None
    assert (pool.held_page_count, other.position) == (0, 3)


def test_a_sequence_that_is_listed_twice_is_refused() -> None:
    plan = Recorder()
    first, second = plan.sequence(3), plan.sequence(3)
    with pytest.raises(OptionRangeError, match="each once"):
        finished(advance(plan, [first, second, first], budget_units=1, row_count_max=64))
    assert plan.runs == []
    assert (first.chunk, first.pending_count) == (None, 3)


@pytest.mark.parametrize(("budget_units", "row_count_max"), [(0, 64), (-1, 64), (1, 9)])
def test_budgets_that_could_not_make_progress_are_refused(
    budget_units: int, row_count_max: int
) -> None:
    plan = Recorder()
    with pytest.raises(OptionRangeError):
        advance(
            plan,
            [plan.sequence(10)],
            budget_units=budget_units,
            row_count_max=row_count_max,
        )
    assert plan.runs == []
