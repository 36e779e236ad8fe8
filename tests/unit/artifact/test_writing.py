"""A file appears complete or not at all."""

import errno
import os
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import BinaryIO

import pytest

from sslm.artifact import TensorSpec, TensorStream, read_artifact, write_artifact
from sslm.artifact.atomic_file import atomic_file, require_no_input
from sslm.errors.artifact import DiskFullError, TensorSupplyError, UnwritableFileError
from sslm.errors.commands import OutputExistsError, OutputIsFolderError, OutputNotFileError
from sslm.errors.reading import UnreadableFileError
from sslm.errors.status import Status
from sslm.program.tensors import Tensor
from tests.causes import raises
from tests.file_sizes import file_size_limit
from tests.unit.artifact import tiny_artifact

TENSORS = tiny_artifact.tiny_tensors()


def stream_of(tensors: Iterator[Tensor]) -> TensorStream:
    return TensorStream(specs=TensorStream.of(TENSORS).specs, tensors=tensors)


def test_tensors_are_taken_one_by_one(tmp_path: Path) -> None:
    alive: list[str] = []

    def supply() -> Iterator[Tensor]:
        for name in sorted(TENSORS):
            alive.append(name)
            yield TENSORS[name]

    write_artifact(tmp_path / "a", tiny_artifact.PARTS, stream_of(supply()))
    write_artifact(tmp_path / "b", tiny_artifact.PARTS, TensorStream.of(TENSORS))
    assert alive == sorted(TENSORS)
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a", "b"]


@pytest.mark.parametrize(
    "names",
    [
        sorted(TENSORS)[:-1],
        [*sorted(TENSORS), "embed"],
        sorted(TENSORS, reverse=True),
        [],
    ],
)
def test_supply_differs_from_what_was_announced(tmp_path: Path, names: list[str]) -> None:
    with pytest.raises(TensorSupplyError):
        write_artifact(
            tmp_path / "a", tiny_artifact.PARTS, stream_of(TENSORS[name] for name in names)
        )
    assert list(tmp_path.iterdir()) == []


def test_announcement_is_not_sorted_or_empty(tmp_path: Path) -> None:
    specs: tuple[TensorSpec, ...] = TensorStream.of(TENSORS).specs
    for broken in (specs[::-1], specs + specs[-1:], ()):
        stream = TensorStream(specs=broken, tensors=[])
        with pytest.raises(TensorSupplyError):
            write_artifact(tmp_path / "a", tiny_artifact.PARTS, stream)
    assert list(tmp_path.iterdir()) == []


def test_tensor_that_no_reader_takes(tmp_path: Path) -> None:
    for name, numbers, error in (
        ("other", [1], Status.SSLM_TENSOR_ROLE),
        ("a b.mantissas", [1], Status.SSLM_TENSOR_NAME),
        ("a.mantissas", [1 << 24], Status.SSLM_TENSOR_VALUE),
    ):
        stream = TensorStream.of({name: tiny_artifact.int32_tensor(name, numbers)})
        with raises(error):
            write_artifact(tmp_path / "a", tiny_artifact.PARTS, stream)
    assert list(tmp_path.iterdir()) == []


def test_parts_that_no_reader_takes(tmp_path: Path) -> None:
    parts = tiny_artifact.PARTS
    provenance = replace(parts.provenance, converter_version="x" * 1025)
    with raises(Status.JSON_RANGE):
        write_artifact(
            tmp_path / "a", replace(parts, provenance=provenance), TensorStream.of(TENSORS)
        )
    config = replace(parts.config, vocab_size=4)
    with raises(Status.SECTIONS_DISAGREE):
        write_artifact(tmp_path / "a", replace(parts, config=config), TensorStream.of(TENSORS))
    golden = replace(tiny_artifact.GOLDEN, weight_digests=())
    with raises(Status.SECTIONS_DISAGREE):
        write_artifact(tmp_path / "a", replace(parts, golden=golden), TensorStream.of(TENSORS))
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("interruption", [KeyboardInterrupt, ValueError, SystemExit])
def test_interrupt_leaves_the_old_file_and_nothing_else(
    tmp_path: Path, interruption: type[BaseException]
) -> None:
    path = tmp_path / "a.sslm"
    write_artifact(path, tiny_artifact.PARTS, TensorStream.of(TENSORS))
    before = path.read_bytes()

    def supply() -> Iterator[Tensor]:
        yield TENSORS["embed"]
        raise interruption

    with raises(interruption):
        write_artifact(path, tiny_artifact.PARTS, stream_of(supply()))
    assert [entry.name for entry in tmp_path.iterdir()] == ["a.sslm"]
    assert path.read_bytes() == before


