"""A saved file is the former one or the new one, whole, whatever happens while it is written."""

import os
import signal
import sys
from pathlib import Path
from typing import Any

import pytest

from sslm.artifact.saved_files import read_saved_file, write_saved_file
from sslm.errors.artifact import DiskFullError, UnwritableFileError
from sslm.errors.commands import OutputIsFolderError
from sslm.errors.reading import UnreadableFileError
from sslm.errors.runtime import MemoryBudgetError
from sslm.errors.saves import NotASaveError
from sslm.formats.saves.reader import read_save
from sslm.formats.saves.writer import encode_save
from tests.file_sizes import file_size_limit
from tests.saves import IDS_ONLY, MID_CHUNK, SAVED

FORMER, NEW = encode_save(IDS_ONLY), encode_save(MID_CHUNK)


def test_a_file_holds_what_was_saved(tmp_path: Path) -> None:
    path = tmp_path / "chat.sslmsave"
    write_saved_file(path, encode_save(SAVED))
    write_saved_file(path, NEW)
    found = read_saved_file(path)
    assert found == NEW
    assert read_save(found) == MID_CHUNK
    # Its own copy: the file may change.
    path.write_bytes(b"")
    assert found == NEW
    assert [entry.name for entry in tmp_path.iterdir()] == ["chat.sslmsave"]


def _killed_at(step: int, path: Path) -> bool:
    """Write in a child that kills itself at a step; return whether it came to its end before."""
    child = os.fork()
    if child:
        status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        assert status in {0, -signal.SIGKILL}
        return status == 0
    left = step

    def count(event: str, arguments: tuple[object, ...]) -> None:
        nonlocal left
        left -= 1
        if left == -1:
            os.kill(os.getpid(), signal.SIGKILL)

    try:
        # Python tells of everything it does with files but of writing and of syncing them.
        sys.addaudithook(count)
        sync = os.fsync

        def sync_and_count(fd: Any) -> None:
            count("before", ())
            sync(fd)
            count("after", ())

        os.fsync = sync_and_count
        write_saved_file(path, NEW)
        os._exit(0)
    finally:
        os._exit(1)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="a process that kills itself is a fork here")
def test_a_kill_at_every_step_leaves_the_former_file_or_the_new_one(tmp_path: Path) -> None:
    path = tmp_path / "a"
    found = []
    for step in range(200):
        write_saved_file(path, FORMER)
        is_done = _killed_at(step, path)
        content = path.read_bytes()
        assert content in {FORMER, NEW}
        found.append(content)
        if is_done:
            break
    else:
        raise AssertionError("it never came to its end")
    # It was killed before and after the step that makes the new file the one.
    assert len(found) > 8
    assert found[0] == FORMER
    assert found[-2:] == [NEW, NEW]
    write_saved_file(path, NEW)
    assert [entry.name for entry in tmp_path.iterdir()] == ["a"]


def test_a_full_disk_leaves_the_former_file(tmp_path: Path) -> None:
    path = tmp_path / "a"
    write_saved_file(path, FORMER)
    for room in (0, 1, len(NEW) - 1):
        with file_size_limit(room), pytest.raises(DiskFullError) as caught:
            write_saved_file(path, NEW)
        assert caught.value.path == str(path)
        assert path.read_bytes() == FORMER
        assert [entry.name for entry in tmp_path.iterdir()] == ["a"]
    with file_size_limit(len(NEW)):
        write_saved_file(path, NEW)
    assert path.read_bytes() == NEW


def test_places_that_take_no_file(tmp_path: Path) -> None:
    with pytest.raises(UnwritableFileError):
        write_saved_file(tmp_path / "absent" / "a", NEW)
    with pytest.raises(OutputIsFolderError):
        write_saved_file(tmp_path, NEW)


def test_what_is_no_save_is_not_read(tmp_path: Path) -> None:
    for content in (b"", b"SSLMSAV", b"SSLM" * 4):
        (tmp_path / "a").write_bytes(content)
        with pytest.raises(NotASaveError) as caught:
            read_saved_file(tmp_path / "a")
        assert caught.value.found == content[:8]
    with pytest.raises(UnreadableFileError):
        read_saved_file(tmp_path)
    with pytest.raises(UnreadableFileError):
        read_saved_file(tmp_path / "absent")
    with pytest.raises(UnreadableFileError):
        read_saved_file("a\0b")


def test_a_file_may_have_a_largest_size(tmp_path: Path) -> None:
    path = tmp_path / "a"
    with path.open("wb") as file:
        file.write(NEW)
        file.truncate(1 << 40)
    with pytest.raises(MemoryBudgetError) as caught:
        read_saved_file(path, size_at_most_bytes=len(NEW))
    assert (caught.value.needed_bytes, caught.value.limit_bytes) == (1 << 40, len(NEW))
    write_saved_file(path, NEW)
    assert read_saved_file(path, size_at_most_bytes=len(NEW)) == NEW
