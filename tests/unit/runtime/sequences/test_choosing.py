"""A sequence may choose otherwise at any time, and then computes the head of one position."""

from collections.abc import Callable
from collections.abc import Sequence as Spans
from dataclasses import replace
from typing import Any

import pytest

from sslm import limits
from sslm.backends.reference.backend import ReferencePlan
from sslm.errors.native import RunCancelledError
from sslm.errors.runtime import (
    ChoiceUnfinishedError,
    NumericStepRefusedError,
    ObjectClosedError,
    OptionRangeError,
)
from sslm.program.choice import MICRO, Choice, Decoder
from sslm.program.choice_data import scratch_size_bytes
from sslm.program.program import Program
from sslm.program.sequence_data import SCORE_REFUSED
from sslm.program.spans import Span
from sslm.runtime.guards import Cancellation
from sslm.runtime.sequences.kv_pool import KvPool
from sslm.runtime.sequences.options import SequenceOptions, sequence_size_bytes
from sslm.runtime.sequences.sequence import Sequence
from sslm.runtime.slices.scheduler import Scheduler
from sslm.runtime.slices.stepper import advance, finished
from tests.tiny_models import ALL_UNITS, MODEL_ID
from tests.toy_programs import VOCAB_SIZE, ToyModel, moving_average_model

MODEL = moving_average_model()
PROMPT = [index * 7 % VOCAB_SIZE for index in range(70)]
HEAD = MODEL.program.first_head_index
END = len(MODEL.program.segments)

SAMPLING = Choice(decoder=Decoder.SAMPLING, temperature=20 * MICRO, seed=3)
OTHER_SEED = replace(SAMPLING, seed=5)
DAMPED = Choice(decoder=Decoder.DAMPED, top_k=6, damping=1 << 16, damping_order=2)
LOUD = moving_average_model(head_exponent=-20)


class RecordingPlan(ReferencePlan):
    """Notes which segments ran."""

    def __init__(self, model: ToyModel = MODEL) -> None:
        super().__init__(model.program, model.tensors)
        self.runs: list[tuple[int, int]] = []

    def _compute(
        self, first: int, last: int, spans: Spans[Span], **given: Any
    ) -> tuple[int, Callable[[], None]]:
        self.runs.append((first, last))
        return super()._compute(first, last, spans, **given)


@pytest.fixture
def plan() -> RecordingPlan:
    return RecordingPlan()


def new_sequence(program: Program = MODEL.program, **options: Any) -> Sequence:
    pool = KvPool(program.state_layout, 4)
    merged = SequenceOptions(**({"context_tokens": 100, "chooses": True} | options))
    return Sequence(program, pool, MODEL_ID, merged)


def step(plan: RecordingPlan, sequence: Sequence, units: int = ALL_UNITS) -> None:
    finished(advance(plan, [sequence], budget_units=units, row_count_max=64))


def run(plan: RecordingPlan, sequence: Sequence, units: int = ALL_UNITS) -> None:
    while sequence.has_work:
        step(plan, sequence, units)


def at_rest(
    plan: RecordingPlan, choice: Choice, ids: list[int] = PROMPT, answer_start: int = len(PROMPT)
) -> Sequence:
    sequence = new_sequence(plan.program)
    sequence.choose(choice, answer_start)
    sequence.push(ids)
    run(plan, sequence)
    plan.runs.clear()
    return sequence


def answer(plan: RecordingPlan, sequence: Sequence, count: int) -> list[int]:
    ids = []
    for _ in range(count):
        ids.append(sequence.decode())
        run(plan, sequence)
    return ids


def alone(plan: RecordingPlan, choice: Choice, count: int = 4) -> list[int]:
    with at_rest(plan, choice) as sequence:
        return answer(plan, sequence, count)


def seen(sequence: Sequence) -> tuple[object, ...]:
    stats = sequence.stats()
    return sequence.token_ids, sequence.digest, stats


@pytest.mark.parametrize("units", [1, ALL_UNITS])
@pytest.mark.parametrize("choice", [OTHER_SEED, DAMPED, Choice()])
def test_another_choice_runs_the_last_head_again(
    plan: RecordingPlan, choice: Choice, units: int
) -> None:
    with at_rest(plan, SAMPLING) as sequence:
        before, first = seen(sequence), sequence.chosen()
        sequence.choose(choice, len(PROMPT))
        assert (sequence.selected, sequence.has_work, sequence.pending_count) == (None, True, 0)
        with pytest.raises(ChoiceUnfinishedError, match=r"after position 69 .* advance first"):
            sequence.decode()
        run(plan, sequence, units)
        blocks = [(HEAD, HEAD + 1), (HEAD + 1, END)]
        assert plan.runs == (blocks if units == 1 else [(HEAD, END)])
        assert seen(sequence) == before
        assert sequence.chosen() != first
        assert answer(plan, sequence, 4) == alone(plan, choice)


