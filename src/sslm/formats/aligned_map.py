"""A map of a file that begins where a huge page can, for systems that do not see to it themselves.

Linux puts large maps of ext4 and xfs files at multiples of 2 MiB, but not those of a file that lies
in what containers lay over them. Python has no say in where a map goes, so the C library is asked.
"""

import ctypes
import mmap
import os
import weakref
from typing import Any, Final

from sslm.memory import HUGE_PAGE_SIZE_BYTES

_MAP_FIXED: Final = 0x10
"""Replaces what is mapped there: a part of our own room."""

_NO_ADDRESS: Final = ctypes.c_void_p(-1).value


def aligned_map(descriptor: int, size_bytes: int) -> memoryview:
    """Map the begin of a file read-only, at a multiple of 2 MiB, and ask for huge pages.

    The map goes with the last view of it.

    Args:
        descriptor: Of a file that is open for reading.
        size_bytes: At least 1, and at most what the file has.

    Raises:
        OSError: If the system refuses.
    """
    library = _c_library()
    # Room in which such an address lies; the file takes its middle, and the rest is given back.
    room_bytes = size_bytes + HUGE_PAGE_SIZE_BYTES
    flags = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS
    room = _checked(library.mmap(None, room_bytes, 0, flags, -1, 0))
    first = -(-room // HUGE_PAGE_SIZE_BYTES) * HUGE_PAGE_SIZE_BYTES
    last = -(-(first + size_bytes) // mmap.PAGESIZE) * mmap.PAGESIZE
    flags = mmap.MAP_SHARED | _MAP_FIXED
    try:
        _checked(library.mmap(first, size_bytes, mmap.PROT_READ, flags, descriptor, 0))
    except OSError:
        library.munmap(room, room_bytes)
        raise
    for begin, end in ((room, first), (last, room + room_bytes)):
        if begin < end:
            library.munmap(begin, end - begin)
    library.madvise(first, size_bytes, mmap.MADV_HUGEPAGE)
    block = (ctypes.c_ubyte * size_bytes).from_address(first)
    weakref.finalize(block, library.munmap, first, size_bytes).atexit = False
    return memoryview(block).cast("B").toreadonly()


def _c_library() -> Any:
    library = ctypes.CDLL(None, use_errno=True)
    address, size, number = ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int
    library.mmap.argtypes = (address, size, number, number, number, ctypes.c_long)
    library.mmap.restype = address
    library.munmap.argtypes = (address, size)
    library.madvise.argtypes = (address, size, number)
    return library


def _checked(address: int) -> int:
    if address == _NO_ADDRESS:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
    return address
