"""A whole file as one read-only view."""

import ctypes
import mmap
import os
import stat
import weakref
from contextlib import suppress
from io import FileIO
from pathlib import Path
from typing import Any, Final

from sslm.closing import Closing
from sslm.errors.reading import unreadable
from sslm.memory import HUGE_PAGE_SIZE_BYTES, is_misplaced, prefer_huge_pages

_MAP_FIXED: Final = 0x10
"""Replaces what is mapped there: a part of our own room."""
_NO_ADDRESS: Final = ctypes.c_void_p(-1).value


class MappedFile(Closing):
    """A regular file, mapped read-only; a context manager.

    Nobody may change or shorten the file while it is mapped: the operating system answers a read
    beyond the new end by killing the process. What is not in memory yet is read in huge pages,
    where the system has them.

    Args:
        path: Of a regular file; an empty one gives an empty view.

    Raises:
        UnreadableFileError: If the system refuses, or *path* is a folder, a pipe or a device.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        try:
            self._map, self.view = _map_regular_file(Path(path))
        except (OSError, ValueError) as error:
            raise unreadable(path, error) from error

    def close(self) -> None:
        """Give the map back; may be called again.

        Views that others took stay valid: then the map goes with the last of them.
        """
        with suppress(BufferError):
            self.view.release()
            if self._map is not None:
                self._map.close()


def open_regular_file(path: Path) -> FileIO:
    """Open a file for reading that is neither a folder nor a pipe nor a device.

    Raises:
        OSError: If it is one, or the system refuses.
    """
    # Opening a device may do something, so the kind is asked for first; and again afterwards, since
    # another file may have taken the name. Opening a pipe would wait for its writer.
    _require_regular(path.stat())
    file = FileIO(path, opener=_open_without_waiting)
    try:
        _require_regular(os.fstat(file.fileno()))
    except BaseException:
        file.close()
        raise
    return file


def _open_without_waiting(path: str, flags: int) -> int:
    return os.open(path, flags | getattr(os, "O_NONBLOCK", 0))


def _require_regular(found: os.stat_result) -> None:
    if not stat.S_ISREG(found.st_mode):
        raise OSError("it is not a regular file")


def _map_regular_file(path: Path) -> tuple[mmap.mmap | None, memoryview]:
    """Return a map to close, if there is one, and the view; an empty file cannot be mapped."""
    with open_regular_file(path) as file:
        size_bytes = os.fstat(file.fileno()).st_size
        if size_bytes == 0:
            return None, memoryview(b"")
        memory = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        view = memoryview(memory)
        if is_misplaced(view):
            size_bytes = view.nbytes
            view.release()
            memory.close()
            # Imported where it is needed, as few files are.
            from sslm.formats.mapped_file import aligned_map

            return None, aligned_map(file.fileno(), size_bytes)
        # Before anything looks at them: a page that is there stays as it is.
        prefer_huge_pages(memory)
        return memory, view


def aligned_map(descriptor: int, size_bytes: int) -> memoryview:
    """Map the begin of a file read-only, at a multiple of 2 MiB, and ask for huge pages.

    Linux puts large maps of ext4 and xfs files at such a place, but not those of a file in a
    container's layers. Python cannot say where a map goes, so the C library is asked. The map goes
    with the last view of it.

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
