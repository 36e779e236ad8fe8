"""Who continues from a snapshot comes to the same bits, wherever it was taken."""

from array import array

import pytest

from sslm.backends.reference.backend import ReferencePlan
from sslm.errors.runtime import (
    ContextLengthError,
    KvPoolExhaustedError,
    NothingChosenError,
    ObjectClosedError,
    PrefixFrozenError,
    PrefixNotFrozenError,
    SequenceBusyError,
    SequenceNotFreshError,
    SnapshotMismatchError,
)
from sslm.runtime.sequences.options import SequenceOptions
from sslm.runtime.sequences.prefix import Prefix
from sslm.runtime.sequences.sequence import Sequence
from tests.sequences import (
    LONGEST,
    MODELS,
    PROMPT,
    end,
    new_pool,
    new_sequence,
    reference_plan,
    run,
    slices,
    step,
)
from tests.tiny_models import MODEL_ID


@pytest.fixture(scope="module", params=MODELS)
def plan(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> ReferencePlan:
    return reference_plan(request.param, tmp_path_factory.mktemp("model"))


def test_a_snapshot_of_every_slice_leads_to_the_same_end(plan: ReferencePlan) -> None:
    pool = new_pool(plan)
    with new_sequence(plan, pool) as lone:
        lone.push(PROMPT)
        expected = end(plan, lone, 78)
    with new_sequence(plan, pool) as sequence:
        sequence.push(PROMPT)
        places = set()
        for _ in slices(plan, sequence, 78):
            snapshot = sequence.snapshot()
            places.add(snapshot.in_flight.next_segment if snapshot.in_flight else None)
            with new_sequence(plan, pool) as other:
                other.adopt(snapshot)
                snapshot.release()
                assert other.pending_count == sequence.pending_count
                assert end(plan, other, 78) == expected
        assert end(plan, sequence, 78) == expected
        assert places == {None, *range(2, plan.program.first_head_index + 1)}
    assert pool.held_page_count == 0


def test_a_snapshot_is_not_touched_by_what_comes_after_it(plan: ReferencePlan) -> None:
    pool = new_pool(plan)
    with new_sequence(plan, pool) as first:
        first.push(PROMPT)
        run(plan, first)
        snapshot = first.snapshot()
        first.push([1, 2, 3])
        run(plan, first)
        first.reset()
        first.push([5] * 100)
        run(plan, first)
    with new_sequence(plan, pool) as lone:
        lone.push(PROMPT)
        expected = end(plan, lone, 80)
    for _ in range(2):
        with new_sequence(plan, pool) as other:
            other.adopt(snapshot)
            assert end(plan, other, 80) == expected
    assert pool.held_page_count == 1
    snapshot.release()
    assert pool.held_page_count == 0


def test_a_snapshot_of_nothing(plan: ReferencePlan) -> None:
    pool = new_pool(plan)
    with new_sequence(plan, pool) as empty, new_sequence(plan, pool) as other:
        snapshot = empty.snapshot()
        assert (snapshot.token_count, snapshot.tail, snapshot.last_residual) == (0, b"", b"")
        other.adopt(snapshot)
        with pytest.raises(NothingChosenError):
            other.decode()
        other.push([1])
        run(plan, other)
        assert other.selected is not None


def test_what_cannot_be_adopted_is_refused_and_changes_nothing(plan: ReferencePlan) -> None:
    pool = new_pool(plan, 5)
    with new_sequence(plan, pool) as first:
        first.push([1] * 130)
        run(plan, first)
        snapshot = first.snapshot()
    assert pool.held_page_count == 2
    with new_sequence(plan, pool) as used:
        used.push([1])
        with pytest.raises(SequenceNotFreshError):
            used.adopt(snapshot)
        used.reset()
        used.adopt(snapshot)
        assert used.position == 130
    with (
        new_sequence(plan, pool, model_id=bytes(32)) as other,
        pytest.raises(SnapshotMismatchError, match="the model"),
    ):
        other.adopt(snapshot)
    with (
        new_sequence(plan, new_pool(plan)) as other,
        pytest.raises(SnapshotMismatchError, match="the KV pool"),
    ):
        other.adopt(snapshot)
    options = SequenceOptions(context_tokens=129, reserved_tokens=0)
    with (
        Sequence(plan.program, pool, MODEL_ID, options) as other,
        pytest.raises(ContextLengthError),
    ):
        other.adopt(snapshot)
    rest = pool.hold()
    rest.take(3)
    with new_sequence(plan, pool) as other:
        with pytest.raises(KvPoolExhaustedError):
            other.adopt(snapshot)
        assert (other.position, other.stats().resident_pages) == (0, 0)
        rest.release()
        other.adopt(snapshot)
        assert other.stats().shared_pages == 2
    snapshot.release()
    with new_sequence(plan, pool) as other, pytest.raises(ObjectClosedError):
        other.adopt(snapshot)


def test_a_chunk_in_progress_is_adopted_only_where_it_fits(plan: ReferencePlan) -> None:
    """Scores of 60 rows do not fit into the memory for one; nothing looks again later."""
    pool = new_pool(plan)
    with new_sequence(plan, pool, has_all_logits=True) as scored, new_sequence(plan, pool) as last:
        for sequence in (scored, last):
            sequence.push([3] * 60)
            step(plan, sequence, units=1)
        all_rows, last_row = scored.snapshot(), last.snapshot()
    with new_sequence(plan, pool) as other:
        scored_rows = "rows that are scored: 60, expected at"
        with pytest.raises(SnapshotMismatchError, match=scored_rows) as caught:
            other.adopt(all_rows)
        assert caught.value.status == 193
        other.adopt(last_row)
        run(plan, other)
        digest = other.digest
    with new_sequence(plan, pool, chunk_tokens=59, has_all_logits=True) as other:
        for snapshot in (all_rows, last_row):
            chunk_rows = "rows of a chunk: 60, expected at"
            with pytest.raises(SnapshotMismatchError, match=chunk_rows) as caught:
                other.adopt(snapshot)
            assert caught.value.status == 192
        assert (other.position, other.pending_count) == (0, 0)
    for snapshot in (all_rows, last_row):
        with new_sequence(plan, pool, has_all_logits=True) as other:
            other.adopt(snapshot)
            snapshot.release()
            run(plan, other)
            assert other.digest == digest


def test_adopted_pages_replace_reserved_ones(plan: ReferencePlan) -> None:
    pool = new_pool(plan, 4 + 4)
    with new_sequence(plan, pool, reserved_tokens=None) as first:
        first.push([3] * 128)
        run(plan, first)
        snapshot = first.snapshot()
    with new_sequence(plan, pool, reserved_tokens=None) as other:
        assert pool.held_page_count == 2 + 4
        other.adopt(snapshot)
        assert pool.held_page_count == 2 + 2
        other.reset()
        assert pool.held_page_count == 2 + 4
    snapshot.release()


def test_prefixes_are_computed_once_and_shared_by_reference(plan: ReferencePlan) -> None:
    pool = new_pool(plan)
    with new_sequence(plan, pool) as lone:
        lone.push(PROMPT + [9, 9] * 30 + [4])
        expected = end(plan, lone, 140)
    outer = Prefix(new_sequence(plan, pool))
    with pytest.raises(PrefixNotFrozenError):
        outer.adopt_into(new_sequence(plan, pool))
    assert outer.prefill(PROMPT) == 75
    with pytest.raises(SequenceBusyError):
        outer.freeze()
    run(plan, outer.sequence)
    outer.freeze()
    outer.freeze()
    with pytest.raises(PrefixFrozenError):
        outer.prefill([1])
    assert (outer.token_count, pool.held_page_count) == (75, 1)
    middle = new_sequence(plan, pool)
    outer.adopt_into(middle)
    inner = Prefix(middle)
    inner.prefill([9, 9] * 30)
    run(plan, inner.sequence)
    inner.freeze()
    outer.release()
    outer.release()
    with pytest.raises(ObjectClosedError):
        outer.adopt_into(new_sequence(plan, pool))
    assert pool.held_page_count == 2
    sequences = [new_sequence(plan, pool) for _ in range(3)]
    for sequence in sequences:
        inner.adopt_into(sequence)
        sequence.push([4])
    assert pool.held_page_count == 2 + 3
    inner.release()
    for sequence in sequences:
        ended = end(plan, sequence, 140)
        assert ended[:3] == expected[:3]
        sequence.close()
    assert pool.held_page_count == 0


def test_prefilling_stops_at_the_first_token_that_cannot_be_taken(plan: ReferencePlan) -> None:
    pool = new_pool(plan, 2)
    with new_sequence(plan, pool) as sequence:
        assert sequence.prefill([1, 2]) == 2
        with pytest.raises(ValueError, match="token id -1 at index 1") as caught:
            sequence.prefill([3, -1, 4])
        assert caught.value.consumed_tokens == 1  # type: ignore[attr-defined]
        with pytest.raises(ValueError, match="is of type str") as caught:
            sequence.prefill(["a"])
        assert caught.value.consumed_tokens == 0  # type: ignore[attr-defined]
        with pytest.raises(KvPoolExhaustedError) as exhausted:
            sequence.prefill([5] * 126 + [-1])
        assert (exhausted.value.consumed_tokens, sequence.pending_count) == (125, 128)
        run(plan, sequence)
        assert sequence.token_ids == [1, 2, 3] + [5] * 125
        with pytest.raises(KvPoolExhaustedError):
            sequence.decode()
        assert sequence.selected is not None
    pool = new_pool(plan, 5)
    with new_sequence(plan, pool) as sequence:
        with pytest.raises(ContextLengthError) as too_long:
            sequence.prefill([1] * (LONGEST + 1))
        assert too_long.value.consumed_tokens == LONGEST
        assert sequence.snapshot().pending == array("i", [1] * LONGEST)


def test_resetting_from_every_slice_forgets_everything(plan: ReferencePlan) -> None:
    pool = new_pool(plan)
    with new_sequence(plan, pool) as lone:
        lone.push([2, 3])
        expected = end(plan, lone, 4)
    with new_sequence(plan, pool) as sequence:
        for units in range(12):
            sequence.push(PROMPT)
            for _ in range(units):
                if sequence.pending_count:
                    step(plan, sequence, units=1)
            sequence.reset()
            sequence.push([2, 3])
            assert end(plan, sequence, 4) == expected
            sequence.reset()
            assert sequence.stats().resident_pages == 0
