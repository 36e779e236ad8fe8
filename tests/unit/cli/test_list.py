"""``sslm list``: what is in the cache, and what could be."""

from pathlib import Path

from sslm.catalog.known_models import KNOWN_MODELS
from tests.unit.cli.commands import Commands


def test_an_empty_cache_offers_the_known_models(sslm_command: Commands, tmp_path: Path) -> None:
    facts = sslm_command.json("list")
    assert facts["cache_dir"] == str(tmp_path / "cache")
    assert facts["models"] == []
    assert {known["name"] for known in facts["known"]} == set(KNOWN_MODELS)
    assert not (tmp_path / "cache").exists()


def test_pulled_models_are_listed(sslm_command: Commands, stories: Path) -> None:
    pulled = sslm_command.json("pull", stories)
    assert sslm_command.json("list")["models"] == [pulled]
    lines = sslm_command.text("list").splitlines()
    assert lines[0].split() == ["name", "bytes", "origin", "where"]
    size, path = str(pulled["size_bytes"]), pulled["path"]
    assert lines[1].split() == ["stories260k", size, "stories260K.sslm", path]
    assert "not fetched yet" in lines[2]


def test_help_has_an_example(sslm_command: Commands) -> None:
    assert "Example: sslm list" in sslm_command.text("list", "--help")
