"""Files are mapped where huge pages can be, also by systems that put them anywhere."""

import gc
import mmap
import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from sslm.errors.reading import UnreadableFileError
from sslm.formats import mapped_file
from sslm.formats.mapped_file import MappedFile
from sslm.memory import HUGE_PAGE_SIZE_BYTES, is_misplaced
from tests.huge_pages import SIZE, huge_bytes_of, plain_file, require_huge_pages

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="other systems are not asked")

CONTENT = bytes(range(251)) * (SIZE // 251 + 1)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A file in one write, whose last page is not full."""
    path = tmp_path / "many.sslm"
    handle = os.open(path, os.O_WRONLY | os.O_CREAT)
    os.write(handle, CONTENT)
    os.close(handle)
    return path


@pytest.fixture
def misplaced(monkeypatch: pytest.MonkeyPatch) -> None:
    """A system that puts maps of files anywhere."""
    monkeypatch.setattr(
        mapped_file, "is_misplaced", lambda view: view.nbytes >= HUGE_PAGE_SIZE_BYTES
    )


def address_of(view: memoryview) -> int:
    from sslm.native_library import borrow, load_library

    ffi = load_library().ffi
    pointer, _ = borrow(ffi, "uint8_t *", view)
    return int(ffi.cast("uintptr_t", pointer))


def map_count(path: Path) -> int:
    gc.collect()
    return Path("/proc/self/maps").read_text().count(path.name)


@pytest.fixture(params=["as it comes", "misplaced"])
def mapped(path: Path, request: pytest.FixtureRequest) -> Iterator[MappedFile]:
    if request.param == "misplaced":
        request.getfixturevalue("misplaced")
    with MappedFile(path) as found:
        yield found


def test_all_of_the_file_is_there_and_read_only(mapped: MappedFile) -> None:
    assert mapped.view == CONTENT
    assert (mapped.view.format, mapped.view.readonly) == ("B", True)
    with pytest.raises(TypeError):
        mapped.view[0] = 1


def test_it_begins_at_a_huge_page(mapped: MappedFile) -> None:
    assert address_of(mapped.view) % HUGE_PAGE_SIZE_BYTES == 0


@pytest.mark.usefixtures("misplaced")
def test_it_lies_in_huge_pages(path: Path, tmp_path: Path) -> None:
    require_huge_pages("files", plain_file(tmp_path))
    with MappedFile(path) as found:
        assert huge_bytes_of(found.view) == SIZE


@pytest.mark.skipif(not Path("/dev/shm").is_dir(), reason="there is no such file system")
def test_a_system_that_does_not_see_to_it_is_noticed() -> None:
    path = Path(f"/dev/shm/sslm-test-{os.getpid()}.sslm")
    try:
        path.write_bytes(CONTENT)
        with MappedFile(path) as found:
            assert address_of(found.view) % HUGE_PAGE_SIZE_BYTES == 0
            assert found.view == CONTENT
            assert map_count(path) == 1
    finally:
        path.unlink()


@pytest.mark.usefixtures("misplaced")
def test_views_outlive_the_file(path: Path) -> None:
    found = MappedFile(path)
    part = found.view[5:10]
    found.close()
    found.close()
    assert bytes(part) == CONTENT[5:10]
    assert map_count(path) == 1
    part.release()
    assert map_count(path) == 0


@pytest.mark.usefixtures("misplaced")
def test_many_maps_leave_nothing_behind(path: Path) -> None:
    def regions() -> int:
        return len(Path("/proc/self/maps").read_text().splitlines())

    MappedFile(path).close()
    before = regions()
    for _ in range(50):
        with MappedFile(path) as found:
            assert found.view[-1] == CONTENT[-1]
    assert map_count(path) == 0
    assert regions() <= before + 2


@pytest.mark.usefixtures("misplaced")
def test_a_refusal_is_named(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # Then the map would be neither shared nor private.
    monkeypatch.setattr(mmap, "MAP_SHARED", 0)
    with pytest.raises(UnreadableFileError, match="Invalid argument"):
        MappedFile(path)
    assert map_count(path) == 0


@pytest.mark.parametrize(
    ("offset", "size", "expected"),
    [
        (0, HUGE_PAGE_SIZE_BYTES, False),
        (0, HUGE_PAGE_SIZE_BYTES + 4096, False),
        (4096, HUGE_PAGE_SIZE_BYTES, True),
        (HUGE_PAGE_SIZE_BYTES - 4096, HUGE_PAGE_SIZE_BYTES + 1, True),
        (HUGE_PAGE_SIZE_BYTES, HUGE_PAGE_SIZE_BYTES, False),
        (4096, HUGE_PAGE_SIZE_BYTES - 1, False),
        (4096, 0, False),
    ],
)
def test_a_block_is_misplaced_where_no_huge_page_can_begin(
    offset: int, size: int, expected: bool
) -> None:
    room = memoryview(mmap.mmap(-1, 4 * HUGE_PAGE_SIZE_BYTES))
    first = -address_of(room) % HUGE_PAGE_SIZE_BYTES + offset
    assert is_misplaced(room[first : first + size]) == expected


def test_most_files_do_not_need_it(path: Path) -> None:
    with path.open("rb") as file:
        plain = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
    is_placed = address_of(memoryview(plain)) % HUGE_PAGE_SIZE_BYTES == 0
    plain.close()
    with MappedFile(path) as found:
        assert (found._map is not None) == is_placed