def test_existing_file_is_replaced_while_it_is_open(tmp_path: Path) -> None:
    path = tmp_path / "a.sslm"
    write_artifact(path, tiny_artifact.PARTS, TensorStream.of(TENSORS))
    with read_artifact(path) as old:
        parts = replace(tiny_artifact.PARTS, golden=None)
        write_artifact(path, parts, TensorStream.of(old.tensors))
        with read_artifact(path) as new:
            assert new.golden is None
            assert new.model_id == old.model_id
        assert old.golden == tiny_artifact.GOLDEN


def test_full_disk(tmp_path: Path) -> None:
    """A device that is always full stands for a full disk at the place where bytes are written."""
    with Path("/dev/full").open("wb", buffering=0) as full:

        def write_to(file: BinaryIO) -> None:
            file.write(b"begun")
            full.write(b"x")

        with pytest.raises(DiskFullError) as caught, atomic_file(tmp_path / "a") as file:
            write_to(file)
    assert caught.value.path == str(tmp_path / "a")
    assert list(tmp_path.iterdir()) == []


def test_file_size_limit_of_the_system(tmp_path: Path) -> None:
    """The kernel itself ends the file in the middle of the weights."""
    with file_size_limit(5000), pytest.raises(DiskFullError):
        write_artifact(tmp_path / "a", tiny_artifact.PARTS, TensorStream.of(TENSORS))
    assert list(tmp_path.iterdir()) == []


def test_quota(tmp_path: Path) -> None:
    with pytest.raises(DiskFullError), atomic_file(tmp_path / "a"):
        raise OSError(errno.EDQUOT, "Disk quota exceeded")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("has_links", [True, False])
def test_a_name_that_was_free(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, has_links: bool
) -> None:
    """It stays that of another file that came meanwhile, unless that may be replaced."""

    def refuse(*names: object) -> None:
        raise OSError(errno.EPERM, "Operation not permitted")

    if not has_links:
        monkeypatch.setattr(os, "link", refuse)
    name = tmp_path / "a"
    with pytest.raises(OutputExistsError), atomic_file(name, is_replaced=False):
        name.write_bytes(b"precious")
    assert name.read_bytes() == b"precious"
    with atomic_file(name) as file:
        file.write(b"new")
    assert name.read_bytes() == b"new"
    name.unlink()
    with atomic_file(name, is_replaced=False) as file:
        file.write(b"first")
    assert name.read_bytes() == b"first"
    assert list(tmp_path.iterdir()) == [name]


def test_folder_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(UnwritableFileError):
        write_artifact(tmp_path / "none" / "a.sslm", tiny_artifact.PARTS, TensorStream.of(TENSORS))
    assert list(tmp_path.iterdir()) == []


def test_what_cannot_be_looked_at_is_told_as_read_or_written(tmp_path: Path) -> None:
    out, too_long = tmp_path / "out", tmp_path / ("x" * 300)
    out.touch()
    with pytest.raises(UnreadableFileError, match=r"^cannot read '.*x': File name too long$"):
        require_no_input(out, {"FILE": too_long})
    with pytest.raises(UnwritableFileError, match=r"^cannot write '.*x'"):
        require_no_input(too_long, {"FILE": out})
    require_no_input(tmp_path / "new", {"FILE": out, "MODEL": tmp_path / "none"})
    with pytest.raises(OutputNotFileError, match="it is FILE"):
        require_no_input(out, {"FILE": out})


def test_name_that_is_a_folder(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    with pytest.raises(OutputIsFolderError):
        write_artifact(tmp_path / "a", tiny_artifact.PARTS, TensorStream.of(TENSORS))
    assert [entry.name for entry in tmp_path.iterdir()] == ["a"]
