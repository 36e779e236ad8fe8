"""Fetching one file of a hub's repository, through huggingface_hub in a process of its own."""

import importlib.util
import json
import os
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final, NoReturn

from sslm import limits
from sslm.artifact.write_errors import named_write_errors
from sslm.catalog import hub_child
from sslm.catalog.child_process import (
    STALL_S_MAX,
    Ending,
    child_process,
    python_problem,
    says_disk_full,
    watch,
)
from sslm.catalog.hub_reference import MODEL_ENDING, HubReference, checked_file_name
from sslm.catalog.known_models import PinnedFile
from sslm.catalog.pinned_files import file_sha256, require_pinned
from sslm.errors.artifact import DiskFullError
from sslm.errors.catalog import (
    HubAccessError,
    HubAnswerSizeError,
    HubFetchError,
    HubFileChoiceError,
    HubFileMissingError,
    HubLibraryMissingError,
    HubNoModelFileError,
    HubRepoMissingError,
    HubRevisionMissingError,
    HubServerError,
    HubUnreachableError,
)
from sslm.progress import StageProgress

LIBRARY: Final = "huggingface_hub"
TIMEOUT_S: Final = 30
"""Longest wait for one answer of the hub, or for more bytes of it."""

REQUEST_COUNT_MAX: Final = 24
"""Requests for one file: each that follows a lost connection begins where that one ended."""

_SLACK_BYTES: Final = 1 << 20
"""What may be sent beside the file: redirections, and what was lost with a connection."""

_QUIET: Final = {
    "HF_HUB_DISABLE_TELEMETRY": "1",
    "DO_NOT_TRACK": "1",
    "HF_HUB_DISABLE_UPDATE_CHECK": "1",
    "HF_HUB_DISABLE_PROGRESS_BARS": "1",
    "HF_HUB_DISABLE_XET": "1",
    "PYTHONWARNINGS": "ignore",
}
"""Nothing is told to anybody, and files come over the one connection whose bytes are counted."""

_COMMIT: Final = re.compile(r"[0-9a-f]{40}")
_SHA256: Final = re.compile(r"[0-9a-f]{64}")


@dataclass(frozen=True, slots=True, kw_only=True)
class HubFile:
    """One file of a repository at one commit.

    Args:
        repo: ``ORG/REPO``.
        commit: 40 hex digits.
        name: Its path in the repository, which is plain on every system.
        size_bytes: Its size, as the hub states it.
        sha256: Its hash, as the hub states it; None if it states none.
    """

    repo: str
    commit: str
    name: str
    size_bytes: int
    sha256: str | None


def find_file(reference: HubReference, folder: Path) -> HubFile:
    """Ask the hub which file is meant.

    Args:
        reference: What was asked for.
        folder: An empty folder for what that takes.

    Raises:
        HubFileChoiceError: If there are several models, and none was named.
        NetworkError: If it cannot be found; one class per cause.
    """
    answer = _run("list", reference, folder, revision=reference.revision)
    commit, listed = answer.get("commit"), answer.get("files")
    if not isinstance(commit, str) or not _COMMIT.fullmatch(commit) or not isinstance(listed, list):
        raise HubServerError(reference.repo, "its answer states no commit, or no files")
    if len(listed) > limits.HUB_FILE_COUNT_MAX:
        raise HubAnswerSizeError(reference.repo, "the list of files", limits.HUB_FILE_COUNT_MAX)
    name, facts = _chosen(reference, listed)
    size_bytes, sha256 = facts.get("size_bytes"), facts.get("sha256")
    if not isinstance(size_bytes, int) or size_bytes < 0:
        raise HubServerError(reference.repo, f"it does not state the size of {name}")
    if size_bytes > limits.HUB_FILE_SIZE_BYTES_MAX:
        raise HubAnswerSizeError(reference.repo, name, limits.HUB_FILE_SIZE_BYTES_MAX)
    if sha256 is not None and not (isinstance(sha256, str) and _SHA256.fullmatch(sha256)):
        raise HubServerError(reference.repo, f"it states no SHA-256 for {name}, but something else")
    return HubFile(
        repo=reference.repo, commit=commit, name=name, size_bytes=size_bytes, sha256=sha256
    )


def fetch_file(
    reference: HubReference, file: HubFile, folder: Path, on_progress: StageProgress
) -> tuple[Path, str]:
    """Download a file, and compare it with what the hub states of it.

    Args:
        reference: What was asked for.
        file: Which one.
        folder: An empty folder; the caller removes it, whatever happens.
        on_progress: Called often, with bytes.

    Returns:
        The file, in *folder*, and its hex SHA-256.

    Raises:
        FetchedFileMismatchError: If its size or hash is another; it was not read any further.
        DiskFullError, UnwritableFileError: If the folder cannot be written.
        NetworkError: If it cannot be fetched; one class per cause.
    """
    total = file.size_bytes
    _run(
        "fetch",
        reference,
        folder,
        revision=file.commit,
        file=file,
        report=lambda done: on_progress("fetch", min(done, max(total - 1, 0)), total),
    )
    path = folder / "files" / file.name
    stated = PinnedFile(name=file.name, size_bytes=total, sha256=file.sha256 or "")
    if not path.is_file() or path.is_symlink():
        raise HubServerError(file.repo, f"{file.name} did not come")
    if file.sha256 is None:
        stated = PinnedFile(name=file.name, size_bytes=total, sha256=file_sha256(path))
    require_pinned(path, stated, lambda done, size: on_progress("check", done, size))
    return path, stated.sha256


