"""Counting the bytes that a model's requests hold at one time."""

from types import TracebackType
from typing import Self
from weakref import WeakSet

from sslm.errors.runtime import MemoryBudgetError
from sslm.runtime.turns import Turns


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


class Admission:
    """A bound on bytes that several threads ask for.

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
            needed = size_bytes + sum(lease.size_bytes for lease in self._leases)
            if self._limit_bytes is not None and needed > self._limit_bytes:
                raise MemoryBudgetError(what, needed, self._limit_bytes)
            lease = Lease(size_bytes)
            self._leases.add(lease)
            return lease
