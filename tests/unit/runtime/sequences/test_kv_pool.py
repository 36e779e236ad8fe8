"""Pages are counted, handed out once, and taken back."""

import gc
from collections.abc import Callable
from functools import partial
from itertools import count

import pytest

from sslm.errors.runtime import (
    KvPoolExhaustedError,
    MemoryTooSmallError,
    MisalignedMemoryError,
    ObjectClosedError,
    OptionRangeError,
    PoolInUseError,
)
from sslm.memory import address_of
from sslm.program.states import StateLayout
from sslm.runtime.sequences import kv_pool
from sslm.runtime.sequences.kv_pool import KvPool, PageHold, kv_pool_size_bytes, page_count_for
from tests.interrupting import interrupted_at_line, is_code_of

LAYOUT = StateLayout((), (), page_size_bytes=192, fixed_size_bytes=0)
STATELESS = StateLayout((), (), page_size_bytes=0, fixed_size_bytes=64)


@pytest.mark.parametrize(("tokens", "pages"), [(0, 0), (1, 1), (63, 1), (64, 1), (65, 2), (128, 2)])
def test_pages_hold_64_positions(tokens: int, pages: int) -> None:
    assert page_count_for(tokens) == pages


def test_pages_are_taken_once_and_can_be_taken_again() -> None:
    pool = KvPool(LAYOUT, 5)
    first, second = pool.hold(), pool.hold()
    first.take(2)
    second.take(3)
    assert sorted(first.pages + second.pages) == [0, 1, 2, 3, 4]
    assert (pool.free_page_count, pool.held_page_count) == (0, 5)
    taken = first.pages
    first.release()
    first.release()
    assert (pool.free_page_count, first.pages) == (2, [])
    second.take(2)
    assert second.pages[3:] == taken


def test_an_exhausted_pool_gives_nothing() -> None:
    pool = KvPool(LAYOUT, 3)
    hold = pool.hold()
    hold.take(1)
    with pytest.raises(KvPoolExhaustedError) as caught:
        hold.take(3)
    assert (caught.value.needed_pages, caught.value.free_pages) == (3, 2)
    assert (pool.free_page_count, len(hold.pages)) == (2, 1)
    assert hold.take_free(3) == 2
    assert sorted(hold.pages) == [0, 1, 2]
    assert hold.take_free(1) == 0


def test_shared_pages_live_as_long_as_anybody_holds_them() -> None:
    pool = KvPool(LAYOUT, 4)
    first = pool.hold()
    first.take(3)
    shared = first.share(2)
    assert (shared.pages, first.own_count, pool.held_page_count) == (first.pages[:2], 1, 3)
    first.release()
    assert (pool.held_page_count, shared.own_count) == (2, 2)
    with pytest.raises(ObjectClosedError):
        first.share(1)
    shared.release()
    assert pool.held_page_count == 0


def test_a_hold_begins_with_the_pages_of_another() -> None:
    pool = KvPool(LAYOUT, 6)
    prefix, hold = pool.hold(), pool.hold()
    prefix.take(2)
    hold.take(3)
    own = hold.pages
    hold.put_first(prefix, 3)
    assert hold.pages == prefix.pages + own[:1]
    assert (pool.held_page_count, hold.own_count) == (3, 1)
    other = pool.hold()
    with pytest.raises(KvPoolExhaustedError):
        other.put_first(prefix, 6)
    assert (other.pages, pool.held_page_count) == ([], 3)
    other.put_first(prefix, 5)
    assert (len(other.pages), pool.held_page_count) == (5, 6)
    prefix.release()
    with pytest.raises(ObjectClosedError):
        pool.hold().put_first(prefix, 2)


def test_a_hold_keeps_what_nobody_shares() -> None:
    pool = KvPool(LAYOUT, 5)
    prefix, hold = pool.hold(), pool.hold()
    prefix.take(2)
    hold.put_first(prefix, 4)
    own = hold.pages[2:]
    with pytest.raises(KvPoolExhaustedError):
        hold.keep_own(4)
    assert hold.pages == prefix.pages + own
    hold.keep_own(3)
    assert hold.pages[:2] == own
    assert (hold.own_count, pool.held_page_count) == (3, 5)
    hold.keep_own(0)
    assert (hold.pages, pool.held_page_count) == ([], 2)


def test_a_hold_that_nobody_has_any_more_loses_no_pages() -> None:
    pool = KvPool(LAYOUT, 3)
    dropped = pool.hold()
    dropped.take(2)
    del dropped
    gc.collect()
    assert pool.held_page_count == 0
    hold = pool.hold()
    hold.take(3)
    assert sorted(hold.pages) == [0, 1, 2]


