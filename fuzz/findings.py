"""What fuzzing found, as files: the input, and beside it what happened."""

import hashlib
import traceback
from dataclasses import dataclass
from pathlib import Path
from typing import Final

KINDS: Final = {
    "exception": "an exception that is no named error of the target's families",
    "broken": "a promise that was not kept",
    "slow": "more than a second of computing",
    "large": "more than 64 MiB of memory",
    "hang": "the process did not come back",
    "memory": "the process took more memory than it may",
    "crash": "the process died",
}
"""Kind of a finding, and name of its folder -> what it is."""

MEASURED_KINDS: Final = ("slow", "large", "hang", "memory")
"""Kinds that the slowness of an instrumented process may feign: to be seen again without it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One input that did harm.

    Args:
        kind: Of ``KINDS``.
        signature: What tells it from others of its kind: where it happened.
        story: What a person needs to know.
    """

    kind: str
    signature: str
    story: str

    @property
    def file_name(self) -> str:
        """Name of its file: findings of the same cause share it, and the first one stays."""
        return hashlib.sha256(self.signature.encode()).hexdigest()[:12] + ".bin"


def finding_of(error: BaseException) -> Finding:
    """Return the finding that an exception is, told apart by its class and its innermost lines."""
    frames = traceback.extract_tb(error.__traceback__)
    own = [frame for frame in frames if "sslm" in Path(frame.filename).parts] or frames
    place = f"{Path(own[-1].filename).name}:{own[-1].name}:{own[-1].lineno}" if own else "nowhere"
    kind = "broken" if type(error).__name__ == "BrokenPromiseError" else "exception"
    promise = str(error)[:80] if kind == "broken" else ""
    return Finding(
        kind=kind,
        signature=f"{type(error).__name__} {place} {promise}".strip(),
        story="".join(traceback.format_exception(error)),
    )


def save_finding(folder: Path, finding: Finding, data: bytes) -> bool:
    """Write a finding below *folder* unless one like it is there; return whether it is new."""
    path = folder / finding.kind / finding.file_name
    if path.exists():
        return False
    path.parent.mkdir(parents=True, exist_ok=True)
    story = f"{KINDS[finding.kind]}: {finding.signature}\n\n{finding.story}\n"
    path.with_suffix(".txt").write_text(story, encoding="utf-8", errors="backslashreplace")
    path.write_bytes(data)
    return True


def saved_findings(folder: Path) -> list[Path]:
    """Return the inputs of all findings below *folder*."""
    return sorted(path for kind in KINDS for path in (folder / kind).glob("*.bin"))
