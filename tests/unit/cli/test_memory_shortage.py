"""A command that finds no memory says so, whatever the library calls it that found none."""

import errno
import json

import pytest

from sslm.cli.failures import explain
from sslm.errors.status import Status


@pytest.mark.parametrize(
    "error",
    [
        MemoryError(),
        RuntimeError("can't allocate lock"),
        ValueError("[digital envelope routines] initialization error"),
        OSError(errno.ENOMEM, "Cannot allocate memory"),
    ],
    ids=["memory", "lock", "hash", "system"],
)
def test_a_lack_of_memory_is_no_defect(
    error: Exception, capsys: pytest.CaptureFixture[str]
) -> None:
    assert explain(error, is_json=True) == 5
    printed = capsys.readouterr()
    assert json.loads(printed.out)["error"]["status"] == Status.MEMORY_SHORT == 408
    assert printed.err.startswith("error: the system has no memory left: ")


@pytest.mark.parametrize("number", [errno.EIO, errno.ENOSPC, errno.EROFS, errno.EMFILE])
def test_a_stream_whose_storage_fails_is_out_of_resources(
    number: int, capsys: pytest.CaptureFixture[str]
) -> None:
    assert explain(OSError(number, "of storage"), is_json=False) == 5
    assert explain(OSError(errno.EISDIR, "a folder"), is_json=False) == 3
    assert "of storage" in capsys.readouterr().err
