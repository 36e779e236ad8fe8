"""Calls that decode: a token a call, in slices, and several sequences at once."""

from collections.abc import Callable

import pytest

from sslm.errors.base import SslmError
from sslm.errors.program import OpShapeError
from sslm.errors.runtime import (
    ContextLengthError,
    KvPoolExhaustedError,
    NothingChosenError,
    ObjectClosedError,
    OptionRangeError,
    PlanMismatchError,
    SequenceBusyError,
    SequenceInUseError,
)
from sslm.runtime.guards import Cancellation
from sslm.runtime.sequences.sequence import Sequence
from sslm.runtime.slices.stepper import Outcome, advance, finished
from tests.backends.backends import open_named
from tests.runtime_cases import Case, refused, seen

PROMPT = [index * 5 % 37 for index in range(70)]
ALL = 1 << 30


def advanced(case: Case, sequences: list[Sequence], units: int = ALL) -> list[Outcome]:
    return advance(case.plan, sequences, budget_units=units, row_count_max=64)


@pytest.mark.published_call("sslm_decode_step", here="Sequence.decode, then advance")
@pytest.mark.published_call(
    "sslm_decode_step_v2", case="greedy", here="Sequence.decode, then advance(budget_units=…)"
)
@pytest.mark.parametrize("units", [1, 2, ALL])
def test_each_step_chooses_the_next_token(case: Case, units: int) -> None:
    expected = case.alone(PROMPT, 73)
    with case.filled(PROMPT) as sequence:
        for position in range(70, 73):
            chosen = sequence.selected
            assert sequence.decode() == chosen == expected[0][position]
            assert sequence.selected is None
            while sequence.pending_count:
                case.step(sequence, units)
        case.require_as_alone(sequence, PROMPT, more=3)


@pytest.mark.published_call(
    "sslm_decode_step",
    refusal="out_tokens -1",
    here="Outcome.chunk is None: call again",
)
def test_a_token_takes_as_many_calls_as_its_budget_makes_of_it(case: Case) -> None:
    segments = case.program.layer_count, len(case.program.segments)
    with case.filled(PROMPT) as sequence:
        sequence.decode()
        places = []
        while sequence.pending_count:
            (outcome,) = advanced(case, [sequence], 1)
            chunk = sequence.chunk
            places.append(None if chunk is None else chunk.next_segment)
            assert (outcome.chunk is None) == (chunk is not None)
            assert (sequence.selected is None) == (chunk is not None)
        # Layers one by one, then blocks of the head; the token comes with the last of them.
        assert places == [*range(2, segments[1] - 1), None]
        assert len(places) >= segments[0] + 1
        case.require_as_alone(sequence, PROMPT)


# What is refused.


@pytest.mark.published_call(
    "sslm_decode_step",
    refusal="SSLM_INVALID_ARGUMENT",
    case="a fresh sequence has chosen nothing",
    here="NothingChosenError",
)
def test_a_fresh_sequence_has_nothing_to_go_on_with(case: Case) -> None:
    with case.sequence() as sequence:
        with refused(NothingChosenError, sequence) as caught:
            sequence.decode()
        assert caught.value.facts() == {"position": 0}
        sequence.push(PROMPT)
        case.require_as_alone(sequence, PROMPT)


@pytest.mark.published_call(
    "sslm_decode_step",
    refusal="SSLM_INVALID_ARGUMENT",
    case="tokens are pending, also mid-chunk and mid-token",
    here="SequenceBusyError",
)
@pytest.mark.parametrize("slices", [0, 1, 3])
@pytest.mark.parametrize("prompt", [[4], PROMPT])
def test_tokens_that_are_pending_come_first(case: Case, prompt: list[int], slices: int) -> None:
    with case.sequence() as sequence:
        sequence.push(prompt)
        for _ in range(slices):
            case.step(sequence)
        if sequence.pending_count:
            with refused(SequenceBusyError, sequence) as caught:
                sequence.decode()
            assert caught.value.facts()["pending"] == sequence.pending_count
        case.require_as_alone(sequence, prompt)


