"""Calls that make a sequence, reset it and release it."""

import threading
from collections.abc import Callable
from collections.abc import Sequence as Sequences
from typing import Any

import pytest

from sslm.errors.runtime import (
    KvPoolExhaustedError,
    NotCopyableError,
    ObjectClosedError,
    OptionRangeError,
    SequenceInUseError,
    SequenceReleasedError,
)
from sslm.runtime.saves.saving import restore_into, save
from sslm.runtime.sequences.options import sequence_size_bytes
from sslm.runtime.sequences.prefix import Prefix
from sslm.runtime.sequences.sequence import Sequence
from sslm.runtime.sequences.snapshot import Snapshot
from sslm.runtime.slices.stepper import advance
from tests.plan_doubles import PlanDouble
from tests.runtime_cases import Case, refused, seen

PROMPT = [index * 5 % 37 for index in range(70)]


@pytest.mark.published_call("sslm_seq_create", here="Sequence(program, pool, model_id, options)")
def test_a_sequence_takes_what_it_reserves(case: Case) -> None:
    pool = case.pool()
    with case.sequence(pool, reserved_tokens=65) as sequence:
        stats = sequence.stats()
        assert (stats.resident_pages, stats.positions, stats.pending_tokens) == (2, 0, 0)
        assert (sequence.selected, sequence.chunk, pool.held_page_count) == (None, None, 2)
        assert sequence_size_bytes(case.program, sequence.options) > 0
        sequence.push(PROMPT)
        case.require_as_alone(sequence, PROMPT)
    assert pool.held_page_count == 0


@pytest.mark.published_call(
    "sslm_seq_create",
    refusal="SSLM_INVALID_ARGUMENT",
    case="a context or a chunk out of range",
    here="OptionRangeError",
)
def test_options_out_of_range(case: Case) -> None:
    pool = case.pool()
    longest = case.program.max_position_embeddings
    for options in (
        {"context_tokens": 0},
        {"context_tokens": longest + 1},
        {"chunk_tokens": 0},
        {"chunk_tokens": 65},
        {"reserved_tokens": -1},
        {"reserved_tokens": 201},
    ):
        with pytest.raises(OptionRangeError):
            case.sequence(pool, **options)
    assert pool.held_page_count == 0


# Resetting.

States = dict[str, Callable[[Case, Sequence], object]]


def _half_a_chunk(case: Case, sequence: Sequence) -> None:
    sequence.push(PROMPT)
    case.step(sequence)
    assert sequence.chunk is not None


def _half_a_token(case: Case, sequence: Sequence) -> None:
    sequence.push(PROMPT)
    case.run(sequence)
    sequence.decode()
    case.step(sequence)
    assert sequence.chunk is not None


def _in_the_head(case: Case, sequence: Sequence) -> None:
    sequence.push(PROMPT[:5])
    case.step(sequence, case.program.layer_count)
    assert sequence.chunk is not None


def _chosen(case: Case, sequence: Sequence) -> None:
    sequence.push(PROMPT)
    case.run(sequence)
    assert sequence.selected is not None


def _full(case: Case, sequence: Sequence) -> None:
    sequence.push([7] * sequence.options.context_tokens)
    case.run(sequence)


STATES: States = {
    "empty": lambda case, sequence: None,
    "pending": lambda case, sequence: sequence.push(PROMPT),
    "half a chunk": _half_a_chunk,
    "half a token": _half_a_token,
    "in the head": _in_the_head,
    "chosen": _chosen,
    "full": _full,
}

each_state = pytest.mark.parametrize("state", STATES)


@pytest.mark.published_call("sslm_seq_reset", here="Sequence.reset")
@pytest.mark.published_call(
    "sslm_seq_reset",
    refusal="SSLM_SEQ_RESET_MIDTOKEN_REJECTED",
    here="none: it may be reset from any state, also mid-token and mid-chunk",
)
@each_state
def test_a_sequence_is_reset_from_any_state(case: Case, state: str) -> None:
    pool = case.pool()
    with case.sequence(pool) as sequence, case.sequence(pool) as fresh:
        STATES[state](case, sequence)
        sequence.reset()
        assert seen(sequence) == seen(fresh)
        assert pool.held_page_count == 0
        sequence.push(PROMPT[::-1])
        case.require_as_alone(sequence, PROMPT[::-1])


@pytest.mark.published_call(
    "sslm_seq_reset", case="a sequence that shares a prefix", here="Sequence.reset"
)
def test_resetting_leaves_a_prefix_to_the_others(case: Case) -> None:
    pool = case.pool()
    with (
        Prefix(case.filled(PROMPT, pool)) as prefix,
        case.sequence(pool) as first,
        case.sequence(pool) as second,
    ):
        prefix.freeze()
        prefix.adopt_into(first)
        prefix.adopt_into(second)
        first.reset()
        first.push([9] * 70)
        case.require_as_alone(first, [9] * 70)
        case.require_as_alone(second, PROMPT)
        first.reset()
        prefix.adopt_into(first)
        case.require_as_alone(first, PROMPT)


