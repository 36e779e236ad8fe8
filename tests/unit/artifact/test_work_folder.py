"""Unfinished files: gone when their maker ends, and never taken from one that is alive."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

import sslm
from sslm.artifact import atomic_file as atomic_file_module
from sslm.artifact.atomic_file import atomic_file
from sslm.artifact.file_lock import try_lock
from sslm.artifact.own_folder import OwnFolder
from sslm.artifact.work_folder import OWNER_NAME, sweep, work_folder
from sslm.errors.artifact import StorageFailedError, UnwritableFileError

PREFIX = ".out.sslm."
HOLD_FOLDER = """
import sys
from pathlib import Path
from sslm.artifact.work_folder import work_folder
with work_folder(Path(sys.argv[1]), ".out.sslm.") as folder:
    (folder / "half").write_bytes(b"half")
    (folder / "deep").mkdir()
    print(folder, flush=True)
    sys.stdin.read()
"""
HOLD_FILE = """
import sys
from sslm.artifact.atomic_file import atomic_file
with atomic_file(sys.argv[1]) as file:
    file.write(b"half")
    file.flush()
    print("open", flush=True)
    sys.stdin.read()
"""


def hold(program: str, place: Path) -> "subprocess.Popen[bytes]":
    """Start a process that has made something unfinished when it prints a line."""
    return subprocess.Popen(
        [sys.executable, "-c", program, str(place)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env=os.environ | {"PYTHONPATH": str(Path(str(sslm.__file__)).parents[1])},
    )


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_a_folder_is_gone_afterwards(tmp_path: Path) -> None:
    with work_folder(tmp_path, PREFIX) as folder:
        assert folder.parent == tmp_path
        assert names(folder) == [OWNER_NAME]
        (folder / "file").write_bytes(b"")
    assert names(tmp_path) == []


@contextmanager
def limited_descriptors(limit: int = 3) -> Iterator[None]:
    """Let every open of this process fail that would get the number *limit* or a higher one."""
    resource = pytest.importorskip("resource", reason="limits of POSIX")
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (limit, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def test_what_cannot_be_removed_for_want_of_descriptors_is_removed_next(tmp_path: Path) -> None:
    stack = ExitStack()
    folder = stack.enter_context(work_folder(tmp_path, PREFIX))
    (folder / "half").write_bytes(b"half")
    with limited_descriptors():
        stack.close()
    assert names(tmp_path) == [folder.name]
    assert names(folder) == ["half", OWNER_NAME]
    with work_folder(tmp_path, PREFIX) as next_folder:
        assert names(tmp_path) == [next_folder.name]
    assert names(tmp_path) == []


def test_an_empty_folder_is_removed_without_a_descriptor(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    with OwnFolder(tmp_path) as place, limited_descriptors():
        place.remove("empty")
    assert names(tmp_path) == []


def test_a_folder_that_cannot_be_opened_is_not_left(tmp_path: Path) -> None:
    free = os.open(tmp_path, os.O_RDONLY)
    os.close(free)
    # One for the place, and none for the new folder in it.
    with (
        limited_descriptors(free + 1),
        pytest.raises(StorageFailedError),
        work_folder(tmp_path, PREFIX),
    ):
        pytest.fail("it was made")
    assert names(tmp_path) == []


def test_only_the_folder_of_a_killed_process_is_removed(tmp_path: Path) -> None:
    with hold(HOLD_FOLDER, tmp_path) as killed, hold(HOLD_FOLDER, tmp_path) as alive:
        for process in (killed, alive):
            assert process.stdout is not None
        left = killed.stdout and Path(os.fsdecode(killed.stdout.readline().rstrip()))
        kept = alive.stdout and Path(os.fsdecode(alive.stdout.readline().rstrip()))
        killed.send_signal(signal.SIGKILL)
        killed.wait()
        assert left
        assert kept
        assert names(tmp_path) == sorted([left.name, kept.name])
        sweep(tmp_path, PREFIX)
        assert names(tmp_path) == [kept.name]
        assert names(kept) == ["deep", "half", OWNER_NAME]
        alive.communicate(b"")
    assert names(tmp_path) == []


def test_what_only_looks_like_a_leftover_stays(tmp_path: Path) -> None:
    (tmp_path / f"{PREFIX}0123456789ab.work").mkdir()
    (tmp_path / f"{PREFIX}0123456789ab.work" / "mine").write_bytes(b"")
    (tmp_path / f"{PREFIX}mine").mkdir()
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / OWNER_NAME).write_bytes(b"")
    (tmp_path / f"{PREFIX}0123456789cd.work").symlink_to(elsewhere)
    before = names(tmp_path)
    sweep(tmp_path, PREFIX)
    assert names(tmp_path) == before
    assert names(elsewhere) == [OWNER_NAME]


def test_an_empty_leftover_is_removed(tmp_path: Path) -> None:
    (tmp_path / f"{PREFIX}0123456789ab.work").mkdir()
    sweep(tmp_path, PREFIX)
    assert names(tmp_path) == []


def test_a_place_that_is_no_folder_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"")
    with (
        pytest.raises(UnwritableFileError, match=r"out\.sslm"),
        work_folder(tmp_path / "file", PREFIX, purpose=tmp_path / "out.sslm"),
    ):
        raise AssertionError("a file served as a folder")


def test_the_unfinished_file_of_a_killed_process_is_removed(tmp_path: Path) -> None:
    target = tmp_path / "out"
    with hold(HOLD_FILE, target) as killed, hold(HOLD_FILE, target) as alive:
        for process in (killed, alive):
            assert process.stdout is not None
            process.stdout.readline()
        killed.send_signal(signal.SIGKILL)
        killed.wait()
        assert len(names(tmp_path)) == 2
        with atomic_file(target) as file:
            file.write(b"mine")
        assert target.read_bytes() == b"mine"
        assert len(names(tmp_path)) == 2
        alive.communicate(b"")
    assert names(tmp_path) == ["out"]
    assert target.read_bytes() == b"half"


def test_a_file_that_is_taken_for_a_leftover_at_once_gets_another_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Before its lock is had, another process may remove it, or hold the lock to do so."""
    taken: list[int] = []

    def lock_after_another(file: int) -> bool:
        left = next(tmp_path.glob(".out.*"))
        if not taken:
            left.unlink()
        elif len(taken) == 1:
            taken.append(os.open(left, os.O_RDWR))
            assert try_lock(taken[-1])
        taken.append(file)
        return try_lock(file)

    monkeypatch.setattr(atomic_file_module, "try_lock", lock_after_another)
    with atomic_file(tmp_path / "out") as file:
        file.write(b"mine")
    os.close(taken[1])
    assert len(taken) == 4
    assert names(tmp_path) == ["out"]
    assert (tmp_path / "out").read_bytes() == b"mine"


@pytest.mark.skipif(os.name != "posix", reason="renames a file that is open")
def test_a_finished_file_is_no_leftover_until_it_has_its_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    target = tmp_path / "out"
    replace = Path.replace

    def replace_after_another(path: Path, target: Path) -> Path:
        monkeypatch.setattr(Path, "replace", replace)
        with atomic_file(target) as file:
            file.write(b"another")
        assert target.read_bytes() == b"another"
        return path.replace(target)

    monkeypatch.setattr(Path, "replace", replace_after_another)
    with atomic_file(target) as file:
        file.write(b"mine")
    assert names(tmp_path) == ["out"]
    assert target.read_bytes() == b"mine"


def test_a_leftover_that_cannot_be_removed_keeps_none_of_the_others(tmp_path: Path) -> None:
    for digit in "0123":
        folder = tmp_path / f"{PREFIX}0123456789a{digit}.work"
        folder.mkdir()
        if digit in "12":
            (folder / OWNER_NAME).symlink_to(tmp_path)
    sweep(tmp_path, PREFIX)
    assert names(tmp_path) == [f"{PREFIX}0123456789a{digit}.work" for digit in "12"]
