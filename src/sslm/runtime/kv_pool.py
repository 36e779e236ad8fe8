"""Pages of sequence state, counted and handed out."""

from sslm.errors.runtime import KvPoolExhaustedError, MemoryRefusedError, OptionRangeError
from sslm.errors.showing import int_range
from sslm.memory import anonymous_memory
from sslm.program.states import PAGE_TOKENS, StateLayout


def page_count_for(tokens: int) -> int:
    """Return how many pages hold this many positions."""
    return -(-tokens // PAGE_TOKENS)


def kv_pool_size_bytes(layout: StateLayout, page_count: int) -> int:
    """Return the bytes of a pool, which is what a caller who owns the memory must supply."""
    return layout.page_size_bytes * page_count


class KvPool:
    """A fixed number of pages; who takes one gives it back.

    Args:
        layout: What a page holds.
        page_count: At least 1.
        memory: Writable bytes of ``kv_pool_size_bytes``, or None to map fresh ones.

    Raises:
        OptionRangeError: If the count or the memory's size is wrong.
        MemoryRefusedError: If the system has no memory for it.
    """

    def __init__(
        self, layout: StateLayout, page_count: int, memory: memoryview | None = None
    ) -> None:
        size_bytes = kv_pool_size_bytes(layout, page_count)
        if page_count < 1:
            raise OptionRangeError("page_count", str(page_count), int_range(1))
        if memory is not None and (memory.nbytes != size_bytes or memory.readonly):
            raise OptionRangeError("memory", f"{memory.nbytes} bytes", f"{size_bytes} writable")
        self.layout = layout
        self.page_count = page_count
        if memory is None:
            # Anonymous pages cost nothing until they are touched. A layout may have no paged state.
            memory = _map(max(size_bytes, 1))
        self.memory = memory
        self._free = list(range(page_count - 1, -1, -1))

    @property
    def free_page_count(self) -> int:
        """Pages that nobody holds."""
        return len(self._free)

    def take(self, count: int) -> list[int]:
        """Take *count* pages, or none.

        Raises:
            KvPoolExhaustedError: If fewer are free.
        """
        if count > len(self._free):
            raise KvPoolExhaustedError(count, len(self._free))
        return [self._free.pop() for _ in range(count)]

    def give_back(self, pages: list[int]) -> None:
        """Return pages that were taken."""
        if not set(pages).isdisjoint(self._free):
            raise AssertionError("pages are given back once")
        self._free.extend(reversed(pages))


def _map(size_bytes: int) -> memoryview:
    try:
        return memoryview(anonymous_memory(size_bytes))
    except (OSError, OverflowError, ValueError) as error:
        raise MemoryRefusedError("sequence states", size_bytes) from error
