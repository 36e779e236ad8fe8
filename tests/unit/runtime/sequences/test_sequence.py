"""A sequence holds what was pushed, and nothing after an error."""

import gc
from typing import Any

import numpy as np
import pytest

from sslm.backends.reference.backend import ReferencePlan
from sslm.errors.runtime import (
    ContextLengthError,
    KvPoolExhaustedError,
    ObjectClosedError,
    OptionRangeError,
    TokenIdRangeError,
    TokenIdTypeError,
)
from sslm.numerics.digests import answer_digest, first_link, next_link
from sslm.runtime.sequences.kv_pool import KvPool
from sslm.runtime.sequences.options import SequenceOptions, sequence_size_bytes
from sslm.runtime.sequences.sequence import Sequence
from sslm.runtime.slices.stepper import advance, finished
from tests.tiny_models import ALL_UNITS, MODEL_ID
from tests.toy_programs import CONTEXT_TOKENS, HIDDEN_SIZE, VOCAB_SIZE, moving_average_model

MODEL = moving_average_model()
PLAN = ReferencePlan(MODEL.program, MODEL.tensors)


def new_pool(page_count: int = 2) -> KvPool:
    return KvPool(MODEL.program.state_layout, page_count)


def new_sequence(pool: KvPool | None = None, **options: Any) -> Sequence:
    merged = SequenceOptions(**({"context_tokens": 100} | options))
    return Sequence(MODEL.program, pool or new_pool(), MODEL_ID, merged)


def run(sequence: Sequence, *, budget_units: int = ALL_UNITS) -> None:
    while sequence.has_work:
        finished(advance(PLAN, [sequence], budget_units=budget_units, row_count_max=64))


def test_positions_digest_and_selection() -> None:
    with new_sequence() as sequence:
        assert (sequence.position, sequence.pending_count, sequence.selected) == (0, 0, None)
        assert sequence.digest == first_link(1, MODEL_ID)
        sequence.push([3, 1, 4])
        assert (sequence.position, sequence.pending_count) == (0, 3)
        run(sequence)
        assert (sequence.position, sequence.pending_count) == (3, 0)
        assert sequence.token_ids == [3, 1, 4]
        assert sequence.selected is not None
        assert 0 <= sequence.selected < VOCAB_SIZE
        link = first_link(1, MODEL_ID)
        for row, token_id in enumerate([3, 1, 4]):
            digest = sequence.memory.digests[32 * row : 32 * row + 32]
            link = next_link(link, token_id, digest)
        assert sequence.digest == link
        assert sequence.answer_digest([7]) == answer_digest(link, [7])
        assert set(sequence.saturations.values()) == {0}


def test_a_new_push_forgets_the_selection() -> None:
    with new_sequence() as sequence:
        sequence.push([3])
        run(sequence)
        selected = sequence.selected
        sequence.push([])
        assert sequence.selected == selected
        sequence.push([5])
        assert sequence.selected is None


@pytest.mark.parametrize("budget_units", [1, ALL_UNITS])
def test_pushing_while_a_chunk_is_under_way_changes_nothing_else(budget_units: int) -> None:
    with new_sequence() as sliced, new_sequence() as whole:
        sliced.push([3, 1])
        finished(advance(PLAN, [sliced], budget_units=1, row_count_max=64))
        sliced.push([4, 1, 5])
        assert sliced.pending_count == 5
        run(sliced, budget_units=budget_units)
        whole.push([3, 1, 4, 1, 5])
        run(whole)
        assert (sliced.digest, sliced.selected) == (whole.digest, whole.selected)


@pytest.mark.parametrize(
    ("token_ids", "index"), [([VOCAB_SIZE], 0), ([1, -1], 1), ([1, 2, 1 << 40], 2)]
)
def test_ids_out_of_range_queue_nothing(token_ids: list[int], index: int) -> None:
    with new_sequence() as sequence:
        sequence.push([2])
        run(sequence)
        before = sequence.selected
        with pytest.raises(TokenIdRangeError) as caught:
            sequence.push(token_ids)
        error = caught.value
        facts = error.token_id, error.index, error.largest
        assert facts == (token_ids[index], index, VOCAB_SIZE - 1)
        assert (sequence.pending_count, sequence.selected) == (0, before)


@pytest.mark.parametrize("bad", [1.5, 2.0, "a", None, True, np.float32(1), np.ones(2, int), [1]])
def test_ids_that_are_no_integers_queue_nothing(bad: Any) -> None:
    with new_sequence() as sequence:
        sequence.push([2])
        with pytest.raises(TokenIdTypeError) as caught:
            sequence.push([1, bad])
        assert (caught.value.index, caught.value.kind) == (1, type(bad).__name__)
        assert sequence.pending_count == 1
        run(sequence)
        assert sequence.token_ids == [2]


