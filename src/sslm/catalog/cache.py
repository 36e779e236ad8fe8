"""The folder where converted models are kept."""

import hashlib
import os
import re
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from sslm.artifact.write_errors import named_write_errors
from sslm.catalog.file_lock import try_lock
from sslm.catalog.names import checked_name
from sslm.errors.catalog import CacheBusyError
from sslm.program.program import ARITHMETIC_VERSION
from sslm.version import VERSION

CACHE_DIR_VARIABLE: Final = "SSLM_CACHE_DIR"
WAIT_S_MAX: Final = 3600
"""Longest wait for another process: a slow network takes its time over 90 MB."""

_KEY_SIZE_CHARS: Final = 16
_FILE_NAME: Final = re.compile(rf"(?P<name>.+)-(?P<key>[0-9a-f]{{{_KEY_SIZE_CHARS}}})\.sslm")


def cache_folder(cache_dir: str | os.PathLike[str] | None = None) -> Path:
    """Return the folder that was asked for, here or in ``SSLM_CACHE_DIR``, or the user's own."""
    chosen = cache_dir or os.environ.get(CACHE_DIR_VARIABLE)
    if chosen:
        return Path(chosen).expanduser().absolute()
    from platformdirs import user_cache_path

    return user_cache_path("sslm", appauthor=False)


def conversion_key(source_sha256: str, options: Mapping[str, str]) -> str:
    """Return the 16 hex digits that stand for a conversion: what it reads, and what does it."""
    facts = [
        source_sha256,
        f"arithmetic {ARITHMETIC_VERSION}",
        f"converter {VERSION}",
        *(f"{name}={value}" for name, value in sorted(options.items())),
    ]
    return hashlib.sha256("\n".join(facts).encode()).hexdigest()[:_KEY_SIZE_CHARS]


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

    A model's file is there complete or not at all. Whoever wants to add one takes the lock.

    Args:
        folder: Made when first written to.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._models_folder = folder / "models"

    def models(self) -> list[CachedModel]:
        """Return what is there, by name, the newest file of a name first."""
        found = []
        with suppress(FileNotFoundError, NotADirectoryError):
            for path in self._models_folder.iterdir():
                model = _cached_model(path)
                if model is not None:
                    found.append(model)
        return sorted(found, key=lambda model: (model.name, -model.modified_ns, model.key))

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
    def work_folder(self, on_wait: Callable[[int], None] = lambda waited_s: None) -> Iterator[Path]:
        """Lock the cache and make a folder inside it, which is gone afterwards.

        The lock goes with the process that holds it, however that ends; what such a process left
        is removed by the next one.

        Args:
            on_wait: Called with the seconds waited, again and again, while another process works.

        Raises:
            CacheBusyError: If the other one does not come to an end.
            DiskFullError, UnwritableFileError: If the cache cannot be written.
        """
        work_path = self.folder / "work"
        with named_write_errors(self.folder):
            self._models_folder.mkdir(parents=True, exist_ok=True)
            lock_file = (self.folder / "lock").open("ab")
        with lock_file:
            _wait_for(lock_file.fileno(), self.folder, on_wait)
            shutil.rmtree(work_path, ignore_errors=True)
            with named_write_errors(self.folder):
                work_path.mkdir(exist_ok=True)
                folder = tempfile.mkdtemp(dir=work_path)
            try:
                yield Path(folder)
            finally:
                shutil.rmtree(work_path, ignore_errors=True)

    def keep(self, path: Path, name: str, key: str, *, is_only: bool = False) -> CachedModel:
        """Move a finished file from the work folder to its place.

        Args:
            path: In the work folder.
            name: Of the model.
            key: Of the model.
            is_only: Whether other files of this name are removed.
        """
        target = self.path_of(name, key)
        with named_write_errors(target):
            path.replace(target)
        for model in self.models():
            if is_only and model.name == name and model.key != key:
                # Some systems keep a file that is in use; then the newest one of the name counts.
                with suppress(OSError):
                    model.path.unlink()
        kept = _cached_model(target)
        if kept is None:
            raise AssertionError("a file that was just put there, under a name that was checked")
        return kept


def _cached_model(path: Path) -> CachedModel | None:
    match = _FILE_NAME.fullmatch(path.name)
    if match is None or path.is_symlink() or not path.is_file():
        return None
    status = path.stat()
    return CachedModel(
        name=match["name"],
        key=match["key"],
        path=path,
        size_bytes=status.st_size,
        modified_ns=status.st_mtime_ns,
    )


def _wait_for(lock: int, folder: Path, on_wait: Callable[[int], None]) -> None:
    for waited_s in range(WAIT_S_MAX):
        with named_write_errors(folder):
            if try_lock(lock):
                return
        on_wait(waited_s)
        time.sleep(1)
    raise CacheBusyError(str(folder), WAIT_S_MAX)
