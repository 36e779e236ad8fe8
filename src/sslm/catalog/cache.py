"""The folder where converted models are kept."""

import errno
import os
import re
import stat
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from sslm import limits
from sslm.artifact.atomic_file import require_replaceable, sync_folder
from sslm.artifact.file_lock import is_still_at, open_lock_file, try_lock
from sslm.artifact.own_folder import OwnFolder
from sslm.artifact.work_folder import sweep, work_folder
from sslm.artifact.write_errors import named_write_errors
from sslm.catalog.names import NAME, checked_name
from sslm.catalog.origins import ENDING, encode_origin, origin_path, read_origin
from sslm.errors.catalog import CacheBusyError, CacheFolderError, ModelInUseError
from sslm.errors.reading import unreadable
from sslm.hashes import Sha256
from sslm.program.program import ARITHMETIC_VERSION
from sslm.version import VERSION

CACHE_DIR_VARIABLE: Final = "SSLM_CACHE_DIR"
WAIT_S_MAX: Final = 3600
"""Longest wait for another process: a slow network takes its time over 90 MB."""

_WORK: Final = "work"
"""The folder of unfinished files, in the cache."""

_JOB: Final = "job."
"""How the names of those in it begin; nothing else there is removed."""

_NOTE_BEGINNING: Final = b"process "
_CLOCK_STEP_NS: Final = 2_000_000_000
"""Between two times of files that every file system tells apart."""
_KEY_SIZE_CHARS: Final = 16
_FILE_NAME: Final = re.compile(rf"(?P<name>{NAME})-(?P<key>[0-9a-f]{{{_KEY_SIZE_CHARS}}})\.sslm")

OnWait = Callable[[int, str], None]
"""Told the seconds that were waited, and for whom."""


def cache_folder(cache_dir: str | os.PathLike[str] | None = None) -> Path:
    """Return the folder that was asked for, here or in ``SSLM_CACHE_DIR``, or the user's own.

    Raises:
        CacheFolderError: If the user has none, or what was asked for cannot be a path.
    """
    chosen = cache_dir or os.environ.get(CACHE_DIR_VARIABLE)
    if chosen:
        text = os.fspath(chosen)
        try:
            folder = Path(text).expanduser()
        except RuntimeError as error:
            raise CacheFolderError(text, "its home folder is not known") from error
        if "\0" in text:
            raise CacheFolderError(text, "no path has a zero byte")
        return folder.absolute()
    from platformdirs import user_cache_path

    # Some releases raise where no home is known, others give a relative path.
    try:
        folder = user_cache_path("sslm", appauthor=False)
    except RuntimeError as error:
        raise CacheFolderError("", "the user's home folder is not known") from error
    if not folder.is_absolute():
        raise CacheFolderError(str(folder), "the user's home folder is not known")
    return folder


def conversion_key(source_sha256: str, options: Mapping[str, str]) -> str:
    """Return the 16 hex digits that stand for a conversion: what it reads, and what does it."""
    facts = [
        source_sha256,
        f"arithmetic {ARITHMETIC_VERSION}",
        f"converter {VERSION}",
        *(f"{name}={value}" for name, value in sorted(options.items())),
    ]
    return Sha256("\n".join(facts).encode()).hexdigest()[:_KEY_SIZE_CHARS]


@dataclass(frozen=True, slots=True, kw_only=True)
class CachedModel:
    """A model in the cache.

    Args:
        name: What it is called.
        key: Tells conversions of one name apart; see :func:`conversion_key`.
        path: Its file.
        size_bytes: Size of the file.
        modified_ns: When the file was written.
    """

    name: str
    key: str
    path: Path
    size_bytes: int
    modified_ns: int


