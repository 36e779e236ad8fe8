"""Names of files in repositories of a hub: ``hf:ORG/REPO[@REVISION][/FILE]``."""

import re
from dataclasses import dataclass
from typing import Final

from sslm import limits
from sslm.catalog.names import is_device
from sslm.errors.catalog import HubFileNameError, HubReferenceError

PREFIX: Final = "hf:"
MODEL_ENDING: Final = ".gguf"

_PART: Final = r"[A-Za-z0-9](?:[A-Za-z0-9._-]{0,94}[A-Za-z0-9_])?"
_REFERENCE: Final = re.compile(
    rf"hf:(?P<repo>{_PART}/{_PART})(?:@(?P<revision>{_PART}))?(?:/(?P<file>.*))?", re.DOTALL
)
_FILE_PART: Final = re.compile(r"[A-Za-z0-9_](?:[A-Za-z0-9 ._+()=,-]*[A-Za-z0-9_+()=,-])?")


@dataclass(frozen=True, slots=True, kw_only=True)
class HubReference:
    """A repository of a hub, and maybe one file in it.

    Args:
        repo: ``ORG/REPO``.
        revision: A commit, branch or tag; None for the newest.
        file: Path of the file in the repository; None for the only model in it.
    """

    repo: str
    revision: str | None
    file: str | None

    def __str__(self) -> str:
        revision = "" if self.revision is None else f"@{self.revision}"
        return f"{PREFIX}{self.repo}{revision}" + ("" if self.file is None else f"/{self.file}")

    @property
    def manual_command(self) -> str:
        """What a person can run where there is a network."""
        revision = "" if self.revision is None else f" --revision {self.revision}"
        return f"hf download {self.repo} {self.file or 'FILE.gguf'}{revision} --local-dir ."

    @property
    def local_name(self) -> str:
        """What that leaves in the current folder."""
        return f"./{self.file or 'FILE.gguf'}"


def parse_reference(text: str) -> HubReference:
    """Read a reference.

    Raises:
        HubReferenceError: If it does not have the form.
    """
    match = _REFERENCE.fullmatch(text)
    if match is None or ".." in match["repo"] or ".." in (match["revision"] or ""):
        reason = "ORG, REPO and REVISION consist of letters, digits, single dots, - and _"
        raise HubReferenceError(text, reason)
    file = match["file"]
    if file is not None:
        problem = file_name_problem(file)
        if problem is None and not file.lower().endswith(MODEL_ENDING):
            problem = "only files that end in .gguf can be converted"
        if problem is not None:
            raise HubReferenceError(text, problem)
    return HubReference(repo=match["repo"], revision=match["revision"], file=file)


def checked_file_name(repo: str, name: str) -> str:
    """Return a path that a hub states, if it is a plain one on every system.

    Raises:
        HubFileNameError: If it is not.
    """
    problem = file_name_problem(name)
    if problem is not None:
        raise HubFileNameError(repo, name[: limits.HUB_FILE_NAME_SIZE_CHARS_MAX], problem)
    return name


def file_name_problem(name: str) -> str | None:
    """Tell what keeps a path with slashes from being one inside a folder, on any system."""
    if len(name) > limits.HUB_FILE_NAME_SIZE_CHARS_MAX:
        return f"it is longer than {limits.HUB_FILE_NAME_SIZE_CHARS_MAX} characters"
    for part in name.split("/"):
        if not _FILE_PART.fullmatch(part):
            return "each part must be a plain file name of ASCII letters, digits and ._+()=,-"
        if is_device(part):
            return "Windows keeps a name in it for a device"
    return None
