"""``sslm pull``: a file of one's own gets a name."""

import hashlib
import shutil
from pathlib import Path

import pytest

from sslm.cli.app import run
from tests.unit.cli.commands import Commands


def test_a_pulled_file_is_used_by_its_name(
    sslm_command: Commands, stories: Path, tmp_path: Path
) -> None:
    digest = hashlib.sha256(stories.read_bytes()).hexdigest()
    facts = sslm_command.json("pull", stories, "--sha256", digest)
    assert facts["name"] == "stories260k"
    assert facts["size_bytes"] == stories.stat().st_size
    assert Path(facts["path"]).parent == tmp_path / "cache" / "models"
    assert sslm_command.text("generate", "Once", "-m", "stories260k", "--max-tokens", "1")


def test_a_person_sees_name_and_place(
    sslm_command: Commands, stories: Path, tmp_path: Path
) -> None:
    out = sslm_command.text("pull", stories, "--cache-dir", tmp_path / "other", "--no-progress")
    name, size, unit, path = out.split()
    assert (name, unit) == ("stories260k", "bytes")
    assert Path(path).stat().st_size == int(size)
    assert Path(path).is_relative_to(tmp_path / "other")


def test_what_cannot_be_pulled_is_refused_by_name(
    sslm_command: Commands, stories: Path, tmp_path: Path
) -> None:
    assert sslm_command.error("pull", "smollm2-135m", code=6) == "OfflineError"
    assert sslm_command.error("pull", "nobody", code=4) == "UnknownModelError"
    assert sslm_command.error("pull", "./nobody.gguf", code=3) == "UnreadableFileError"
    arguments = ("pull", stories, "--sha256", "0" * 64)
    assert sslm_command.error(*arguments, code=3) == "ModelHashMismatchError"
    assert not (tmp_path / "cache").exists()


def test_help_has_an_example(sslm_command: Commands) -> None:
    assert "Example: sslm pull" in sslm_command.text("pull", "--help")


def test_a_name_that_means_another_file_now_is_told(
    sslm_command: Commands,
    stories: Path,
    talker: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    first = sslm_command.json("pull", stories)
    other = tmp_path / stories.name
    shutil.copy(talker, other)
    assert run(["pull", str(other)]) == 0
    earlier = f"{first['name']}-{first['key']}"
    assert f"sslm rm {earlier} removes it" in capsys.readouterr().err
    sslm_command.text("rm", earlier)
    assert [model["name"] for model in sslm_command.json("list")["models"]] == [first["name"]]