@pytest.mark.published_call(
    "sslm_decode_step", refusal="SSLM_CONTEXT_CAP_EXCEEDED", here="ContextLengthError"
)
def test_no_room_in_the_context(case: Case) -> None:
    with case.filled(PROMPT, context_tokens=70) as sequence:
        for _ in range(2):
            with refused(ContextLengthError, sequence) as caught:
                sequence.decode()
            assert caught.value.facts() == {
                "needed_tokens": 71,
                "limit_tokens": 70,
                "model_tokens": case.program.max_position_embeddings,
            }
        case.require_as_alone(sequence, PROMPT, more=0)


@pytest.mark.published_call(
    "sslm_decode_step", refusal="SSLM_KV_POOL_EXHAUSTED", here="KvPoolExhaustedError"
)
def test_no_page_in_the_pool(case: Case) -> None:
    pool = case.pool(2)
    with case.filled(PROMPT[:64], pool) as sequence, case.filled([1], pool) as other:
        with refused(KvPoolExhaustedError, sequence, other) as caught:
            sequence.decode()
        assert caught.value.facts() == {"needed_pages": 1, "free_pages": 0}
        other.close()
        case.require_as_alone(sequence, PROMPT[:64])


@pytest.mark.published_call(
    "sslm_decode_step_v2",
    refusal="SSLM_INVALID_ARGUMENT",
    case="a budget below 1, also mid-token",
    here="OptionRangeError",
)
@pytest.mark.parametrize("slices", [0, 1])
@pytest.mark.parametrize("units", [0, -1])
def test_a_budget_of_nothing(case: Case, units: int, slices: int) -> None:
    with case.filled(PROMPT) as sequence:
        token_id = sequence.decode()
        for _ in range(slices):
            case.step(sequence)
        with refused(OptionRangeError, sequence):
            advanced(case, [sequence], units)
        case.require_as_alone(sequence, [*PROMPT, token_id], more=1)


@pytest.mark.published_call(
    "sslm_decode_step",
    refusal="SSLM_INVALID_ARGUMENT",
    case="a sequence of another model",
    here="PlanMismatchError",
)
def test_a_plan_of_another_model(case: Case) -> None:
    with case.filled(PROMPT) as sequence:
        token_id = sequence.decode()
        for units in (ALL, 1):
            with refused(PlanMismatchError, sequence):
                finished(advance(case.reference, [sequence], budget_units=units, row_count_max=64))
            case.step(sequence)
        case.require_as_alone(sequence, [*PROMPT, token_id], more=1)


# Several sequences in one call, each with its own outcome.


@pytest.mark.published_call(
    "sslm_decode_step", case="several sequences", here="advance(plan, sequences)"
)
@pytest.mark.parametrize("units", [1, ALL])
def test_neighbours_change_nothing(case: Case, units: int) -> None:
    pool = case.pool(12)
    prompts = [PROMPT, PROMPT[:3], PROMPT[::-1], [9] * 64, PROMPT]
    batch = [case.sequence(pool) for _ in prompts]
    for sequence, prompt in zip(batch, prompts, strict=True):
        sequence.push(prompt)
    while waiting := [sequence for sequence in batch if sequence.pending_count]:
        outcomes = advanced(case, waiting, units)
        assert [outcome.sequence for outcome in outcomes] == waiting
    for sequence in batch:
        sequence.decode()
    while waiting := [sequence for sequence in batch if sequence.pending_count]:
        finished(advanced(case, waiting, units))
    for sequence, prompt in zip(batch, prompts, strict=True):
        assert sequence.position == len(prompt) + 1
        case.require_as_alone(sequence, prompt)
        sequence.close()
    assert pool.held_page_count == 0


Spoil = Callable[[Sequence], object]


FAILURES: dict[str, tuple[Spoil, type[SslmError]]] = {
    "closed": (lambda sequence: sequence.close(), ObjectClosedError),
    "nothing pending": (lambda sequence: sequence.reset(), SequenceBusyError),
    "in use": (lambda sequence: sequence.begin_use(), SequenceInUseError),
}


