"""A folder of ours: no link on the way to what is removed leads elsewhere."""

import os
import stat
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest

from sslm.artifact import own_folder
from sslm.artifact.atomic_file import atomic_file
from sslm.artifact.own_folder import OwnFolder, is_link, is_own_file, is_own_folder
from sslm.artifact.work_folder import OWNER_NAME, sweep, work_folder

LEFTOVER = ".out.sslm.0123456789ab.work"


@pytest.fixture(params=[True, False], ids=["descriptors", "paths"], autouse=True)
def _way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Go both ways, as systems without descriptors of folders have only the second."""
    monkeypatch.setattr(own_folder, "_HAS_DESCRIPTORS", request.param)


@pytest.fixture
def victim(tmp_path: Path) -> Path:
    folder = tmp_path / "victim"
    folder.mkdir()
    (folder / "file").write_bytes(b"precious")
    (folder / OWNER_NAME).write_bytes(b"precious")
    return folder


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def found(mode: int, tag: int) -> os.stat_result:
    """Return what lstat finds on Windows, of which this test needs two fields."""
    return cast(os.stat_result, SimpleNamespace(st_mode=mode, st_reparse_tag=tag))


@pytest.mark.parametrize(
    ("mode", "tag", "expected"),
    [
        (stat.S_IFDIR, 0, (False, False, True)),
        (stat.S_IFREG, 0, (False, True, False)),
        (stat.S_IFDIR, 0xA000_0003, (True, False, False)),  # a junction
        (stat.S_IFLNK, 0xA000_000C, (True, False, False)),  # a symbolic link
        (stat.S_IFREG, 0x9000_001A, (False, True, False)),  # a file whose content is in a cloud
    ],
)
def test_a_junction_counts_as_a_link(mode: int, tag: int, expected: tuple[bool, ...]) -> None:
    status = found(mode, tag)
    assert (is_link(status), is_own_file(status), is_own_folder(status)) == expected


@pytest.mark.skipif(sys.platform != "win32", reason="junctions are of Windows")
def test_a_real_junction_is_not_followed(tmp_path: Path, victim: Path) -> None:
    import _winapi

    junction = tmp_path / LEFTOVER
    _winapi.CreateJunction(str(victim), str(junction))  # type: ignore[attr-defined]
    assert is_link(os.lstat(junction))
    sweep(tmp_path, ".out.sslm.")
    with pytest.raises(OSError, match="is a link"):
        OwnFolder(junction)
    assert names(victim) == ["file", OWNER_NAME]


@pytest.mark.parametrize("inside", [False, True], ids=["the folder", "an entry of it"])
def test_what_a_leftover_links_to_stays(inside: bool, tmp_path: Path, victim: Path) -> None:
    left = tmp_path / LEFTOVER
    if inside:
        left.mkdir()
        (left / OWNER_NAME).write_bytes(b"")
        (left / "deep").mkdir()
        (left / "deep" / "linked").symlink_to(victim)
        (left / "linked").symlink_to(victim)
        (left / "file").hardlink_to(victim / "file")
    else:
        left.symlink_to(victim)
    sweep(tmp_path, ".out.sslm.")
    assert left.is_symlink() is not inside
    assert left.exists() is not inside
    assert {path.name: path.read_bytes() for path in victim.iterdir()} == {
        "file": b"precious",
        OWNER_NAME: b"precious",
    }


def test_a_folder_that_is_exchanged_for_a_link_meanwhile_keeps_its_target(
    tmp_path: Path, victim: Path
) -> None:
    with work_folder(tmp_path, ".out.sslm.") as folder:
        folder.rename(tmp_path / "moved")
        folder.symlink_to(victim)
    assert names(victim) == ["file", OWNER_NAME]
    assert folder.is_symlink()


@pytest.mark.parametrize("kind", ["a link", "a pipe", "a folder"])
def test_only_files_are_leftovers_of_a_file(kind: str, tmp_path: Path, victim: Path) -> None:
    left = tmp_path / ".out.0123456789ab.partial"
    if kind == "a link":
        left.symlink_to(victim / "file")
    elif kind == "a folder":
        left.mkdir()
    else:
        os.mkfifo(left)
    with atomic_file(tmp_path / "out") as file:
        file.write(b"mine")
    assert names(tmp_path) == [left.name, "out", "victim"]
    assert (victim / "file").read_bytes() == b"precious"


def test_only_empty_folders_and_plain_files_are_removed(tmp_path: Path, victim: Path) -> None:
    (tmp_path / "link").symlink_to(victim)
    (tmp_path / "empty").mkdir()
    (tmp_path / "file").write_bytes(b"")
    with OwnFolder(tmp_path) as folder:
        for name in folder.names():
            folder.remove_file(name)
        folder.remove_empty_folder("link")
        folder.remove_empty_folder("empty")
        with pytest.raises(OSError, match="not empty"):
            folder.remove_empty_folder("victim")
    assert names(tmp_path) == ["link", "victim"]
