"""``sslm doctor`` describes the machine, with or without a working library."""

from pathlib import Path

import pytest

import sslm
from sslm import native_library
from sslm.memory import huge_page_mode
from sslm.version import VERSION
from tests.unit.cli.commands import Commands


def test_the_native_library_is_described(sslm_command: Commands) -> None:
    facts = sslm_command.json("doctor")
    assert facts["ok"] is True
    native = facts["native"]
    assert native["tiers"] == list(native_library.available_tiers())
    assert set(native["tiers"]) | set(native["tiers_not_here"]) == set(native_library.TIERS)
    assert not set(native["tiers"]) & set(native["tiers_not_here"])
    assert native["default_tier"] == native["tiers"][-1]
    assert native["cpu_features"] == list(native_library.cpu_features())
    assert Path(native["library"]).is_file()
    assert facts["memory"] == {"huge_pages": huge_page_mode()}
    assert 1 <= facts["threads"]["default"] <= facts["threads"]["cpus"]


def test_versions_and_cache_are_described(sslm_command: Commands, tmp_path: Path) -> None:
    facts = sslm_command.json("doctor", "--cache-dir", tmp_path / "elsewhere")
    assert facts["versions"]["sslm"] == VERSION
    assert facts["versions"]["arithmetic"] == "int/1 version 1"
    assert facts["versions"]["format"] == 16
    assert all(facts["versions"].values())
    assert facts["cache"] == {
        "path": str(tmp_path / "elsewhere"),
        "models": [],
        "size_bytes": 0,
        "problem": None,
    }
    assert not (tmp_path / "elsewhere").exists()


def test_a_person_gets_the_same(sslm_command: Commands) -> None:
    text = sslm_command.text("doctor")
    assert native_library.best_tier() in text
    assert f"sslm           {VERSION}\n" in text


def test_a_missing_library_is_reported_with_the_rest(
    sslm_command: Commands, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    sslm_command.text("doctor")
    native_library.load_library.cache_clear()
    monkeypatch.setattr(sslm, "__path__", [str(tmp_path)])
    try:
        facts = sslm_command.json("doctor", code=5)
    finally:
        monkeypatch.undo()
        native_library.load_library.cache_clear()
    assert facts["ok"] is False
    assert facts["native"]["status"] == 430
    assert str(tmp_path) in facts["native"]["problem"]
    assert facts["versions"]["sslm"] == VERSION


def test_a_cache_that_cannot_be_one_is_told(sslm_command: Commands, tmp_path: Path) -> None:
    assert sslm_command.json("doctor")["cache"]["problem"] is None
    (tmp_path / "file").write_bytes(b"")
    for folder in (tmp_path / "file", tmp_path / "file" / "below"):
        cache = sslm_command.json("doctor", "--cache-dir", folder)["cache"]
        assert cache["problem"] == f"{tmp_path / 'file'} is no folder"
