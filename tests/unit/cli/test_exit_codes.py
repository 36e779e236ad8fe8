"""How commands end: one exit code for each family of causes; stdout holds only the answer."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import typer

from sslm.cli import app as program
from sslm.cli.app import run
from sslm.cli.exit_codes import FAMILIES, exit_code
from sslm.errors.base import (
    ArgumentError,
    ArtifactError,
    NetworkError,
    NumericError,
    ResourceError,
    SslmError,
    StateError,
)
from sslm.errors.catalog import UnknownModelError
from sslm.errors.runtime import ContextLengthError, MemoryBudgetError, OptionRangeError
from sslm.errors.sessions import CheckpointBudgetError, StateBudgetError
from sslm.errors.text import TextUnicodeError
from sslm.version import VERSION
from tests.converted import stories_artifact
from tests.unit.cli.commands import PROGRAM, Commands, start


@pytest.mark.parametrize(
    ("family", "code"),
    [
        (ArgumentError, 4),
        (ArtifactError, 3),
        (NumericError, 3),
        (ResourceError, 5),
        (NetworkError, 6),
        (StateError, 7),
        (SslmError, 7),
    ],
)
def test_a_family_has_its_code(family: type[SslmError], code: int) -> None:
    assert exit_code(family()) == code


def test_no_code_is_one_that_means_something_else() -> None:
    assert set(FAMILIES.values()) <= set(range(3, 8))


@pytest.fixture
def failing(monkeypatch: pytest.MonkeyPatch) -> typer.Typer:
    """A program of one command, which raises what a test puts into it."""
    other = typer.Typer()
    monkeypatch.setattr(program, "app", other)
    return other


def add_command(app: typer.Typer, error: BaseException) -> None:
    @app.command()
    def fail(*, json: bool = False) -> None:
        raise error


ERROR = OptionRangeError("width", "-1", "at least 0")


@pytest.mark.parametrize(
    ("error", "told"),
    [
        (
            MemoryBudgetError("a session", 2, 1),
            "all that is open would take 2 bytes with a session, and --memory-bytes allows 1; "
            "allow more, or ask for a smaller --context-tokens",
        ),
        (
            ContextLengthError(9, 8, 16),
            "the request needs at least 9 tokens and the context holds 8; shorten the prompt or "
            "lower --max-tokens, or ask for a larger --context-tokens: the model allows 16\n",
        ),
        (
            ContextLengthError(9, 8, 8),
            "the request needs at least 9 tokens and the context holds 8; shorten the prompt or "
            "lower --max-tokens\n",
        ),
        (
            StateBudgetError(7, 2, 1),
            "the states of 7 tokens take 2 bytes, and --state-bytes allows 1; ask for a smaller "
            "--context-tokens, or allow more",
        ),
        (
            CheckpointBudgetError(7, 2, 1, 4),
            "a checkpoint of 7 tokens takes 2 bytes, and 4 of 1 bytes together are allowed; allow "
            "more --checkpoint-bytes",
        ),
        (
            TextUnicodeError("the text", 0xDCE9, 3),
            "the text is not valid UTF-8: the byte 0xe9 at character 3\n",
        ),
        (TextUnicodeError("the text", 0xD800, 3), "the text holds the lone surrogate U+D800"),
        # What a caller gave is told as it is.
        (
            UnknownModelError("memory_bytes", "context_tokens", "deadline_s"),
            "there is no model 'memory_bytes'; did you mean 'context_tokens'? ",
        ),
    ],
)
def test_options_are_named_as_they_are_typed(
    error: SslmError, told: str, failing: typer.Typer, capsys: pytest.CaptureFixture[str]
) -> None:
    add_command(failing, error)
    program.run([])
    assert capsys.readouterr().err.startswith(f"error: {told}")


def test_an_error_is_json_for_a_program_and_a_line_for_a_person(
    failing: typer.Typer, capsys: pytest.CaptureFixture[str]
) -> None:
    add_command(failing, ERROR)
    assert program.run(["--json"]) == 4
    printed, noted = capsys.readouterr()
    assert printed == (
        '{"error": {"type": "OptionRangeError", "status": 110, '
        '"message": "width is -1, expected at least 0", "exit_code": 4, '
        '"facts": {"option": "width", "found": "-1", "expected": "at least 0"}}}\n'
    )
    assert noted == "error: width is -1, expected at least 0\n"
    assert program.run([]) == 4
    assert capsys.readouterr() == ("", noted)


def test_an_interrupt_is_130(failing: typer.Typer, capsys: pytest.CaptureFixture[str]) -> None:
    add_command(failing, KeyboardInterrupt())
    assert program.run([]) == 130
    assert capsys.readouterr() == ("", "interrupted\n")


def test_our_own_mistake_is_7_and_shows_where(
    failing: typer.Typer, capsys: pytest.CaptureFixture[str]
) -> None:
    add_command(failing, ZeroDivisionError("one by none"))
    assert program.run([]) == 7
    printed, noted = capsys.readouterr()
    assert printed == ""
    assert "Traceback" in noted
    assert "one by none" in noted


@pytest.mark.parametrize(
    "arguments",
    [(), ("nonsense",), ("--nonsense",), ("verify", "--nonsense"), ("verify", "-t", "none")],
)
def test_misuse_is_2_and_explained_on_stderr(
    arguments: tuple[str, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    assert program.run(list(arguments)) == 2
    printed, noted = capsys.readouterr()
    assert printed == ""
    assert "Usage: " in noted


@pytest.mark.parametrize("arguments", [("--help",), ("verify", "--help"), ("eval", "--help")])
def test_help_is_an_answer(sslm_command: Commands, arguments: tuple[str, ...]) -> None:
    assert sslm_command.text(*arguments).startswith("Usage: ")


def test_a_reader_who_has_seen_enough_is_no_failure(stories: Path) -> None:
    process = start("inspect", stories)
    assert process.stdout is not None
    process.stdout.close()
    assert process.stderr is not None
    noted = process.stderr.read()
    assert process.wait(timeout=240) == 0
    assert noted == ""
    process.stderr.close()


def test_help_loads_nothing_heavy() -> None:
    probe = f"""