@pytest.mark.published_call(
    "sslm_seq_reset", case="what it reserved is shared and the pool is empty", here="Sequence.reset"
)
def test_resetting_needs_pages_of_its_own(case: Case) -> None:
    pool = case.pool(3)
    with Prefix(case.filled(PROMPT, pool)) as prefix:
        prefix.freeze()
        sequence = case.sequence(pool, context_tokens=128, reserved_tokens=None)
        prefix.adopt_into(sequence)
        rest = pool.hold()
        rest.take(1)
        with refused(KvPoolExhaustedError, sequence):
            sequence.reset()
        case.require_as_alone(sequence, PROMPT)
        rest.release()
        sequence.reset()
        sequence.push(PROMPT)
        case.require_as_alone(sequence, PROMPT)


# Releasing.


def calls_of(
    case: Case, sequence: Sequence, blob: bytes, snapshot: Snapshot
) -> Sequences[Callable[[], object]]:
    """Return all that can be asked of a sequence; the rest belongs to somebody else."""
    return (
        lambda: sequence.push([1]),
        lambda: sequence.prefill([1]),
        sequence.decode,
        sequence.snapshot,
        lambda: sequence.adopt(snapshot),
        lambda: save(sequence),
        lambda: restore_into(sequence, blob),
        sequence.reset,
        sequence.stats,
        lambda: case.step(sequence),
    )


@pytest.mark.published_call("sslm_seq_release", here="Sequence.close")
@each_state
def test_a_sequence_is_released_from_any_state(case: Case, state: str) -> None:
    pool = case.pool()
    with case.filled(PROMPT, pool) as other:
        sequence = case.sequence(pool)
        STATES[state](case, sequence)
        before = seen(other)
        held = len(sequence.state.hold.pages)
        sequence.close()
        sequence.close()
        after = seen(other)
        assert pool.held_page_count == 2
        assert after == before._replace(free_page_count=before.free_page_count + held)
        case.require_as_alone(other, PROMPT)


@pytest.mark.published_call(
    "sslm_seq_release",
    refusal="SSLM_INVALID_ARGUMENT",
    case="any call on a sequence that was released",
    here="ObjectClosedError",
)
def test_a_released_sequence_is_good_for_nothing(case: Case) -> None:
    pool = case.pool()
    other = case.filled(PROMPT, pool)
    blob, snapshot = save(other), other.snapshot()
    sequence = case.filled(PROMPT, pool)
    sequence.close()
    for call in calls_of(case, sequence, blob, snapshot):
        with refused(ObjectClosedError, other) as caught:
            call()
        assert caught.value.facts() == {"kind": "sequence"}
    snapshot.release()
    case.require_as_alone(other, PROMPT)


class Closing(PlanDouble):
    """A plan during whose run somebody else closes a sequence."""

    def __init__(self, case: Case, victim: Sequence) -> None:
        super().__init__(case.plan)
        self._victim = victim

    def advance(self, *arguments: Any, **options: Any) -> None:
        thread = threading.Thread(target=self._victim.close)
        thread.start()
        thread.join()
        super().advance(*arguments, **options)


@pytest.mark.published_call(
    "sslm_seq_release", case="while another thread computes it", here="Sequence.close"
)
@pytest.mark.published_call(
    "sslm_decode_step", refusal="out_tokens -3", here="SequenceReleasedError: the outcome's error"
)
def test_a_sequence_is_released_while_it_is_computed(case: Case) -> None:
    pool = case.pool()
    victim, other = case.filled(PROMPT, pool), case.filled(PROMPT[:3], pool)
    victim.decode()
    token_id = other.decode()
    outcomes = advance(
        Closing(case, victim), [victim, other], budget_units=1 << 30, row_count_max=64
    )
    assert [type(outcome.error) for outcome in outcomes] == [SequenceReleasedError, type(None)]
    assert pool.held_page_count == 1
    case.require_as_alone(other, [*PROMPT[:3], token_id])


@pytest.mark.published_call(
    "sslm_seq_release",
    refusal="SSLM_INVALID_ARGUMENT",
    case="all other calls while another thread is in one",
    here="SequenceInUseError",
)
def test_two_threads_do_not_use_one_sequence(case: Case) -> None:
    pool = case.pool()
    sequence = case.filled(PROMPT, pool)
    blob, snapshot = save(sequence), sequence.snapshot()
    before = seen(sequence)
    turn = sequence.begin_use()
    for call in calls_of(case, sequence, blob, snapshot):
        with pytest.raises(SequenceInUseError):
            call()
    turn.end()
    assert seen(sequence) == before
    snapshot.release()
    case.require_as_alone(sequence, PROMPT)
    sequence.close()
    assert pool.held_page_count == 0


def test_a_sequence_stays_in_its_process(case: Case) -> None:
    with case.filled(PROMPT) as sequence:
        with refused(NotCopyableError, sequence):
            sequence.__reduce__()
        case.require_as_alone(sequence, PROMPT)