def test_the_first_choice_again_takes_the_first_token_again(plan: RecordingPlan) -> None:
    with at_rest(plan, SAMPLING) as sequence:
        first = sequence.chosen()
        sequence.choose(OTHER_SEED, len(PROMPT))
        step(plan, sequence, 1)
        # In the middle of the head, which goes on to its end.
        sequence.choose(SAMPLING, len(PROMPT))
        run(plan, sequence, 1)
        assert (sequence.chosen(), plan.runs) == (first, [(HEAD, HEAD + 1), (HEAD + 1, END)])


@pytest.mark.parametrize(
    ("choice", "same"),
    [
        (Choice(), Choice(seed=9, temperature=1, top_k=3, top_p=4, min_p=5, damping=6)),
        (SAMPLING, replace(SAMPLING, damping=6, damping_order=3)),
        (DAMPED, replace(DAMPED, seed=1, temperature=2, top_p=3, min_p=4)),
    ],
)
def test_a_choice_that_decides_alike_computes_nothing(
    plan: RecordingPlan, choice: Choice, same: Choice
) -> None:
    with at_rest(plan, choice) as sequence:
        first = sequence.chosen()
        sequence.choose(same, len(PROMPT))
        assert not sequence.has_work
        assert (sequence.choice, sequence.chosen()) == (same, first)


@pytest.mark.parametrize(
    ("choice", "counts"),
    [
        (SAMPLING, False),
        (Choice(repetition=2 * MICRO), False),
        (Choice(bias=((3, MICRO),)), False),
        (Choice(presence=1), True),
        (Choice(frequency=-1), True),
        (DAMPED, True),
    ],
)
def test_where_the_answer_begins_counts_for_some(
    plan: RecordingPlan, choice: Choice, *, counts: bool
) -> None:
    with at_rest(plan, choice) as sequence:
        sequence.choose(choice, len(PROMPT) - 1)
        assert sequence.has_work == counts
        assert sequence.answer_start == len(PROMPT) - 1


@pytest.mark.parametrize(
    ("one", "field"),
    [
        (SAMPLING, name)
        for name in ("repetition", "presence", "frequency", "temperature", "top_k", "min_p", "seed")
    ]
    + [(DAMPED, name) for name in ("damping", "damping_order", "top_k", "presence")]
    + [(Choice(), name) for name in ("repetition", "presence", "frequency")],
)
def test_every_number_that_decides_is_compared(
    plan: RecordingPlan, one: Choice, field: str
) -> None:
    with at_rest(plan, one) as sequence:
        changed: dict[str, Any] = {field: getattr(one, field) + 1}
        sequence.choose(replace(one, **changed), len(PROMPT))
        assert sequence.has_work


def test_tokens_are_the_answers_wherever_they_come_from(plan: RecordingPlan) -> None:
    """Penalties see forced tokens of the answer too, and none of the prompt's."""
    forced, choice = [5, 6], Choice(frequency=3 * MICRO)
    with at_rest(plan, choice, PROMPT + forced) as whole, at_rest(plan, choice) as pushed:
        pushed.push(forced)
        run(plan, pushed)
        assert answer(plan, pushed, 3) == answer(plan, whole, 3)
    with at_rest(plan, choice, answer_start=0) as other:
        assert answer(plan, other, 4) != alone(plan, choice)


@pytest.mark.parametrize("steps", [0, 1])
def test_tokens_that_are_pushed_make_the_new_choice_needless(
    plan: RecordingPlan, steps: int
) -> None:
    with at_rest(plan, SAMPLING) as sequence, at_rest(plan, SAMPLING, [*PROMPT, 4]) as whole:
        sequence.choose(OTHER_SEED, len(PROMPT))
        for _ in range(steps):
            step(plan, sequence, 1)
        sequence.push([4])
        assert (sequence.pending_count, sequence.stats().positions) == (1, 70)
        run(plan, sequence)
        assert (sequence.token_ids, sequence.digest) == (whole.token_ids, whole.digest)
        whole.choose(OTHER_SEED, len(PROMPT))
        run(plan, whole)
        assert sequence.chosen() == whole.chosen()


