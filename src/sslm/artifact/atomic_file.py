"""Files that appear complete or not at all."""

import os
import re
import secrets
import stat
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO, Final

from sslm.artifact.file_lock import is_still_at, try_lock
from sslm.artifact.own_folder import OwnFolder
from sslm.artifact.write_errors import named_write_errors
from sslm.errors.artifact import UnwritableFileError
from sslm.errors.commands import OutputExistsError, OutputIsFolderError, OutputNotFileError
from sslm.errors.reading import unreadable
from sslm.threads import open_file

_ENDING: Final = ".partial"
_RANDOM_BYTES: Final = 6
_ATTEMPT_COUNT_MAX: Final = 8
_IS_POSIX: Final = os.name == "posix"
"""Elsewhere, a file that is open can be neither renamed nor removed."""


def require_replaceable(path: str | os.PathLike[str]) -> bool:
    """Return whether there is a file to replace.

    A name is given to another file only where it is free or that of a regular file: a device, a
    pipe or a link would be gone, and whoever uses it would not find it.

    Raises:
        OutputIsFolderError: If it is a folder.
        OutputNotFileError: If it is anything else that is no regular file, links included.
        UnwritableFileError: If the system does not let us look.
    """
    with named_write_errors(path):
        try:
            mode = os.lstat(path).st_mode
        except FileNotFoundError:
            return False
        except UnicodeError as error:
            raise UnwritableFileError(os.fspath(path), "it is no valid Unicode") from error
        except ValueError as error:
            raise UnwritableFileError(os.fspath(path), "no path has a zero byte") from error
    if stat.S_ISDIR(mode):
        raise OutputIsFolderError(os.fspath(path))
    if not stat.S_ISREG(mode):
        kind = "a link" if stat.S_ISLNK(mode) else "no regular file"
        raise OutputNotFileError(os.fspath(path), f"it is {kind}")
    return True


def require_place(path: str | os.PathLike[str], *, is_replaced: bool) -> None:
    """Raise before work is done what :func:`atomic_file` would raise after it.

    Raises:
        OutputExistsError: If the name is taken, and may not be.
        UnwritableFileError, DiskFullError: If the system does not let us make a file there.
        ArgumentError: As :func:`require_replaceable` does.
    """
    if require_replaceable(path) and not is_replaced:
        raise OutputExistsError(os.fspath(path))
    # Only the system knows whether it lets us, so it is asked by doing it.
    with named_write_errors(path):
        partial, file = _make(Path(path))
        try:
            file.close()
        finally:
            _remove(str(partial))


def require_no_input(path: str | os.PathLike[str], inputs: Mapping[str, Path]) -> None:
    """Raise OutputNotFileError if a file that is to be written is one of those that are read.

    Args:
        path: Of what is to be written.
        inputs: What is read, by what an error calls it.

    Raises:
        UnreadableFileError: If the system does not let us look at one that is read.
        UnwritableFileError: If it does not let us look at *path*.
    """
    with named_write_errors(path):
        target = _status(Path(path))
    for name, source in inputs.items():
        try:
            found = _status(source)
        except OSError as error:
            raise unreadable(source, error) from error
        if target is not None and found is not None and os.path.samestat(found, target):
            raise OutputNotFileError(os.fspath(path), f"it is {name}")


def _status(path: Path) -> os.stat_result | None:
    return path.stat() if path.exists() else None


def give_name(partial: Path, target: Path, *, is_replaced: bool) -> None:
    """Give a finished file its name, and make that last.

    Args:
        partial: The file, in the same folder or one inside it.
        target: Its name.
        is_replaced: Whether it takes the place of a file that has the name, in one step.

    Raises:
        OutputExistsError: If there is one by now, and it may not.
        OSError: If the system refuses.
    """
    if is_replaced:
        partial.replace(target)
    else:
        try:
            _take_free_name(partial, target)
        except FileExistsError:
            raise OutputExistsError(os.fspath(target)) from None
    sync_folder(target.parent)


