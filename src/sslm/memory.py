"""Large blocks of memory, in huge pages where the system has them.

Decode streams all weights for every token. In pages of 4 KiB the processor spends up to half of
that time looking up where they lie, so large blocks ask for pages of 2 MiB.
"""

import mmap
import os
import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

from sslm import limits
from sslm.errors.runtime import MemoryRefusedError

HUGE_PAGE_SIZE_BYTES: Final = 2 << 20
"""What a huge page holds where ordinary ones hold 4 KiB."""

_ORDINARY_PAGE_SIZE_BYTES: Final = 4096
_SMAPS: Final = Path("/proc/self/smaps")
_STATM: Final = Path("/proc/self/statm")
_MODE: Final = Path("/sys/kernel/mm/transparent_hugepage/enabled")
_CHOSEN: Final = re.compile(r"\[(\w+)\]")
_RANGE_LINE: Final = re.compile(r"([0-9a-f]+)-([0-9a-f]+) ")
_HUGE_LINE: Final = re.compile(r"(?:AnonHugePages|FilePmdMapped|ShmemPmdMapped): +(\d+) kB")
LESS_CONTEXT: Final = "a smaller context"
"""The remedy where all that is asked for grows with the context."""
_MAPPED_FROM_BYTES: Final = 1 << 16
"""Filling so much with zeros takes longer than to have the system map it."""


def anonymous_memory(size_bytes: int, *, is_whole: bool = False) -> memoryview:
    """Return zeroed memory of this process alone; what is never touched takes no room.

    A block that may be huge lies in whole huge pages, the last of which may be larger than what is
    left to hold.

    Args:
        size_bytes: At least 1.
        is_whole: Whether a block that is smaller than a huge page is given a whole one, too.

    Raises:
        OSError, OverflowError, ValueError: As :class:`mmap.mmap` does.
    """
    if not hasattr(mmap, "MAP_PRIVATE"):
        return memoryview(mmap.mmap(-1, size_bytes))
    # Linux puts a block where huge pages can begin if its size is a multiple of theirs.
    is_huge = may_be_huge(HUGE_PAGE_SIZE_BYTES if is_whole else size_bytes)
    padding_bytes = -size_bytes % HUGE_PAGE_SIZE_BYTES if is_huge else 0
    # Memory that could be shared with a child, which is Python's default, gets no huge pages.
    flags = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS
    memory = mmap.mmap(-1, size_bytes + padding_bytes, flags=flags)
    prefer_huge_pages(memory)
    return memoryview(memory)[:size_bytes]


def free_address_space_bytes() -> int | None:
    """Return how many bytes this process may still map, or None if the system has no such limit.

    Other threads may take some of them at any time.
    """
    try:
        import resource
    except ImportError:  # Windows has no such limits.
        return None
    limit_bytes, _ = resource.getrlimit(resource.RLIMIT_AS)
    if limit_bytes == resource.RLIM_INFINITY:
        return None
    try:
        pages = int(_STATM.read_text(encoding="ascii").split()[0])
    except (OSError, ValueError):
        return None
    return max(limit_bytes - pages * resource.getpagesize(), 0)


def require_numpy_memory() -> None:
    """Raise MemoryError if NumPy is not loaded, and the system's limit leaves too little for it.

    Its OpenBLAS ends the process where it finds no memory, with the exit code 1.
    """
    free_bytes = None if "numpy" in sys.modules else free_address_space_bytes()
    if free_bytes is None:
        return
    more_bytes = limits.NUMPY_THREAD_MEMORY_BYTES * (_blas_thread_count() - 1)
    needed_bytes = limits.NUMPY_MEMORY_BYTES + more_bytes
    if free_bytes < needed_bytes:
        raise MemoryError(
            f"loading NumPy takes {needed_bytes} bytes of address space, and {free_bytes} are left"
        )


def _blas_thread_count() -> int:
    """Return in how many threads OpenBLAS will compute, by what it looks at itself."""
    for name in ("OPENBLAS_NUM_THREADS", "GOTO_NUM_THREADS", "OMP_NUM_THREADS"):
        text = os.environ.get(name, "")
        if text.isascii() and text.isdecimal() and int(text) > 0:
            return int(text)
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else 1


def touch(memory: memoryview) -> None:
    """Have the system find room for memory that nobody uses yet, which takes time; zeroes bytes.

    Args:
        memory: Writable bytes that are zero, or whose contents do not matter.
    """
    places = memory[::_ORDINARY_PAGE_SIZE_BYTES]
    places[:] = bytes(len(places))


def prefer_huge_pages(memory: mmap.mmap) -> None:
    """Ask for huge pages, which is a wish: where it cannot be met, nothing changes.

    Pages that were touched already stay as they are, so ask first.

    Args:
        memory: All of a map. Of a file, it gets huge pages if the file's system keeps its contents
            in blocks as large, as ext4 does since Linux 6.16 and xfs since 5.18.
    """
    if may_be_huge(len(memory)):
        # A kernel that was built without them refuses the word itself.
        with suppress(OSError):
            memory.madvise(mmap.MADV_HUGEPAGE)


def may_be_huge(size_bytes: int) -> bool:
    """Tell whether huge pages are asked for, for a block of this size."""
    # Elsewhere a huge page may be 512 MiB, which the first byte of a pool would take at once.
    is_usual = mmap.PAGESIZE == _ORDINARY_PAGE_SIZE_BYTES
    return is_usual and hasattr(mmap, "MADV_HUGEPAGE") and size_bytes >= HUGE_PAGE_SIZE_BYTES


def is_misplaced(block: memoryview) -> bool:
    """Tell whether a block that may be huge does not begin where a huge page can.

    Args:
        block: All of a map; nothing of it is touched.
    """
    return may_be_huge(block.nbytes) and address_of(block) % HUGE_PAGE_SIZE_BYTES != 0


def huge_page_bytes(block: memoryview) -> int | None:
    """Return how many bytes of a block lie in huge pages, or None where the system does not say.

    What was never touched lies nowhere. Takes about 15 ms.
    """
    try:
        report = _SMAPS.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return None
    first = address_of(block)
    return _reported_bytes(report, first, first + block.nbytes)


def address_of(block: memoryview) -> int:
    """Return where a block of memory begins.

    Args:
        block: At least one byte, in one piece.
    """
    # Only who asks pays for it.
    from sslm.native_interface import ffi

    return int(ffi.cast("uintptr_t", ffi.from_buffer(block)))


def huge_page_mode() -> str | None:
    """Return when the system gives huge pages: ``always``, ``madvise`` (if asked) or ``never``.

    None where it does not say.
    """
    try:
        found = _CHOSEN.search(_MODE.read_text(encoding="ascii", errors="replace"))
    except OSError:
        return None
    return None if found is None else found[1]


def _reported_bytes(report: str, first: int, last: int) -> int:
    """Add up the huge pages of all maps that share a byte with first … last - 1."""
    total, is_inside = 0, False
    for line in report.splitlines():
        found = _RANGE_LINE.match(line)
        if found is not None:
            is_inside = int(found[1], 16) < last and first < int(found[2], 16)
        elif is_inside and (huge := _HUGE_LINE.fullmatch(line)) is not None:
            total += int(huge[1]) << 10
    # The system may have joined the block with its neighbours.
    return min(total, last - first)


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