def test_a_choice_told_in_the_middle_of_a_chunk_is_that_of_its_end(plan: RecordingPlan) -> None:
    with new_sequence() as sequence:
        sequence.push(PROMPT)
        while sequence.position < 64:
            step(plan, sequence)
        step(plan, sequence, 3)
        sequence.choose(SAMPLING, len(PROMPT))
        run(plan, sequence)
        assert answer(plan, sequence, 4) == alone(plan, SAMPLING)


def test_a_cancelled_run_leaves_it_to_be_done(plan: RecordingPlan) -> None:
    cancellation = Cancellation()
    cancellation.set()
    with at_rest(plan, SAMPLING) as sequence:
        sequence.choose(OTHER_SEED, len(PROMPT))
        before = seen(sequence)
        (outcome,) = advance(
            plan,
            [sequence],
            budget_units=1,
            row_count_max=64,
            cancellation=cancellation,
        )
        assert isinstance(outcome.error, RunCancelledError)
        assert (sequence.has_work, sequence.chunk, seen(sequence)) == (True, None, before)
        run(plan, sequence)
        assert answer(plan, sequence, 4) == alone(plan, OTHER_SEED)


@pytest.mark.parametrize("steps", [0, 1])
def test_a_snapshot_goes_back_to_the_heads_beginning(plan: RecordingPlan, steps: int) -> None:
    with at_rest(plan, SAMPLING) as sequence:
        sequence.choose(OTHER_SEED, len(PROMPT))
        for _ in range(steps):
            step(plan, sequence, 1)
        snapshot = sequence.snapshot()
        assert (snapshot.selected, snapshot.in_flight) == (None, None)
        other = Sequence(MODEL.program, sequence.state.hold.pool, MODEL_ID, sequence.options)
        with other:
            other.choose(OTHER_SEED, len(PROMPT))
            other.adopt(snapshot)
            plan.runs.clear()
            run(plan, other)
            assert plan.runs == [(HEAD, END)]
            assert answer(plan, other, 4) == alone(plan, OTHER_SEED)
            run(plan, sequence)
            assert answer(plan, sequence, 4) == alone(plan, OTHER_SEED)


@pytest.mark.parametrize("own", [SAMPLING, OTHER_SEED, DAMPED, Choice()])
@pytest.mark.parametrize("theirs", [SAMPLING, DAMPED, Choice()])
def test_who_adopts_goes_on_choosing_as_told(
    plan: RecordingPlan, own: Choice, theirs: Choice
) -> None:
    with at_rest(plan, theirs) as sequence:
        snapshot, pool = sequence.snapshot(), sequence.state.hold.pool
        assert (snapshot.choice, snapshot.answer_start) == (theirs, len(PROMPT))
        with Sequence(MODEL.program, pool, MODEL_ID, sequence.options) as other:
            other.choose(own, len(PROMPT))
            other.adopt(snapshot)
            assert (other.choice, other.answer_start) == (own, len(PROMPT))
            assert other.has_work == (own != theirs)
            run(plan, other)
            assert answer(plan, other, 4) == alone(plan, own)


@pytest.mark.published_call(
    "sslm_decode_step_v2", refusal="SSLM_NUMERIC_STEP_REFUSED", here="NumericStepRefusedError"
)
@pytest.mark.parametrize("choice", [SAMPLING, DAMPED, Choice(bias=((1, -1),))])
def test_a_refused_step_is_told_and_another_choice_goes_on(choice: Choice) -> None:
    plan = RecordingPlan(LOUD)
    with at_rest(plan, choice) as sequence:
        before = seen(sequence)
        assert sequence.selected == SCORE_REFUSED
        for ask in (sequence.chosen, sequence.decode):
            with pytest.raises(NumericStepRefusedError, match=r"after position 69 .* greedily"):
                ask()
        sequence.choose(choice, len(PROMPT))
        assert (seen(sequence), sequence.has_work) == (before, False)
        sequence.choose(None)
        run(plan, sequence)
        assert answer(plan, sequence, 4) == alone(plan, Choice())
        # Tokens that are given need no scores.
        sequence.choose(choice, len(PROMPT))
        sequence.push([3])
        run(plan, sequence)
        assert sequence.selected == SCORE_REFUSED


