"""Memory of the caller's that a plan or a pool lies in."""

import weakref
from contextlib import suppress
from functools import cache

from sslm.errors.runtime import (
    MemoryInUseError,
    MemoryTooSmallError,
    MisalignedMemoryError,
    OptionRangeError,
)
from sslm.errors.showing import briefly
from sslm.memory import address_of
from sslm.program.states import STATE_ALIGNMENT_BYTES


class LentMemory:
    """Bytes of a caller's that are one object's alone, until it gives them back or is dropped.

    Args:
        memory: A writable buffer in one piece, of *size_bytes* or more, whose first byte lies at a
            multiple of 64. The bytes behind the first *size_bytes* are not used.
        size_bytes: How many are needed, 0 or more.
        what: What for, in errors.

    Attributes:
        view: The bytes that are used.

    Raises:
        OptionRangeError: If it is no such buffer.
        MemoryTooSmallError: If it has too few bytes.
        MisalignedMemoryError: If it begins elsewhere.
        MemoryInUseError: If another plan or pool uses some of the bytes. In no case was the memory
            touched.
    """

    def __init__(self, memory: object, size_bytes: int, what: str) -> None:
        self.view = _bytes_of(memory)[:size_bytes]
        if self.view.nbytes < size_bytes:
            raise MemoryTooSmallError(what, self.view.nbytes, size_bytes)
        self._first = address_of(self.view) if size_bytes else 0
        self._stop = self._first + size_bytes
        if self._first % STATE_ALIGNMENT_BYTES:
            raise MisalignedMemoryError(what, self._first, STATE_ALIGNMENT_BYTES)
        self._what = what
        self._place = weakref.ref(self)
        # Two threads that lend the same bytes at once may both be refused; never is neither.
        _lent().append(self._place)
        for place in _lent().copy():
            other = place()
            if other is None:
                _remove(place)
            elif other is not self and other._first < self._stop and self._first < other._stop:
                self.give_back()
                raise MemoryInUseError(what, other._what)

    def give_back(self) -> None:
        """End the use; may be called again. Who looks at the view must have ended before."""
        _remove(self._place)
        self.view = memoryview(b"")


@cache
def _lent() -> "list[weakref.ref[LentMemory]]":
    """Return what this process uses now. Each step on the list is one call into C, hence atomic."""
    return []


def _remove(place: "weakref.ref[LentMemory]") -> None:
    # Another thread may have removed it meanwhile.
    with suppress(ValueError):
        _lent().remove(place)


def _bytes_of(memory: object) -> memoryview:
    expected = "a buffer of writable bytes in one piece"
    try:
        view = memoryview(memory)  # type: ignore[arg-type]
    except TypeError as error:
        raise OptionRangeError("memory", briefly(memory), expected) from error
    if view.readonly or not view.c_contiguous:
        found = "read-only" if view.readonly else "in pieces"
        raise OptionRangeError("memory", found, expected)
    return view.cast("B") if view.nbytes else memoryview(bytearray())
