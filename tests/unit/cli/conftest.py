"""What the tests of commands share."""

from pathlib import Path

import pytest

from tests.converted import stories_artifact, talking_artifact
from tests.unit.cli.commands import Commands


@pytest.fixture(scope="module")
def talker() -> Path:
    """The small model, with a chat template."""
    return talking_artifact()


@pytest.fixture
def sslm_command(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> Commands:
    """Run commands in this process, with an empty cache and no settings from outside."""
    for name in ("SSLM_MODEL", "SSLM_BACKEND", "SSLM_TIER", "SSLM_THREADS"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("SSLM_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setenv("SSLM_OFFLINE", "1")
    return Commands(capsys)


@pytest.fixture
def stories() -> Path:
    """A small trained model as an artifact."""
    return stories_artifact()
