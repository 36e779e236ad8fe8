"""Whether memory lies in huge pages, compared with what this machine does when asked plainly."""

import mmap
import os
from pathlib import Path

import pytest

from sslm.memory import HUGE_PAGE_SIZE_BYTES, huge_page_bytes

SIZE = 4 * HUGE_PAGE_SIZE_BYTES


def huge_bytes_of(view: memoryview) -> int:
    """Touch a block, then tell how much of it lies in huge pages."""
    for start in range(0, view.nbytes, mmap.PAGESIZE):
        view[start]
    found = huge_page_bytes(view)
    assert found is not None
    return found


def require_huge_pages(kind: str, reached: int) -> None:
    """Skip where the machine does not do for a plain attempt what is asked of ours."""
    if not reached:
        pytest.skip(f"this machine has no huge pages for {kind}")


def plain_anonymous() -> int:
    block = mmap.mmap(-1, SIZE, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    block.madvise(mmap.MADV_HUGEPAGE)
    block[:: mmap.PAGESIZE] = b"a" * (SIZE // mmap.PAGESIZE)
    return huge_bytes_of(memoryview(block))


def plain_file(folder: Path) -> int:
    """One write of the whole file, one map, one piece of advice."""
    path = folder / "plain"
    handle = os.open(path, os.O_RDWR | os.O_CREAT)
    os.write(handle, bytes(SIZE))
    block = mmap.mmap(handle, SIZE, access=mmap.ACCESS_READ)
    os.close(handle)
    block.madvise(mmap.MADV_HUGEPAGE)
    return huge_bytes_of(memoryview(block))
