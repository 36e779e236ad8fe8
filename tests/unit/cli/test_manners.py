"""How much commands say, and where: options, terminals, settings of the environment."""

import errno
import io
import os
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import typer

from sslm.cli.app import app, run
from sslm.cli.failures import explain
from sslm.cli.options.model import _BACKENDS, size_bytes
from sslm.cli.screen.output import print_json, print_table, print_text, progress, quiet
from sslm.cli.screen.unmeasured import compiling, unmeasured
from sslm.opening.runner import BACKENDS
from sslm.progress import StageProgress
from tests.converted import STORIES_SOURCE, stories_artifact
from tests.data import shared_data
from tests.unit.cli.commands import Commands
from tests.unit.cli.terminal import in_terminal
from tests.unit.cli.test_convert import tiny_source

PROMPT = "Once upon a time"


def leaves(group: Any, before: str = "") -> list[str]:
    """Return the commands of a group, those of groups in it included, as they are typed."""
    found = []
    for name, command in group.commands.items():
        words = f"{before}{name}"
        is_group = hasattr(command, "commands")
        found += leaves(command, f"{words} ") if is_group else [words]
    return sorted(found)


COMMANDS = leaves(typer.main.get_command(app))


class Screen(io.StringIO):
    """A stream that says it is a terminal."""

    def isatty(self) -> bool:
        """Say so."""
        return True


@pytest.mark.parametrize("command", COMMANDS)
def test_help_tells_the_common_options_and_has_an_example(
    sslm_command: Commands, command: str
) -> None:
    text = sslm_command.text(*command.split(), "--help")
    assert "-q, --quiet" in text
    assert "-v, --verbose" in text
    assert f"Example: sslm {command}" in text
    assert sslm_command.text("help", *command.split()) == text


def test_help_is_also_a_command(sslm_command: Commands) -> None:
    assert sslm_command.text("help") == sslm_command.text("--help")


