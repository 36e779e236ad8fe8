"""The cache: what is in it, who works in it, and what an accident leaves."""

import os
import shutil
import signal
import stat
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

import pytest

import sslm
from sslm.artifact import own_folder
from sslm.artifact.work_folder import OWNER_NAME
from sslm.catalog.cache import Cache, cache_folder, conversion_key
from sslm.errors.artifact import UnwritableFileError
from sslm.errors.catalog import CacheBusyError, CacheFolderError, ModelNameError
from sslm.errors.commands import OutputNotFileError
from tests.special_files import KINDS, kind_of, make_special

LEFTOVER = "job.0123456789ab.work"
KEY = "0123456789abcdef"
OTHER_KEY = "fedcba9876543210"
THIRD_KEY = "00000000000000aa"


class StopWaitingError(Exception):
    """Ends a wait."""


HOLD = (
    "import sys; from pathlib import Path; from sslm.catalog.cache import Cache\n"
    "with Cache(Path(sys.argv[1])).work_folder('theirs') as folder:\n"
    "    (folder / 'half').write_bytes(b'half a model')\n"
    "    print(folder, flush=True)\n"
    "    sys.stdin.read()\n"
)


def hold(cache: Cache, program: str = HOLD) -> "subprocess.Popen[bytes]":
    """Start a process that works in a cache until its stdin ends."""
    return subprocess.Popen(
        [sys.executable, "-c", program, str(cache.folder)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env=os.environ | {"PYTHONPATH": str(Path(str(sslm.__file__)).parents[1])},
    )


def _keep(cache: Cache, name: str, key: str, *, source: str = "") -> Path:
    with cache.work_folder() as folder:
        (folder / "draft").write_bytes(b"model")
        origin = {"sha256": source}
        return cache.keep(folder / "draft", name, key, origin=origin, is_successor=True).path


def test_the_folder_is_what_is_asked_for_first(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    assert cache_folder().name == "sslm"
    monkeypatch.setenv("SSLM_CACHE_DIR", str(tmp_path))
    assert cache_folder() == tmp_path
    assert cache_folder(tmp_path / "other") == tmp_path / "other"


def test_a_key_stands_for_source_and_options() -> None:
    key = conversion_key("ab", {"weights": "int8"})
    assert len(key) == 16
    assert key == conversion_key("ab", {"weights": "int8"})
    assert key != conversion_key("ac", {"weights": "int8"})
    assert key != conversion_key("ab", {"weights": "int4"})


def test_an_empty_cache_has_no_models_and_no_folder(cache: Cache) -> None:
    assert cache.models() == []
    assert cache.find("a") is None
    assert not cache.folder.exists()


def test_a_kept_model_is_found_by_name_and_key(cache: Cache) -> None:
    path = _keep(cache, "a", KEY)
    assert path == cache.folder / "models" / f"a-{KEY}.sslm"
    assert path.read_bytes() == b"model"
    found = cache.find("a", KEY)
    assert found is not None
    assert (found.name, found.key, found.path, found.size_bytes) == ("a", KEY, path, 5)
    assert cache.find("a") == found
    assert cache.find("a", OTHER_KEY) is None
    assert cache.find("b") is None


def test_the_newest_of_a_name_comes_first(cache: Cache) -> None:
    old, new = _keep(cache, "a", OTHER_KEY), _keep(cache, "a", KEY)
    os.utime(old, ns=(1, 1))
    os.utime(new, ns=(2, 2))
    found = cache.find("a")
    assert found is not None
    assert found.path == new


def test_a_conversion_replaces_others_of_its_source_and_no_more(cache: Cache) -> None:
    for name, key, source in (("a", OTHER_KEY, "x"), ("b", OTHER_KEY, "x"), ("a", THIRD_KEY, "y")):
        _keep(cache, name, key, source=source)
    _keep(cache, "a", KEY, source="x")
    found = [(model.name, model.key) for model in cache.models()]
    assert found == [("a", KEY), ("a", THIRD_KEY), ("b", OTHER_KEY)]


def test_a_name_means_what_was_kept_last_whatever_the_clock_says(cache: Cache) -> None:
    old = _keep(cache, "a", OTHER_KEY)
    # Far ahead, as a clock that was wrong leaves it.
    os.utime(old, ns=(1 << 62, 1 << 62))
    new = _keep(cache, "a", KEY)
    assert [model.path for model in cache.models()] == [new, old]


def test_other_files_are_no_models(cache: Cache) -> None:
    path = _keep(cache, "a", KEY)
    for name in ("a.sslm", f"a-{KEY}", f"-{KEY}.sslm", "a-xyz.sslm", "notes.txt"):
        path.with_name(name).write_bytes(b"")
    path.with_name(f"folder-{KEY}.sslm").mkdir()
    assert [model.path for model in cache.models()] == [path]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("ending", [".sslm", ".origin.json"])
def test_nothing_but_a_file_is_replaced(kind: str, ending: str, cache: Cache) -> None:
    place = cache.folder / "models" / f"a-{KEY}{ending}"
    place.parent.mkdir(parents=True)
    make_special(kind, place)
    before = kind_of(place)
    with cache.work_folder() as folder:
        # A note without a model is a leftover, and gone by now.
        if not os.path.lexists(place):
            make_special("a pipe", place)
            before = kind_of(place)
        (folder / "draft").write_bytes(b"model")
        with pytest.raises(OutputNotFileError):
            cache.keep(folder / "draft", "a", KEY, origin={"kind": "file"})
    assert kind_of(place) == before


def test_a_path_is_no_name(cache: Cache) -> None:
    with pytest.raises(ModelNameError):
        cache.path_of("../a", KEY)


def test_the_work_folder_is_gone_afterwards(cache: Cache) -> None:
    def interrupted() -> None:
        with cache.work_folder() as folder:
            (folder / "half").write_bytes(b"half a model")
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert sorted(path.name for path in cache.folder.iterdir()) == ["lock", "models"]
    assert cache.models() == []


def test_what_a_killed_process_left_is_removed(cache: Cache) -> None:
    left = cache.folder / "work" / LEFTOVER
    left.mkdir(parents=True)
    (left / OWNER_NAME).write_bytes(b"")
    (left / "half").write_bytes(b"half a model")
    with cache.work_folder() as folder:
        assert list(folder.parent.iterdir()) == [folder]


def test_what_others_keep_in_the_cache_stays(cache: Cache) -> None:
    """A folder that serves for something else too may have entries of the same names."""
    others = {
        cache.folder / "work" / "thesis" / "text.tex": b"precious",
        cache.folder / "work" / LEFTOVER / "mine": b"no lock of ours beside it",
        cache.folder / "work" / "notes": b"precious",
        cache.folder / "models" / "notes": b"precious",
    }
    for path, content in others.items():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
    assert _keep(cache, "a", KEY).read_bytes() == b"model"
    cache.tidy()
    assert {path: path.read_bytes() for path in others} == others


LINKED_PLACES = {
    "work": "work",
    "models": "models",
    "lock": "lock",
    "a leftover": f"work/{LEFTOVER}",
    "what a leftover holds": f"work/{LEFTOVER}/linked",
    "a leftover's lock": f"work/{LEFTOVER}/{OWNER_NAME}",
    "a model": f"models/b-{KEY}.sslm",
    "a note": f"models/b-{KEY}.origin.json",
}


def _victim(kind: str, folder: Path) -> Path:
    """Make what somebody else keeps elsewhere; return what a link is to lead to."""
    folder.mkdir()
    (folder / "file").write_bytes(b"precious")
    (folder / f"b-{KEY}.origin.json").write_bytes(b"precious")
    (folder / LEFTOVER).mkdir()
    for place in (folder, folder / LEFTOVER):
        (place / OWNER_NAME).write_bytes(b"precious")
    return {"a folder": folder, "a file": folder / "file", "nothing": folder / "none"}[kind]


def _tree(folder: Path) -> dict[str, bytes | None]:
    return {
        str(path.relative_to(folder)): path.read_bytes() if path.is_file() else None
        for path in sorted(folder.rglob("*"))
    }


@pytest.fixture(params=[True, False], ids=["descriptors", "paths"])
def _both_ways(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Go both ways, as systems without descriptors of folders have only the second."""
    monkeypatch.setattr(own_folder, "_HAS_DESCRIPTORS", request.param)


@pytest.mark.usefixtures("_both_ways")
@pytest.mark.parametrize("kind", ["a folder", "a file", "nothing"])
@pytest.mark.parametrize("place", LINKED_PLACES.values(), ids=LINKED_PLACES)
def test_no_link_in_the_cache_is_followed(
    place: str, kind: str, cache: Cache, tmp_path: Path
) -> None:
    victim = tmp_path / "victim"
    target = _victim(kind, victim)
    link = cache.folder / place
    link.parent.mkdir(parents=True)
    if place.endswith("/linked"):
        (link.parent / OWNER_NAME).write_bytes(b"")
    link.symlink_to(target)
    before = _tree(victim)
    if place in ("work", "models", "lock"):
        with pytest.raises(UnwritableFileError) as caught:
            _keep(cache, "a", KEY)
        assert caught.value.path == str(cache.folder)
        assert place == "lock" or f"{place} in it is a link" in str(caught.value)
    else:
        assert _keep(cache, "a", KEY).read_bytes() == b"model"
    cache.tidy()
    assert _tree(victim) == before
    # The link itself stays, unless it lies in what a killed process of ours left.
    assert link.is_symlink() is not place.endswith("/linked")


def test_the_whole_cache_may_be_a_link(cache: Cache, tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere"
    cache.folder.symlink_to(elsewhere)
    with pytest.raises(UnwritableFileError, match="it is a link to nothing"):
        _keep(cache, "a", KEY)
    elsewhere.mkdir()
    _keep(cache, "a", KEY)
    assert (elsewhere / "models" / f"a-{KEY}.sslm").read_bytes() == b"model"
    found = cache.find("a")
    assert found is not None
    with cache.locked("a test"):
        cache.remove(found)
    assert sorted(path.name for path in elsewhere.iterdir()) == ["lock", "models"]
    assert cache.models() == []


@pytest.mark.parametrize(
    ("said", "makes"),
    [
        ("a second name of another file", lambda lock, other: lock.hardlink_to(other)),
        ("a file of something else", lambda lock, other: lock.write_bytes(other.read_bytes())),
    ],
)
def test_a_lock_that_holds_something_else_is_not_written(
    said: str, makes: Callable[[Path, Path], object], cache: Cache, tmp_path: Path
) -> None:
    precious = tmp_path / "precious"
    precious.write_bytes(b"precious")
    cache.folder.mkdir()
    makes(cache.folder / "lock", precious)
    with pytest.raises(UnwritableFileError, match=said), cache.locked("a test"):
        raise AssertionError("locked all the same")
    cache.tidy()
    assert precious.read_bytes() == (cache.folder / "lock").read_bytes() == b"precious"


def test_one_waits_while_another_process_works(cache: Cache) -> None:
    waits: list[tuple[int, str]] = []

    def stop(waited_s: int, holder: str) -> None:
        waits.append((waited_s, holder))
        raise StopWaitingError

    with hold(cache) as other:
        assert other.stdout is not None
        assert other.stdout.readline()
        with pytest.raises(StopWaitingError), cache.work_folder("mine", stop):
            raise AssertionError("two processes work in one cache")
        # However the other one ends, its lock ends with it.
        other.kill()
        other.wait()
    with cache.work_folder("mine", stop):
        assert waits == [(0, f"process {other.pid}, working on theirs")]


FORK_AND_DIE = (
    "import os, signal, sys; from pathlib import Path; from sslm.catalog.cache import Cache\n"
    "with Cache(Path(sys.argv[1])).work_folder('theirs') as folder:\n"
    "    (folder / 'half').write_bytes(b'half a model')\n"
    "    if os.fork():\n"
    "        os.kill(os.getpid(), signal.SIGKILL)\n"
    "    print(folder, flush=True)\n"
    "    sys.stdin.read()\n"
    "    os._exit(0)\n"
)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no forks")
def test_a_fork_does_not_hold_the_lock_of_its_dead_parent(cache: Cache) -> None:
    def stop(waited_s: int, holder: str) -> None:
        raise StopWaitingError(holder)

    with hold(cache, FORK_AND_DIE) as other:
        assert other.stdout is not None
        left = Path(os.fsdecode(other.stdout.readline().rstrip()))
        assert other.wait() == -9
        with cache.work_folder("mine", stop):
            assert not left.exists()
        assert other.stdin is not None
        other.stdin.close()


KILLED_WHILE_FETCHING = (
    "import os, sys; from pathlib import Path; from sslm.catalog.cache import Cache\n"
    "from sslm.catalog.child_process import child_process\n"
    "with Cache(Path(sys.argv[1])).work_folder('theirs') as folder:\n"
    "    program = folder / 'child.py'\n"
    "    program.write_text('import time; time.sleep(600)')\n"
    "    with child_process([str(program)], folder=folder, log=folder / 'log',\n"
    "                       environment=os.environ, file_size_bytes_max=1000):\n"
    "        print(folder, flush=True)\n"
    "        sys.stdin.read()\n"
)


@pytest.mark.parametrize("is_stopped", [False, True], ids=["alive", "stopped"])
def test_a_child_does_not_hold_the_lock_of_its_dead_parent(is_stopped: bool, cache: Cache) -> None:
    def stop(waited_s: int, holder: str) -> None:
        raise StopWaitingError(holder)

    with hold(cache, KILLED_WHILE_FETCHING) as other:
        assert other.stdout is not None
        left = Path(os.fsdecode(other.stdout.readline().rstrip()))
        if is_stopped and os.name == "posix":
            other.send_signal(signal.SIGSTOP)
        other.kill()
        other.wait()
        with cache.work_folder("mine", stop):
            assert not left.exists()


@pytest.mark.skipif(sys.platform == "win32", reason="no modes of files")
def test_a_lock_is_shared_as_the_umask_says(cache: Cache) -> None:
    before = os.umask(0o002)
    try:
        with cache.locked("a test"):
            assert stat.S_IMODE((cache.folder / "lock").stat().st_mode) == 0o664
    finally:
        os.umask(before)


@pytest.mark.skipif(
    sys.platform == "win32" or os.geteuid() != 0, reason="only root becomes another user"
)
def test_a_lock_that_another_user_closed_says_what_to_do() -> None:
    # Other users cannot enter the usual folders of tests.
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        folder.chmod(0o777)
        (folder / "models").mkdir()
        (folder / "lock").touch(0o600)
        os.seteuid(65_534)
        try:
            with pytest.raises(UnwritableFileError) as caught, Cache(folder).locked("a test"):
                raise AssertionError("locked all the same")
        finally:
            os.seteuid(0)
    assert "lock in it belongs to user 0 and has the mode 0600; let that" in str(caught.value)


def test_a_cache_that_cannot_be_written_has_its_own_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(UnwritableFileError), Cache(tmp_path / "file").work_folder():
        raise AssertionError("a file served as a folder")


def test_a_lock_that_is_removed_while_held_costs_nobody_their_work(cache: Cache) -> None:
    with hold(cache) as other:
        assert other.stdout is not None
        theirs = Path(os.fsdecode(other.stdout.readline().rstrip()))
        (cache.folder / "lock").unlink()
        assert _keep(cache, "mine", KEY).read_bytes() == b"model"
        cache.tidy()
        assert (theirs / "half").read_bytes() == b"half a model"
        other.communicate(b"")
    cache.tidy()
    assert sorted(path.name for path in cache.folder.iterdir()) == ["lock", "models"]


def test_a_holder_that_does_not_end_is_named(cache: Cache, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sslm.catalog.cache.WAIT_S_MAX", 1)
    with hold(cache) as other:
        assert other.stdout is not None
        other.stdout.readline()
        with pytest.raises(CacheBusyError) as caught, cache.work_folder():
            raise AssertionError("two processes work in one cache")
        assert caught.value.holder == f"process {other.pid}, working on theirs"
        assert "another --cache-dir" in str(caught.value)
        # Another cache is nobody's business.
        assert _keep(Cache(cache.folder.with_name("second")), "mine", KEY).exists()
        other.communicate(b"")


@pytest.mark.parametrize("note", [b"", b"\xff", b"steer\x1b[2J", b"two\nlines"])
def test_a_note_of_the_holder_cannot_steer_the_terminal(note: bytes, cache: Cache) -> None:
    with cache.locked("a test"):
        (cache.folder / "lock").write_bytes(note)
        waits: list[str] = []

        def stop(waited_s: int, holder: str) -> None:
            waits.append(holder)
            raise StopWaitingError

        with pytest.raises(StopWaitingError), cache.locked("another", stop):
            raise AssertionError("locked twice")
        assert waits[0].isprintable()


def test_a_cache_that_disappears_is_an_error_by_name(cache: Cache) -> None:
    with cache.work_folder() as folder:
        (folder / "draft").write_bytes(b"model")
        shutil.rmtree(cache.folder)
        with pytest.raises(UnwritableFileError):
            cache.keep(folder / "draft", "a", KEY)
    assert not cache.folder.exists()


def test_a_cache_that_cannot_be_written_can_be_read(
    cache: Cache, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = _keep(cache, "a", KEY)
    (cache.folder / "work").mkdir()

    def refuse(*_: object) -> int:
        raise PermissionError(13, "Permission denied")

    # Permissions do not bind the user who may do anything.
    monkeypatch.setattr("sslm.catalog.cache.open_lock_file", refuse)
    cache.tidy()
    found = cache.find("a", KEY)
    assert found is not None
    assert found.path == path
    with pytest.raises(UnwritableFileError), cache.work_folder():
        raise AssertionError("written all the same")


def test_without_a_home_the_cache_has_to_be_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.path.expanduser", lambda path: path)
    for name in ("XDG_CACHE_HOME", "SSLM_CACHE_DIR"):
        monkeypatch.delenv(name, raising=False)
    if sys.platform == "linux":
        with pytest.raises(CacheFolderError, match="SSLM_CACHE_DIR"):
            cache_folder()
    with pytest.raises(CacheFolderError):
        cache_folder("a\0b")
