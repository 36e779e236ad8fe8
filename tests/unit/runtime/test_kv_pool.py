"""Pages are counted, handed out once, and taken back."""

import pytest

from sslm.errors.runtime import KvPoolExhaustedError, OptionRangeError
from sslm.program.states import StateLayout
from sslm.runtime.kv_pool import KvPool, kv_pool_size_bytes, page_count_for

LAYOUT = StateLayout((), (), page_size_bytes=192, fixed_size_bytes=0)
STATELESS = StateLayout((), (), page_size_bytes=0, fixed_size_bytes=64)


@pytest.mark.parametrize(("tokens", "pages"), [(0, 0), (1, 1), (63, 1), (64, 1), (65, 2), (128, 2)])
def test_pages_hold_64_positions(tokens: int, pages: int) -> None:
    assert page_count_for(tokens) == pages


def test_pages_are_taken_once_and_can_be_taken_again() -> None:
    pool = KvPool(LAYOUT, 5)
    first, second = pool.take(2), pool.take(3)
    assert sorted(first + second) == [0, 1, 2, 3, 4]
    assert pool.free_page_count == 0
    pool.give_back(first)
    assert pool.free_page_count == 2
    assert pool.take(2) == first


def test_an_exhausted_pool_gives_nothing() -> None:
    pool = KvPool(LAYOUT, 3)
    taken = pool.take(1)
    with pytest.raises(KvPoolExhaustedError) as caught:
        pool.take(3)
    assert (caught.value.needed_pages, caught.value.free_pages) == (3, 2)
    assert pool.free_page_count == 2
    assert sorted(taken + pool.take(2)) == [0, 1, 2]


def test_memory_is_mapped_or_the_callers() -> None:
    size = kv_pool_size_bytes(LAYOUT, 2)
    assert size == 384
    assert KvPool(LAYOUT, 2).memory.nbytes >= size
    memory = memoryview(bytearray(size))
    assert KvPool(LAYOUT, 2, memory).memory is memory


@pytest.mark.parametrize(
    ("page_count", "memory"),
    [
        (0, None),
        (-1, None),
        (2, memoryview(bytearray(383))),
        (2, memoryview(bytearray(385))),
        (2, memoryview(bytes(384))),
    ],
)
def test_wrong_counts_and_memory_are_refused(page_count: int, memory: memoryview | None) -> None:
    with pytest.raises(OptionRangeError):
        KvPool(LAYOUT, page_count, memory)


def test_a_program_without_paged_states_has_pages_of_no_bytes() -> None:
    memory = memoryview(bytearray())
    pool = KvPool(STATELESS, 1, memory)
    assert pool.memory is memory
    assert pool.take(1) == [0]
    assert KvPool(STATELESS, 1).memory.nbytes > 0
