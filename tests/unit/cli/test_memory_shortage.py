"""A command that finds no memory says so, whatever the library calls it that found none."""

import errno
import json
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from sslm.cli.failures import explain
from sslm.errors.reading import ReadResourcesError
from sslm.errors.status import Status
from sslm.formats.mapped_file import MappedFile
from tests.converted import STORIES_SOURCE, stories_artifact
from tests.unit.cli.commands import start


@pytest.mark.parametrize(
    "error",
    [
        MemoryError(),
        RuntimeError("can't allocate lock"),
        RuntimeError("can't allocate read lock"),
        ValueError("[digital envelope routines] initialization error"),
        OSError(errno.ENOMEM, "Cannot allocate memory"),
        SystemError("<ufunc 'add'> returned NULL without setting an exception"),
        SystemError("error return without exception set"),
        ImportError("_cffi_backend.so: failed to map segment from shared object"),
    ],
    ids=["memory", "lock", "lock of a file", "hash", "system", "ufunc", "frame", "loader"],
)
def test_a_lack_of_memory_is_no_defect(
    error: Exception, capsys: pytest.CaptureFixture[str]
) -> None:
    assert explain(error, is_json=True) == 5
    printed = capsys.readouterr()
    assert json.loads(printed.out)["error"]["status"] == int(Status.MEMORY_SHORT) == 408
    assert printed.err.startswith("error: the system has no memory left: ")


@pytest.mark.parametrize("number", [errno.EIO, errno.ENOSPC, errno.EROFS, errno.EMFILE])
def test_a_stream_whose_storage_fails_is_out_of_resources(
    number: int, capsys: pytest.CaptureFixture[str]
) -> None:
    assert explain(OSError(number, "of storage"), is_json=False) == 5
    assert explain(OSError(errno.EISDIR, "a folder"), is_json=False) == 3
    assert "of storage" in capsys.readouterr().err


def test_an_explanation_that_finds_no_memory_is_one_line(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    def fail(error: BaseException) -> None:
        raise MemoryError

    monkeypatch.setattr("sslm.cli.failures._facts", fail)
    assert explain(ValueError("a"), is_json=False) == 5
    told = "error: the system has no memory left; end other programs, or ask for less\n"
    assert capfd.readouterr() == ("", told)


def limited(kind: str, most: int) -> Callable[[], None]:
    """Return what sets a limit of the system in a process that starts."""
    import resource

    return lambda: resource.setrlimit(getattr(resource, kind), (most, most))


pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="limits of Linux")


def test_a_program_that_cannot_be_loaded_says_so() -> None:
    """From where Python itself starts, a limit never gives a code that means something else."""
    codes = set()
    for limit_mib in (24, 28, 32, 36, 40, 200):
        with start("list", preexec_fn=limited("RLIMIT_AS", limit_mib << 20)) as process:
            _, told = process.communicate()
        if "not enough memory to start" in told or "the system has no memory left" in told:
            assert process.returncode == 5
        codes.add(process.returncode)
    assert {0, 5} <= codes


def test_a_file_that_does_not_fit_the_address_space_is_not_called_bad(tmp_path: Path) -> None:
    """It was said to be removed and fetched again, where it was whole."""
    large = tmp_path / "large.sslm"
    with large.open("wb") as file:
        file.truncate(1 << 40)
    with start("inspect", large, preexec_fn=limited("RLIMIT_AS", 400 << 20)) as process:
        _, told = process.communicate()
    assert process.returncode == 5
    assert "has nothing left to do it with: Cannot allocate memory" in told


def test_a_file_that_finds_no_descriptor_is_not_called_bad() -> None:
    import resource

    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (0, hard))
    try:
        with pytest.raises(ReadResourcesError, match="Too many open files") as caught:
            MappedFile(STORIES_SOURCE)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    assert int(caught.value.status) == int(Status.READ_RESOURCES) == 4003


@pytest.mark.parametrize("command", ["reference", "convert"])
def test_numpy_does_not_end_the_process_for_lack_of_memory(command: str, tmp_path: Path) -> None:
    """Its OpenBLAS does, with the exit code that means "verified, and different"."""
    arguments: tuple[object, ...] = ("verify", stories_artifact(), "--backend", "reference")
    if command == "convert":
        arguments = ("convert", STORIES_SOURCE, "-o", tmp_path / "out.sslm")
    with start(*arguments, preexec_fn=limited("RLIMIT_AS", 150 << 20)) as process:
        _, told = process.communicate()
    assert f"loading NumPy takes {152 << 20} bytes of address space" in told
    assert process.returncode == 5