import sys
sys.argv = ["sslm", "verify", "--help"]
try:
    {PROGRAM}
except SystemExit:
    pass
heavy = {{"numpy", "tokenizers", "jinja2", "gguf", "mpmath"}} & set(sys.modules)
print(sorted(heavy), file=sys.stderr)
"""
    path = os.pathsep.join(sys.path)
    done = subprocess.run(
        [sys.executable, "-c", probe],
        capture_output=True,
        check=True,
        text=True,
        env=os.environ | {"PYTHONPATH": path},
        timeout=240,
    )
    assert done.stderr == "[]\n"


@pytest.mark.parametrize("encoding", ["ascii", "latin-1:strict", "utf-8:strict"])
def test_output_is_utf8_whatever_the_locale(encoding: str) -> None:
    """Neither an answer nor a name that is no text can fail to be printed."""
    environment = os.environ | {"PYTHONIOENCODING": encoding, "LC_ALL": "C"}
    for arguments, code in (
        (["tokenize", "é 🙂", "--model", str(stories_artifact()), "--json"], 0),
        (["inspect", b"\xff.sslm", "--json"], 3),
    ):
        done = subprocess.run(
            [sys.executable, "-m", "sslm", *arguments],
            capture_output=True,
            env=environment,
            check=False,
        )
        assert done.returncode == code, done.stderr
        json.loads(done.stdout.decode("utf-8"))


def test_a_message_cannot_steer_the_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["inspect", "\x1b[2Jmissing.sslm"]) == 3
    assert "\x1b" not in capsys.readouterr().err


def test_a_usage_error_is_json_where_json_was_asked_for(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert run(["generate", "x", "--nope", "--json"]) == 2
    assert json.loads(capsys.readouterr().out)["error"]["type"] == "UsageError"


def test_the_version_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["--version"]) == 0
    assert capsys.readouterr().out == f"sslm {VERSION}\n"


def test_an_answer_that_cannot_be_written_is_no_defect_of_ours() -> None:
    command = [sys.executable, "-m", "sslm", "tokenize", "x", "--model", str(stories_artifact())]
    with Path("/dev/full").open("wb") as full:
        done = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, check=False)
    assert done.returncode == 5
    assert b"internal error" not in done.stderr
    with Path("/dev/full").open("wb") as full:
        done = subprocess.run(command, stdout=subprocess.PIPE, stderr=full, check=False)
    assert done.returncode == 0