def test_integers_of_other_libraries_are_ids() -> None:
    with new_sequence() as sequence:
        sequence.push(np.array([3, 1], np.uint16))
        run(sequence)
        assert sequence.token_ids == [3, 1]
        assert {type(token_id) for token_id in sequence.token_ids} == {int}


def test_the_context_ends_exactly_where_it_was_said_to() -> None:
    with new_sequence(context_tokens=65) as sequence:
        sequence.push([1] * 60)
        run(sequence)
        sequence.push([2] * 3)
        with pytest.raises(ContextLengthError) as caught:
            sequence.push([3] * 3)
        assert (caught.value.needed_tokens, caught.value.limit_tokens) == (66, 65)
        assert sequence.pending_count == 3
        sequence.push([3] * 2)
        run(sequence)
        assert sequence.position == 65
        with pytest.raises(ContextLengthError):
            sequence.push([1])


@pytest.mark.parametrize(
    "options",
    [
        {"context_tokens": 0},
        {"context_tokens": -5},
        {"chunk_tokens": 0},
        {"chunk_tokens": 65},
    ],
)
def test_options_out_of_range_are_refused(options: dict[str, Any]) -> None:
    with pytest.raises(OptionRangeError):
        SequenceOptions(**({"context_tokens": 10} | options))


def test_a_context_beyond_the_model_is_refused_before_anything_is_taken() -> None:
    pool = new_pool(8)
    with pytest.raises(OptionRangeError):
        new_sequence(pool, context_tokens=CONTEXT_TOKENS + 1)
    assert pool.free_page_count == 8
    with new_sequence(pool, context_tokens=CONTEXT_TOKENS):
        assert pool.free_page_count == 3


def test_pages_are_taken_for_the_whole_context_and_given_back() -> None:
    pool = new_pool(3)
    with new_sequence(pool, context_tokens=128) as sequence:
        assert pool.free_page_count == 1
        with pytest.raises(KvPoolExhaustedError):
            new_sequence(pool, context_tokens=65)
        assert pool.free_page_count == 1
        sequence.close()
        assert pool.free_page_count == 3
    assert pool.free_page_count == 3


def test_a_closed_sequence_can_neither_be_pushed_to_nor_advanced() -> None:
    """Its pages may be another sequence's by then."""
    for has_begun in (False, True):
        sequence = new_sequence()
        sequence.push([1, 2])
        if has_begun:
            finished(advance(PLAN, [sequence], budget_units=1, row_count_max=64))
        sequence.close()
        with pytest.raises(ObjectClosedError):
            sequence.push([1])
        with pytest.raises(ObjectClosedError):
            finished(advance(PLAN, [sequence], budget_units=1, row_count_max=64))
        assert sequence.pending_count == 0


@pytest.mark.parametrize("count", [1, 63, 64, 65, 90])
def test_only_the_last_chunk_is_scored(count: int) -> None:
    with new_sequence() as sequence:
        sequence.push([1] * count)
        scored = []
        while sequence.has_work:
            for _, chunk in finished(advance(PLAN, [sequence], budget_units=99, row_count_max=64)):
                scored.append((chunk.span.row_count, chunk.has_logits))
        rest = [] if count <= 64 else [(64, False)]
        assert scored == [*rest, (count - 64 * len(rest), True)]


def test_size_is_that_of_the_buffers() -> None:
    plain = SequenceOptions(context_tokens=65)
    sizes = 4 * 2, 4 * 128, 2 * 128, 4 * 64 * HIDDEN_SIZE, 8 * 6, 64 * 32, 8 * VOCAB_SIZE, 4
    assert sequence_size_bytes(MODEL.program, plain) == sum(sizes)
    traced = SequenceOptions(context_tokens=65, has_all_logits=True, is_traced=True)
    more = 63 * 8 * VOCAB_SIZE + 63 * 4 + 64 * 32 * 3
    assert sequence_size_bytes(MODEL.program, traced) == sum(sizes) + more


@pytest.mark.parametrize("bad", ["text", VOCAB_SIZE, 0.5])
@pytest.mark.parametrize("count", [70, 101], ids=["behind what fits", "behind the context"])
def test_a_refused_prefill_keeps_no_pages_from_being_given_back(bad: object, count: int) -> None:
    pool = new_pool()
    # Without the collector, as what is dropped in a cycle keeps its pages until that comes.
    gc.disable()
    try:
        sequence = new_sequence(pool, reserved_tokens=0)
        with pytest.raises((ContextLengthError, TokenIdTypeError, TokenIdRangeError)) as refused:
            sequence.prefill([1] * count + [bad])
        del sequence, refused
        assert pool.held_page_count == 0
    finally:
        gc.enable()