class Cache:
    """A folder of converted models, shared by processes.

    A model's file is there complete or not at all. Whoever wants to add or remove one takes the
    lock. Only regular files count: links are neither used nor followed.

    Args:
        folder: Made when first written to. It may itself be a link to where models are kept.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._models_folder = folder / "models"

    def models(self) -> list[CachedModel]:
        """Return what is there, by name, the newest file of a name first."""
        found = [model for path in self._files() if (model := _cached_model(path)) is not None]
        return sorted(found, key=lambda model: (model.name, -model.modified_ns, model.key))

    def ignored(self) -> list[Path]:
        """Return what has the name of a model's file, and is none: links and folders."""
        return sorted(
            path
            for path in self._files()
            if _FILE_NAME.fullmatch(path.name) and _cached_model(path) is None
        )

    def find(self, name: str, key: str | None = None) -> CachedModel | None:
        """Return the newest model of a name, or the one of a key."""
        for model in self.models():
            if model.name == name and key in (None, model.key):
                return model
        return None

    def path_of(self, name: str, key: str) -> Path:
        """Return where a model of this name and key lies once it is there.

        Raises:
            ModelNameError: If the name cannot be part of a file name.
        """
        return self._models_folder / f"{checked_name(name)}-{key}.sslm"

    @contextmanager
    def locked(
        self, purpose: str, on_wait: OnWait = lambda waited_s, holder: None
    ) -> Iterator[None]:
        """Keep other processes from working in the cache.

        The lock goes with the process that holds it, however that ends. What such a process left
        is removed here.

        Args:
            purpose: What is done, for those who wait.
            on_wait: Called again and again while another process works, with the seconds waited and
                words that tell which one.

        Raises:
            CacheBusyError: If the other one does not come to an end.
            DiskFullError, UnwritableFileError: If the cache cannot be written.
        """
        lock = self._lock(on_wait)
        try:
            with named_write_errors(self.folder):
                _require_own_lock(lock)
            try:
                with named_write_errors(self.folder):
                    _write_note(lock, f"{os.getpid()}, working on {purpose}")
                self._sweep()
                yield
            finally:
                with suppress(OSError):
                    os.ftruncate(lock, 0)
        finally:
            os.close(lock)

    @contextmanager
    def work_folder(
        self, purpose: str = "a model", on_wait: OnWait = lambda waited_s, holder: None
    ) -> Iterator[Path]:
        """Lock the cache and make a folder inside it, which is gone afterwards.

        Args:
            purpose: As for :meth:`locked`.
            on_wait: As for :meth:`locked`.

        Raises:
            CacheBusyError: If another process does not come to an end.
            DiskFullError, UnwritableFileError: If the cache cannot be written.
        """
        work_path = self.folder / _WORK
        with self.locked(purpose, on_wait):
            with named_write_errors(self.folder):
                _make_folder(work_path)
            try:
                with work_folder(
                    work_path, _JOB, purpose=self.folder, follows_links=False
                ) as folder:
                    yield folder
            finally:
                # Not empty if somebody removed the lock, and another process works here too.
                self._remove_work()

    def keep(
        self,
        path: Path,
        name: str,
        key: str,
        *,
        origin: Mapping[str, str] | None = None,
        is_successor: bool = False,
    ) -> CachedModel:
        """Move a finished file from the work folder to its place; its name then means this file.

        Args:
            path: In the work folder.
            name: Of the model.
            key: Of the model.
            origin: Where it came from; names with texts.
            is_successor: Whether other files of this name that were made of the same source are
                removed; those of another source stay.
        """
        target = self.path_of(name, key)
        for place in (target, origin_path(target)):
            require_replaceable(place)
        with named_write_errors(target):
            draft = None
            if origin is not None:
                # The note first: a model without one would look as if nobody knew its origin. One
                # without its model is removed with the other leftovers.
                draft = path.with_name("origin.json")
                draft.write_bytes(encode_origin(origin))
            with OwnFolder(self._models_folder) as models:
                if draft is not None:
                    models.take(draft, origin_path(target).name)
                models.take(path, target.name)
            sync_folder(self._models_folder)
        source = (origin or {}).get("sha256")
        for model in self.others(name, key):
            if is_successor and source and read_origin(model.path).get("sha256") == source:
                # Some systems keep a file that is in use; then the newest one of the name counts.
                with suppress(ModelInUseError):
                    self.remove(model)
        kept = _cached_model(target)
        if kept is None:
            raise AssertionError("a file that was just put there, under a name that was checked")
        return self.prefer(kept)

    def others(self, name: str, key: str) -> list[CachedModel]:
        """Return the models of a name that have another key."""
        return [model for model in self.models() if model.name == name and model.key != key]

    def prefer(self, model: CachedModel) -> CachedModel:
        """Let a name mean this model, whatever the clock says; return it as it is then."""
        newest_ns = max((one.modified_ns for one in self.others(model.name, model.key)), default=0)
        if model.modified_ns > newest_ns:
            return model
        with named_write_errors(model.path):
            modified_ns = max(time.time_ns(), newest_ns + _CLOCK_STEP_NS)
            with OwnFolder(self._models_folder) as models:
                models.set_modified(model.path.name, modified_ns)
        return _cached_model(model.path) or model

    def remove(self, model: CachedModel) -> None:
        """Remove a model's file with the note about it, while the cache is locked.

        A process that has it open keeps what it has, where the system allows its removal at all.

        Raises:
            ModelInUseError: If the system does not remove a file that is open.
            UnwritableFileError: If the system refuses for another reason.
        """
        with named_write_errors(model.path), OwnFolder(self._models_folder) as models:
            try:
                models.remove_file(model.path.name)
            except PermissionError as error:
                if os.name == "posix":
                    raise
                raise ModelInUseError(model.name, str(model.path)) from error
            models.remove_file(origin_path(model.path).name)

    def tidy(self) -> None:
        """Remove what a killed process left, if there is something and nobody works here.

        For those who found what they looked for, and so take no lock: one that was killed just
        after its last step leaves the model, but also what it was made from.
        """
        if not os.path.lexists(self.folder / _WORK):
            return
        # A cache that cannot be written is no worse for those who only read it.
        with suppress(OSError):
            lock = open_lock_file(self.folder / "lock")
            try:
                if try_lock(lock) and is_still_at(lock, self.folder / "lock"):
                    self._sweep()
            finally:
                os.close(lock)

    def _files(self) -> list[Path]:
        try:
            with OwnFolder(self._models_folder) as models:
                return [self._models_folder / name for name in models.names()]
        except OSError as error:
            if error.errno in (errno.ENOENT, errno.ENOTDIR, errno.ELOOP):
                return []
            raise unreadable(self._models_folder, error) from error

    def _sweep(self) -> None:
        """Remove what processes left that were killed, by its names; no link is followed."""
        sweep(self.folder / _WORK, _JOB, follows_links=False)
        self._remove_work()
        with suppress(OSError), OwnFolder(self._models_folder) as models:
            for name in models.names():
                model = name.removesuffix(ENDING) + ".sslm"
                if name.endswith(ENDING) and _FILE_NAME.fullmatch(model):
                    with suppress(OSError):
                        if not os.path.lexists(self._models_folder / model):
                            models.remove_file(name)

    def _remove_work(self) -> None:
        """Remove the folder of unfinished files if it is empty."""
        with suppress(OSError), OwnFolder(self.folder, follows_links=True) as folder:
            folder.remove_empty_folder(_WORK)

    def _lock(self, on_wait: OnWait) -> int:
        """Return the descriptor of the lock's file, which is unlocked when it is closed."""
        path = self.folder / "lock"
        holder = ""
        for waited_s in range(WAIT_S_MAX):
            with named_write_errors(self.folder):
                if self.folder.is_symlink() and not self.folder.exists():
                    raise OSError(errno.ENOENT, "it is a link to nothing")
                self.folder.mkdir(parents=True, exist_ok=True)
                _make_folder(self._models_folder)
                file = _open_shared_lock(path)
                # One who waited may hold a file that was removed meanwhile, beside the new one.
                if _is_locked(file, path):
                    return file
            try:
                holder = _holder(file)
            finally:
                os.close(file)
            on_wait(waited_s, holder)
            time.sleep(1)
        raise CacheBusyError(str(self.folder), WAIT_S_MAX, holder)


