"""Files of answers: gone on with, or refused and not touched."""

import errno
import hashlib
import os
import resource
from collections.abc import Iterator
from pathlib import Path

import pytest

from sslm import limits
from sslm.errors.artifact import DiskFullError, StorageFailedError, UnwritableFileError
from sslm.errors.base import SslmError
from sslm.errors.batches import BatchBusyError, BatchOutputMismatchError
from sslm.errors.commands import OutputIsFolderError, OutputNotFileError
from sslm.serving.batch_output import BatchOutput

HEADS = [
    b'{"id": "%d", "sslm": {"model_id": "m", "arithmetic_version": 1, "job": "j", "request": "r%d"'
    % (n, n)
    for n in range(4)
]
TAILS = [
    b', "seed": 1}, "response": {"status_code": 200, "a": "x"}}\n',
    b'}, "response": {"status_code": 400, "a": "y"}}\n',
    b', "seed": 1}, "response": {"status_code": 200, "long": "' + b"z" * 200_000 + b'"}}\n',
    b'}, "response": {"status_code": 400, "a": "\\"status_code\\": 200"}}\n',
]
LINES = [head + tail for head, tail in zip(HEADS, TAILS, strict=True)]
WHOLE = b"".join(LINES)


def finish(path: Path) -> tuple[int, int, int]:
    """Write what is missing; return how many lines there were before, and are, and are refused."""
    with BatchOutput(path) as output:
        output.resume(iter(HEADS))
        before = output.written.rows
        for line in LINES[before:]:
            output.append(line, refused=b'"status_code": 400' in line)
        assert output.sha256() == hashlib.sha256(WHOLE).hexdigest()
        return before, output.written.rows, output.written.refused


def test_a_file_is_made_and_gone_on_with(tmp_path: Path) -> None:
    path = tmp_path / "out"
    assert finish(path) == (0, 4, 2)
    assert path.read_bytes() == WHOLE
    assert finish(path) == (4, 4, 2)
    assert path.read_bytes() == WHOLE


def test_the_beginning_of_a_line_is_cut_off(tmp_path: Path) -> None:
    path = tmp_path / "out"
    ends = [sum(map(len, LINES[:count])) for count in range(5)]
    for size in sorted({*range(0, 400, 7), *ends, ends[2] + 70_000, ends[3] - 1, len(WHOLE) - 1}):
        path.write_bytes(WHOLE[:size])
        whole = sum(end <= size for end in ends) - 1
        assert finish(path) == (whole, 4, 2), size
        assert path.read_bytes() == WHOLE


def test_what_a_power_cut_leaves_is_cut_off(tmp_path: Path) -> None:
    path = tmp_path / "out"
    for size in (0, 10, len(LINES[0]), len(LINES[0]) + 20, len(LINES[0]) + 300):
        path.write_bytes(WHOLE[:size] + bytes(5000))
        finish(path)
        assert path.read_bytes() == WHOLE


@pytest.mark.parametrize(
    ("found", "what"),
    [
        (WHOLE.replace(b'"m"', b'"n"'), "line 1 differs in the model"),
        (WHOLE.replace(b'"j"', b'"k"'), "line 1 differs in the options"),
        (WHOLE.replace(b'version": 1', b'version": 2'), "line 1 differs in the version"),
        (WHOLE.replace(b'"r1"', b'"r9"'), "line 2 differs in the request"),
        (LINES[1] + LINES[0], "line 1 differs in the request"),
        (WHOLE + LINES[0], "line 5 differs in being one more"),
        (WHOLE + b"{", "line 5 differs in being one more"),
        (b"notes of somebody", "line 1 differs in all"),
        (b"notes of somebody\n", "line 1 differs in all"),
        (b"\n", "line 1 differs in all"),
        (LINES[0] + b"\n" + LINES[1], "line 2 differs in all"),
        (LINES[0] + bytes(20) + b"\n", "line 2 differs in all"),
        (b"x" * 300_000, "line 1 differs in all"),
    ],
)
def test_a_file_of_others_is_not_touched(tmp_path: Path, found: bytes, what: str) -> None:
    path = tmp_path / "out"
    path.write_bytes(found)
    before = path.stat()
    with BatchOutput(path) as output, pytest.raises(BatchOutputMismatchError, match=what):
        output.resume(iter(HEADS))
    assert path.read_bytes() == found
    assert path.stat().st_mtime_ns == before.st_mtime_ns


def test_one_process_writes_at_a_time(tmp_path: Path) -> None:
    path = tmp_path / "out"
    path.write_bytes(LINES[0])
    with BatchOutput(path) as output:
        with pytest.raises(BatchBusyError):
            BatchOutput(path)
        output.resume(iter(HEADS))
        output.append(LINES[1], refused=True)
    assert finish(path) == (2, 4, 2)


def test_only_regular_files_are_written(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(tmp_path / "other")
    os.mkfifo(tmp_path / "pipe")
    kinds: list[tuple[str, type[SslmError]]] = [
        ("link", OutputNotFileError),
        ("pipe", OutputNotFileError),
        (".", OutputIsFolderError),
        ("missing/out", UnwritableFileError),
        ("zero\0", UnwritableFileError),
    ]
    for name, kind in kinds:
        with pytest.raises(kind):
            BatchOutput(tmp_path / name)
    assert not (tmp_path / "other").exists()


@pytest.fixture
def small_files() -> Iterator[int]:
    """Let the system refuse files of more than so many bytes."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    size = len(LINES[0]) + len(LINES[1]) + 100_000
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    yield size
    resource.setrlimit(resource.RLIMIT_FSIZE, before)


def test_a_full_disk_leaves_whole_lines(tmp_path: Path, small_files: int) -> None:
    path = tmp_path / "out"
    with pytest.raises(DiskFullError):
        finish(path)
    assert path.read_bytes() == LINES[0] + LINES[1]
    soft, hard = small_files, resource.getrlimit(resource.RLIMIT_FSIZE)[1]
    resource.setrlimit(resource.RLIMIT_FSIZE, (hard, hard))
    assert finish(path) == (2, 4, 2)
    assert path.stat().st_size > soft


def test_lines_are_synced_within_a_second(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    synced: list[int] = []
    monkeypatch.setattr(os, "fsync", lambda file: synced.append(os.fstat(file).st_size))
    monkeypatch.setattr(limits, "BATCH_SYNC_NS", 0)
    with BatchOutput(tmp_path / "out") as output:
        del synced[:]
        output.append(LINES[0], refused=False)
        assert synced == [len(LINES[0])]
        monkeypatch.setattr(limits, "BATCH_SYNC_NS", 1 << 60)
        output.append(LINES[1], refused=False)
        assert len(synced) == 1
    assert synced[1:] == [len(LINES[0]) + len(LINES[1])]


def test_a_disk_that_fails_is_told_by_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with BatchOutput(tmp_path / "out") as output:

        def fail(file: int) -> None:
            raise OSError(errno.EIO, "the disk is broken")

        monkeypatch.setattr(os, "fsync", fail)
        with pytest.raises(StorageFailedError, match="broken"):
            output.sync()


def test_its_file_is_free_again_even_where_memory_is_short(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(file: int) -> None:
        raise MemoryError

    path = tmp_path / "out.jsonl"
    output = BatchOutput(path)
    monkeypatch.setattr(os, "fsync", fail)
    with pytest.raises(MemoryError):
        output.close()
    monkeypatch.undo()
    with BatchOutput(path):
        pass
