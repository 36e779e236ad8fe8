"""Calls that size, make and destroy pools of keys and values."""

import pytest

from sslm.errors.runtime import (
    MemoryRefusedError,
    MemoryTooSmallError,
    MisalignedMemoryError,
    ObjectClosedError,
    OptionRangeError,
    PoolInUseError,
)
from sslm.runtime.sequences.kv_pool import KvPool, kv_pool_size_bytes
from sslm.runtime.sequences.prefix import Prefix
from tests.runtime_cases import CANARY, Case, is_marked_around, marked_memory, refused

PROMPT = [index * 5 % 37 for index in range(70)]


@pytest.mark.published_call("sslm_kv_block_size", here="StateLayout.page_size_bytes")
@pytest.mark.published_call("sslm_kv_pool_overhead_size", here="none: kv_pool_size_bytes is all")
@pytest.mark.published_call("sslm_kv_pool_create", here="KvPool(layout, page_count, memory)")
def test_a_pool_in_the_callers_memory(case: Case) -> None:
    layout = case.program.state_layout
    size = kv_pool_size_bytes(layout, 3)
    assert size == 3 * layout.page_size_bytes
    memory, block = marked_memory(size)
    pool = KvPool(layout, 3, memory)
    with case.sequence(pool) as first, case.sequence(pool) as second:
        first.push(PROMPT)
        second.push(PROMPT[:3])
        assert pool.free_page_count == 0
        case.require_as_alone(first, PROMPT)
        case.require_as_alone(second, PROMPT[:3])
    assert pool.free_page_count == 3
    assert is_marked_around(block, memory)
    if size:
        assert bytes(memory).count(CANARY) < size


@pytest.mark.published_call(
    "sslm_kv_pool_create",
    refusal="SSLM_INVALID_ARGUMENT",
    case="no blocks, read-only memory, memory in pieces",
    here="OptionRangeError",
)
def test_arguments_that_make_no_pool(case: Case) -> None:
    layout = case.program.state_layout
    for page_count in (0, -1):
        with pytest.raises(OptionRangeError, match="page_count"):
            KvPool(layout, page_count)
    size = kv_pool_size_bytes(layout, 2)
    memory, block = marked_memory(2 * size + 64)
    for unusable in (memory.toreadonly(), memory[::2]):
        with pytest.raises(OptionRangeError, match="writable bytes in one piece"):
            KvPool(layout, 2, unusable)
    assert bytes(block).count(CANARY) == len(block)


@pytest.mark.published_call(
    "sslm_kv_pool_create", refusal="SSLM_BUFFER_TOO_SMALL", here="MemoryTooSmallError"
)
def test_memory_that_is_too_small(paged_case: Case) -> None:
    layout = paged_case.program.state_layout
    size = kv_pool_size_bytes(layout, 2)
    memory, block = marked_memory(size)
    with pytest.raises(MemoryTooSmallError) as caught:
        KvPool(layout, 2, memory[: size - 1])
    assert (caught.value.found_bytes, caught.value.needed_bytes) == (size - 1, size)
    assert bytes(block).count(CANARY) == len(block)
    KvPool(layout, 1, memory[: size - 1])


@pytest.mark.published_call(
    "sslm_kv_pool_create", refusal="SSLM_MISALIGNED_BUFFER", here="MisalignedMemoryError"
)
@pytest.mark.parametrize("offset", [1, 8, 32, 63])
def test_memory_that_begins_between_multiples_of_64(paged_case: Case, offset: int) -> None:
    layout = paged_case.program.state_layout
    size = kv_pool_size_bytes(layout, 1)
    memory, block = marked_memory(size + 64)
    with pytest.raises(MisalignedMemoryError) as caught:
        KvPool(layout, 1, memory[offset : offset + size])
    assert (caught.value.address % 64, caught.value.alignment_bytes) == (offset, 64)
    assert bytes(block).count(CANARY) == len(block)


@pytest.mark.published_call(
    "sslm_kv_pool_create", refusal="SSLM_ALLOCATION_FAILED", here="MemoryRefusedError"
)
def test_a_pool_for_which_there_is_no_memory(paged_case: Case) -> None:
    layout = paged_case.program.state_layout
    with pytest.raises(MemoryRefusedError) as caught:
        KvPool(layout, 1 << 50)
    assert caught.value.size_bytes == kv_pool_size_bytes(layout, 1 << 50)


@pytest.mark.published_call("sslm_kv_pool_destroy", here="KvPool.close")
def test_destroying_a_pool_leaves_the_memory_to_the_caller(case: Case) -> None:
    layout = case.program.state_layout
    memory, _ = marked_memory(kv_pool_size_bytes(layout, 2))
    pool = KvPool(layout, 2, memory)
    case.filled(PROMPT, pool).close()
    left = bytes(memory)
    pool.close()
    pool.close()
    assert bytes(memory) == left
    with pytest.raises(ObjectClosedError):
        case.sequence(pool)
    with case.filled(PROMPT, KvPool(layout, 2, memory)) as sequence:
        case.require_as_alone(sequence, PROMPT)


@pytest.mark.published_call(
    "sslm_kv_pool_destroy", refusal="SSLM_POOL_HAS_LIVE_HANDLES", here="PoolInUseError"
)
def test_a_pool_lives_as_long_as_a_sequence_a_prefix_or_a_snapshot(case: Case) -> None:
    pool = case.pool()
    prefix = Prefix(case.filled(PROMPT, pool))
    prefix.freeze()
    sequence = case.sequence(pool)
    prefix.adopt_into(sequence)
    snapshot = sequence.snapshot()
    for held_pages, holder in ((2, prefix.release), (2, sequence.close), (1, snapshot.release)):
        bystanders = [] if sequence.is_closed else [sequence]
        with refused(PoolInUseError, *bystanders) as caught:
            pool.close()
        assert caught.value.facts() == {"held_pages": held_pages}
        holder()
    pool.close()


@pytest.mark.published_call(
    "sslm_kv_pool_destroy",
    case="sequences without pages may live on, and get none",
    here="ObjectClosedError: when they prefill",
)
def test_a_destroyed_pool_gives_no_pages(case: Case) -> None:
    pool = case.pool()
    sequence = case.sequence(pool)
    pool.close()
    before = sequence.stats()
    for take in (sequence.push, sequence.prefill):
        with pytest.raises(ObjectClosedError) as caught:
            take(PROMPT)
        assert caught.value.facts() == {"kind": "KV pool"}
        assert sequence.stats() == before
    sequence.reset()
    sequence.close()
