"""``sslm tokenize``: there and back."""

import io
import sys
from pathlib import Path

import pytest

from sslm.artifact import read_artifact
from sslm.text.tokenizer import Tokenizer
from tests.unit.cli.commands import Commands

TEXT = "Once upon a time, é <s> \n"


@pytest.fixture
def tokenizer(stories: Path) -> Tokenizer:
    with read_artifact(stories) as artifact:
        return Tokenizer(artifact.vocabulary)


def give_stdin(monkeypatch: pytest.MonkeyPatch, data: bytes) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(data)))


def test_ids_and_pieces(sslm_command: Commands, stories: Path, tokenizer: Tokenizer) -> None:
    facts = sslm_command.json("tokenize", TEXT, "--model", stories)
    assert facts["token_ids"] == tokenizer.encode(TEXT)
    assert facts["tokens"] == len(facts["token_ids"])
    assert facts["pieces"][:3] == ["<s>", " Once", " upon"]
    assert "".join(facts["pieces"][1:]) == " " + TEXT


def test_a_person_gets_a_line_for_each_token(sslm_command: Commands, stories: Path) -> None:
    lines = sslm_command.text("tokenize", "Once upon", "-m", stories).splitlines()
    assert lines == ["      1  '<s>'", "    403  ' Once'", "    407  ' upon'"]


def test_a_byte_token_is_shown_in_hexadecimal(sslm_command: Commands, stories: Path) -> None:
    pieces = sslm_command.json("tokenize", "\u2603", "-m", stories)["pieces"]
    assert pieces[-3:] == ["\\xe2", "\\x98", "\\x83"]


def test_ids_alone_can_be_decoded(
    sslm_command: Commands, stories: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ids = sslm_command.text("tokenize", "Once upon", "--ids", "-m", stories)
    assert ids == "1 403 407\n"
    give_stdin(monkeypatch, ids.encode())
    assert sslm_command.text("tokenize", "--decode", "-", "-m", stories) == "Once upon\n"
    given = sslm_command.json("tokenize", "--decode", "1", "403", "407", "-m", stories)
    assert given == {"text": "Once upon", "token_ids": [1, 403, 407]}


def test_stdin_is_read_as_it_is(
    sslm_command: Commands,
    stories: Path,
    tokenizer: Tokenizer,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    give_stdin(monkeypatch, b"two\r\nlines\n")
    facts = sslm_command.json("tokenize", "-", "-m", stories)
    assert facts["token_ids"] == tokenizer.encode("two\r\nlines\n")


def test_stdin_that_is_no_utf_8_is_refused(
    sslm_command: Commands, stories: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    give_stdin(monkeypatch, b"fine \xff")
    facts = sslm_command.json("tokenize", "-", "-m", stories, code=3)
    assert facts["error"]["type"] == "BadUtf8Error"
    assert "byte 5" in facts["error"]["message"]


def test_an_argument_that_is_no_utf_8_is_refused(sslm_command: Commands, stories: Path) -> None:
    error = sslm_command.error("tokenize", "fine \udcff", "-m", stories, code=4)
    assert error == "TextUnicodeError"


def test_an_id_that_is_none(sslm_command: Commands, stories: Path) -> None:
    error = sslm_command.error("tokenize", "--decode", "512", "-m", stories, code=4)
    assert error == "TokenizerIdError"


@pytest.mark.parametrize(
    "arguments", [("two", "texts"), ("--decode", "-1x"), ("--decode", "--ids", "1"), ()]
)
def test_misuse_is_exit_2(
    sslm_command: Commands, stories: Path, arguments: tuple[str, ...]
) -> None:
    sslm_command.text("tokenize", *arguments, "-m", stories, code=2)