def _chosen(reference: HubReference, listed: list[object]) -> tuple[str, Mapping[str, object]]:
    """Return the file that is meant; only names of models are looked at."""
    models: dict[str, Mapping[str, object]] = {}
    for facts in listed:
        if not isinstance(facts, dict) or not isinstance(facts.get("name"), str):
            raise HubServerError(reference.repo, "its list of files holds something else")
        if facts["name"].lower().endswith(MODEL_ENDING):
            models[facts["name"]] = facts
    if reference.file is not None and reference.file in models:
        return reference.file, models[reference.file]
    if not models:
        raise HubNoModelFileError(reference.repo, len(listed))
    names = [checked_file_name(reference.repo, name) for name in sorted(models)]
    if reference.file is not None:
        raise HubFileMissingError(reference.repo, reference.file, ", ".join(names))
    if len(names) > 1:
        prefix = f"hf:{reference.repo}" + (f"@{reference.revision}" if reference.revision else "")
        lines = [f"  {prefix}/{name}  {models[name].get('size_bytes')} bytes" for name in names]
        raise HubFileChoiceError(reference.repo, len(names), "\n".join(lines))
    return names[0], models[names[0]]


def _run(
    action: str,
    reference: HubReference,
    folder: Path,
    *,
    revision: str | None,
    file: HubFile | None = None,
    report: Callable[[int], None] = lambda done: None,
) -> dict[str, object]:
    """Run the program that asks the hub; return its answer, or raise what it met."""
    _require_library(reference)
    files = folder / "files"
    size_bytes_max = limits.HUB_ANSWER_SIZE_BYTES_MAX
    if file is not None:
        size_bytes_max = 2 * file.size_bytes + _SLACK_BYTES
    request = {
        "endpoint": os.environ.get("HF_ENDPOINT") or None,
        "repo": reference.repo,
        "revision": revision,
        "file": None if file is None else file.name,
        "folder": str(files),
        "timeout_s": TIMEOUT_S,
        "request_count_max": REQUEST_COUNT_MAX,
        "size_bytes_max": size_bytes_max,
    }
    request_path, result_path, log_path = (
        folder / f"{action}-{kind}" for kind in ("request.json", "result.json", "log")
    )
    with named_write_errors(folder):
        files.mkdir(exist_ok=True)
        request_path.write_text(json.dumps(request), encoding="utf-8")
        with child_process(
            [str(hub_child.__file__), action, str(request_path), str(result_path)],
            folder=folder,
            log=log_path,
            environment={**os.environ, **_QUIET},
            file_size_bytes_max=size_bytes_max,
        ) as process:
            ending = watch(process, files, report, size_bytes_max=size_bytes_max)
    if ending is Ending.TOO_LARGE:
        _raise(reference, "size", "", file, folder)
    if ending is Ending.STALLED:
        _raise(reference, "unreachable", f"no data came for {STALL_S_MAX} seconds", file, folder)
    try:
        answer = json.loads(result_path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        log = " ".join(log_path.read_text("utf-8", errors="replace").split())[-300:]
        kind = "full" if says_disk_full(log) else "other"
        _raise(reference, kind, log or f"it ended with {process.returncode}", file, folder)
    if not isinstance(answer, dict):
        raise HubServerError(reference.repo, "its answer is not what was asked for")
    if "error" in answer:
        _raise(reference, str(answer["error"]), str(answer.get("reason")), file, folder)
    return answer


def _require_library(reference: HubReference) -> None:
    reason = python_problem()
    if reason is None and importlib.util.find_spec(LIBRARY) is None:
        reason = "it is not installed"
    if reason is not None:
        raise HubLibraryMissingError(str(reference), reason, reference.local_name)


def _raise(
    reference: HubReference, kind: str, reason: str, file: HubFile | None, folder: Path
) -> NoReturn:
    """Raise the error that the program met."""
    repo = reference.repo
    match kind:
        case "access":
            raise HubAccessError(repo, reason)
        case "repo":
            raise HubRepoMissingError(repo, reason)
        case "revision":
            raise HubRevisionMissingError(repo, reference.revision or "main")
        case "file":
            raise HubFileMissingError(repo, file.name if file else "", "see its page")
        case "server":
            raise HubServerError(repo, reason)
        case "size":
            most = limits.HUB_ANSWER_SIZE_BYTES_MAX if file is None else file.size_bytes
            raise HubAnswerSizeError(repo, file.name if file else "the list of files", most)
        case "full":
            raise DiskFullError(os.fspath(folder), reason)
        case "unreachable" | "cut":
            raise HubUnreachableError(
                str(reference), reason, reference.manual_command, reference.local_name
            )
        case _:
            if "ModuleNotFoundError" in reason or "ImportError" in reason:
                raise HubLibraryMissingError(str(reference), reason, reference.local_name)
            raise HubFetchError(str(reference), reason)