def test_quiet_leaves_errors_only(stories: Path, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["generate", PROMPT, "-m", str(stories), "--max-tokens", "3"]
    assert run([*arguments, "-q"]) == 0
    assert capsys.readouterr() == (", there was", "")
    assert run([*arguments, "-q", "--max-tokens", "0"]) == 2
    assert capsys.readouterr().err.startswith("error: --max-tokens")
    assert run([*arguments, "-q", "-v"]) == 2


def test_verbose_says_what_is_done(stories: Path, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["generate", PROMPT, "-m", str(stories), "--max-tokens", "3"]
    assert run([*arguments, "-v"]) == 0
    out, error = capsys.readouterr()
    assert out == ", there was"
    assert f"INFO: opened {stories}" in error
    assert "DEBUG" not in error
    assert run([*arguments, "-vv"]) == 0
    assert "DEBUG: " in capsys.readouterr().err
    assert run(arguments) == 0
    assert "INFO" not in capsys.readouterr().err


def _later(monkeypatch: pytest.MonkeyPatch, *seconds: float) -> None:
    """Let the clock show these times, one after the other, and then the last one."""
    times = [int(second * 1_000_000_000) for second in seconds]
    monkeypatch.setattr(time, "monotonic_ns", lambda: times.pop(0) if len(times) > 1 else times[0])


def test_work_of_less_than_a_second_shows_no_progress(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    _later(monkeypatch, 0, 0.9)
    with progress(is_shown=True) as report:
        report("hash", 1, 2)
    assert capsys.readouterr().err == ""


def test_without_a_terminal_there_is_a_line_every_ten_seconds(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    _later(monkeypatch, 0, 0.5, 1.5, 2, 11, 11.6, 12)
    with progress(is_shown=True) as report:
        for done, what in enumerate(["hash"] * 5 + ["copy"]):
            report(what, done, 8)
    assert capsys.readouterr().err == "hash: 12 %\nhash: 50 %\ncopy: 62 %\n"


def test_without_a_terminal_what_was_begun_is_seen_to_end(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    _later(monkeypatch, 0, 0.5, 0.6, 2, 2.1, 2.2, 2.3, 2.4, 2.5, 2.6)
    steps = [("read", 1, 1), ("hash", 1, 3), ("hash", 1, 3), ("hash", 2, 3), ("hash", 3, 3)]
    steps += [("hash", 3, 3), ("wait", 5, 0), ("copy", 1, 2), ("copy", 2, 2)]
    with progress(is_shown=True) as report:
        for step in steps:
            report(*step)
    lines = ["hash: 33 %", "hash: 100 %", "wait", "copy: 50 %", "copy: 100 %"]
    assert capsys.readouterr().err.splitlines() == lines


def test_a_file_that_cannot_be_read_is_a_bad_input_file(
    sslm_command: Commands, stories: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "file"
    file.write_text("{}")
    commands = [
        ("schema", "check", file),
        ("schema", "compile", file, "-m", stories, "-o", tmp_path / "out"),
        ("schema", "add", stories, file, "-o", tmp_path / "out"),
        ("convert", file, "-o", tmp_path / "out"),
        ("replay", file, "-m", stories),
        ("eval", stories, "--source", file, "--text", file),
        ("batch", file, "-o", tmp_path / "out", "-m", stories),
    ]

    def forbidden(path: object, *arguments: object, **options: object) -> Any:
        if Path(str(path)) == file:
            raise PermissionError(errno.EACCES, "Permission denied", str(path))
        return really(path, *arguments, **options)

    really: Any = os.open
    monkeypatch.setattr(os, "open", forbidden)
    monkeypatch.setattr(os, "access", lambda path, *arguments, **options: Path(path) != file)
    for command in commands:
        assert sslm_command.error(*command, code=3) == "UnreadableFileError"


def test_work_that_cannot_tell_how_far_it_is_is_seen(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sslm.cli.screen.output._DELAY_NS", 1)
    monkeypatch.setattr("sslm.cli.screen.unmeasured._REMINDER_S", 0.001)
    before = threading.active_count()
    told: list[str] = []

    def noted(report: StageProgress) -> StageProgress:
        def note(what: str, done: int, total: int) -> None:
            report(what, done, total)
            told.append(what)

        return note

    def wait_for(what: str, count: int) -> None:
        while told.count(what) < count:
            time.sleep(0.001)

    with progress(is_shown=True) as report, unmeasured(noted(report), "compile"):
        wait_for("compile", 5)
    assert capsys.readouterr().err == "compile\n"
    with progress(is_shown=True) as report, unmeasured(noted(report), "compile") as tell:
        tell("compile masks", 1, 4)
        # What is repeated is the latest, which needs no line again.
        wait_for("compile masks", 5)
        tell("compile masks", 4, 4)
    lines = ["compile", "compile masks: 25 %", "compile masks: 100 %"]
    assert capsys.readouterr().err.splitlines() == lines
    with progress(is_shown=False) as report, compiling(noted(report)):
        wait_for("compiling the schema", 3)
    assert capsys.readouterr().err == ""
    with pytest.raises(KeyboardInterrupt), unmeasured(lambda what, done, total: None, "compile"):
        raise KeyboardInterrupt
    assert threading.active_count() == before


@pytest.mark.parametrize(
    "command",
    [
        "schema check SCHEMA",
        "schema compile SCHEMA -m MODEL -o OUT",
        "schema add MODEL SCHEMA -o OUT",
        "schema show COMPILED -m MODEL",
        "generate a -m MODEL --schema SCHEMA --max-tokens 20",
        "generate a -m MODEL --schema SCHEMA --max-tokens 20 --n 2",
    ],
)
def test_compiling_a_schema_is_seen(
    command: str,
    stories: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    schema, compiled = tmp_path / "yes.json", tmp_path / "yes.sslms"
    schema.write_text('{"enum": [1, 2]}')
    assert run(["schema", "compile", str(schema), "-m", str(stories), "-o", str(compiled)]) == 0
    capsys.readouterr()
    names = {
        "SCHEMA": str(schema),
        "COMPILED": str(compiled),
        "MODEL": str(stories),
        "OUT": str(tmp_path / "out"),
    }
    told: list[str] = []
    parts: list[str] = []

    @contextmanager
    def taking_note(report: StageProgress, what: str) -> Iterator[StageProgress]:
        told.append(what)
        yield lambda part, done, total: parts.append(part)

    monkeypatch.setattr("sslm.cli.screen.unmeasured.unmeasured", taking_note)
    for module in ("schema_add", "schema_show", "generate"):
        monkeypatch.setattr(f"sslm.cli.commands.{module}.unmeasured", taking_note)
    assert run([names.get(word, word) for word in command.split()]) == 0
    assert len(told) == 1
    assert "schema budget" in parts


@pytest.mark.parametrize(
    ("command", "kinds"),
    [
        ("convert SOURCE -o OUT", {"run", "quantize", "calibrate", "golden runs", "write"}),
        ("convert SOURCE -o OUT --weights int4", {"quantize", "golden runs", "write", "verify"}),
        ("pull SOURCE", {"hash", "quantize", "write", "verify"}),
        ("pull MODEL", {"copy"}),
        ("verify MODEL", {"golden runs"}),
        ("prove a -m MODEL --max-tokens 2", {"prove"}),
        ("generate WORDS -m MODEL --max-tokens 2", {"prompt"}),
        ("eval MODEL --source SOURCE --text TEXT --limit-tokens 1200", {"tokens"}),
        ("bench MODEL -p 4 -n 2 -b 1 -d 0 -t 1 -r 1", {"bench"}),
    ],
)
def test_the_last_line_about_every_kind_of_work_says_that_it_is_done(
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    command: str,
    kinds: set[str],
) -> None:
    monkeypatch.setattr("sslm.cli.screen.output._DELAY_NS", 0)
    monkeypatch.setenv("SSLM_CACHE_DIR", str(tmp_path / "cache"))
    places = {
        "SOURCE": STORIES_SOURCE if "eval" in command else tiny_source(tmp_path),
        "MODEL": stories_artifact(),
        "OUT": tmp_path / "out.sslm",
        "TEXT": shared_data("text/alice29.txt"),
        "WORDS": "one two " * 60,
    }
    capsys.readouterr()
    assert run([str(places.get(word, word)) for word in command.split()]) == 0
    lines = [line.rpartition(": ") for line in capsys.readouterr().err.splitlines()]
    last = {what: percent for what, _, percent in lines if percent.endswith(" %")}
    assert kinds <= set(last), last
    assert set(last.values()) == {"100 %"}, last


@pytest.mark.parametrize("is_quiet", [True, False])
def test_progress_can_be_switched_off(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, is_quiet: bool
) -> None:
    _later(monkeypatch, 0, 60)
    if is_quiet:
        with quiet(), progress(is_shown=True) as report:
            report("hash", 1, 2)
    else:
        with progress(is_shown=False) as report:
            report("hash", 1, 2)
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize(
    ("variables", "has_bar", "has_colour"),
    [
        ({"TERM": "xterm"}, True, True),
        ({"NO_COLOR": "1"}, True, False),
        ({"TERM": "dumb"}, False, False),
    ],
)
def test_a_terminal_gets_a_bar(
    monkeypatch: pytest.MonkeyPatch, variables: dict[str, str], has_bar: bool, has_colour: bool
) -> None:
    screen = Screen()
    monkeypatch.setattr(sys, "stderr", screen)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.delenv("NO_COLOR", raising=False)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    _later(monkeypatch, 0, 0, 0, 2, 3)
    with progress(is_shown=True) as report:
        report("[red]hash", 1, 2)
        report("[red]hash", 1, 2)
        report("[red]hash", 2, 2)
    shown = screen.getvalue()
    assert ("━" in shown) == has_bar
    assert ("\x1b[38" in shown or "\x1b[3" in shown.replace("\x1b[?25", "")) == has_colour
    assert "[red]hash" in shown


def test_a_full_terminal_is_no_reason_to_stop(monkeypatch: pytest.MonkeyPatch) -> None:
    class Broken(Screen):
        def write(self, text: str) -> int:
            raise OSError(5, "gone")

    monkeypatch.setattr(sys, "stderr", Broken())
    _later(monkeypatch, 0, 2)
    with progress(is_shown=True) as report:
        report("hash", 1, 2)


def test_a_model_cannot_steer_a_terminal(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    hostile = "a\tb\r\nc\x1b[2J\x9b\rd\x07"
    print_text(hostile)
    assert capsys.readouterr().out == hostile
    screen = Screen()
    monkeypatch.setattr(sys, "stdout", screen)
    print_text(hostile)
    assert screen.getvalue() == "a\tb\r\nc\\x1b[2J\\x9b\\rd\\x07"


@pytest.mark.parametrize("text", ["half a line", "half a line\n"])
def test_an_error_begins_its_own_line(text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    screen = Screen()
    monkeypatch.setattr(sys, "stdout", screen)
    monkeypatch.setattr(sys, "stderr", screen)
    print_text(text)
    assert explain(KeyboardInterrupt(), is_json=False) == 130
    assert screen.getvalue() == "half a line\ninterrupted\n"


def test_json_has_no_control_characters(capsys: pytest.CaptureFixture[str]) -> None:
    print_json({"text": "\x1b\x7f\x9bé"})
    assert capsys.readouterr().out == '{"text": "\\u001b\\u007f\\u009bé"}\n'


def test_in_a_terminal_the_answer_ends_its_line(stories: Path) -> None:
    arguments = ("generate", "-", "-m", stories, "--max-tokens", "3", "-q")
    code, shown = in_terminal(*arguments, typed=PROMPT.encode() + b"\x04\x04")
    assert code == 0
    # The terminal shows what is typed; quiet leaves the question out.
    assert shown.replace("\r\n", "\n").endswith(", there was\n")
    code, shown = in_terminal(*arguments[:-1], typed=PROMPT.encode() + b"\x04\x04")
    assert "type the text; Ctrl-D" in shown


def test_a_table_in_a_terminal_is_plain_text(tmp_path: Path) -> None:
    code, shown = in_terminal("list", "--cache-dir", tmp_path, SSLM_OFFLINE="1")
    assert code == 0
    assert "\x1b" not in shown
    assert "not fetched yet" in shown


@pytest.mark.parametrize(
    ("size", "count"),
    [
        ("0", 0),
        ("1000", 1000),
        ("500k", 500_000),
        ("2M", 2_000_000),
        ("1G", 10**9),
        ("1GB", 10**9),
        ("512MiB", 512 << 20),
        ("3gib", 3 << 30),
        ("1Ti", 1 << 40),
    ],
)
def test_a_size_may_have_a_unit(size: str, count: int) -> None:
    assert size_bytes(size) == count


@pytest.mark.parametrize("size", ["", "G", "1.5G", "-1", "1E9", "1 G", "1PB", "٣", "9" * 20])
def test_a_size_that_is_none_is_refused(size: str) -> None:
    with pytest.raises(typer.BadParameter):
        size_bytes(size)


def test_backends_are_those_of_the_engine() -> None:
    assert ("auto", *sorted(BACKENDS)) == _BACKENDS


SETTINGS = {
    "SSLM_BACKEND": ("reference", "abacus"),
    "SSLM_TIER": ("scalar", "mmx"),
    "SSLM_THREADS": ("1", "many"),
    "SSLM_OFFLINE": ("1", "maybe"),
    "HF_HUB_OFFLINE": ("ON", "maybe"),
}


@pytest.mark.parametrize("name", SETTINGS)
def test_a_setting_of_the_environment_is_obeyed_or_refused_by_name(
    sslm_command: Commands,
    stories: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    name: str,
) -> None:
    monkeypatch.delenv("SSLM_OFFLINE")
    arguments = ("generate", PROMPT, "-m", stories, "--max-tokens", "1")
    plain = sslm_command.json(*arguments)
    good, bad = SETTINGS[name]
    monkeypatch.setenv(name, good)
    facts = sslm_command.json(*arguments)
    fact = name.removeprefix("SSLM_").lower()
    if fact in facts:
        assert str(facts[fact]) == good
    else:
        error = sslm_command.error("verify", "smollm2-135m", code=6)
        assert error == "OfflineError"
    monkeypatch.setenv(name, "")
    empty = sslm_command.json(*arguments)
    assert (empty["backend"], empty["tier"], empty["threads"]) == (
        plain["backend"],
        plain["tier"],
        plain["threads"],
    )
    monkeypatch.setenv(name, bad)
    assert run([str(argument) for argument in arguments]) == 2
    error = capsys.readouterr().err
    assert name in error
    assert repr(bad) in error


def test_a_model_of_the_environment_that_nobody_knows_is_named(
    sslm_command: Commands, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("SSLM_MODEL", "nobody")
    assert run(["verify"]) == 4
    assert "SSLM_MODEL names the model nobody" in capsys.readouterr().err


def test_the_cache_of_the_environment_counts_unless_it_is_empty(
    sslm_command: Commands, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("SSLM_CACHE_DIR", str(tmp_path / "there"))
    assert sslm_command.json("list")["cache_dir"] == str(tmp_path / "there")
    assert sslm_command.json("list", "--cache-dir", tmp_path)["cache_dir"] == str(tmp_path)
    monkeypatch.setenv("SSLM_CACHE_DIR", "")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "home"))
    assert sslm_command.json("list")["cache_dir"] == str(tmp_path / "home" / "sslm")


def test_work_of_which_nobody_knows_the_end_has_no_percent(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sslm.cli.screen.output._DELAY_NS", 0)
    with progress(is_shown=True) as report:
        report("waiting for another process", 3, 0)
    assert capsys.readouterr().err == "waiting for another process\n"


def test_the_cells_of_a_table_stay_whole_in_a_narrow_terminal(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.stdout.isatty", lambda: True, raising=False)
    monkeypatch.setenv("COLUMNS", "20")
    path = "/a/path/that/is/longer/than/twenty"
    print_table(["name", "where"], [["steer\x1b[2J", path]])
    lines = capsys.readouterr().out.splitlines()
    assert lines[1].endswith(path)
    assert "\x1b" not in lines[1]
