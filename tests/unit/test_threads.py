"""Threads and locks that cannot be had."""

import _thread
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from sslm.errors.native import ThreadStartError
from sslm.threads import new_lock, new_reentrant_lock, open_file, start_thread


def test_a_thread_runs_and_its_end_is_told() -> None:
    seen: list[str] = []
    has_ended = threading.Event()
    start_thread(lambda: seen.append("run"), has_ended.set)
    assert has_ended.wait(60)
    assert seen == ["run"]


def test_a_thread_that_finds_no_memory_ends_quietly(capfd: pytest.CaptureFixture[str]) -> None:
    def run() -> None:
        raise MemoryError

    has_ended = threading.Event()
    start_thread(run, has_ended.set)
    assert has_ended.wait(60)
    assert capfd.readouterr().err == ""


def test_the_end_is_told_of_a_thread_that_never_ran(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_thread, "start_new_thread", lambda run, facts: 0)
    has_ended = threading.Event()
    start_thread(lambda: None, has_ended.set)
    assert has_ended.is_set()


def test_a_refused_thread_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(run: object, facts: object) -> int:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(_thread, "start_new_thread", refuse)
    with pytest.raises(ThreadStartError):
        start_thread(lambda: None, lambda: None)


@pytest.mark.parametrize(("name", "make"), [("Lock", new_lock), ("RLock", new_reentrant_lock)])
def test_a_lock_that_finds_no_memory_says_so(
    name: str, make: Callable[[], object], monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse() -> object:
        raise RuntimeError("can't allocate lock")

    monkeypatch.setattr(threading, name, refuse)
    with pytest.raises(MemoryError, match="can't allocate lock"):
        make()


def test_a_file_whose_buffer_finds_no_lock_is_a_lack_of_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(self: Path, mode: str) -> None:
        raise RuntimeError("can't allocate read lock")

    with open_file(tmp_path / "file", "xb") as file:
        file.write(b"a")
    monkeypatch.setattr(Path, "open", fail)
    with pytest.raises(MemoryError, match="can't allocate read lock"):
        open_file(tmp_path / "file", "rb")
