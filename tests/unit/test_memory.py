"""Large blocks lie in huge pages where this machine has them, and nothing breaks where not."""

import mmap
import os
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from sslm import memory
from sslm.artifact.block_writer import BlockWriter
from sslm.artifact.file_bytes import CopiedFile
from sslm.formats.mapped_file import MappedFile
from sslm.memory import (
    HUGE_PAGE_SIZE_BYTES,
    anonymous_memory,
    huge_page_bytes,
    huge_page_mode,
    prefer_huge_pages,
)
from sslm.program.states import StateLayout
from sslm.runtime.sequences.kv_pool import KvPool
from tests.forking import in_child
from tests.huge_pages import SIZE, huge_bytes_of, plain_anonymous, plain_file, require_huge_pages

on_linux = pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")


def written_in_small_pieces(path: Path) -> None:
    with path.open("wb") as file, BlockWriter(file) as blocks:
        for _ in range(SIZE // 4096):
            blocks.write(b"a" * 4096)


# Where huge pages are.


@on_linux
def test_new_memory_lies_in_huge_pages() -> None:
    require_huge_pages("memory", plain_anonymous())
    block = anonymous_memory(SIZE)
    block[:: mmap.PAGESIZE] = b"a" * (SIZE // mmap.PAGESIZE)
    assert huge_bytes_of(block) >= SIZE - HUGE_PAGE_SIZE_BYTES


@on_linux
def test_all_of_a_block_lies_in_huge_pages() -> None:
    """Also its end, which does not fill one, and wherever the blocks before it ended."""
    require_huge_pages("memory", plain_anonymous())
    sizes = [SIZE - HUGE_PAGE_SIZE_BYTES // 3, HUGE_PAGE_SIZE_BYTES + 5000]
    blocks = [anonymous_memory(size) for size in sizes]
    for block in blocks:
        block[:] = b"a" * block.nbytes
    # The last page is counted as far as it is the block's.
    assert [huge_bytes_of(block) for block in blocks] == sizes


@on_linux
def test_a_pool_lies_in_huge_pages() -> None:
    require_huge_pages("memory", plain_anonymous())
    layout = StateLayout((), (), page_size_bytes=HUGE_PAGE_SIZE_BYTES, fixed_size_bytes=0)
    pool = KvPool(layout, 4)
    pool.memory[:] = b"\1" * SIZE
    assert huge_bytes_of(pool.memory) >= SIZE - HUGE_PAGE_SIZE_BYTES


@on_linux
def test_a_copied_file_lies_in_huge_pages(tmp_path: Path) -> None:
    require_huge_pages("memory", plain_anonymous())
    path = tmp_path / "a"
    path.write_bytes(b"abcd" * (SIZE // 4))
    copied = CopiedFile(path)
    assert copied.view == b"abcd" * (SIZE // 4)
    assert huge_bytes_of(copied.view) >= SIZE - HUGE_PAGE_SIZE_BYTES


@on_linux
def test_what_was_written_in_blocks_is_mapped_in_huge_pages(tmp_path: Path) -> None:
    require_huge_pages("files", plain_file(tmp_path))
    written_in_small_pieces(tmp_path / "a")
    with MappedFile(tmp_path / "a") as mapped:
        assert mapped.view == b"a" * SIZE
        assert huge_bytes_of(mapped.view) == SIZE


@on_linux
def test_a_file_that_is_not_in_memory_is_read_in_huge_pages(tmp_path: Path) -> None:
    require_huge_pages("files", plain_file(tmp_path))
    path = tmp_path / "a"
    path.write_bytes(b"a" * SIZE)
    with path.open("rb") as file:
        os.fsync(file.fileno())
        os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
    with MappedFile(path) as mapped:
        assert huge_bytes_of(mapped.view) == SIZE


# Whatever the machine has.


@pytest.mark.parametrize("size", [1, 4096, HUGE_PAGE_SIZE_BYTES - 1, HUGE_PAGE_SIZE_BYTES + 1])
def test_new_memory_is_zero_and_writable(size: int) -> None:
    block = anonymous_memory(size)
    assert len(block) == size
    assert block[:] == bytes(size)
    block[size - 1 : size] = b"z"
    assert bytes(block[size - 1 : size]) == b"z"


@pytest.mark.parametrize("size", [0, -1, 1 << 62])
def test_memory_that_cannot_be_had_is_refused(size: int) -> None:
    with pytest.raises((OSError, ValueError, OverflowError)):
        anonymous_memory(size)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork")
def test_new_memory_is_not_shared_with_a_child() -> None:
    block = anonymous_memory(1)

    def write() -> None:
        block[:] = b"z"

    in_child(write)
    assert bytes(block) == b"\0"


class Advised:
    """A map that notes what it is told, or refuses."""

    def __init__(self, size: int, error: OSError | None = None) -> None:
        self.size, self.error = size, error
        self.told: list[int] = []

    def __len__(self) -> int:
        return self.size

    def madvise(self, advice: int) -> None:
        self.told.append(advice)
        if self.error is not None:
            raise self.error


@pytest.mark.parametrize(
    ("size", "is_told"),
    [(HUGE_PAGE_SIZE_BYTES, True), (HUGE_PAGE_SIZE_BYTES - 1, False), (1 << 40, True)],
)
def test_small_blocks_are_left_alone(
    size: int, is_told: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(mmap, "MADV_HUGEPAGE", 14, raising=False)
    monkeypatch.setattr(mmap, "PAGESIZE", 4096)
    block = Advised(size)
    prefer_huge_pages(block)  # type: ignore[arg-type]
    assert block.told == [14] * is_told


def test_a_system_that_refuses_the_advice_is_no_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mmap, "MADV_HUGEPAGE", 14, raising=False)
    monkeypatch.setattr(mmap, "PAGESIZE", 4096)
    block = Advised(SIZE, OSError(22, "Invalid argument"))
    prefer_huge_pages(block)  # type: ignore[arg-type]
    assert block.told == [14]


def without_the_advice(patch: pytest.MonkeyPatch) -> None:
    patch.delattr(mmap, "MADV_HUGEPAGE", raising=False)


def with_pages_of_64_kib(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(mmap, "PAGESIZE", 65536)


@pytest.mark.parametrize("system", [without_the_advice, with_pages_of_64_kib])
def test_other_systems_are_not_asked(
    system: Callable[[pytest.MonkeyPatch], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    system(monkeypatch)
    block = Advised(SIZE)
    prefer_huge_pages(block)  # type: ignore[arg-type]
    assert block.told == []


def test_memory_without_private_maps(monkeypatch: pytest.MonkeyPatch) -> None:
    """As on Windows, where there is neither the flag nor the advice."""
    monkeypatch.delattr(mmap, "MAP_PRIVATE", raising=False)
    assert anonymous_memory(5)[:] == bytes(5)


# What the system says.

REPORT = """\
00100000-00200000 r--s 00000000 fe:00 4 /models/a b.sslm
Rss:                1024 kB
AnonHugePages:      9999 kB
00200000-00600000 r--s 00000000 fe:00 5 /models/b.sslm
AnonHugePages:         0 kB
FilePmdMapped:      2048 kB
00600000-00a00000 rw-p 00000000 00:00 0
AnonHugePages:      4096 kB
ShmemPmdMapped:        0 kB
VmFlags: rd mr
"""


@pytest.mark.parametrize(
    ("first", "last", "expected"),
    [
        (0x200000, 0x600000, 2 << 20),
        (0x200000, 0xA00000, 6 << 20),
        (0x600000, 0x700000, 1 << 20),
        (0xA00000, 0xB00000, 0),
        (0x5FFFFF, 0x600000, 1),
    ],
)
def test_only_maps_that_hold_a_part_of_the_block_count(
    first: int, last: int, expected: int
) -> None:
    assert memory._reported_bytes(REPORT, first, last) == expected


def test_nobody_knows_without_a_report(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory, "_SMAPS", tmp_path / "none")
    monkeypatch.setattr(memory, "_MODE", tmp_path / "none")
    assert huge_page_bytes(memoryview(b"a")) is None
    assert huge_page_mode() is None


@pytest.mark.parametrize(
    ("text", "mode"),
    [("always [madvise] never\n", "madvise"), ("always madvise [never]\n", "never"), ("\n", None)],
)
def test_the_mode_is_the_word_in_brackets(
    text: str, mode: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "enabled").write_text(text)
    monkeypatch.setattr(memory, "_MODE", tmp_path / "enabled")
    assert huge_page_mode() == mode


@on_linux
def test_ordinary_memory_has_no_huge_pages() -> None:
    if huge_page_mode() == "always":
        pytest.skip("this machine gives huge pages unasked")
    block = mmap.mmap(-1, SIZE, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    block[:: mmap.PAGESIZE] = b"a" * (SIZE // mmap.PAGESIZE)
    assert huge_bytes_of(memoryview(block)) == 0
