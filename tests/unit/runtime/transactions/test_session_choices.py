"""Answers of a session are those of lone sequences that are told to choose alike."""

from dataclasses import replace

import pytest

from sslm.backends.reference.backend import ReferencePlan
from sslm.errors.runtime import NumericStepRefusedError, OptionRangeError
from sslm.program.choice import MICRO, Choice, Decoder
from sslm.runtime.guards import Cancellation
from sslm.runtime.sequences.kv_pool import KvPool, page_count_for
from sslm.runtime.sequences.sequence import Sequence
from sslm.runtime.slices.stepper import advance, finished
from sslm.runtime.transactions.checkpoints import CheckpointBudget
from sslm.runtime.transactions.token_session import TokenSession
from tests.sequences import PROMPT, new_pool, new_sequence, reference_plan, run
from tests.tiny_models import ALL_UNITS, MODEL_ID
from tests.toy_programs import moving_average_model

LONGEST = 100
ANSWER = 6
SAMPLING = Choice(decoder=Decoder.SAMPLING, temperature=15 * MICRO, top_k=30, seed=1)
DAMPED = Choice(decoder=Decoder.DAMPED, top_k=6, damping=1 << 18, damping_order=2)
PENALTIES = Choice(presence=3 * MICRO, frequency=MICRO, repetition=1_200_000)
CHOICES = [SAMPLING, DAMPED, PENALTIES, Choice()]


@pytest.fixture(scope="module", params=["odd llama", "recurrent"])
def plan(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> ReferencePlan:
    return reference_plan(request.param, tmp_path_factory.mktemp("model"))


class Bench:
    """A session, and which runs were made for it."""

    def __init__(self, plan: ReferencePlan, budget: CheckpointBudget) -> None:
        self.plan = plan
        self.heads_alone = self.slices = 0
        saved_pages = page_count_for(LONGEST) * budget.count
        self.session = TokenSession(
            plan.program,
            KvPool(plan.program.state_layout, page_count_for(LONGEST) + saved_pages),
            MODEL_ID,
            advance=self._advance,
            context_tokens=LONGEST,
            budget=budget,
            note=None,
        )

    def _advance(self, sequence: Sequence, cancellation: Cancellation | None) -> None:
        self.slices += 1
        self.heads_alone += not sequence.pending_count
        finished(
            advance(
                self.plan,
                [sequence],
                budget_units=ALL_UNITS,
                row_count_max=64,
                cancellation=cancellation,
            )
        )

    def answer(self, choice: Choice, *, commits: bool = False) -> tuple[list[int], int, bytes]:
        """Return an answer, how many tokens were computed for it, and its digest."""
        with self.session.begin(PROMPT, answer_tokens=ANSWER, choice=choice) as request:
            ids = [request.next_token() for _ in range(ANSWER)]
            found = ids, request.computed_count, request.digest()
            if commits:
                request.commit(None)
            return found


def alone(plan: ReferencePlan, choice: Choice) -> tuple[list[int], bytes]:
    with new_sequence(plan, new_pool(plan), chooses=True) as sequence:
        sequence.choose(choice, len(PROMPT))
        sequence.push(PROMPT)
        run(plan, sequence)
        ids: list[int] = []
        while len(ids) < ANSWER - 1:
            ids.append(sequence.decode())
            run(plan, sequence)
        ids.append(sequence.chosen())
        return ids, sequence.answer_digest(ids)


def test_answers_of_one_prompt_share_its_computation(plan: ReferencePlan) -> None:
    bench = Bench(plan, CheckpointBudget(size_bytes=1 << 30, count=1))
    with new_sequence(plan, bench.session.pool) as sequence:
        sequence.push(PROMPT)
        run(plan, sequence)
        assert bench.session.keep(sequence.snapshot())
    choices = [replace(SAMPLING, seed=seed) for seed in range(1, 5)] + CHOICES
    for choice in choices:
        ids, computed, digest = bench.answer(choice)
        assert (ids, digest) == alone(plan, choice)
        # The last token of an answer is chosen and not computed.
        assert computed == ANSWER - 1
    # Plain greedy has chosen already.
    assert bench.heads_alone == len(choices) - 1
    bench.session.close()
    assert bench.session.pool.held_page_count == 0


def test_answers_without_checkpoints_are_the_same(plan: ReferencePlan) -> None:
    bench = Bench(plan, CheckpointBudget(size_bytes=0, count=0))
    for choice in CHOICES:
        ids, computed, digest = bench.answer(choice)
        assert (ids, digest) == alone(plan, choice)
        assert computed == len(PROMPT) + ANSWER - 1
    assert bench.heads_alone == 0


@pytest.mark.parametrize("first", CHOICES)
def test_a_prompt_again_with_another_choice(plan: ReferencePlan, first: Choice) -> None:
    bench = Bench(plan, CheckpointBudget(size_bytes=1 << 30))
    bench.answer(first, commits=True)
    for choice in CHOICES:
        before = bench.heads_alone
        ids, computed, digest = bench.answer(choice)
        assert (ids, digest) == alone(plan, choice)
        assert (computed, bench.heads_alone - before) == (ANSWER - 1, int(choice != first))


def test_an_answer_begins_where_its_own_prompt_ends(plan: ReferencePlan) -> None:
    """What was an answer is the prompt's in the next request, also where it was computed before."""
    bench = Bench(plan, CheckpointBudget(size_bytes=1 << 30))
    for choice in (DAMPED, PENALTIES):
        bench.session.reset(None)
        first, _, _ = bench.answer(choice, commits=True)
        prompt = [*PROMPT, *first]
        with bench.session.begin(prompt, answer_tokens=ANSWER, choice=choice) as request:
            found = [request.next_token() for _ in range(ANSWER)]
            assert request.cached_count > len(PROMPT)
        with new_sequence(plan, new_pool(plan), chooses=True) as lone:
            lone.choose(choice, len(prompt))
            lone.push(prompt)
            run(plan, lone)
            for token_id in found:
                assert lone.chosen() == token_id
                lone.push([token_id])
                run(plan, lone)


def test_a_bad_choice_is_refused_before_anything_is_computed(plan: ReferencePlan) -> None:
    bench = Bench(plan, CheckpointBudget(size_bytes=0, count=0))
    with pytest.raises(OptionRangeError, match="top_k"):
        bench.session.begin(PROMPT, answer_tokens=2, choice=replace(SAMPLING, top_k=1 << 20))
    assert bench.answer(SAMPLING)[0] == alone(plan, SAMPLING)[0]


def test_a_refused_step_rolls_back_and_another_choice_goes_on() -> None:
    loud = moving_average_model(head_exponent=-20)
    plan = ReferencePlan(loud.program, loud.tensors)
    bench = Bench(plan, CheckpointBudget(size_bytes=1 << 30, count=1))
    with pytest.raises(NumericStepRefusedError):
        bench.answer(SAMPLING)
    assert bench.session.committed.checkpoints.saved == ()
    assert (bench.answer(Choice())[0], bench.answer(Choice())[2]) == alone(plan, Choice())
