"""Blocks go to the file in whole, wherever what is written begins and ends."""

import io
import random
from pathlib import Path
from typing import BinaryIO, cast

import pytest

from sslm.artifact.block_writer import BlockWriter
from sslm.memory import HUGE_PAGE_SIZE_BYTES as BLOCK


class Recorded(io.BytesIO):
    """Notes where each write begins and how many bytes it has."""

    def __init__(self) -> None:
        super().__init__()
        self.writes: list[tuple[int, int]] = []

    def write(self, data: memoryview) -> int:  # type: ignore[override]
        if data.nbytes:
            self.writes.append((self.tell(), data.nbytes))
        return super().write(data)


def test_every_write_ends_at_a_block_but_the_last() -> None:
    file = Recorded()
    content = random.Random(1).randbytes(3 * BLOCK + 5)
    with BlockWriter(cast(BinaryIO, file)) as blocks:
        for start in range(0, len(content), 300_007):
            blocks.write(content[start : start + 300_007])
    assert file.getvalue() == content
    assert file.writes == [(0, BLOCK), (BLOCK, BLOCK), (2 * BLOCK, BLOCK), (3 * BLOCK, 5)]


def test_a_write_of_several_blocks_is_cut() -> None:
    file = Recorded()
    with BlockWriter(cast(BinaryIO, file)) as blocks:
        blocks.write(b"a")
        blocks.write(bytearray(2 * BLOCK))
        blocks.write(b"")
        blocks.write(memoryview(b"bc"))
    assert file.getvalue() == b"a" + bytes(2 * BLOCK) + b"bc"
    assert file.writes == [(0, BLOCK), (BLOCK, BLOCK), (2 * BLOCK, 3)]


def test_blocks_lie_by_the_file_after_a_seek_too() -> None:
    file = Recorded()
    with BlockWriter(cast(BinaryIO, file)) as blocks:
        blocks.seek(4096)
        blocks.write(bytes([7]) * (BLOCK + 10))
        blocks.seek(0)
        blocks.write(b"head")
        blocks.seek(BLOCK + 4096 + 10)
        blocks.write(b"end")
    expected = b"head" + bytes(4092) + bytes([7]) * (BLOCK + 10) + b"end"
    assert file.getvalue() == expected
    assert file.writes == [(4096, BLOCK - 4096), (BLOCK, 4106), (0, 4), (BLOCK + 4106, 3)]


def test_it_goes_on_where_the_file_is(tmp_path: Path) -> None:
    path = tmp_path / "a"
    with path.open("wb") as file:
        file.write(b"abc")
        with BlockWriter(file) as blocks:
            blocks.write(b"d" * BLOCK)
    assert path.read_bytes() == b"abc" + b"d" * BLOCK


def test_after_an_error_nothing_more_is_written() -> None:
    file = Recorded()
    blocks = BlockWriter(cast(BinaryIO, file))
    blocks.write(b"abc")
    with pytest.raises(KeyError), blocks:
        raise KeyError
    assert file.getvalue() == b""
