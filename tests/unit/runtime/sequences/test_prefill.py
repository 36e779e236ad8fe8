"""The call that prefills a sequence: tokens before a refused one stay."""

from typing import Any

import pytest

from sslm.errors.native import RunCancelledError
from sslm.errors.runtime import (
    ContextLengthError,
    KvPoolExhaustedError,
    OptionRangeError,
    SequenceBusyError,
    TokenIdRangeError,
    TokenIdTypeError,
)
from sslm.runtime.guards import Cancellation
from sslm.runtime.slices.stepper import advance, finished
from tests.runtime_cases import Case, refused

PROMPT = [index * 5 % 37 for index in range(70)]


@pytest.mark.published_call("sslm_prefill", here="Sequence.prefill, then advance")
@pytest.mark.parametrize("chunk_tokens", [1, 7, 64])
@pytest.mark.parametrize("units", [1, 2, 1 << 30])
def test_no_chunk_and_no_slice_changes_a_bit(case: Case, chunk_tokens: int, units: int) -> None:
    with case.sequence(chunk_tokens=chunk_tokens) as sequence:
        assert sequence.prefill(PROMPT) == 70
        assert (sequence.position, sequence.pending_count) == (0, 70)
        while sequence.pending_count:
            case.step(sequence, units)
        case.require_as_alone(sequence, PROMPT)


@pytest.mark.published_call("sslm_prefill", case="no tokens", here="Sequence.prefill")
def test_no_tokens_change_nothing(case: Case) -> None:
    with case.filled(PROMPT) as sequence:
        chosen = sequence.selected
        assert sequence.prefill([]) == 0
        assert (sequence.selected, sequence.pending_count) == (chosen, 0)
        case.require_as_alone(sequence, PROMPT)


@pytest.mark.published_call("sslm_prefill", case="mid-chunk", here="Sequence.prefill")
def test_more_tokens_in_the_middle_of_a_chunk(case: Case) -> None:
    with case.sequence() as sequence:
        sequence.prefill(PROMPT[:3])
        case.step(sequence)
        assert sequence.prefill(PROMPT[3:]) == 67
        case.require_as_alone(sequence, PROMPT)


@pytest.mark.published_call(
    "sslm_prefill", case="in place of the token that was chosen", here="Sequence.prefill"
)
def test_other_tokens_than_the_chosen_one(case: Case) -> None:
    with case.filled(PROMPT) as sequence:
        assert sequence.prefill([1, 2]) == 2
        assert sequence.selected is None
        case.require_as_alone(sequence, [*PROMPT, 1, 2])


# What is refused: the first token that cannot be taken, whatever comes behind it.


@pytest.mark.published_call(
    "sslm_prefill", refusal="SSLM_TOKEN_ID_OUT_OF_RANGE", here="TokenIdRangeError"
)
@pytest.mark.parametrize("bad", [-1, "vocab_size", 1 << 31, 1 << 70])
@pytest.mark.parametrize("index", [0, 1, 66])
def test_an_id_that_is_none(case: Case, index: int, bad: Any) -> None:
    bad = case.program.vocab_size if bad == "vocab_size" else bad
    with case.sequence() as sequence:
        with pytest.raises(TokenIdRangeError) as caught:
            sequence.prefill([*PROMPT[:index], bad, *PROMPT])
        facts = {"token_id": bad, "index": index, "largest": case.program.vocab_size - 1}
        assert (caught.value.facts(), caught.value.consumed_tokens) == (facts, index)
        assert sequence.pending_count == index
        with refused(TokenIdRangeError, sequence):
            sequence.prefill([bad])
        assert sequence.prefill(PROMPT[index:]) == 70 - index
        case.require_as_alone(sequence, PROMPT)


@pytest.mark.published_call(
    "sslm_prefill",
    refusal="SSLM_INVALID_ARGUMENT",
    case="what is no integer",
    here="TokenIdTypeError",
)
@pytest.mark.parametrize("bad", [1.0, "1", None, True])
def test_what_is_no_id_at_all(case: Case, bad: Any) -> None:
    with case.sequence() as sequence:
        with pytest.raises(TokenIdTypeError) as caught:
            sequence.prefill([*PROMPT[:2], bad])
        assert (caught.value.consumed_tokens, sequence.pending_count) == (2, 2)
        with refused(TokenIdTypeError, sequence):
            sequence.prefill([bad])
        sequence.prefill(PROMPT[2:])
        case.require_as_alone(sequence, PROMPT)


