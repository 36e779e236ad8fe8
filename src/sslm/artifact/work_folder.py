"""Folders for unfinished files, which are gone when their maker ends, however that happens.

Each holds a lock file that its maker keeps locked. A folder whose lock can be had belongs to a
process that was killed; the next one to work in that place removes it, and never that of one which
is alive.
"""

import os
import re
import secrets
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Final

from sslm.artifact.file_lock import is_still_at, try_lock
from sslm.artifact.own_folder import OwnFolder
from sslm.artifact.write_errors import named_write_errors

OWNER_NAME: Final = "owner.lock"
"""The file inside that its maker keeps locked."""

_ENDING: Final = ".work"
_RANDOM_BYTES: Final = 6
_ATTEMPT_COUNT_MAX: Final = 8


@contextmanager
def work_folder(
    parent: Path, prefix: str, *, purpose: Path | None = None, follows_links: bool = True
) -> Iterator[Path]:
    """Make a folder that is gone afterwards; remove what killed processes left of the same prefix.

    Args:
        parent: Where it is made.
        prefix: How its name begins.
        purpose: What errors name; None for *parent*.
        follows_links: Whether *parent* itself may be a link.

    Raises:
        DiskFullError, UnwritableFileError: If it cannot be made.
    """
    with ExitStack() as stack:
        with named_write_errors(purpose or parent):
            place = stack.enter_context(OwnFolder(parent, follows_links=follows_links))
        _sweep_place(place, prefix)
        with named_write_errors(purpose or parent):
            folder, owner = _make(place, prefix)
        try:
            yield folder.path
        finally:
            with folder:
                _remove(place, folder, owner)


def sweep(parent: Path, prefix: str, *, follows_links: bool = True) -> None:
    """Remove the folders of this prefix whose makers have ended.

    Args:
        parent: Where they are.
        prefix: How their names begin.
        follows_links: Whether *parent* itself may be a link; one that may not be is left alone.
    """
    with suppress(OSError), OwnFolder(parent, follows_links=follows_links) as place:
        _sweep_place(place, prefix)


def _sweep_place(place: OwnFolder, prefix: str) -> None:
    name = re.compile(rf"{re.escape(prefix)}[0-9a-f]{{{2 * _RANDOM_BYTES}}}{re.escape(_ENDING)}")
    with suppress(OSError):
        for found in place.names():
            if name.fullmatch(found):
                _sweep_one(place, found)


def _make(place: OwnFolder, prefix: str) -> tuple[OwnFolder, int]:
    """Return a new folder with the descriptor of its locked file."""
    for _ in range(_ATTEMPT_COUNT_MAX):
        name = f"{prefix}{secrets.token_hex(_RANDOM_BYTES)}{_ENDING}"
        place.make_folder(name, 0o700)
        # Until the lock is had, another process may take this for a leftover: then another name.
        try:
            folder = place.folder(name)
        except FileNotFoundError:
            continue
        except BaseException:
            with suppress(OSError):
                place.remove_empty_folder(name)
            raise
        try:
            owner = _locked_owner(folder)
        except BaseException:
            folder.close()
            with suppress(OSError):
                place.remove_empty_folder(name)
            raise
        if owner is not None:
            return folder, owner
        folder.close()
    raise FileNotFoundError(f"new folders in {place.path} are removed at once")


def _locked_owner(folder: OwnFolder) -> int | None:
    """Return the descriptor of a new folder's locked file; None if the folder is gone."""
    try:
        owner = folder.lock_file(OWNER_NAME, os.O_CREAT | os.O_EXCL)
    except FileNotFoundError:
        return None
    try:
        if try_lock(owner) and is_still_at(owner, folder.path / OWNER_NAME):
            return owner
    except BaseException:
        os.close(owner)
        with suppress(OSError):
            folder.remove(OWNER_NAME)
        raise
    os.close(owner)
    return None


def _sweep_one(place: OwnFolder, name: str) -> None:
    """Remove a folder whose maker has ended; what cannot be removed keeps none of the others."""
    with suppress(OSError), place.folder(name) as folder:
        try:
            owner = folder.lock_file(OWNER_NAME, 0)
        except FileNotFoundError:
            # Its maker was killed between two steps. Never removed with something inside.
            place.remove_empty_folder(name)
            return
        is_left = False
        try:
            is_left = try_lock(owner)
        finally:
            if not is_left:
                os.close(owner)
        if is_left:
            _remove(place, folder, owner)


def _remove(place: OwnFolder, folder: OwnFolder, owner: int) -> None:
    """Remove a folder whose lock is held, the lock last; not one that was moved elsewhere.

    If something in it cannot be removed, the lock's file stays too. The next one to work in that
    place then knows the folder by it, and tries again.
    """
    is_there = is_cleared = False
    try:
        name = folder.path.name
        is_there = place.holds(name, folder)
        with suppress(OSError):
            for entry in folder.names() if is_there else []:
                if entry != OWNER_NAME:
                    folder.remove(entry)
            is_cleared = set(folder.names()) <= {OWNER_NAME}
    finally:
        # Some systems keep a file that is open.
        os.close(owner)
    if is_there and is_cleared and place.holds(name, folder):
        folder.remove(OWNER_NAME)
        folder.close()
        place.remove(name)