def _make_folder(path: Path) -> None:
    """Make a folder unless it is there; raise OSError if a link, or anything else, is."""
    try:
        path.mkdir()
    except FileExistsError:
        OwnFolder(path).close()


def _open_shared_lock(path: Path) -> int:
    """Open the lock of a cache; raise OSError if another user's is closed to us."""
    try:
        return open_lock_file(path)
    except PermissionError as error:
        try:
            found = path.lstat()
        except OSError:
            raise error from None
        reason = (
            f"lock in it belongs to user {found.st_uid} and has the mode "
            f"{stat.S_IMODE(found.st_mode):04o}; let that user remove it, or make it and the "
            "folder writable for all who share the cache"
        )
        raise PermissionError(error.errno, reason) from error


def _require_own_lock(file: int) -> None:
    """Raise OSError unless a lock file may be written: it is no other file by a second name."""
    if os.fstat(file).st_nlink > 1:
        raise OSError(errno.EMLINK, "lock in it is a second name of another file; remove it")
    note = os.read(file, len(_NOTE_BEGINNING))
    if not _NOTE_BEGINNING.startswith(note):
        raise OSError(errno.EEXIST, "lock in it is a file of something else; name another folder")


def _write_note(file: int, note: str) -> None:
    """Say in a lock file who holds it."""
    os.ftruncate(file, 0)
    os.lseek(file, 0, os.SEEK_SET)
    os.write(file, _NOTE_BEGINNING + note.encode())


def _is_locked(file: int, path: Path) -> bool:
    try:
        return try_lock(file) and is_still_at(file, path)
    except BaseException:
        os.close(file)
        raise


def _holder(file: int) -> str:
    """Return what the holder of a lock says of itself."""
    with suppress(OSError):
        os.lseek(file, 0, os.SEEK_SET)
        note = os.read(file, limits.LOCK_NOTE_SIZE_BYTES_MAX).decode("utf-8", errors="replace")
        if note and note.isprintable():
            return note
    return "another process"


def _cached_model(path: Path) -> CachedModel | None:
    match = _FILE_NAME.fullmatch(path.name)
    try:
        status = path.lstat()
    except OSError:
        return None
    if match is None or not stat.S_ISREG(status.st_mode):
        return None
    return CachedModel(
        name=match["name"],
        key=match["key"],
        path=path,
        size_bytes=status.st_size,
        modified_ns=status.st_mtime_ns,
    )
