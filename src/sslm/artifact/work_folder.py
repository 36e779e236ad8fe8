"""Folders for unfinished files, which are gone when their maker ends, however that happens.

Each holds a lock file that its maker keeps locked. A folder whose lock can be had belongs to a
process that was killed; the next one to work in that place removes it, and never that of one which
is alive.
"""

import os
import re
import secrets
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

from sslm.artifact.file_lock import is_still_at, open_lock_file, try_lock
from sslm.artifact.write_errors import named_write_errors

OWNER_NAME: Final = "owner.lock"
"""The file inside that its maker keeps locked."""

_ENDING: Final = ".work"
_RANDOM_BYTES: Final = 6
_ATTEMPT_COUNT_MAX: Final = 8


@contextmanager
def work_folder(parent: Path, prefix: str, *, purpose: Path | None = None) -> Iterator[Path]:
    """Make a folder that is gone afterwards; remove what killed processes left of the same prefix.

    Args:
        parent: Where it is made.
        prefix: How its name begins.
        purpose: What errors name; None for *parent*.

    Raises:
        DiskFullError, UnwritableFileError: If it cannot be made.
    """
    sweep(parent, prefix)
    with named_write_errors(purpose or parent):
        folder, owner = _make(parent, prefix)
    try:
        yield folder
    finally:
        _remove(folder, owner)


def sweep(parent: Path, prefix: str) -> None:
    """Remove the folders of this prefix whose makers have ended."""
    name = re.compile(rf"{re.escape(prefix)}[0-9a-f]{{{2 * _RANDOM_BYTES}}}{re.escape(_ENDING)}")
    with suppress(OSError):
        for path in list(parent.iterdir()):
            if name.fullmatch(path.name):
                _sweep_one(path)


def sweep_all(parent: Path) -> None:
    """Remove everything from a folder that is used for nothing else, but what is worked in."""
    with suppress(OSError):
        for path in list(parent.iterdir()):
            _sweep_one(path)
            with suppress(OSError):
                if path.is_symlink() or not path.is_dir():
                    path.unlink()
                elif not (path / OWNER_NAME).exists():
                    shutil.rmtree(path, ignore_errors=True)


def _make(parent: Path, prefix: str) -> tuple[Path, int]:
    """Return a new folder with the descriptor of its locked file."""
    for _ in range(_ATTEMPT_COUNT_MAX):
        folder = parent / f"{prefix}{secrets.token_hex(_RANDOM_BYTES)}{_ENDING}"
        folder.mkdir(mode=0o700)
        owner_path = folder / OWNER_NAME
        # Until the lock is had, another process may take this for a leftover: then another name.
        try:
            owner = open_lock_file(owner_path, os.O_CREAT | os.O_EXCL)
        except FileNotFoundError:
            continue
        except BaseException:
            with suppress(OSError):
                folder.rmdir()
            raise
        if try_lock(owner) and is_still_at(owner, owner_path):
            return folder, owner
        os.close(owner)
    raise FileNotFoundError(f"new folders in {parent} are removed at once")


def _sweep_one(folder: Path) -> None:
    """Remove a folder whose maker has ended; what cannot be removed keeps none of the others."""
    with suppress(OSError):
        if folder.is_symlink() or not folder.is_dir():
            return
        try:
            owner = open_lock_file(folder / OWNER_NAME, 0)
        except FileNotFoundError:
            # Its maker was killed between two steps. Never removed with something inside.
            folder.rmdir()
            return
        if try_lock(owner):
            _remove(folder, owner)
        else:
            os.close(owner)


def _remove(folder: Path, owner: int) -> None:
    """Remove a folder whose lock is held, the lock last."""
    with suppress(OSError):
        for path in list(folder.iterdir()):
            if path.name == OWNER_NAME:
                continue
            if path.is_dir() and not path.is_symlink():
                shutil.rmtree(path, ignore_errors=True)
            else:
                with suppress(OSError):
                    path.unlink()
    # Some systems keep a file that is open.
    os.close(owner)
    shutil.rmtree(folder, ignore_errors=True)