@pytest.mark.published_call(
    "sslm_prefill", refusal="SSLM_CONTEXT_CAP_EXCEEDED", here="ContextLengthError"
)
def test_the_end_of_the_context(case: Case) -> None:
    with case.sequence(context_tokens=72) as sequence:
        with pytest.raises(ContextLengthError) as caught:
            sequence.prefill(PROMPT + PROMPT)
        assert caught.value.facts() == {
            "needed_tokens": 140,
            "limit_tokens": 72,
            "model_tokens": case.program.max_position_embeddings,
        }
        assert caught.value.consumed_tokens == 72
        case.run(sequence)
        with refused(ContextLengthError, sequence) as again:
            sequence.prefill([1])
        assert again.value.consumed_tokens == 0
        case.require_as_alone(sequence, PROMPT + PROMPT[:2], more=0)


@pytest.mark.published_call(
    "sslm_prefill", refusal="SSLM_KV_POOL_EXHAUSTED", here="KvPoolExhaustedError"
)
def test_the_end_of_the_pool(case: Case) -> None:
    pool = case.pool(2)
    with case.sequence(pool) as sequence, case.filled([1], pool) as other:
        with pytest.raises(KvPoolExhaustedError) as caught:
            sequence.prefill(PROMPT)
        assert caught.value.facts() == {"needed_pages": 2, "free_pages": 1}
        assert (caught.value.consumed_tokens, sequence.pending_count) == (64, 64)
        case.run(sequence)
        with refused(KvPoolExhaustedError, sequence, other):
            sequence.prefill(PROMPT[64:])
        other.close()
        assert sequence.prefill(PROMPT[64:]) == 6
        case.require_as_alone(sequence, PROMPT)


@pytest.mark.published_call(
    "sslm_prefill",
    refusal="SSLM_TOKEN_ID_OUT_OF_RANGE",
    case="at the end of context and pool: what comes first, and an id before both",
    here="TokenIdRangeError",
)
@pytest.mark.parametrize(
    ("bad_at", "room", "kind", "consumed"),
    [
        (64, (64, 1), TokenIdRangeError, 64),
        (65, (64, 12), ContextLengthError, 64),
        (65, (200, 1), KvPoolExhaustedError, 64),
        (63, (64, 1), TokenIdRangeError, 63),
        # Where context and pool end together, it is the context.
        (69, (64, 1), ContextLengthError, 64),
        (69, (66, 1), KvPoolExhaustedError, 64),
    ],
)
def test_the_first_refusal_is_told(
    case: Case, bad_at: int, room: tuple[int, int], kind: type[Any], consumed: int
) -> None:
    context_tokens, page_count = room
    with case.sequence(case.pool(page_count), context_tokens=context_tokens) as sequence:
        with pytest.raises(kind) as caught:
            sequence.prefill([*PROMPT[:bad_at], -1, *PROMPT])
        assert caught.value.consumed_tokens == consumed
        case.run(sequence)
        assert sequence.token_ids == PROMPT[:consumed]
        case.require_as_alone(sequence, PROMPT[:consumed], more=0)


# Computing what was taken in.


@pytest.mark.published_call(
    "sslm_prefill",
    refusal="SSLM_INVALID_ARGUMENT",
    case="a budget of nothing, more rows than the plan takes",
    here="OptionRangeError",
)
@pytest.mark.parametrize("slices", [0, 1])
@pytest.mark.parametrize(("budget_units", "row_count_max"), [(0, 64), (-1, 64), (1, 2)])
def test_a_budget_that_makes_no_progress(
    case: Case, slices: int, budget_units: int, row_count_max: int
) -> None:
    with case.sequence() as sequence:
        sequence.prefill(PROMPT)
        for _ in range(slices):
            case.step(sequence)
        with refused(OptionRangeError, sequence):
            advance(case.plan, [sequence], budget_units=budget_units, row_count_max=row_count_max)
        case.require_as_alone(sequence, PROMPT)


@pytest.mark.published_call(
    "sslm_prefill",
    refusal="SSLM_INVALID_ARGUMENT",
    case="nothing to compute",
    here="SequenceBusyError",
)
def test_nothing_to_compute(case: Case) -> None:
    with case.filled(PROMPT) as sequence:
        with refused(SequenceBusyError, sequence) as caught:
            case.step(sequence)
        assert caught.value.facts()["pending"] == 0
        case.require_as_alone(sequence, PROMPT)


@pytest.mark.published_call("sslm_prefill", case="cancelled", here="RunCancelledError")
@pytest.mark.parametrize("slices", [0, 1, 2])
def test_a_run_that_was_cancelled(case: Case, slices: int) -> None:
    cancellation = Cancellation()
    cancellation.set()
    with case.sequence() as sequence:
        sequence.prefill(PROMPT)
        for _ in range(slices):
            case.step(sequence)
        with refused(RunCancelledError, sequence):
            finished(
                advance(
                    case.plan,
                    [sequence],
                    budget_units=1,
                    row_count_max=64,
                    cancellation=cancellation,
                )
            )
        case.require_as_alone(sequence, PROMPT)
