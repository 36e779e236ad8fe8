"""Files of requests: what is wrong with one is told before anything is computed."""

import json
import os
import tracemalloc
from pathlib import Path

import pytest

from sslm import limits
from sslm.errors.base import SslmError
from sslm.errors.batches import (
    BatchInputChangedError,
    BatchLineSizeError,
    BatchLineSyntaxError,
    BatchRowCountError,
    BatchRowIdError,
    BatchRowIdTwiceError,
)
from sslm.errors.reading import UnreadableFileError
from sslm.serving.batch_input import BatchInput


def line(row_id: object, **fields: object) -> bytes:
    return json.dumps({"custom_id": row_id} | fields).encode() + b"\n"


def source(folder: Path, *lines: bytes) -> BatchInput:
    path = folder / "in.jsonl"
    path.write_bytes(b"".join(lines))
    return BatchInput(path)


def test_rows_are_given_in_their_order(tmp_path: Path) -> None:
    lines = (line("b"), b"\r\n", line("a", x=1).replace(b"\n", b"\r\n"), b" \n", line("é")[:-1])
    found = source(tmp_path, *lines)
    assert found.row_count == 3
    for _ in range(2):
        rows = list(found.rows())
        assert [(row.line, row.row_id) for row in rows] == [(1, "b"), (3, "a"), (5, "é")]
        assert rows[1].fields() == {"custom_id": "a", "x": 1}
    assert source(tmp_path).row_count == 0


@pytest.mark.parametrize(
    ("lines", "kind", "at"),
    [
        ((line("a"), b"nothing\n"), BatchLineSyntaxError, "line 2"),
        ((line("a"), b"[]\n"), BatchLineSyntaxError, "line 2"),
        ((b"\xff\n",), BatchLineSyntaxError, "line 1"),
        ((b'{"custom_id": "a", "custom_id": "a"}\n',), BatchLineSyntaxError, "twice"),
        ((b"{}\n",), BatchRowIdError, "missing"),
        ((line(None),), BatchRowIdError, "None"),
        ((line(5),), BatchRowIdError, "5"),
        ((line(""),), BatchRowIdError, "''"),
        ((line("x" * 513),), BatchRowIdError, "line 1"),
        ((line("a"), line("b"), line("a")), BatchRowIdTwiceError, "line 3"),
    ],
)
def test_what_is_refused(
    tmp_path: Path, lines: tuple[bytes, ...], kind: type[SslmError], at: str
) -> None:
    with pytest.raises(kind, match=at):
        source(tmp_path, *lines)


def test_lines_and_rows_have_bounds(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "BATCH_LINE_SIZE_BYTES_MAX", 100)
    fitting = line("a", x="y" * 73)
    assert len(fitting) == 101
    assert source(tmp_path, fitting).row_count == 1
    assert source(tmp_path, fitting.replace(b"\n", b"\r\n")).row_count == 1
    with pytest.raises(BatchLineSizeError):
        source(tmp_path, line("b"), fitting.replace(b"y", b"yy", 1))
    monkeypatch.setattr(limits, "BATCH_ROW_COUNT_MAX", 2)
    with pytest.raises(BatchRowCountError):
        source(tmp_path, line("a"), line("b"), line("c"))


def test_a_line_without_an_end_takes_no_memory(tmp_path: Path) -> None:
    path = tmp_path / "endless"
    with path.open("wb") as file:
        file.truncate(1 << 34)
    tracemalloc.start()
    with pytest.raises(BatchLineSizeError):
        BatchInput(path)
    assert tracemalloc.get_traced_memory()[1] < 4 * limits.BATCH_LINE_SIZE_BYTES_MAX
    tracemalloc.stop()


def test_memory_does_not_grow_with_the_lines(tmp_path: Path) -> None:
    tracemalloc.start()
    found = source(tmp_path, *(line(str(n), body="x" * 2000) for n in range(2000)))
    before = tracemalloc.get_traced_memory()[0]
    tracemalloc.reset_peak()
    BatchInput(found.path)
    assert sum(1 for _ in found.rows()) == 2000
    # Four megabytes of lines; 120 bytes a row, and buffers.
    assert tracemalloc.get_traced_memory()[1] - before < 2000 * 120 + 200_000
    tracemalloc.stop()


@pytest.mark.parametrize(
    "after",
    [
        (line("a"), line("B"), line("c")),
        (line("a"), line("b")),
        (line("a"), line("b"), line("c"), line("d")),
        (line("a"), b"nothing\n", line("c")),
        (),
    ],
)
def test_a_change_is_noticed(tmp_path: Path, after: tuple[bytes, ...]) -> None:
    found = source(tmp_path, line("a"), line("b"), line("c"))
    found.path.write_bytes(b"".join(after))
    with pytest.raises(BatchInputChangedError):
        list(found.rows())


def test_only_regular_files_are_read(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    for name in ("missing", "pipe", "."):
        with pytest.raises(UnreadableFileError):
            BatchInput(tmp_path / name)
