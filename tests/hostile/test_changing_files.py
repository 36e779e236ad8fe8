"""Files that somebody else changes, shortens or replaces while they are opened and used."""

import os
import signal
import subprocess
import sys
import threading
from io import FileIO
from pathlib import Path

import pytest

from sslm.artifact import file_bytes, read_artifact
from sslm.convert import conversion
from sslm.convert.conversion import convert_gguf
from sslm.convert.source import GgufModelSource
from sslm.engine.model import Model
from sslm.errors.base import SslmError
from sslm.errors.reading import UnreadableFileError
from sslm.errors.runtime import MemoryBudgetError
from sslm.formats import mapped_file
from sslm.formats.gguf.file import read_gguf
from sslm.formats.mapped_file import MappedFile
from tests.gguf_files import gguf_bytes
from tests.hostile.small_models import (
    byte_level_metadata,
    golden_of,
    model_tensors,
    rewritten,
    runnable_artifact,
)
from tests.tampering import nudge_weight

PROMPT = [2, 3, 0]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    runnable_artifact(tmp_path)
    return tmp_path / "small.sslm"


def other_artifact(path: Path) -> bytes:
    """A sound artifact of the same size and other weights."""
    changed = path.with_name("changed.sslm")
    changed.write_bytes(nudge_weight(path.read_bytes(), "embed", row=0, column=0))
    with read_artifact(changed) as artifact:
        return rewritten(artifact, changed, golden_of(artifact))


def overwrite(path: Path, content: bytes) -> None:
    """Change a file in place: the same file, other bytes."""
    with path.open("r+b") as file:
        file.write(content)


# After opening.


@pytest.mark.parametrize("change", ["overwritten", "shortened", "gone"])
def test_what_happens_to_a_copied_file_afterwards_does_not_matter(path: Path, change: str) -> None:
    sound = path.read_bytes()
    with Model(path, mmap=False) as model:
        before = model.generate(PROMPT, max_tokens=4)
        if change == "overwritten":
            overwrite(path, b"\xff" * len(sound))
        elif change == "shortened":
            os.truncate(path, 0)
        else:
            path.unlink()
        assert model.verify().ok
        after = model.generate(PROMPT, max_tokens=4)
    assert (after.token_ids, after.digest) == (before.token_ids, before.digest)


def test_a_mapped_file_may_be_replaced_by_name(path: Path) -> None:
    """Renaming another file onto it, as every writer here does, leaves the mapped one as it is."""
    other = other_artifact(path)
    with Model(path) as model:
        replacement = path.with_name("replacement")
        replacement.write_bytes(other)
        replacement.replace(path)
        assert model.verify().ok


SHORTENED = """
import os, sys
from sslm.engine.model import Model
with Model(sys.argv[1], mmap=sys.argv[2] == "mapped") as model:
    os.truncate(sys.argv[1], 0)
    print(model.generate([2, 3, 0], max_tokens=4).digest)
"""


def run_shortened(path: Path, way: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", SHORTENED, str(path), way]
    return subprocess.run(command, capture_output=True, text=True, check=False)


@pytest.mark.skipif(sys.platform != "linux", reason="other systems end or refuse otherwise")
def test_a_mapped_file_that_is_shortened_ends_the_process_as_documented(path: Path) -> None:
    assert run_shortened(path, "mapped").returncode == -signal.SIGBUS


def test_a_copied_file_that_is_shortened_gives_the_same_answer(path: Path) -> None:
    with Model(path) as model:
        expected = model.generate(PROMPT, max_tokens=4).digest
    found = run_shortened(path, "copied")
    assert (found.returncode, found.stdout.strip()) == (0, expected)


# While opening.


def test_a_file_that_changes_while_it_is_copied_is_one_version_or_refused(path: Path) -> None:
    """The copy is what is verified, so a mixture of two versions cannot pass."""
    versions = [path.read_bytes(), other_artifact(path)]
    identities = set()
    for content in versions:
        path.write_bytes(content)
        with read_artifact(path) as artifact:
            identities.add(artifact.model_id)
    stop = threading.Event()

    def write() -> None:
        while not stop.is_set():
            for content in (*versions, versions[0][:100]):
                path.write_bytes(content)

    writer = threading.Thread(target=write)
    writer.start()
    outcomes = set()
    try:
        for _ in range(300):
            try:
                with read_artifact(path, mmap=False) as artifact:
                    outcomes.add(artifact.model_id)
            except SslmError as error:
                outcomes.add(error.cause.encode())
    finally:
        stop.set()
        writer.join()
    assert {one for one in outcomes if not one.endswith(b"Error")} <= identities


def test_half_of_another_version_is_refused(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The file changes when half of it is copied."""
    other = other_artifact(path)
    fill = file_bytes._fill

    def fill_and_change(file: FileIO, memory: memoryview) -> None:
        half = memory.nbytes // 2
        fill(file, memory[:half])
        overwrite(path, other)
        fill(file, memory[half:])

    monkeypatch.setattr(file_bytes, "_fill", fill_and_change)
    with pytest.raises(SslmError) as caught:
        read_artifact(path, mmap=False)
    assert caught.value.cause == "SslmIntegrityError"


@pytest.mark.parametrize("open_file", [MappedFile, file_bytes.CopiedFile])
def test_a_pipe_that_takes_the_name_is_not_waited_for(
    path: Path, open_file: type, monkeypatch: pytest.MonkeyPatch
) -> None:
    require = mapped_file._require_regular
    calls = 0

    def replace_and_require(found: os.stat_result) -> None:
        nonlocal calls
        calls += 1
        require(found)
        if calls == 1:
            path.unlink()
            os.mkfifo(path)

    monkeypatch.setattr(mapped_file, "_require_regular", replace_and_require)
    with pytest.raises(UnreadableFileError):
        open_file(path)
    assert calls == 2


def test_the_digest_of_a_source_is_that_of_what_was_converted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = tmp_path / "a.gguf"
    source.write_bytes(gguf_bytes(byte_level_metadata(), model_tensors(260)))
    expected = convert_gguf(source, tmp_path / "a.sslm")

    class Replaced(GgufModelSource):
        @classmethod
        def open(cls, path: str | os.PathLike[str]) -> "Replaced":
            found = cls(read_gguf(path))
            (tmp_path / "other").write_bytes(b"another file")
            (tmp_path / "other").replace(path)
            return found

    monkeypatch.setattr(conversion, "GgufModelSource", Replaced)
    found = convert_gguf(source, tmp_path / "b.sslm")
    assert source.read_bytes() == b"another file"
    assert (found.source_sha256, found.file_sha256) == (
        expected.source_sha256,
        expected.file_sha256,
    )


# Room for a copy.


def test_a_copy_is_refused_by_name_before_it_is_made(tmp_path: Path) -> None:
    """A terabyte that takes no room on the disk."""
    path = tmp_path / "sparse.sslm"
    path.touch()
    os.truncate(path, 1 << 40)
    with pytest.raises(MemoryBudgetError) as caught:
        Model(path, mmap=False, memory_bytes=1 << 20)
    assert caught.value.args == ("a copy of the file", 1 << 40, 1 << 20)


def test_a_copy_within_its_bound_is_made(path: Path) -> None:
    size = path.stat().st_size
    read_artifact(path, mmap=False, copy_at_most_bytes=size).close()
    with pytest.raises(MemoryBudgetError):
        read_artifact(path, mmap=False, copy_at_most_bytes=size - 1)
