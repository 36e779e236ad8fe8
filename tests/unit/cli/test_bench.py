"""``sslm bench``: tables, JSON, refusals, and what an interrupt leaves."""

import json
import os
import signal
import sys
from pathlib import Path

import pytest

from sslm.cli.app import run
from sslm.errors.native import RunCancelledError
from tests.unit.cli.commands import Commands, start

TINY = ("-p", "8", "-n", "4", "-b", "1,2", "-d", "0,64", "-t", "1", "-r", "2")


def test_a_person_sees_two_tables(sslm_command: Commands, stories: Path) -> None:
    lines = sslm_command.text("bench", stories, *TINY).splitlines()
    assert lines[0].startswith(f"{stories.name}, weights of 0.3 MB, tier ")
    names = [line.split("  ")[0] for line in lines if line.startswith(("pp", "tg"))]
    assert names == ["pp8", "tg4", "tg4 b2", "tg4 @ d64"] * 2
    assert {"tokens/s", "GB/s", "of ceiling"} <= {part.strip() for part in lines[2].split("  ")}
    second = next(index for index, line in enumerate(lines) if line.startswith("where the time"))
    assert {"linear", "attention", "G/s"} <= set(lines[second + 2].split())


def test_json_has_every_number(sslm_command: Commands, stories: Path) -> None:
    facts = sslm_command.json("bench", stories, *TINY, "--tier", "scalar")
    assert facts["tier"] == "scalar"
    assert [test["name"] for test in facts["tests"]] == ["pp8", "tg4", "tg4 b2", "tg4 @ d64"]
    for test in facts["tests"]:
        assert len(test["seconds"]) == 2
        count = test["tokens"] * test["batch"]
        assert test["tokens_per_s"] == pytest.approx(count / (sum(test["seconds"]) / 2))
        assert test["share_of_ceiling"] == pytest.approx(
            test["bytes_per_s"] / test["ceiling_bytes_per_s"]
        )
        assert test["op_ns"]["linear"] > 0
    assert facts["tests"][2]["bytes_per_token"] < facts["tests"][1]["bytes_per_token"]


def test_zeros_leave_a_kind_out(sslm_command: Commands, stories: Path) -> None:
    arguments = ("bench", stories, "-p", "0", "-n", "2", "-b", "1", "-d", "0", "-t", "1", "-r", "1")
    assert [test["name"] for test in sslm_command.json(*arguments)["tests"]] == ["tg2"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("-p", "8,x"), "it has 'x', expected an integer from 0 to 1048576, or several"),
        (("-n", "-1"), "it has '-1', expected an integer from 0 to 1048576, or several"),
        (("-b", "0"), "it has '0', expected an integer from 1 to 256, or several such as 1,2"),
        (("-b", "257"), "it has '257', expected an integer from 1 to 256, or several such as 1,2"),
        (("-d", ""), "it has '', expected an integer from 0 to 1048576, or several"),
        (("-d", "1048577"), "it has '1048577', expected an integer from 0 to 1048576"),
        (("-t", "1,0"), "it has '0', expected cores, or an integer from 1 to 256, or several"),
        (("-r", "0"), "'-r': it is '0', expected an integer from 1 to 1000"),
        (("-r", "1" * 5000), "expected an integer from 1 to 1000"),
        (("-p", ",".join("1" * 33)), "it has 33 values, expected at most 32"),
        (("-p", "0", "-n", "0"), "nothing to measure"),
        (("--plot", "roofline.pdf"), "does not end in .png or .svg"),
        (("--tier", "sse9"), "'sse9' is none of"),
    ],
)
def test_wrong_options_are_usage_errors(
    sslm_command: Commands, stories: Path, arguments: tuple[str, ...], message: str
) -> None:
    error = sslm_command.json("bench", stories, *arguments, code=2)["error"]
    assert error["type"] == "UsageError"
    assert message in error["message"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            ("-d", "0,2000"),
            "--n-depth is 2000, expected at most 511: tg1 @ d2000 needs 2001 tokens and the "
            "model's context holds 512",
        ),
        (("-p", "513"), "--n-prompt is 513, expected at most 512: pp513 needs 513 tokens"),
        (("-n", "600"), "--n-gen is 600, expected at most 512: tg600 needs 600 tokens"),
        (("-d", "500", "-n", "13"), "--n-depth is 500, expected at most 499: tg13 @ d500"),
    ],
)
def test_what_was_asked_for_and_does_not_fit_is_refused_by_its_option(
    sslm_command: Commands, stories: Path, arguments: tuple[str, ...], message: str
) -> None:
    error = sslm_command.json("bench", stories, *arguments, code=2)["error"]
    assert error["type"] == "BenchContextError"
    assert error["message"].startswith(message)
    assert error["facts"]["limit_tokens"] == 512


