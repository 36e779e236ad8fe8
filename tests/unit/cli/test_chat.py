"""``sslm chat``: a conversation from a pipe, and with a person who changes their mind."""

import builtins
import io
import json
import re
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from sslm.answering.results import Completion
from sslm.cli.app import run
from sslm.cli.screen.answers import read_answer
from sslm.cli.screen.output import print_text
from sslm.engine.model import Model
from sslm.text.message import Message
from tests.special_files import KINDS, kind_of, make_special
from tests.unit.cli.commands import Commands


@cache
def _answer(path: Path, *contents: str) -> str:
    """Return the model's answer to messages that alternate between user and assistant."""
    roles = ("user", "assistant") * len(contents)
    with Model(path) as model:
        messages = [Message(role, content) for role, content in zip(roles, contents, strict=False)]
        return model.chat(messages, max_tokens=8).text


def _pipe(monkeypatch: pytest.MonkeyPatch, text: str | bytes) -> None:
    data = text.encode() if isinstance(text, str) else text
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(data)))


class Person(io.StringIO):
    """A stdin that says it is a terminal."""

    def isatty(self) -> bool:
        """Say so."""
        return True


def _person(monkeypatch: pytest.MonkeyPatch, *lines: str | type[BaseException]) -> None:
    """Let a person type lines, or press Ctrl-C or Ctrl-D."""
    typed: Iterator[str | type[BaseException]] = iter(lines)

    def read(prompt: str = "") -> str:
        assert prompt == ""
        line = next(typed)
        if not isinstance(line, str):
            raise line
        return line

    monkeypatch.setattr(sys, "stdin", Person())
    monkeypatch.setattr(builtins, "input", read)


