"""Zeroed memory that the system may refuse."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from sslm.errors.runtime import MemoryRefusedError
from sslm.memory import anonymous_memory

LESS_CONTEXT: Final = "a smaller context"
"""The remedy where all that is asked for grows with the context."""
_MAPPED_FROM_BYTES: Final = 1 << 16
"""Filling so much with zeros takes longer than to have the system map it."""


def mapped_memory(size_bytes: int, what: str, *, is_whole: bool = False) -> memoryview:
    """Return memory that begins at a page of the system's, and takes room where it is touched.

    Args:
        size_bytes: From 0.
        what: What it is for.
        is_whole: As :func:`sslm.memory.anonymous_memory` takes it.

    Raises:
        MemoryRefusedError: If the system has none; says that it was for *what*.
    """
    try:
        # Nothing cannot be mapped.
        return anonymous_memory(max(size_bytes, 1), is_whole=is_whole)
    except (OSError, OverflowError, ValueError) as error:
        raise MemoryRefusedError(what, size_bytes, LESS_CONTEXT) from error


def zeroed_memory(size_bytes: int, what: str) -> memoryview:
    """Return memory of any alignment; raises as :func:`mapped_memory` does."""
    if size_bytes >= _MAPPED_FROM_BYTES:
        return mapped_memory(size_bytes, what)
    with named_refusal(what, size_bytes):
        return memoryview(bytearray(size_bytes))


@contextmanager
def named_refusal(what: str, size_bytes: int) -> Iterator[None]:
    """Turn a MemoryError of the block into a MemoryRefusedError."""
    try:
        yield
    except MemoryError as error:
        raise MemoryRefusedError(what, size_bytes, LESS_CONTEXT) from error