def _take_free_name(partial: Path, target: Path) -> None:
    if not _IS_POSIX:
        partial.rename(target)  # Here it never takes the place of another file.
        return
    try:
        target.hardlink_to(partial)
    except FileExistsError:
        raise
    except OSError:  # Not every file system has links.
        if os.path.lexists(target):
            raise FileExistsError(os.fspath(target)) from None
        partial.replace(target)
    else:
        partial.unlink()


@contextmanager
def atomic_file(path: str | os.PathLike[str], *, is_replaced: bool = True) -> Iterator[BinaryIO]:
    """Write a file under a temporary name in its own folder; give it its name at the end.

    The bytes are on the disk before the name is. An existing file is replaced in one step. If
    anything fails, an interrupt included, neither the temporary nor the new file is left; the
    temporary of a process that was killed is removed by the next one that writes this file.

    Args:
        path: The name that the file gets.
        is_replaced: Whether it may be another file's by then.

    Yields:
        The file, open for writing at any place. What the block reads, it reads before: each of
        the system's errors in it is told as one of writing.

    Raises:
        DiskFullError: If the disk, or the quota on it, has no room.
        UnwritableFileError: If the system refuses for another reason.
        OutputExistsError: If the name is taken by then, and may not be.
        ArgumentError: As :func:`require_replaceable` does, before anything is written.
    """
    target = Path(path)
    require_replaceable(target)
    _sweep(target)
    with named_write_errors(path):
        partial, file = _make(target)
        try:
            with file:
                yield file
                file.flush()
                os.fsync(file.fileno())
                if _IS_POSIX:
                    # While it is locked: another process could take it for a leftover after that.
                    give_name(partial, target, is_replaced=is_replaced)
            if not _IS_POSIX:
                give_name(partial, target, is_replaced=is_replaced)
        except BaseException:
            _remove(str(partial))
            raise


def _make(target: Path) -> tuple[Path, BinaryIO]:
    """Return a new temporary, open and locked, which tells it from what a killed process left."""
    for _ in range(_ATTEMPT_COUNT_MAX):
        partial = target.with_name(f".{target.name}.{secrets.token_hex(_RANDOM_BYTES)}{_ENDING}")
        # Before there is a file, so that no lack of memory leaves one behind.
        name = str(partial)
        try:
            file = open_file(partial, "xb")
        except FileExistsError:
            raise
        except BaseException:
            _remove(name)
            raise
        is_kept = False
        try:
            made = partial, file
            is_kept = try_lock(file.fileno()) and is_still_at(file.fileno(), partial)
        finally:
            if not is_kept:
                file.close()
                _remove(name)
        # Until the lock is had, another process may take this for a leftover: then another name.
        if is_kept:
            return made
    raise FileNotFoundError(f"new files beside {target} are removed at once")


def _remove(name: str) -> None:
    """Remove a file of ours, if it is there."""
    # A text: of a Path, Python may say TypeError where memory is short.
    try:
        os.unlink(name)  # noqa: PTH108
    except MemoryError:
        with suppress(OSError):
            os.unlink(name)  # noqa: PTH108
    except OSError:
        return


def _sweep(target: Path) -> None:
    """Remove temporaries of this file whose writers have ended."""
    prefix = re.escape(f".{target.name}.")
    name = re.compile(rf"{prefix}[0-9a-f]{{{2 * _RANDOM_BYTES}}}{re.escape(_ENDING)}")
    with suppress(OSError), OwnFolder(target.parent, follows_links=True) as folder:
        for found in [found for found in folder.names() if name.fullmatch(found)]:
            # One that another process has just removed keeps none of the others.
            with suppress(OSError):
                _sweep_one(folder, found)


def _sweep_one(folder: OwnFolder, name: str) -> None:
    handle = folder.lock_file(name, 0)
    try:
        is_left = try_lock(handle)
        if is_left and _IS_POSIX:
            folder.remove_file(name)
    finally:
        os.close(handle)
    if is_left and not _IS_POSIX:
        folder.remove_file(name)


def sync_folder(folder: Path) -> None:
    """Make the new name last through a power cut, where the system lets a folder be opened."""
    with suppress(OSError):
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)