def test_a_reset_keeps_the_choice(plan: RecordingPlan) -> None:
    with at_rest(plan, SAMPLING) as sequence:
        sequence.choose(OTHER_SEED, len(PROMPT))
        step(plan, sequence, 1)
        sequence.reset()
        assert (sequence.has_work, sequence.choice) == (False, OTHER_SEED)
        sequence.push(PROMPT)
        run(plan, sequence)
        assert answer(plan, sequence, 4) == alone(plan, OTHER_SEED)


def test_a_scheduler_gives_turns_to_it(plan: RecordingPlan) -> None:
    class Runner:
        program, row_count_max = plan.program, 64

        def advance_each(self, sequences: list[Sequence], **given: Any) -> Any:
            return advance(plan, sequences, row_count_max=64, **given)

    from sslm.runtime.slices.time_slices import SliceBudget
    from sslm.runtime.slices.unit_costs import UnitCosts

    with at_rest(plan, SAMPLING) as sequence, at_rest(plan, SAMPLING, PROMPT[:60]) as other:
        scheduler = Scheduler(Runner())
        scheduler.add(sequence)
        scheduler.add(other)
        other.push(PROMPT[60:])
        sequence.choose(OTHER_SEED, len(PROMPT))
        assert scheduler.run(SliceBudget(UnitCosts(), units=50)) == []
        assert (sequence.has_work, other.has_work) == (False, False)
        assert answer(plan, sequence, 4) == alone(plan, OTHER_SEED)


@pytest.mark.published_call(
    "sslm_decode_step_v2",
    refusal="SSLM_INVALID_ARGUMENT",
    case="numbers of a choice out of their ranges, of damped greedy also a top_k of 0",
    here="OptionRangeError",
)
@pytest.mark.parametrize(
    ("changed", "option"),
    [
        ({"top_k": VOCAB_SIZE + 1}, "top_k"),
        ({"top_k": -1}, "top_k"),
        ({"decoder": Decoder.DAMPED, "top_k": 0}, "top_k"),
        ({"decoder": Decoder.DAMPED, "top_k": VOCAB_SIZE + 1}, "top_k"),
        ({"bias": ((VOCAB_SIZE, 1),)}, "a biased id"),
        ({"bias": ((3, 1), (3, 1))}, "a biased id"),
        ({"bias": ((3, limits.CHOICE_MICRO_MAX + 1),)}, "a bias"),
        ({"repetition": 0}, "repetition"),
        ({"presence": limits.CHOICE_MICRO_MAX + 1}, "presence"),
        ({"frequency": -limits.CHOICE_MICRO_MAX - 1}, "frequency"),
        ({"temperature": 0}, "temperature"),
        ({"top_p": 0}, "top_p"),
        ({"min_p": MICRO + 1}, "min_p"),
        ({"seed": 1 << 64}, "seed"),
        ({"damping": 1 << 20}, "damping"),
        ({"damping_order": 0}, "damping_order"),
    ],
)
def test_numbers_out_of_range_change_nothing(
    plan: RecordingPlan, changed: dict[str, Any], option: str
) -> None:
    with at_rest(plan, SAMPLING) as sequence:
        with pytest.raises(OptionRangeError) as caught:
            sequence.choose(replace(SAMPLING, **changed), len(PROMPT))
        assert caught.value.option == option
        assert (sequence.choice, sequence.has_work) == (SAMPLING, False)


def test_where_the_answer_begins_is_within_the_context() -> None:
    with new_sequence() as sequence:
        sequence.choose(SAMPLING, 100)
        for start in (-1, 101):
            with pytest.raises(OptionRangeError, match="answer_start"):
                sequence.choose(SAMPLING, start)


def test_only_who_is_made_for_it_chooses_by_scores(plan: RecordingPlan) -> None:
    with new_sequence(chooses=False) as sequence:
        sequence.choose(Choice(seed=7), 3)
        assert sequence.choice == Choice(seed=7)
        for choice in (SAMPLING, DAMPED, Choice(presence=1)):
            with pytest.raises(OptionRangeError, match="chooses is False"):
                sequence.choose(choice)
        assert sequence.choice == Choice(seed=7)
    with pytest.raises(ObjectClosedError):
        sequence.choose(None)


def test_room_for_scores_is_counted() -> None:
    sizes = [
        sequence_size_bytes(MODEL.program, SequenceOptions(context_tokens=100, chooses=chooses))
        for chooses in (False, True)
    ]
    assert sizes[1] - sizes[0] == scratch_size_bytes(VOCAB_SIZE) + 4
