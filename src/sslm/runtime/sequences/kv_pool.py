"""Pages of sequence state, counted and shared."""

from collections.abc import Sequence
from contextlib import suppress
from types import TracebackType
from typing import NoReturn, Self
from weakref import WeakSet

from sslm.errors.runtime import (
    ForkedProcessError,
    KvPoolExhaustedError,
    NestedCallError,
    NotCopyableError,
    ObjectClosedError,
    OptionRangeError,
    PoolInUseError,
)
from sslm.errors.showing import int_range
from sslm.memory import mapped_memory
from sslm.program.lent_memory import LentMemory
from sslm.program.states import PAGE_TOKENS, StateLayout
from sslm.runtime.guards import OwningProcess, Turn, Turns


def page_count_for(tokens: int) -> int:
    """Return how many pages hold this many positions."""
    return -(-tokens // PAGE_TOKENS)


def kv_pool_size_bytes(layout: StateLayout, page_count: int) -> int:
    """Return the bytes of a pool, which is what a caller who owns the memory must supply."""
    return layout.page_size_bytes * page_count


class KvPool:
    """A fixed number of pages, which holds take, share and give back; any thread may use it.

    Only of the process that made it: what a fork copies belongs to the child, which is told so by
    ForkedProcessError, and may let go of the pages and close the pool.

    What is held is what live holds say. Counters only make that fast, and every step leaves them
    too high rather than too low if an interrupt cuts it short, so that no page is ever given to two
    and none is lost: when pages run out, they are counted anew.

    Args:
        layout: What a page holds.
        page_count: At least 1.
        memory: Writable bytes in one piece that begin at a multiple of 64, of which the first
            ``kv_pool_size_bytes`` are used, or None to map fresh ones.

    Raises:
        OptionRangeError: If the count is wrong, or the memory read-only or not in one piece.
        MemoryTooSmallError: If the memory is too small.
        MisalignedMemoryError: If the memory begins elsewhere.
        MemoryInUseError: If an open pool or plan uses it.
        MemoryRefusedError: If the system has no memory for it.
    """

    def __init__(self, layout: StateLayout, page_count: int, memory: object = None) -> None:
        size_bytes = kv_pool_size_bytes(layout, page_count)
        if page_count < 1:
            raise OptionRangeError("page_count", str(page_count), int_range(1))
        self.layout = layout
        self.page_count = page_count
        # Anonymous pages cost nothing until they are touched. A layout may have no paged state.
        self._lent = None if memory is None else LentMemory(memory, size_bytes, "a KV pool")
        self.memory = (
            self._lent.view if self._lent else mapped_memory(size_bytes, "sequence states")
        )
        self._owner = OwningProcess("KV pool")
        self._turns = Turns()
        self._holds: WeakSet[PageHold] = WeakSet()
        self._references = [0] * page_count
        self._free = list(range(page_count - 1, -1, -1))
        self._is_closed = False

    @property
    def free_page_count(self) -> int:
        """Pages that nobody holds."""
        return self.page_count - self.held_page_count

    @property
    def held_page_count(self) -> int:
        """Pages that somebody holds, each counted once."""
        with self._turn():
            return self._count_held()

    def _count_held(self) -> int:
        return len({page for hold in self._holds for page in hold.pages})

    def _turn(self) -> Turn:
        self._owner.require()
        return self._turns.turn()

    def hold(self) -> "PageHold":
        """Return a hold of no pages.

        Raises:
            ObjectClosedError: If the pool is closed.
            ForkedProcessError: If another process made it.
        """
        with self._turn():
            if self._is_closed:
                raise ObjectClosedError("KV pool")
            hold = PageHold(self)
            self._holds.add(hold)
            return hold

    def close(self) -> None:
        """Let go of the memory; may be called again.

        Raises:
            PoolInUseError: If pages are held; nothing was closed.
        """
        if not self._owner.is_here:
            self._let_go()
            return
        with self._turn():
            held = self._count_held()
            if held:
                raise PoolInUseError(held)
            self._let_go()

    def _let_go(self) -> None:
        self._is_closed = True
        self.memory = memoryview(b"")
        if self._lent is not None:
            self._lent.give_back()

    def _draw(self, count: int) -> list[int]:
        """Take pages off the free list, within a turn; whoever draws them notes them at once."""
        if self._is_closed and count:
            raise ObjectClosedError("KV pool")
        if count > len(self._free):
            self._recount()
        if count > len(self._free):
            raise KvPoolExhaustedError(count, len(self._free))
        drawn = self._free[len(self._free) - count :]
        del self._free[len(self._free) - count :]
        for page in drawn:
            self._references[page] = 1
        return drawn[::-1]

    def _drop(self, pages: Sequence[int]) -> None:
        """Count pages down, within a turn, after their hold has forgotten them."""
        for page in reversed(pages):
            self._references[page] -= 1
            if self._references[page] == 0:
                self._free.append(page)

    def _recount(self) -> None:
        """Count pages again that a dropped hold or an interrupted step left behind."""
        references = [0] * self.page_count
        for hold in self._holds:
            for page in hold.pages:
                references[page] += 1
        self._references = references
        self._free = [page for page in reversed(range(self.page_count)) if not references[page]]

    def __reduce__(self) -> NoReturn:
        raise NotCopyableError("KV pool", "make another one there")

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if error is None:
            self.close()
            return
        # An error is on its way, and perhaps holds what it came through.
        with suppress(PoolInUseError, NestedCallError):
            self.close()


class PageHold:
    """Pages that somebody holds, in the order of their positions; made by :meth:`KvPool.hold`.

    Attributes:
        pages: Their indices. Only the methods change them.
    """

    def __init__(self, pool: KvPool) -> None:
        self.pool = pool
        self.pages: list[int] = []
        self._is_released = False

    @property
    def own_count(self) -> int:
        """Pages that no other hold shares."""
        with self.pool._turn():
            return len(self._own_pages())

    def _own_pages(self) -> list[int]:
        """Return the pages that no other hold shares, within a turn."""
        # A hold that was dropped counts until then.
        self.pool._recount()
        return [page for page in self.pages if self.pool._references[page] == 1]

    def take(self, count: int) -> None:
        """Add *count* pages that nobody held, or none.

        Raises:
            KvPoolExhaustedError: If fewer are free.
        """
        with self.pool._turn():
            self.pages += self.pool._draw(count)

    def take_free(self, count: int) -> int:
        """Add at most *count* pages that nobody held; return how many there were."""
        with self.pool._turn():
            if count > len(self.pool._free):
                self.pool._recount()
            drawn = self.pool._draw(min(count, len(self.pool._free)))
            self.pages += drawn
            return len(drawn)

    def share(self, count: int) -> "PageHold":
        """Return a hold of the first *count* pages, which both hold from now on.

        Raises:
            ObjectClosedError: If this hold was released.
        """
        shared = self.pool.hold()
        with self.pool._turn():
            if self._is_released:
                raise ObjectClosedError("snapshot")
            pages = self.pages[:count]
            for page in pages:
                self.pool._references[page] += 1
            shared.pages = pages
        return shared

    def put_first(self, others: "PageHold", count: int) -> None:
        """Begin with the pages of another hold, and have *count* pages after it.

        Args:
            others: Of the same pool; goes on holding its pages too.
            count: At least as many as *others* has. What is missing is taken, and what is too many
                is given back.

        Raises:
            ObjectClosedError: If the other hold was released.
            KvPoolExhaustedError: If pages are missing and not free; nothing has changed.
        """
        with self.pool._turn():
            # Only now is it certain that another thread does not release them meanwhile.
            if others._is_released:
                raise ObjectClosedError("snapshot")
            own_count = count - len(others.pages)
            drawn = self.pool._draw(max(0, own_count - len(self.pages)))
            for page in others.pages:
                self.pool._references[page] += 1
            surplus = self.pages[own_count:]
            self.pages = others.pages + self.pages[:own_count] + drawn
            self.pool._drop(surplus)

    def keep_own(self, count: int) -> None:
        """Have *count* pages that nobody shares, and give the others back.

        Raises:
            KvPoolExhaustedError: If too few are own or free; nothing has changed.
        """
        with self.pool._turn():
            own = self._own_pages()[:count]
            drawn = self.pool._draw(count - len(own))
            kept = set(own)
            dropped = [page for page in self.pages if page not in kept]
            self.pages = own + drawn
            self.pool._drop(dropped)

    def release(self) -> None:
        """Give all pages back; may be called again, also by a signal handler."""
        self._is_released = True
        try:
            with self.pool._turn():
                dropped, self.pages = self.pages, []
                self.pool._drop(dropped)
        except (NestedCallError, ForkedProcessError):
            # This thread is in the middle of a step, or a fork brought the hold here. Nobody holds
            # the pages from now on; that they are free is seen when pages run out.
            self.pages = []

    def __reduce__(self) -> NoReturn:
        raise NotCopyableError("hold of pages", "save the sequence, and restore it there")
