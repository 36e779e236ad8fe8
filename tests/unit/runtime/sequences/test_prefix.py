"""Calls on prefixes: begun, prefilled, frozen, adopted by reference, released."""

from typing import Any

import pytest

from sslm import memory as own_memory
from sslm.errors.runtime import (
    ContextLengthError,
    KvPoolExhaustedError,
    MemoryRefusedError,
    ObjectClosedError,
    OptionRangeError,
    PrefixFrozenError,
    PrefixNotFrozenError,
    SequenceBusyError,
    SequenceInUseError,
    SequenceNotFreshError,
    SnapshotMismatchError,
    TokenIdRangeError,
)
from sslm.program.states import StateLayout
from sslm.runtime.sequences.kv_pool import KvPool
from sslm.runtime.sequences.prefix import Prefix
from sslm.runtime.sequences.sequence import Sequence
from tests.runtime_cases import Case, refused

PROMPT = [index * 5 % 37 for index in range(70)]


def frozen(case: Case, ids: list[int], pool: KvPool) -> Prefix:
    prefix = Prefix(case.filled(ids, pool))
    prefix.freeze()
    return prefix


@pytest.mark.published_call("sslm_prefix_begin", here="Prefix(sequence)")
def test_a_prefix_begins_with_nothing(case: Case) -> None:
    pool = case.pool()
    with Prefix(case.sequence(pool)) as prefix:
        assert (prefix.token_count, prefix.is_frozen, pool.held_page_count) == (0, False, 0)


@pytest.mark.published_call(
    "sslm_prefix_begin",
    refusal="SSLM_INVALID_ARGUMENT",
    case="a pool of another model",
    here="OptionRangeError",
)
def test_a_pool_of_another_model(case: Case) -> None:
    pool = KvPool(StateLayout((), (), page_size_bytes=64, fixed_size_bytes=0), 4)
    with pytest.raises(OptionRangeError, match="pool is for pages of 64 bytes"):
        case.sequence(pool)
    assert pool.held_page_count == 0


@pytest.mark.published_call(
    "sslm_prefix_begin", refusal="SSLM_KV_POOL_EXHAUSTED", here="KvPoolExhaustedError"
)
@pytest.mark.published_call(
    "sslm_seq_create", refusal="SSLM_KV_POOL_EXHAUSTED", here="KvPoolExhaustedError"
)
def test_a_pool_without_the_pages_that_are_reserved(case: Case) -> None:
    pool = case.pool(4)
    other = case.filled(PROMPT, pool)
    with refused(KvPoolExhaustedError, other) as caught:
        case.sequence(pool, reserved_tokens=129)
    assert caught.value.facts() == {"needed_pages": 3, "free_pages": 2}
    with case.sequence(pool, reserved_tokens=128):
        assert pool.free_page_count == 0
    case.require_as_alone(other, PROMPT)