@pytest.mark.published_call(
    "sslm_decode_step",
    refusal="SSLM_INVALID_ARGUMENT",
    case="of one sequence among others, which go on",
    here="Outcome.error",
)
@pytest.mark.parametrize("failure", FAILURES)
@pytest.mark.parametrize("place", [0, 1, 2])
def test_one_that_fails_keeps_no_other_back(case: Case, failure: str, place: int) -> None:
    spoil, kind = FAILURES[failure]
    pool = case.pool()
    batch = [case.filled(PROMPT[:length], pool) for length in (70, 3, 64)]
    ids = [
        [*PROMPT[:length], sequence.decode()]
        for length, sequence in zip((70, 3, 64), batch, strict=True)
    ]
    kept = spoil(batch[place])
    outcomes = advanced(case, batch)
    for index, outcome in enumerate(outcomes):
        assert isinstance(outcome.error, kind) == (index == place)
        assert (outcome.chunk is None) == (index == place)
    del kept
    for index, sequence in enumerate(batch):
        if index != place:
            case.require_as_alone(sequence, ids[index], more=1)


@pytest.mark.published_call(
    "sslm_decode_step",
    refusal="SSLM_INVALID_ARGUMENT",
    case="of one sequence that is beyond the workspace's context, among others",
    here="OpShapeError: the outcome's error",
)
@pytest.mark.parametrize("units", [1, ALL])
def test_one_that_the_plan_refuses_keeps_no_other_back(case: Case, units: int) -> None:
    plan = open_named("auto").compile(
        case.program, case.tensors, row_count_max=64, context_tokens=70
    )
    pool = case.pool()
    batch = [case.filled(PROMPT[:length], pool) for length in (64, 70, 3)]
    ids = [[*sequence.token_ids, sequence.decode()] for sequence in batch]
    before = seen(batch[1])
    outcomes = advance(plan, batch, budget_units=units, row_count_max=64)
    assert [type(outcome.error) for outcome in outcomes] == [type(None), OpShapeError, type(None)]
    assert [outcome.chunk is None for outcome in outcomes] == [units == 1, True, units == 1]
    assert seen(batch[1]) == before
    for sequence, expected in zip(batch, ids, strict=True):
        case.require_as_alone(sequence, expected, more=1)
        sequence.close()
    plan.close()


@pytest.mark.published_call(
    "sslm_decode_step",
    refusal="SSLM_INVALID_ARGUMENT",
    case="one sequence twice",
    here="OptionRangeError",
)
@pytest.mark.parametrize("slices", [0, 1])
def test_a_sequence_that_is_listed_twice(case: Case, slices: int) -> None:
    pool = case.pool()
    with case.filled(PROMPT, pool) as first, case.filled(PROMPT[:3], pool) as second:
        ids = [[*PROMPT, first.decode()], [*PROMPT[:3], second.decode()]]
        for _ in range(slices):
            finished(advanced(case, [first, second], 1))
        with refused(OptionRangeError, first, second):
            advanced(case, [first, second, first])
        case.require_as_alone(first, ids[0], more=1)
        case.require_as_alone(second, ids[1], more=1)


@pytest.mark.published_call("sslm_decode_step", case="cancelled", here="RunCancelledError")
@pytest.mark.parametrize("slices", [0, 1, 3])
def test_a_batch_that_is_cancelled_stands_where_it_stood(case: Case, slices: int) -> None:
    pool = case.pool()
    cancellation = Cancellation()
    cancellation.set()
    with case.filled(PROMPT, pool) as first, case.filled(PROMPT[:3], pool) as second:
        ids = [[*PROMPT, first.decode()], [*PROMPT[:3], second.decode()]]
        for _ in range(slices):
            finished(advanced(case, [first, second], 1))
        before = seen(first), seen(second)
        waiting = [sequence for sequence in (first, second) if sequence.pending_count]
        outcomes = advance(
            case.plan, waiting, budget_units=ALL, row_count_max=64, cancellation=cancellation
        )
        assert all(outcome.error is not None for outcome in outcomes)
        assert (seen(first), seen(second)) == before
        case.require_as_alone(first, ids[0], more=1)
        case.require_as_alone(second, ids[1], more=1)