def test_each_line_of_a_pipe_is_a_message(
    sslm_command: Commands, talker: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _pipe(monkeypatch, "Hello\n\nAnd you?\r\n")
    first = _answer(talker, "Hello")
    second = _answer(talker, "Hello", first, "And you?")
    out = sslm_command.text("chat", "-m", talker, "--max-tokens", "8")
    assert out == f"{first}\n{second}\n"


def test_undo_edit_save_and_quit(
    sslm_command: Commands, talker: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    saved = tmp_path / "a conversation.json"
    lines = ["Hello", "Wrong", "/undo", "Also wrong", "/edit Right", "//undo", f"/save {saved}"]
    _pipe(monkeypatch, "\n".join([*lines, "/quit", "never read"]))
    sslm_command.text("chat", "-m", talker, "--max-tokens", "8", "--system", "Be brief.")
    facts = json.loads(saved.read_text(encoding="utf-8"))
    messages = [(message["role"], message["content"]) for message in facts["messages"]]
    assert [content for role, content in messages if role != "assistant"] == [
        "Be brief.",
        "Hello",
        "Right",
        "/undo",
    ]
    assert [role for role, _ in messages] == ["system", *(["user", "assistant"] * 3)]
    with Model(talker) as model:
        assert facts["model_id"] == model.model_id
        earlier = [Message(role, content) for role, content in messages[:-1]]
        assert messages[-1] == ("assistant", model.chat(earlier, max_tokens=8).text)


def test_an_earlier_message_is_edited_by_its_number(
    talker: Path,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    saved = tmp_path / "saved.json"
    lines = ["One", "Two", "Three", "/edit  2 2 it is", f"/save {saved}"]
    _pipe(monkeypatch, "\n".join(lines))
    assert run(["chat", "-v", "-m", str(talker), "--max-tokens", "8"]) == 0
    messages = json.loads(saved.read_text(encoding="utf-8"))["messages"]
    first = _answer(talker, "One")
    edited = _answer(talker, "One", first, "2 it is")
    assert [one["content"] for one in messages] == ["One", first, "2 it is", edited]
    notes = capsys.readouterr().err
    # What was computed of the conversation before the edited message was not computed again.
    counts = [int(found) for found in re.findall(r"(\d+) tokens were saved before", notes)]
    assert len(counts) == 4
    assert counts[0] == 0
    assert 0 < counts[1] <= counts[3] < counts[2]
    assert "admitted for a session of" in notes


def test_states_and_checkpoints_have_bounds(
    sslm_command: Commands, talker: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = _answer(talker, "Hello")
    expected = f"{first}\n{_answer(talker, 'Hello', first, 'And you?')}\n"
    for size in ("0", "20K", "1MiB"):
        _pipe(monkeypatch, "Hello\nAnd you?\n")
        options: tuple[str, ...] = ("--max-tokens", "8", "--checkpoint-bytes", size)
        assert sslm_command.text("chat", "-m", talker, *options) == expected
    for options, code in (
        (("--state-bytes", "10K"), 5),
        (("--memory-bytes", "2M", "--checkpoint-bytes", "2M"), 5),
        (("--state-bytes", "0"), 2),
        (("--checkpoint-bytes", "many"), 2),
    ):
        _pipe(monkeypatch, "Hello\n")
        assert sslm_command.text("chat", "-m", talker, *options, code=code) == ""


def test_an_edit_that_is_refused_changes_nothing(
    sslm_command: Commands, talker: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    saved = tmp_path / "saved.json"
    _person(monkeypatch, "Hello", "/edit " + "too long " * 2000, f"/save {saved}", EOFError)
    sslm_command.text("chat", "-m", talker, "--max-tokens", "4")
    messages = json.loads(saved.read_text(encoding="utf-8"))["messages"]
    assert [one["role"] for one in messages] == ["user", "assistant"]
    assert messages[0]["content"] == "Hello"


def test_save_replaces_a_file_only_if_it_is_told_to(
    sslm_command: Commands, talker: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    saved = tmp_path / "saved.json"
    saved.write_text("precious")
    _pipe(monkeypatch, f"/save {saved}\n")
    assert sslm_command.text("chat", "-m", talker, code=4) == ""
    assert saved.read_text() == "precious"
    _person(monkeypatch, f"/save {saved}", f"/save! {saved}", EOFError)
    sslm_command.text("chat", "-m", talker)
    assert json.loads(saved.read_text(encoding="utf-8"))["messages"] == []


def test_save_does_not_replace_the_model_that_answers(
    talker: Path,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    model = tmp_path / "model.sslm"
    model.write_bytes(talker.read_bytes())
    (tmp_path / "other-name").hardlink_to(model)
    for name in ("model.sslm", "other-name"):
        _pipe(monkeypatch, f"/save! {tmp_path / name}\n")
        assert run(["chat", "-m", str(model)]) == 4
        assert "cannot be replaced: it is the model that answers" in capsys.readouterr().err
    assert model.read_bytes() == talker.read_bytes()


@pytest.mark.parametrize("kind", KINDS)
def test_save_replaces_nothing_but_files(
    kind: str,
    sslm_command: Commands,
    talker: Path,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    saved = tmp_path / "saved"
    make_special(kind, saved)
    before = kind_of(saved)
    for command in ("/save", "/save!"):
        _pipe(monkeypatch, f"{command} {saved}\n")
        assert sslm_command.text("chat", "-m", talker, code=4) == ""
        assert kind_of(saved) == before
    assert not (tmp_path / "nothing").exists()


@pytest.mark.parametrize("name", ["a\0b", "~nobody-of-this-name/there/is/none"])
def test_a_name_that_is_no_place_is_refused(
    name: str, sslm_command: Commands, talker: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _pipe(monkeypatch, f"/save {name}\n")
    sslm_command.text("chat", "-m", talker, code=4)


def test_an_answer_may_take_only_so_long(
    sslm_command: Commands, talker: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _pipe(monkeypatch, "Hello\n")
    assert sslm_command.text("chat", "-m", talker, "--deadline-s", "0", code=5) == ""


def test_a_person_who_types_no_text_is_told_so(
    talker: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    _person(monkeypatch, "caf\udce9", EOFError)
    assert run(["chat", "-m", str(talker)]) == 0
    assert "error: 'stdin' is not valid UTF-8: unexpected end of data" in capsys.readouterr().err


REFUSED = (
    ("/edit 7 x", "/edit is refused: the number '7' is none of your messages, which are 1 to 1"),
    ("/edit 0 x", "/edit is refused: the number '0' is none"),
    ("/edit -1 x", "/edit is refused: the number '-1' is none"),
    ("/edit +1 x", "/edit is refused: the number '+1' is none"),
    ("/edit  7 x", "/edit is refused: the number '7' is none"),
    ("/edit 99999999999999999999 x", "/edit is refused: the number '99999999999999999999' is none"),
    ("/edit " + "9" * 5000 + " x", "/edit is refused: the number '999"),
    ("/edit 1", "/edit 1 is refused: it needs the new text after the number"),
    ("/edit 1  ", "/edit 1 is refused: it needs the new text after the number"),
    ("/edit", "/edit is refused: it needs the new text after it"),
    ("/foo", "'/foo' is refused: there is no such command; /help lists them"),
    ("/ undo", "'/' is refused: there is no such command"),
    ("/save", "/save is refused: it needs a file's name after it"),
    ("/save!  ", "/save! is refused: it needs a file's name after it"),
    ("/undo 3", "/undo is refused: it takes nothing after it, found '3'"),
    ("/quit now", "/quit is refused: it takes nothing after it, found 'now'"),
    ("/help me", "/help is refused: it takes nothing after it, found 'me'"),
)


@pytest.mark.parametrize(("line", "told"), REFUSED, ids=[line[:20] for line, _ in REFUSED])
def test_a_refused_command_ends_a_pipe(
    line: str,
    told: str,
    talker: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    _pipe(monkeypatch, f"Hello\n{line}\nnever read\n")
    # That nobody wants notes is no reason to hide an error.
    assert run(["chat", "-q", "-m", str(talker), "--max-tokens", "8"]) == 4
    out, error = capsys.readouterr()
    assert out == _answer(talker, "Hello") + "\n"
    assert error.startswith(f"error: {told}")


@pytest.mark.parametrize("command", ["/undo", "/edit x", "/edit 1 x"])
def test_a_pipe_ends_where_nothing_was_said(
    command: str, sslm_command: Commands, talker: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _pipe(monkeypatch, f"{command}\nnever read\n")
    assert sslm_command.text("chat", "-m", talker, code=4) == ""


def test_a_person_is_told_what_is_refused_and_goes_on(
    talker: Path,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    saved = tmp_path / "saved.json"
    refused = [line for line, _ in REFUSED]
    _person(monkeypatch, "/undo", "Hello", *refused, "/help", f"/save {saved}", "/quit")
    assert run(["chat", "-m", str(talker), "--max-tokens", "8"]) == 0
    out, notes = capsys.readouterr()
    assert out == _answer(talker, "Hello") + "\n"
    for _, told in (("", "/undo is refused: no message has been said"), *REFUSED):
        assert f"error: {told}" in notes
    assert notes.count("/undo takes back the last message") == 2
    messages = json.loads(saved.read_text(encoding="utf-8"))["messages"]
    assert messages[0] == {"role": "user", "content": "Hello"}
    assert len(messages) == 2


def test_the_digest_of_every_answer_goes_to_stderr(
    talker: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    _pipe(monkeypatch, "Hello\n/undo\n/help\n")
    assert run(["chat", "-m", str(talker), "--max-tokens", "8", "--no-progress"]) == 0
    with Model(talker) as model:
        digest = model.chat([Message("user", "Hello")], max_tokens=8).digest
    lines = capsys.readouterr().err.splitlines()
    assert lines[0] == f"digest {digest} (8 tokens, length)"
    assert lines[1] == "undone: Hello"
    assert lines[2].startswith("/undo takes back the last message")
    assert len(lines) == 3


def test_the_first_error_ends_a_pipe(
    sslm_command: Commands, talker: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _pipe(monkeypatch, "Hello\n" + "long " * 4000 + "\nnever read\n")
    out = sslm_command.text("chat", "-m", talker, "--max-tokens", "8", code=4)
    assert out == _answer(talker, "Hello") + "\n"
    _pipe(monkeypatch, b"caf\xe9\n")
    sslm_command.text("chat", "-m", talker, code=3)


def test_a_person_sees_errors_and_goes_on(
    talker: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    _person(monkeypatch, "long " * 4000, KeyboardInterrupt, "Hello", EOFError)
    assert run(["chat", "-m", str(talker), "--max-tokens", "8"]) == 0
    out, error = capsys.readouterr()
    # The message that was too long is not part of the conversation.
    assert out == _answer(talker, "Hello") + "\n"
    assert "error: the request needs" in error
    assert "/quit or Ctrl-D ends the conversation" in error


def _interrupt_after(monkeypatch: pytest.MonkeyPatch, pieces: int) -> None:
    """Press Ctrl-C when this many pieces of the first answer were shown."""
    shown: list[str] = []

    def show(text: str) -> None:
        print_text(text)
        shown.append(text)
        if len(shown) == pieces:
            raise KeyboardInterrupt

    monkeypatch.setattr("sslm.cli.commands.conversation.print_text", show)


def test_ctrl_c_keeps_what_was_shown(
    sslm_command: Commands, talker: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    saved = tmp_path / "saved.json"
    whole = _answer(talker, "Hello")
    _interrupt_after(monkeypatch, 3)
    _person(monkeypatch, "Hello", "And you?", f"/save {saved}", "/quit")
    out = sslm_command.text("chat", "-m", talker, "--max-tokens", "8")
    messages = json.loads(saved.read_text(encoding="utf-8"))["messages"]
    kept, second = messages[1]["content"], messages[3]["content"]
    assert 0 < len(kept) < len(whole)
    assert whole.startswith(kept)
    assert second == _answer(talker, "Hello", kept, "And you?")
    assert out == f"{kept}\n{second}\n"


@pytest.mark.parametrize("command", ["Other", "/edit Other"])
def test_ctrl_c_before_the_answer_drops_the_message_and_says_so(
    command: str,
    talker: Path,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    saved = tmp_path / "saved.json"
    _person(monkeypatch, "Hello", command, f"/save {saved}", "/quit")
    read, calls = read_answer, iter((False, True))

    def read_or_interrupt(start: Any, **options: Any) -> Completion:
        if next(calls):
            with start(lambda done, total: None, lambda what, done, total: None):
                raise KeyboardInterrupt
        return read(start, **options)

    monkeypatch.setattr("sslm.cli.commands.conversation.read_answer", read_or_interrupt)
    assert run(["chat", "-m", str(talker), "--max-tokens", "8"]) == 0
    notes = capsys.readouterr().err
    assert notes.count("nothing of an answer was shown yet, so the message was dropped") == 1
    messages = json.loads(saved.read_text(encoding="utf-8"))["messages"]
    assert [one["content"] for one in messages] == ["Hello", _answer(talker, "Hello")]


def test_ctrl_c_ends_a_pipe(
    sslm_command: Commands, talker: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _interrupt_after(monkeypatch, 3)
    _pipe(monkeypatch, "Hello\nnever read\n")
    out = sslm_command.text("chat", "-m", talker, "--max-tokens", "8", code=130)
    assert _answer(talker, "Hello").startswith(out.rstrip("\n"))


def test_a_byte_order_mark_is_no_part_of_the_first_message(
    sslm_command: Commands, talker: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    saved = tmp_path / "saved.json"
    _pipe(monkeypatch, f"\ufeffHello\n\ufeffHello\n/save {saved}\n")
    sslm_command.text("chat", "-m", talker, "--max-tokens", "8")
    messages = json.loads(saved.read_text(encoding="utf-8"))["messages"]
    assert [one["content"] for one in messages[::2]] == ["Hello", "\ufeffHello"]


@pytest.mark.parametrize("level", ["-v", "-vv"])
def test_what_is_logged_stands_between_the_lines(
    level: str, talker: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _pipe(monkeypatch, "Hello\nAnd you?\n")
    first = _answer(talker, "Hello")
    answers = [*first.split("\n"), *_answer(talker, "Hello", first, "And you?").split("\n")]
    both = io.StringIO()
    monkeypatch.setattr(sys, "stdout", both)
    monkeypatch.setattr(sys, "stderr", both)
    assert run(["chat", level, "-m", str(talker), "--max-tokens", "8", "--no-progress"]) == 0
    lines = both.getvalue().split("\n")
    logged = [line for line in lines if "INFO: answered" in line]
    assert len(logged) == 2
    assert all(line.startswith("INFO: answered") for line in logged)
    assert [line for line in lines if line in answers and line] == [one for one in answers if one]
    digests = [place for place, line in enumerate(lines) if line.startswith("digest ")]
    assert all(lines[place - 1].startswith("INFO: answered") for place in digests)


def test_a_model_without_a_template_says_so_first(
    sslm_command: Commands, stories: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _pipe(monkeypatch, "")
    sslm_command.text("chat", "-m", stories, code=4)


def test_a_date_is_a_date(
    sslm_command: Commands, talker: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _pipe(monkeypatch, "")
    sslm_command.text("chat", "-m", talker, "--date", "2024-02-29")
    sslm_command.text("chat", "-m", talker, "--date", "2023-02-29", code=2)


def test_help_has_an_example(sslm_command: Commands) -> None:
    assert "Example: sslm chat" in sslm_command.text("chat", "--help")