def test_defaults_adapt_to_a_short_context_and_say_so(
    sslm_command: Commands, stories: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = ("bench", stories, "-b", "1", "-t", "1", "-r", "1", "--json", "--no-progress")
    assert run([str(argument) for argument in arguments]) == 0
    out, noted = capsys.readouterr()
    facts = json.loads(out)
    names = [test["name"] for test in facts["tests"]]
    assert names == ["pp128", "pp512", "tg128", "tg128 @ d384"]
    assert facts["context_tokens"] == 512
    assert facts["adapted"] == [
        {"name": "tg128 @ d2000", "threads": 1, "measured_as": "tg128 @ d384"}
    ]
    what = "tg128 @ d2000 is measured as tg128 @ d384"
    assert noted == f"the model's context holds 512 tokens: {what}\n"


def test_a_default_that_leaves_nothing_new_is_left_out(
    sslm_command: Commands, stories: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = ("bench", stories, "-n", "512", "-p", "0", "-b", "1", "-t", "1,2", "-r", "1")
    assert run([str(argument) for argument in (*arguments, "--no-progress")]) == 0
    out, noted = capsys.readouterr()
    assert "@" not in out
    assert noted == "the model's context holds 512 tokens: tg512 @ d2000 is left out\n"


def test_a_picture_needs_its_library_and_a_free_name(
    sslm_command: Commands, stories: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    picture = tmp_path / "roofline.svg"
    with monkeypatch.context() as patch:
        patch.setitem(sys.modules, "matplotlib", None)
        name = sslm_command.error("bench", stories, "--plot", picture, code=4)
    assert name == "PlotLibraryMissingError"
    assert list(tmp_path.glob("*.svg")) == []
    picture.write_text("mine")
    monkeypatch.setattr("sslm.bench.plot.require_plot_library", lambda: None)
    assert sslm_command.error("bench", stories, "--plot", picture, code=4) == "OutputExistsError"
    assert picture.read_text() == "mine"
    monkeypatch.setattr("sslm.bench.measure", lambda *arguments, **options: pytest.fail("it ran"))
    nowhere = tmp_path / "nowhere" / "roofline.svg"
    assert sslm_command.error("bench", stories, "--plot", nowhere, code=4) == "UnwritableFileError"


def test_a_picture_is_written(sslm_command: Commands, stories: Path, tmp_path: Path) -> None:
    pytest.importorskip("matplotlib", reason="it is in the extra `bench`, which tests do not need")
    picture = tmp_path / "roofline.svg"
    sslm_command.text("bench", stories, *TINY, "--plot", picture)
    assert "pp8" in picture.read_text(encoding="utf-8")


def test_an_unfinished_picture_leaves_nothing(
    sslm_command: Commands, stories: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*arguments: object, **options: object) -> None:
        raise RunCancelledError

    monkeypatch.setattr("sslm.bench.plot.require_plot_library", lambda: None)
    monkeypatch.setattr("sslm.bench.plot.draw", fail)
    before = sorted(tmp_path.iterdir())
    arguments = ("bench", stories, *TINY, "--plot", tmp_path / "roofline.svg")
    assert sslm_command.error(*arguments, code=7) == "RunCancelledError"
    assert sorted(tmp_path.iterdir()) == before


@pytest.mark.skipif(os.name == "nt", reason="signals of POSIX")
def test_an_interrupt_ends_it_at_once(stories: Path) -> None:
    process = start("bench", stories, "-p", "256", "-n", "256", "-b", "8", "-d", "0", "-r", "1000")
    try:
        assert process.stderr is not None
        # The first line of progress: it is measuring.
        assert process.stderr.readline().startswith("bench")
        process.send_signal(signal.SIGINT)
        out, error = process.communicate(timeout=240)
    finally:
        process.kill()
    assert process.returncode == 130
    assert out == ""
    assert error.splitlines()[-1] == "interrupted"


def test_help_has_an_example(sslm_command: Commands) -> None:
    assert "Example: sslm bench" in sslm_command.text("bench", "--help")
