"""Who restores a save goes on to the same bits; a save holds nothing of anybody else."""

from array import array
from dataclasses import replace
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from sslm.backends.reference.backend import ReferencePlan
from sslm.errors.runtime import (
    ContextLengthError,
    KvPoolExhaustedError,
    ObjectClosedError,
    OptionRangeError,
    SequenceInterruptedError,
    SequenceNotFreshError,
)
from sslm.errors.saves import NotASaveError
from sslm.formats.saves.reader import read_save
from sslm.program.choice import MICRO, Choice, Decoder
from sslm.runtime.saves import saving
from sslm.runtime.saves import snapshot_records as saved_snapshot
from sslm.runtime.saves.saving import restore, restore_into, save, save_size_bytes_max
from sslm.runtime.sequences import snapshot as freezing
from sslm.runtime.sequences import state as sequence_state
from sslm.runtime.sequences.kv_pool import KvPool, kv_pool_size_bytes
from sslm.runtime.sequences.options import SequenceOptions
from sslm.runtime.sequences.sequence import Sequence
from tests.interrupting import interrupted_at_line, is_code_of
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
from tests.toy_programs import VOCAB_SIZE

OPTIONS = SequenceOptions(context_tokens=LONGEST, reserved_tokens=0)


@pytest.fixture(scope="module", params=MODELS)
def plan(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> ReferencePlan:
    return reference_plan(request.param, tmp_path_factory.mktemp("model"))


def restored(
    plan: ReferencePlan, blob: bytes | memoryview, pool: KvPool | None = None, **options: Any
) -> Sequence:
    merged = replace(OPTIONS, **options)
    return restore(blob, plan.program, pool or new_pool(plan), MODEL_ID, merged)


def poisoned_pool(plan: ReferencePlan, seed: int, page_count: int = 12) -> KvPool:
    """A pool whose pages hold what somebody else left there."""
    layout = plan.program.state_layout
    size = kv_pool_size_bytes(layout, page_count)
    block = np.random.default_rng(seed).integers(0, 256, size + 64, np.uint8)
    start = -block.ctypes.data % 64
    return KvPool(layout, page_count, block.data[start : start + size])


def test_a_save_of_every_slice_leads_to_the_same_end(plan: ReferencePlan) -> None:
    """Whatever is saved where: no byte of the save depends on what the pages held before."""
    with new_sequence(plan, new_pool(plan)) as lone:
        lone.push(PROMPT)
        expected = end(plan, lone, 78)
    places = set()
    with (
        new_sequence(plan, poisoned_pool(plan, 1)) as first,
        new_sequence(plan, poisoned_pool(plan, 2)) as second,
    ):
        first.push(PROMPT)
        second.push(PROMPT)
        for _, _ in zip(slices(plan, first, 78), slices(plan, second, 78), strict=True):
            blob = save(first)
            assert save(second) == blob
            assert len(blob) <= save_size_bytes_max(plan.program, first.state.token_count)
            with restored(plan, blob, poisoned_pool(plan, 3)) as other:
                assert save(other) == blob
                assert end(plan, other, 78) == expected
            memory = read_save(blob).memory
            assert memory is not None
            places.add(memory.chunk.next_segment if memory.chunk else None)
        assert end(plan, first, 78) == expected
    assert places == {None, *range(2, plan.program.first_head_index + 1)}


def test_later_saves_are_those_of_a_sequence_that_was_never_saved(plan: ReferencePlan) -> None:
    """Restored at every slice, it takes the next step to the same bytes.

    The head is taken in one slice: what it has scored is not saved, and scored again.
    """
    with new_sequence(plan, new_pool(plan)) as sequence:
        sequence.push(PROMPT)
        while sequence.state.token_count < 78 or sequence.pending_count:
            blob = save(sequence)
            with restored(plan, blob) as other:
                for one in (sequence, other):
                    if one.pending_count:
                        step(plan, one, units=2 if _is_before_head(plan, blob) else 1)
                    else:
                        one.decode()
                assert save(other) == save(sequence)


def _is_before_head(plan: ReferencePlan, blob: bytes) -> bool:
    memory = read_save(blob).memory
    assert memory is not None
    chunk = memory.chunk
    return chunk is not None and chunk.next_segment == plan.program.first_head_index


def test_what_comes_after_restoring_may_be_saved_again(plan: ReferencePlan) -> None:
    with new_sequence(plan, new_pool(plan)) as sequence:
        sequence.push(PROMPT)
        run(plan, sequence)
        sequence.push([1, 2])
        run(plan, sequence)
        blob = save(sequence)
        sequence.push([3, 4, 5])
        expected = save(sequence)
        with restored(plan, blob) as other:
            assert other.selected is not None
            other.push([3, 4, 5])
            assert save(other) == expected


def test_ids_alone_lead_to_the_same_end(plan: ReferencePlan) -> None:
    with new_sequence(plan, new_pool(plan)) as sequence:
        sequence.push(PROMPT)
        for _ in slices(plan, sequence, 78):
            blob = save(sequence, kv=False)
            with restored(plan, blob) as other:
                assert (other.position, other.pending_count) == (0, sequence.state.token_count)
                run(plan, other)
                if not sequence.pending_count:
                    assert other.token_ids == sequence.token_ids
                    assert other.selected == sequence.selected
                    assert other.digest == sequence.digest
                    assert other.saturations == sequence.saturations
                    assert other.answer_digest([1]) == sequence.answer_digest([1])
        assert len(blob) == 152 + 4 * 78


SAMPLING = Choice(
    decoder=Decoder.SAMPLING,
    bias=((3, 2 * MICRO), (7, -MICRO)),
    repetition=1_300_000,
    presence=MICRO // 2,
    frequency=MICRO // 3,
    temperature=9 * MICRO,
    top_k=20,
    top_p=990_000,
    min_p=1000,
    seed=(1 << 64) - 1,
)
DAMPED = Choice(decoder=Decoder.DAMPED, top_k=6, damping=1 << 18, damping_order=3)
EACH_CHOICE = pytest.mark.parametrize("choice", [SAMPLING, DAMPED, Choice(seed=7)])


@EACH_CHOICE
@pytest.mark.parametrize("kv", [True, False])
def test_who_restores_a_save_chooses_as_before(
    plan: ReferencePlan, choice: Choice, *, kv: bool
) -> None:
    start = len(PROMPT)
    with new_sequence(plan, new_pool(plan), chooses=True) as lone:
        lone.choose(choice, start)
        lone.push(PROMPT)
        expected = end(plan, lone, start + 3)
    with new_sequence(plan, new_pool(plan), chooses=True) as sequence:
        sequence.choose(choice, start)
        sequence.push(PROMPT)
        run(plan, sequence)
        for index, _ in enumerate(slices(plan, sequence, start + 3)):
            if not kv and index % 4:
                continue
            blob = save(sequence, kv=kv)
            assert len(blob) <= save_size_bytes_max(
                plan.program, sequence.state.token_count, chooses=True
            )
            with restored(plan, blob, chooses=True) as other:
                assert (other.choice, other.answer_start) == (choice, start)
                assert save(other, kv=kv) == blob
                found = end(plan, other, start + 3)
                # How many layers were run is not kept without memory.
                assert found[:3] == expected[:3]
                assert not kv or found == expected


@pytest.mark.parametrize("steps", [0, 1])
def test_a_last_position_that_is_scored_again_is_saved_before_it(
    plan: ReferencePlan, steps: int
) -> None:
    with new_sequence(plan, new_pool(plan), chooses=True) as sequence:
        sequence.push(PROMPT)
        run(plan, sequence)
        sequence.choose(SAMPLING, len(PROMPT))
        for _ in range(steps):
            step(plan, sequence, units=1)
        blob, without = save(sequence), save(sequence, kv=False)
        expected = end(plan, sequence, len(PROMPT) + 3)
        with restored(plan, blob, chooses=True) as other:
            # The head of the other model is one slice.
            is_at_work = steps == 0 or plan.program.vocab_size == VOCAB_SIZE
            assert (other.has_work, other.pending_count) == (is_at_work, 0)
            assert save(other) == blob
            assert end(plan, other, len(PROMPT) + 3) == expected
        with restored(plan, without, chooses=True) as other:
            assert end(plan, other, len(PROMPT) + 3)[:3] == expected[:3]


def test_a_choice_that_a_sequence_was_told_gives_way_to_the_saves(plan: ReferencePlan) -> None:
    with new_sequence(plan, new_pool(plan)) as sequence:
        sequence.push(PROMPT)
        blob = save(sequence)
        expected = end(plan, sequence, len(PROMPT) + 3)
    with new_sequence(plan, new_pool(plan), chooses=True) as other:
        other.choose(SAMPLING, 5)
        restore_into(other, blob)
        assert (other.choice, other.answer_start) == (Choice(), 0)
        assert end(plan, other, len(PROMPT) + 3) == expected


def test_an_empty_sequence_can_be_saved(plan: ReferencePlan) -> None:
    with new_sequence(plan, new_pool(plan)) as empty:
        for kv in (True, False):
            with restored(plan, save(empty, kv=kv)) as other:
                assert (other.position, other.pending_count, other.selected) == (0, 0, None)
                assert other.digest == empty.digest


def test_a_snapshot_is_saved_as_its_sequence_is(plan: ReferencePlan) -> None:
    pool = new_pool(plan)
    with new_sequence(plan, pool) as sequence:
        sequence.push(PROMPT)
        run(plan, sequence)
        blob = save(sequence)
        snapshot = sequence.snapshot()
        sequence.push([1])
        run(plan, sequence)
    assert save(snapshot) == blob
    snapshot.release()
    assert pool.held_page_count == 0
    with pytest.raises(ObjectClosedError):
        save(snapshot)
    with pytest.raises(ObjectClosedError):
        save(sequence)


def test_a_save_takes_what_its_tokens_take(plan: ReferencePlan) -> None:
    """Its size says nothing of the context, and no page is taken for what is not there."""
    sizes = []
    for longest in (80, LONGEST):
        with new_sequence(plan, new_pool(plan), context_tokens=longest) as sequence:
            sequence.push(PROMPT)
            run(plan, sequence)
            sizes.append(len(save(sequence)))
    assert sizes[0] == sizes[1]
    # The bound is near: less than two pages, a chunk's rows and some padding above it.
    program = plan.program
    rows = 64 * (4 * program.residual.width + 32)
    slack = 2 * program.state_layout.page_size_bytes + rows + 640
    assert sizes[0] <= save_size_bytes_max(program, len(PROMPT)) <= sizes[0] + slack
    pool = new_pool(plan)
    with restored(plan, save_of(plan, 75), pool):
        assert pool.held_page_count == 2
    assert pool.held_page_count == 0


def save_of(plan: ReferencePlan, token_count: int, **options: Any) -> bytes:
    with new_sequence(plan, new_pool(plan), **options) as sequence:
        sequence.push([3] * token_count)
        run(plan, sequence)
        return save(sequence)


def test_reserved_pages_are_used(plan: ReferencePlan) -> None:
    """A pool that holds just the sequence is enough."""
    pool = new_pool(plan, 4)
    blob = save_of(plan, 130)
    with restored(plan, blob, pool, reserved_tokens=None) as sequence:
        assert pool.free_page_count == 0
        sequence.reset()
        restore_into(sequence, blob)
        assert save(sequence) == blob
        with pytest.raises(SequenceNotFreshError):
            restore_into(sequence, blob)
        assert save(sequence) == blob
    assert pool.held_page_count == 0


def test_a_refused_restore_takes_nothing(plan: ReferencePlan) -> None:
    blob = save_of(plan, 130)
    pool = new_pool(plan, 2)
    with pytest.raises(KvPoolExhaustedError) as exhausted:
        restored(plan, blob, pool)
    assert (exhausted.value.needed_pages, exhausted.value.free_pages) == (3, 2)
    with pytest.raises(ContextLengthError) as too_long:
        restored(plan, blob, pool, context_tokens=129)
    assert (too_long.value.needed_tokens, too_long.value.limit_tokens) == (130, 129)
    with pytest.raises(OptionRangeError):
        restored(plan, blob, pool, context_tokens=100_000)
    assert pool.held_page_count == 0
    with new_sequence(plan, pool) as sequence:
        with pytest.raises(KvPoolExhaustedError):
            restore_into(sequence, blob)
        assert pool.held_page_count == 0
        assert save(sequence) == save_of_nothing(plan)
        sequence.push([1])
        run(plan, sequence)
        sequence.close()
        with pytest.raises(ObjectClosedError):
            restore_into(sequence, blob)


def save_of_nothing(plan: ReferencePlan) -> bytes:
    with new_sequence(plan, new_pool(plan)) as empty:
        return save(empty)


def test_an_interrupt_leaves_a_fresh_sequence_or_a_restored_one(plan: ReferencePlan) -> None:
    """At each line of what restores or adopts: what looks fresh is fresh, and shares no page."""
    is_watched = is_code_of(saving, freezing, sequence_state, saved_snapshot)
    pool = poisoned_pool(plan, 4, page_count=5)
    with new_sequence(plan, pool) as first:
        first.push([4] * 66)
        run(plan, first)
        step_of = save(first)
        snapshot = first.snapshot()
    nothing = save_of_nothing(plan)
    shared = bytes(pool.memory)
    for act in (
        lambda one: restore_into(one, step_of),
        lambda one: one.adopt(snapshot),
    ):
        for line in count(1):
            with new_sequence(plan, pool, reserved_tokens=70) as sequence:
                is_interrupted = interrupted_at_line(line, partial(act, sequence), is_watched)
                if sequence.state.data.is_torn:
                    # It says so itself until it is reset.
                    with pytest.raises(SequenceInterruptedError):
                        save(sequence)
                    sequence.reset()
                if sequence.position:
                    assert save(sequence) == step_of
                else:
                    assert is_interrupted
                    assert save(sequence) == nothing
                    sequence.push([1] * 100)
                    assert sequence.stats().shared_pages == 0
                    sequence.reset()
                    assert sequence.stats().resident_pages == 2
            assert pool.held_page_count == len(snapshot.hold.pages)
            if not is_interrupted:
                break
        assert line > 20
    page, size = snapshot.hold.pages[0], pool.layout.page_size_bytes
    assert shared[page * size : (page + 1) * size] == pool.memory[page * size : (page + 1) * size]


@pytest.mark.parametrize("blob", ["text", None, 3, array("d"), memoryview(b"every other")[::2]])
def test_what_is_not_bytes_is_refused(plan: ReferencePlan, blob: object) -> None:
    with pytest.raises((OptionRangeError, NotASaveError)) as caught:
        restored(plan, blob)  # type: ignore[arg-type]
    # Numbers are bytes too, if none as a save begins.
    assert isinstance(caught.value, NotASaveError) == isinstance(blob, array)


def test_half_a_chunk_goes_on_with_other_options(plan: ReferencePlan) -> None:
    """How a sequence cuts its chunks is its own affair, and changes no bit."""
    with new_sequence(plan, new_pool(plan), chunk_tokens=10, has_all_logits=True) as sequence:
        sequence.push(PROMPT)
        for _ in range(5):
            step(plan, sequence, units=1)
        blob = save(sequence)
        expected = end(plan, sequence, 78)[:3]
    with restored(plan, blob, has_all_logits=True) as other:
        assert end(plan, other, 78)[:3] == expected


def test_a_save_from_a_file_or_a_view_is_the_same(plan: ReferencePlan, tmp_path: Path) -> None:
    blob = save_of(plan, 70)
    # One byte further, no number of it lies where its size would have it.
    shifted = memoryview(b"x" + blob)[1:]
    with restored(plan, shifted) as sequence:
        assert save(sequence) == blob
        assert sequence.token_ids == array("i", [3] * 70).tolist()
