"""Counting the bytes that a model's requests hold at one time."""

from types import TracebackType
from typing import Protocol, Self
from weakref import WeakSet

from sslm.errors.runtime import MemoryBudgetError
from sslm.runtime.guards import Turns


class Lease:
    """Bytes that were admitted, until the ``with`` block ends or nobody holds the lease."""

    def __init__(self, size_bytes: int) -> None:
        self.size_bytes = size_bytes

    def end(self) -> None:
        """Let others have the bytes; may be called again."""
        self.size_bytes = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.end()


class Spare(Protocol):
    """Memory that nobody needs, kept because it may be asked for again."""

    def shrink(self, most_bytes: int) -> None:
        """Let go of what exceeds so many bytes, which may be none."""


class Admission:
    """A bound on bytes that several threads ask for. Spare memory gives way to them.

    What is held is summed over the leases that are alive, not counted up and down: an interrupt
    between two steps can then lose a lease, but no bytes.

    Args:
        limit_bytes: Most bytes of all leases, or None for no bound.
    """

    def __init__(self, limit_bytes: int | None) -> None:
        self._limit_bytes = limit_bytes
        # Not a lock, which an interrupt at the end of its block would leave locked.
        self._turns = Turns()
        self._leases: WeakSet[Lease] = WeakSet()
        # Whose owners know the admission: a cycle would keep them after the model was dropped.
        self._spares: WeakSet[Spare] = WeakSet()

    def add_spare(self, spare: Spare) -> None:
        """Have memory kept within what the leases leave of the bound."""
        self._spares.add(spare)

    def free_bytes(self) -> int | None:
        """Return how many bytes would still be admitted, or None if there is no bound."""
        with self._turns.turn():
            if self._limit_bytes is None:
                return None
            return self._limit_bytes - sum(lease.size_bytes for lease in self._leases)

    def admit(self, what: str, size_bytes: int) -> Lease:
        """Admit bytes for *what*, which an error names.

        Raises:
            MemoryBudgetError: If they exceed the bound beside those that others hold.
        """
        with self._turns.turn():
            held = sum(lease.size_bytes for lease in self._leases)
            needed, limit = held + size_bytes, self._limit_bytes
            if limit is None or needed <= limit:
                lease = Lease(size_bytes)
                self._leases.add(lease)
                self._shrink_spares(needed)
                return lease
            raise MemoryBudgetError(what, needed, limit)

    def trim(self) -> None:
        """Have spare memory give way to what is held."""
        with self._turns.turn():
            self._shrink_spares(sum(lease.size_bytes for lease in self._leases))

    def _shrink_spares(self, held_bytes: int) -> None:
        if self._limit_bytes is not None:
            for spare in self._spares:
                spare.shrink(self._limit_bytes - held_bytes)
