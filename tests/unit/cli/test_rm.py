"""``sslm rm``: models leave the cache, and the bytes freed are said."""

from pathlib import Path

import pytest

from tests.unit.cli.commands import Commands


def test_a_removed_model_is_gone(sslm_command: Commands, stories: Path) -> None:
    pulled = sslm_command.json("pull", stories)
    removed = sslm_command.json("rm", "stories260k")
    assert removed["freed_bytes"] == pulled["size_bytes"]
    assert [model["path"] for model in removed["removed"]] == [pulled["path"]]
    assert not Path(pulled["path"]).exists()
    assert sslm_command.json("list")["models"] == []


def test_a_person_is_told(sslm_command: Commands, stories: Path) -> None:
    pulled = sslm_command.json("pull", stories)
    lines = sslm_command.text("rm", "--all", "--yes").splitlines()
    size = pulled["size_bytes"]
    assert lines == [f"removed stories260k-{pulled['key']}  {size} bytes", f"freed {size} bytes"]


def test_all_needs_a_yes(sslm_command: Commands, stories: Path) -> None:
    pulled = sslm_command.json("pull", stories)
    assert sslm_command.error("rm", "--all", code=4) == "RemovalUnconfirmedError"
    assert Path(pulled["path"]).exists()


@pytest.mark.parametrize(
    ("arguments", "told"), [((), "name models, or give --all"), (("a", "--all"), "not both")]
)
def test_names_or_all_and_not_both(
    sslm_command: Commands, arguments: tuple[str, ...], told: str
) -> None:
    error = sslm_command.json("rm", *arguments, code=2)["error"]
    assert error["type"] == "UsageError"
    assert error["message"].endswith(told)


def test_an_unknown_name_has_its_own_error(sslm_command: Commands) -> None:
    error = sslm_command.json("rm", "nobody", code=4)["error"]
    assert error["type"] == "UnknownCachedModelError"
    assert (error["facts"]["nearest"], error["facts"]["available"]) == (None, None)
    assert error["message"].endswith("which is empty")


def test_pull_says_that_names_are_in_lower_case(
    sslm_command: Commands, stories: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    from sslm.cli.app import run

    assert run(["pull", str(stories)]) == 0
    assert "-m stories260k (names of models are in lower case)" in capsys.readouterr().err


def test_help_has_an_example(sslm_command: Commands) -> None:
    assert "Example: sslm rm" in sslm_command.text("rm", "--help")


def test_what_was_removed_is_told_with_its_origin(sslm_command: Commands, stories: Path) -> None:
    sslm_command.text("pull", stories)
    before = sslm_command.json("list")["models"]
    assert before[0]["origin"]["file"] == stories.name
    assert sslm_command.json("rm", "stories260k")["removed"] == before


def test_a_no_is_an_answer(
    sslm_command: Commands, stories: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pulled = sslm_command.json("pull", stories)
    monkeypatch.setattr("sys.stdin.isatty", lambda: True, raising=False)
    monkeypatch.setattr("typer.confirm", lambda *_, **__: False)
    assert sslm_command.json("rm", "--all")["removed"] == []
    assert Path(pulled["path"]).exists()