def test_a_page_that_only_a_dropped_hold_shared_is_the_others_own_again() -> None:
    pool = KvPool(LAYOUT, 2)
    hold = pool.hold()
    hold.take(2)
    dropped = hold.share(2)
    assert hold.own_count == 0
    del dropped
    gc.collect()
    assert hold.own_count == 2
    kept, dropped = list(hold.pages), hold.share(2)
    del dropped
    gc.collect()
    # With no page free, it has to see that its pages are its own.
    hold.keep_own(2)
    assert hold.pages == kept


def test_a_step_that_an_interrupt_cuts_short_loses_no_page_and_gives_none_twice() -> None:
    """Wherever in the code of a step it comes: at each line of it in turn."""
    steps: dict[str, Callable[[PageHold, PageHold], object]] = {
        "take": lambda mine, theirs: mine.take(2),
        "take_free": lambda mine, theirs: mine.take_free(9),
        "share": lambda mine, theirs: mine.share(1),
        "put_first": lambda mine, theirs: mine.put_first(theirs, 3),
        "keep_own": lambda mine, theirs: mine.keep_own(2),
        "release": lambda mine, theirs: mine.release(),
    }
    for step in steps.values():
        interrupted = 0
        for line in count(1):
            pool = KvPool(LAYOUT, 6)
            mine, theirs = pool.hold(), pool.hold()
            mine.take(1)
            theirs.take(2)
            if not interrupted_at_line(line, partial(step, mine, theirs), is_code_of(kv_pool)):
                break
            interrupted += 1
            rest = pool.hold()
            rest.take_free(6)
            held = rest.pages + mine.pages + theirs.pages
            assert sorted(set(held)) == [0, 1, 2, 3, 4, 5]
            assert set(rest.pages).isdisjoint(mine.pages + theirs.pages)
        assert interrupted > 3


def test_a_pool_is_closed_when_nobody_holds_pages() -> None:
    with KvPool(LAYOUT, 2) as pool:
        hold = pool.hold()
        hold.take(1)
        with pytest.raises(PoolInUseError) as caught:
            pool.close()
        assert caught.value.held_pages == 1
        hold.release()
        pool.close()
    with pytest.raises(ObjectClosedError):
        pool.hold()


def aligned(size: int, offset: int = 0) -> memoryview:
    memory = memoryview(bytearray(size + 128))
    start = -address_of(memory) % 64 + offset
    return memory[start : start + size]


def test_memory_is_mapped_or_the_callers() -> None:
    size = kv_pool_size_bytes(LAYOUT, 2)
    assert size == 384
    assert KvPool(LAYOUT, 2).memory.nbytes >= size
    memory = aligned(size)
    pool = KvPool(LAYOUT, 2, memory)
    pool.memory[383] = 7
    assert (memory[383], address_of(pool.memory)) == (7, address_of(memory))
    wider = aligned(448).cast("i")
    pool = KvPool(LAYOUT, 2, wider)
    assert (pool.memory.nbytes, address_of(pool.memory)) == (384, address_of(wider))


@pytest.mark.parametrize(
    ("page_count", "memory"),
    [
        (0, None),
        (-1, None),
        (2, memoryview(bytes(384))),
    ],
)
def test_wrong_counts_and_memory_are_refused(page_count: int, memory: memoryview | None) -> None:
    with pytest.raises(OptionRangeError):
        KvPool(LAYOUT, page_count, memory)


def test_a_program_without_paged_states_has_pages_of_no_bytes() -> None:
    memory = memoryview(bytearray())
    pool = KvPool(STATELESS, 1, memory)
    assert pool.memory.nbytes == 0
    hold = pool.hold()
    hold.take(1)
    assert hold.pages == [0]
    assert KvPool(STATELESS, 1).memory.nbytes > 0


@pytest.mark.parametrize("size", [0, 383])
def test_memory_that_is_too_small_is_refused(size: int) -> None:
    with pytest.raises(MemoryTooSmallError) as caught:
        KvPool(LAYOUT, 2, aligned(size))
    assert (caught.value.found_bytes, caught.value.needed_bytes) == (size, 384)


def test_memory_that_kernels_cannot_use_is_refused() -> None:
    for offset in (1, 4, 32, 63):
        with pytest.raises(MisalignedMemoryError) as caught:
            KvPool(LAYOUT, 2, aligned(384, offset))
        assert caught.value.address % 64 == offset
    with pytest.raises(OptionRangeError):
        KvPool(LAYOUT, 2, memoryview(bytearray(768))[::2])
