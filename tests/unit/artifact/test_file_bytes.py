"""Copies of files."""

import errno
import os
from pathlib import Path

import pytest

from sslm.artifact import file_bytes
from sslm.artifact.file_bytes import CopiedFile
from sslm.errors.artifact import CopyMemoryError
from sslm.errors.reading import UnreadableFileError
from sslm.errors.status import Status
from tests.causes import raises


def test_content_is_copied_and_read_only(tmp_path: Path) -> None:
    path = tmp_path / "a"
    path.write_bytes(bytes(range(256)) * 1000)
    copied = CopiedFile(path)
    path.write_bytes(b"")
    assert copied.view == bytes(range(256)) * 1000
    assert copied.view.readonly
    copied.close()
    copied.close()


def test_empty_file(tmp_path: Path) -> None:
    path = tmp_path / "a"
    path.write_bytes(b"")
    assert CopiedFile(path).view.nbytes == 0


def test_what_is_no_regular_file(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    for path in (tmp_path, pipe, tmp_path / "none"):
        with pytest.raises(UnreadableFileError):
            CopiedFile(path)


@pytest.mark.published_call(
    "sslm_model_map", refusal="SSLM_ALLOCATION_FAILED", here="CopyMemoryError"
)
def test_no_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "a"
    path.write_bytes(b"abc")

    def refuse(size_bytes: int) -> None:
        raise OSError(errno.ENOMEM, "Cannot allocate memory")

    monkeypatch.setattr(file_bytes, "anonymous_memory", refuse)
    with pytest.raises(CopyMemoryError):
        CopiedFile(path)


def test_file_that_becomes_shorter(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "a"
    path.write_bytes(b"abc")
    reserve = file_bytes._memory_for

    def shorten(name: str, size_bytes: int) -> object:
        path.write_bytes(b"a")
        return reserve(name, size_bytes)

    monkeypatch.setattr(file_bytes, "_memory_for", shorten)
    with raises(Status.TRUNCATED_FILE):
        CopiedFile(path)
