"""The data that tests and benchmarks read: models, texts and suites of ``tests/data``."""

import atexit
import lzma
import os
import shutil
import tarfile
import tempfile
from functools import cache
from pathlib import Path, PurePosixPath
from typing import Final

DATA: Final = Path(__file__).parent / "data"
ARCHIVE: Final = "all.tar.xz"


def shared_data(relative: str) -> Path:
    """Return the path of a file or folder of the test data, to be read and not changed.

    Compressed data is unpacked once a process, into a temporary folder that goes with it: the
    checkout may be read-only, and processes side by side do not meet.

    Args:
        relative: Its name below ``tests/data``, without the ``.xz`` of a compressed file; the
            content of an archive counts as lying in the archive's folder.

    Raises:
        FileNotFoundError: If there is no such file; ``tests/data/README.md`` lists them.
    """
    name = PurePosixPath(relative)
    if (plain := DATA / name).exists() and not (plain / ARCHIVE).exists():
        return plain
    if (packed := DATA / f"{name}.xz").is_file():
        return _unpacked(packed)
    folder = name.parts[0]
    if (DATA / folder / ARCHIVE).is_file():
        path = _unpacked_archive(folder).joinpath(*name.parts[1:])
        if path.exists():
            return path
    raise FileNotFoundError(f"{relative} is not in the test data, which {DATA}/README.md lists")


@cache
def _unpacked(packed: Path) -> Path:
    """Return the path of a compressed file, unpacked; its neighbours do not come along."""
    path = _scratch() / packed.relative_to(DATA).with_suffix("")
    path.parent.mkdir(parents=True, exist_ok=True)
    with lzma.open(packed) as source, path.open("wb") as target:
        shutil.copyfileobj(source, target)
    return path


@cache
def _unpacked_archive(folder: str) -> Path:
    path = _scratch() / folder
    with tarfile.open(DATA / folder / ARCHIVE) as archive:
        archive.extractall(path, filter="data")
    return path


@cache
def _scratch() -> Path:
    folder, owner = Path(tempfile.mkdtemp(prefix="sslm-test-data-")), os.getpid()

    def remove() -> None:
        # A forked child that ends as Python ends must leave its parent's files alone.
        if os.getpid() == owner:
            shutil.rmtree(folder, ignore_errors=True)

    atexit.register(remove)
    return folder
