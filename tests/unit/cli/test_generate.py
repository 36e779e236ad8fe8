"""``sslm generate``: stdout is the answer and nothing else."""

import io
import subprocess
import sys
from pathlib import Path

import pytest

from sslm.cli.app import run
from sslm.engine.model import Model
from tests.unit.cli.commands import Commands, start

PROMPT = "Once upon a time"


class Terminal(io.StringIO):
    """A stdout that says it is a terminal."""

    def isatty(self) -> bool:
        """Say so."""
        return True


def test_stdout_is_the_answer(stories: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with Model(stories) as model:
        expected = model.generate(PROMPT, max_tokens=20)
    assert run(["generate", PROMPT, "-m", str(stories), "--max-tokens", "20", "-t", "2"]) == 0
    out, error = capsys.readouterr()
    assert out == expected.text
    assert error.splitlines()[-1] == f"digest {expected.digest} (20 tokens, length)"


def test_the_digest_has_a_line_of_its_own_where_both_streams_are_one(stories: Path) -> None:
    arguments = ("generate", PROMPT, "-m", stories, "--max-tokens", 3)
    with start(*arguments, stderr=subprocess.STDOUT) as process:
        told, _ = process.communicate()
    answer, digest = told.splitlines()
    assert answer == ", there was"
    assert digest.startswith("digest ")
    # Apart, stdout is the answer and stderr the notes, and neither has an empty line.
    with start(*arguments) as process:
        assert process.communicate() == (answer, f"{digest}\n")


def test_a_person_gets_a_line_of_its_own(stories: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    screen = Terminal()
    monkeypatch.setattr(sys, "stdout", screen)
    assert run(["generate", PROMPT, "-m", str(stories), "--max-tokens", "3"]) == 0
    assert screen.getvalue() == ", there was\n"


def test_json_has_the_facts(sslm_command: Commands, stories: Path) -> None:
    arguments = ("generate", PROMPT, "--model", stories, "--max-tokens", "9", "--threads", "1")
    facts = sslm_command.json(*arguments)
    with Model(stories) as model:
        expected = model.generate(PROMPT, max_tokens=9)
        assert facts["model_id"] == model.model_id
        assert (facts["backend"], facts["tier"]) == ("native", model.tier)
    assert facts["text"] == expected.text
    assert facts["token_ids"] == expected.token_ids
    assert facts["digest"] == expected.digest
    assert (facts["finish_reason"], facts["stop_reason"]) == ("length", None)
    assert facts["usage"]["prompt_tokens"] == expected.usage.prompt_tokens
    assert facts["usage"]["completion_tokens"] == 9
    assert facts["threads"] == 1


def test_backends_agree(sslm_command: Commands, stories: Path) -> None:
    arguments = ("generate", PROMPT, "--model", stories, "--max-tokens", "6", "--backend")
    native, reference = (sslm_command.json(*arguments, name) for name in ("native", "reference"))
    for name in ("text", "token_ids", "digest", "model_id"):
        assert native[name] == reference[name]


def test_stops_end_the_answer(sslm_command: Commands, stories: Path) -> None:
    arguments = ("generate", PROMPT, "-m", stories, "--stop", "xyz", "--stop", " girl")
    assert sslm_command.text(*arguments) == ", there was a little"
    facts = sslm_command.json(*arguments)
    assert (facts["finish_reason"], facts["stop_reason"]) == ("stop", " girl")


def test_a_dash_reads_stdin_to_the_last_byte(
    sslm_command: Commands, stories: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def answer(prompt: str, data: bytes) -> object:
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(data)))
        return sslm_command.json("generate", prompt, "-m", stories, "--max-tokens", "4")["digest"]

    assert answer("-", PROMPT.encode()) == answer(PROMPT, b"")
    assert answer("-", PROMPT.encode() + b"\n") == answer(f"{PROMPT}\n", b"")


@pytest.mark.parametrize(
    ("arguments", "code", "error"),
    [
        ((PROMPT, "--max-tokens", "0"), 2, "OptionRangeError"),
        ((PROMPT, "--context-tokens", "3"), 4, "ContextLengthError"),
        ((PROMPT, "--memory-bytes", "1000"), 5, "MemoryBudgetError"),
        ((PROMPT, "--tier", "numpy"), 4, "TierUnavailableError"),
        ((PROMPT, "--tier", "fastest"), 2, "UsageError"),
        ((PROMPT, "--backend", "abacus"), 2, "UsageError"),
        ((PROMPT, "--memory-bytes", "1.5G"), 2, "UsageError"),
        ((PROMPT, "--sha256", "0" * 64), 3, "ModelHashMismatchError"),
        (("\udcff",), 4, "TextUnicodeError"),
    ],
)
def test_what_cannot_be_done_is_refused_by_name(
    sslm_command: Commands, stories: Path, arguments: tuple[str, ...], code: int, error: str
) -> None:
    assert sslm_command.error("generate", *arguments, "-m", stories, code=code) == error


def test_stdin_that_is_not_utf8_is_refused(
    sslm_command: Commands, stories: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"caf\xe9")))
    assert sslm_command.error("generate", "-", "-m", stories, code=3) == "BadUtf8Error"


@pytest.mark.parametrize("threads", ["0", "-1", "257", "many", "1e3", "٣", ""])
def test_a_number_of_threads_that_is_none_is_a_usage_error(
    sslm_command: Commands, stories: Path, threads: str
) -> None:
    sslm_command.text("generate", PROMPT, "-m", stories, f"--threads={threads}", code=2)


def test_settings_come_from_the_environment(
    sslm_command: Commands, stories: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SSLM_MODEL", str(stories))
    monkeypatch.setenv("SSLM_BACKEND", "reference")
    monkeypatch.setenv("SSLM_THREADS", "cores")
    assert sslm_command.json("generate", PROMPT, "--max-tokens", "1")["backend"] == "reference"


def test_help_has_an_example(sslm_command: Commands) -> None:
    assert "Example: sslm generate" in sslm_command.text("generate", "--help")


def test_an_answer_that_fills_the_context_is_told(
    stories: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    options = ["-m", str(stories), "--context-tokens", "16", "--json"]
    for most, is_cut in (("4", False), ("100", True)):
        assert run(["generate", "Once", *options, "--max-tokens", most]) == 0
        assert ("the context is full" in capsys.readouterr().err) == is_cut