@pytest.mark.published_call(
    "sslm_prefix_begin", refusal="SSLM_ALLOCATION_FAILED", here="MemoryRefusedError"
)
@pytest.mark.published_call(
    "sslm_seq_create", refusal="SSLM_ALLOCATION_FAILED", here="MemoryRefusedError"
)
def test_no_memory_for_a_sequence(case: Case, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(size: int) -> Any:
        raise MemoryError(size)

    pool = case.pool()
    other = case.filled(PROMPT, pool)
    with monkeypatch.context() as patch, refused(MemoryRefusedError, other):
        patch.setattr(own_memory, "bytearray", refuse, raising=False)
        case.sequence(pool, reserved_tokens=200)
    case.require_as_alone(other, PROMPT)


# Prefilling.


@pytest.mark.published_call(
    "sslm_prefix_prefill", here="Prefix.prefill, then advance(prefix.sequence)"
)
@pytest.mark.parametrize("units", [1, 1 << 30])
def test_a_prefix_takes_tokens_in_slices(case: Case, units: int) -> None:
    pool = case.pool()
    with Prefix(case.sequence(pool)) as prefix, case.sequence(pool) as sequence:
        assert [prefix.prefill(PROMPT[:30]), prefix.prefill(PROMPT[30:])] == [30, 40]
        while prefix.sequence.pending_count:
            case.step(prefix.sequence, units)
        assert prefix.token_count == 70
        prefix.freeze()
        prefix.adopt_into(sequence)
        case.require_as_alone(sequence, PROMPT)


@pytest.mark.published_call(
    "sslm_prefix_prefill", refusal="SSLM_PREFIX_FROZEN_REJECTED", here="PrefixFrozenError"
)
def test_a_frozen_prefix_takes_nothing_in(case: Case) -> None:
    pool = case.pool()
    with frozen(case, PROMPT, pool) as prefix, case.sequence(pool) as sequence:
        prefix.adopt_into(sequence)
        with refused(PrefixFrozenError, sequence) as caught:
            prefix.prefill([1])
        assert caught.value.facts() == {"token_count": 70}
        with refused(PrefixFrozenError, sequence):
            case.run(prefix.sequence)
        case.require_as_alone(sequence, PROMPT)


@pytest.mark.published_call(
    "sslm_prefix_prefill", refusal="SSLM_TOKEN_ID_OUT_OF_RANGE", here="TokenIdRangeError"
)
@pytest.mark.published_call(
    "sslm_prefix_prefill", refusal="SSLM_CONTEXT_CAP_EXCEEDED", here="ContextLengthError"
)
@pytest.mark.published_call(
    "sslm_prefix_prefill", refusal="SSLM_KV_POOL_EXHAUSTED", here="KvPoolExhaustedError"
)
@pytest.mark.parametrize(
    ("kind", "context_tokens", "page_count", "bad"),
    [
        (TokenIdRangeError, 200, 12, True),
        (ContextLengthError, 100, 12, False),
        (KvPoolExhaustedError, 200, 1, False),
    ],
)
def test_a_prefix_keeps_what_came_before_a_refusal(
    case: Case, kind: type[Any], context_tokens: int, page_count: int, bad: bool
) -> None:
    pool = case.pool(page_count)
    prefix = Prefix(case.sequence(pool, context_tokens=context_tokens))
    ids = PROMPT + ([-1] if bad else PROMPT)
    with pytest.raises(kind) as caught:
        prefix.prefill(ids)
    consumed = caught.value.consumed_tokens
    assert consumed == (70 if bad else 100 if page_count > 1 else 64)
    assert prefix.token_count == consumed
    case.run(prefix.sequence)
    with refused(kind, prefix.sequence) as again:
        prefix.prefill([-1] if bad else [1])
    assert again.value.consumed_tokens == 0
    assert prefix.sequence.token_ids == ids[:consumed]


# Freezing.


@pytest.mark.published_call("sslm_prefix_freeze", here="Prefix.freeze")
def test_freezing_again_changes_nothing(case: Case) -> None:
    pool = case.pool()
    with Prefix(case.filled(PROMPT, pool)) as prefix, case.sequence(pool) as sequence:
        assert pool.held_page_count == 2
        prefix.freeze()
        # The page that is not full is copied, and given back.
        assert pool.held_page_count == 1
        snapshot = prefix.snapshot
        prefix.freeze()
        assert prefix.snapshot is snapshot
        prefix.adopt_into(sequence)
        case.require_as_alone(sequence, PROMPT)


@pytest.mark.published_call(
    "sslm_prefix_freeze",
    refusal="SSLM_INVALID_ARGUMENT",
    case="tokens that are not computed yet, also mid-chunk",
    here="SequenceBusyError",
)
@pytest.mark.parametrize("slices", [0, 1])
def test_a_prefix_is_frozen_at_rest(case: Case, slices: int) -> None:
    with Prefix(case.sequence()) as prefix:
        prefix.prefill(PROMPT)
        for _ in range(slices):
            case.step(prefix.sequence)
        with refused(SequenceBusyError, prefix.sequence) as caught:
            prefix.freeze()
        assert caught.value.facts()["pending"] == 70
        assert not prefix.is_frozen
        case.run(prefix.sequence)
        prefix.freeze()


@pytest.mark.published_call(
    "sslm_prefix_freeze",
    refusal="SSLM_INVALID_ARGUMENT",
    case="while another thread is in a call on it",
    here="SequenceInUseError",
)
def test_a_prefix_that_is_in_use_is_not_frozen(case: Case) -> None:
    pool = case.pool()
    with Prefix(case.filled(PROMPT, pool)) as prefix, case.sequence(pool) as sequence:
        with prefix.sequence.begin_use(), refused(SequenceInUseError, sequence):
            prefix.freeze()
        assert not prefix.is_frozen
        prefix.freeze()
        prefix.adopt_into(sequence)
        case.require_as_alone(sequence, PROMPT)


# Adopting.


@pytest.mark.published_call("sslm_seq_adopt_prefix", here="Prefix.adopt_into(sequence)")
def test_adopting_shares_full_pages_and_copies_the_rest(case: Case) -> None:
    pool = case.pool()
    with frozen(case, PROMPT, pool) as prefix:
        adopters = [case.sequence(pool) for _ in range(3)]
        for sequence in adopters:
            prefix.adopt_into(sequence)
            stats = sequence.stats()
            assert (stats.resident_pages, stats.shared_pages, stats.positions) == (2, 1, 70)
        assert len({sequence.state.hold.pages[0] for sequence in adopters}) == 1
        assert len({sequence.state.hold.pages[1] for sequence in adopters}) == 3
        assert pool.held_page_count == 1 + 3
        # Each goes on in its own way, and none disturbs another.
        for index, sequence in enumerate(adopters):
            sequence.push([index] * 70)
        for index, sequence in enumerate(adopters):
            case.require_as_alone(sequence, PROMPT + [index] * 70)
            sequence.close()
    assert pool.held_page_count == 0


@pytest.mark.published_call(
    "sslm_seq_adopt_prefix", case="an empty prefix", here="Prefix.adopt_into(sequence)"
)
def test_an_empty_prefix_may_be_adopted(case: Case) -> None:
    pool = case.pool()
    with frozen(case, [], pool) as prefix, case.sequence(pool) as sequence:
        prefix.adopt_into(sequence)
        prefix.adopt_into(sequence)
        assert (sequence.position, sequence.selected) == (0, None)
        sequence.push(PROMPT)
        case.require_as_alone(sequence, PROMPT)


@pytest.mark.published_call(
    "sslm_seq_adopt_prefix", case="a prefix on top of another", here="Prefix(sequence that adopted)"
)
def test_prefixes_are_nested(case: Case) -> None:
    pool = case.pool()
    outer = frozen(case, PROMPT, pool)
    begun = case.sequence(pool)
    outer.adopt_into(begun)
    inner = Prefix(begun)
    inner.prefill([3] * 60)
    case.run(inner.sequence)
    inner.freeze()
    # The second page is the inner one's own: the outer one has only the first, and a copied tail.
    assert pool.held_page_count == 2
    outer.release()
    with case.sequence(pool) as sequence:
        inner.adopt_into(sequence)
        inner.release()
        assert sequence.stats().resident_pages == 3
        case.require_as_alone(sequence, PROMPT + [3] * 60)
    assert pool.held_page_count == 0


@pytest.mark.published_call(
    "sslm_seq_adopt_prefix",
    refusal="SSLM_INVALID_ARGUMENT",
    case="a prefix that is not frozen",
    here="PrefixNotFrozenError",
)
def test_a_prefix_that_is_not_frozen(case: Case) -> None:
    pool = case.pool()
    with Prefix(case.filled(PROMPT, pool)) as prefix, case.sequence(pool) as sequence:
        with refused(PrefixNotFrozenError, sequence, prefix.sequence) as caught:
            prefix.adopt_into(sequence)
        assert caught.value.facts() == {"token_count": 70}
        prefix.freeze()
        prefix.adopt_into(sequence)
        case.require_as_alone(sequence, PROMPT)


@pytest.mark.published_call(
    "sslm_seq_adopt_prefix",
    refusal="SSLM_INVALID_ARGUMENT",
    case="another model, another pool",
    here="SnapshotMismatchError: 190, 191",
)
def test_a_prefix_of_another_model_or_pool(case: Case) -> None:
    pool = case.pool()
    with frozen(case, PROMPT, pool) as prefix:
        stranger = case.sequence(pool, model_id=bytes(32))
        elsewhere = case.sequence(case.pool())
        for sequence, what, number in (
            (stranger, "the model", 190),
            (elsewhere, "the KV pool", 191),
        ):
            with refused(SnapshotMismatchError, sequence) as caught:
                prefix.adopt_into(sequence)
            assert (caught.value.facts()["what"], caught.value.status) == (what, number)
        elsewhere.push(PROMPT)
        case.require_as_alone(elsewhere, PROMPT)


def two_tokens(case: Case, sequence: Sequence) -> None:
    del case
    sequence.push([1, 2])


def mid_chunk(case: Case, sequence: Sequence) -> None:
    sequence.push([1, 2])
    case.step(sequence)


def at_rest(case: Case, sequence: Sequence) -> None:
    sequence.push([1, 2])
    case.run(sequence)


@pytest.mark.published_call(
    "sslm_seq_adopt_prefix",
    refusal="SSLM_INVALID_ARGUMENT",
    case="a sequence that has tokens: pending, mid-chunk or computed",
    here="SequenceNotFreshError",
)
@pytest.mark.parametrize("begin", [two_tokens, mid_chunk, at_rest])
def test_only_a_fresh_sequence_adopts(case: Case, begin: Any) -> None:
    pool = case.pool()
    with frozen(case, PROMPT, pool) as prefix, case.sequence(pool) as sequence:
        begin(case, sequence)
        with refused(SequenceNotFreshError, sequence) as caught:
            prefix.adopt_into(sequence)
        assert caught.value.facts() == {"token_count": 2}
        case.require_as_alone(sequence, [1, 2])
        sequence.reset()
        prefix.adopt_into(sequence)
        case.require_as_alone(sequence, PROMPT)


@pytest.mark.published_call(
    "sslm_seq_adopt_prefix", refusal="SSLM_CONTEXT_CAP_EXCEEDED", here="ContextLengthError"
)
@pytest.mark.published_call(
    "sslm_seq_adopt_prefix", refusal="SSLM_KV_POOL_EXHAUSTED", here="KvPoolExhaustedError"
)
def test_a_prefix_that_does_not_fit(case: Case) -> None:
    pool = case.pool(2)
    with frozen(case, PROMPT, pool) as prefix:
        short = case.sequence(pool, context_tokens=69)
        with refused(ContextLengthError, short) as caught:
            prefix.adopt_into(short)
        assert caught.value.facts() == {
            "needed_tokens": 70,
            "limit_tokens": 69,
            "model_tokens": case.program.max_position_embeddings,
        }
        rest = pool.hold()
        rest.take(1)
        sequence = case.sequence(pool)
        with refused(KvPoolExhaustedError, sequence):
            prefix.adopt_into(sequence)
        rest.release()
        prefix.adopt_into(sequence)
        case.require_as_alone(sequence, PROMPT)


# Releasing.


@pytest.mark.published_call("sslm_prefix_release", here="Prefix.release")
def test_adopted_pages_outlive_the_prefix(case: Case) -> None:
    pool = case.pool()
    prefix = frozen(case, PROMPT, pool)
    with case.sequence(pool) as sequence:
        prefix.adopt_into(sequence)
        prefix.release()
        prefix.release()
        assert (sequence.stats().shared_pages, pool.held_page_count) == (0, 2)
        # Whoever takes the pages that are free now does not disturb them.
        with case.filled([9] * 200, pool):
            case.require_as_alone(sequence, PROMPT)
    assert pool.held_page_count == 0


@pytest.mark.published_call(
    "sslm_prefix_release", case="of a prefix that is being prefilled", here="Prefix.release"
)
@pytest.mark.parametrize("begin", [two_tokens, mid_chunk, at_rest])
def test_a_prefix_is_released_from_any_state(case: Case, begin: Any) -> None:
    pool = case.pool()
    prefix = Prefix(case.sequence(pool))
    begin(case, prefix.sequence)
    prefix.release()
    assert pool.held_page_count == 0


@pytest.mark.published_call(
    "sslm_prefix_release",
    refusal="SSLM_INVALID_ARGUMENT",
    case="any call on a prefix that was released",
    here="ObjectClosedError",
)
def test_a_released_prefix_is_good_for_nothing(case: Case) -> None:
    pool = case.pool()
    prefix = frozen(case, PROMPT, pool)
    prefix.release()
    with case.sequence(pool) as sequence:
        for call in (
            lambda: prefix.prefill([1]),
            prefix.freeze,
            lambda: prefix.adopt_into(sequence),
        ):
            with refused(ObjectClosedError, sequence) as caught:
                call()
            assert caught.value.facts() == {"kind": "prefix"}
        sequence.push(PROMPT)
        case.require_as_alone(sequence, PROMPT)
