"""Models from the bytes of a file in memory."""

import mmap
import pickle
from pathlib import Path
from typing import Any

import pytest

import sslm
from sslm.engine.model import Model
from sslm.errors.runtime import MemoryBudgetError, NotCopyableError, OptionRangeError
from sslm.errors.status import Status
from sslm.memory import address_of
from tests.causes import raises
from tests.converted import talking_artifact


@pytest.fixture(scope="module")
def path() -> Path:
    return talking_artifact()


def _placed(content: bytes, offset: int) -> memoryview:
    """Return the bytes in memory that begins so far behind a multiple of 64."""
    block = memoryview(bytearray(len(content) + 128))
    start = -address_of(block) % 64 + offset
    block[start : start + len(content)] = content
    return block[start : start + len(content)]


@pytest.mark.published_call(
    "sslm_model_map", case="bytes in the caller's memory", here="load(buffer)"
)
@pytest.mark.parametrize("is_mapped", [True, False])
def test_a_buffer_is_the_model_of_its_file(path: Path, is_mapped: bool) -> None:
    content = path.read_bytes()
    with sslm.load(path) as model:
        expected = model.generate("Once", max_tokens=9)
        identity = model.model_id, model.file_sha256
    with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as mapped:
        buffers: tuple[Any, ...] = (content, bytearray(content), _placed(content, 0), mapped)
        for buffer in buffers:
            with sslm.load(buffer, mmap=is_mapped, sha256=identity[1]) as model:
                assert model.generate("Once", max_tokens=9) == expected
                assert (model.model_id, model.file_sha256) == identity
                assert str(model.path) == "<buffer>"


def test_what_begins_between_multiples_of_64_is_copied(path: Path) -> None:
    content = path.read_bytes()
    for offset, is_mapped, is_copied in ((0, True, False), (0, False, True), (4, True, True)):
        placed = _placed(content, offset)
        with Model(placed, mmap=is_mapped) as model:
            view = model._artifact.file.view
            assert (address_of(view) != address_of(placed)) is is_copied
            assert address_of(view) % 64 == 0
    with pytest.raises(MemoryBudgetError, match="a copy of the buffer"):
        Model(_placed(content, 4), memory_bytes=len(content) - 1)


def test_a_buffer_is_verified_as_a_file_is(path: Path) -> None:
    content = bytearray(path.read_bytes())
    with raises(Status.SSLM_MAGIC):
        sslm.load(b"")
    content[-1] ^= 1
    with raises(Status.SSLM_INTEGRITY):
        sslm.load(content)


@pytest.mark.parametrize("odd", [None, 7, ["a", "b"], memoryview(bytes(64))[::2]])
def test_what_is_neither_path_nor_buffer_is_refused(odd: object) -> None:
    with pytest.raises(OptionRangeError, match="name_or_path"):
        sslm.load(odd)  # type: ignore[arg-type]


def test_nobody_else_opens_a_buffer(path: Path) -> None:
    with sslm.load(path.read_bytes()) as model:
        for send in (lambda: model.spec, lambda: pickle.dumps(model)):
            with pytest.raises(NotCopyableError, match="open it from a path"):
                send()
