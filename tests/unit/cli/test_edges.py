"""Odd streams, odd arguments, and every exit code, from processes of their own."""

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

import sslm
from sslm import limits
from sslm.cli.app import run
from sslm.cli.exit_codes import FAMILIES, INTERRUPTED, USAGE
from sslm.cli.failures import explain
from sslm.errors.status import Status
from sslm.text.tokenizer import Tokenizer
from tests.converted import stories_artifact
from tests.test_errors_table import CAUSES, _example
from tests.unit.cli.commands import Commands

PROMPT = "Once upon a time"
ENVIRONMENT = {
    "PYTHONPATH": str(Path(str(sslm.__file__)).parents[1]),
    "SSLM_OFFLINE": "1",
    "OPENBLAS_NUM_THREADS": "1",
}


def sslm_process(
    *arguments: object, shell: str = "", data: bytes | None = None, **variables: str
) -> "subprocess.CompletedProcess[bytes]":
    """Run a command, with what a shell does to its streams."""
    command: Sequence[Any] = [sys.executable, "-m", "sslm", *arguments]
    if shell:
        command = ["sh", "-c", f'"$@" {shell}', "sh", *map(str, command)]
    return subprocess.run(
        command,
        input=data,
        stdin=subprocess.DEVNULL if data is None else None,
        capture_output=True,
        env=os.environ | ENVIRONMENT | variables,
        timeout=240,
        check=False,
    )


def generate(*more: object) -> tuple[object, ...]:
    return ("generate", *more, "-m", stories_artifact(), "--max-tokens", "3")


def _made(arguments: Sequence[object]) -> list[object]:
    """Return arguments with the model made that they only name: no test needs it to be listed."""
    return [one() if callable(one) else one for one in arguments]


def test_an_exit_code_for_every_cause_is_in_the_json(capsys: pytest.CaptureFixture[str]) -> None:
    """Every number that ships has a code, and its object can be read as JSON."""
    codes = {}
    for example in map(_example, CAUSES):
        code = explain(example, is_json=True)
        error = json.loads(capsys.readouterr().out)["error"]
        assert set(error) == {"type", "status", "message", "exit_code", "facts"}
        assert (error["type"], error["exit_code"]) == (example.cause, code)
        codes[error["status"]] = code
    assert set(codes) == set(Status) - {Status.OK, Status.INTERNAL}
    assert set(codes.values()) == {*FAMILIES.values(), USAGE}


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (("doctor",), 0),
        (("doctor", "now"), 2),
        (("inspect", "missing.sslm"), 3),
        (("generate", PROMPT, "-m", stories_artifact, "--max-tokens", "0"), 2),
        (("generate", PROMPT, "-m", stories_artifact, "--context-tokens", "3"), 4),
        (("generate", PROMPT, "-m", stories_artifact, "--memory-bytes", "1k"), 5),
        (("generate", PROMPT, "-m", stories_artifact, "--deadline-s", "0"), 5),
        (("verify", "smollm2-135m", "--cache-dir", "/nonexistent"), 6),
    ],
)
def test_every_code_is_reached(
    sslm_command: Commands, arguments: tuple[object, ...], code: int
) -> None:
    facts = sslm_command.json(*_made(arguments), code=code)
    assert ("error" in facts) == (code != 0)
    assert facts.get("error", {}).get("exit_code", 0) == code


def test_our_own_defect_and_an_interrupt_are_json_too(
    sslm_command: Commands, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(error: BaseException) -> dict[str, Any]:
        def encode(tokenizer: Tokenizer, text: str, **_: object) -> list[int]:
            raise error

        monkeypatch.setattr(Tokenizer, "encode", encode)
        found = sslm_command.json(*generate(PROMPT), code=codes[type(error)])
        return dict(found["error"])

    codes: dict[type[BaseException], int] = {ZeroDivisionError: 7, KeyboardInterrupt: INTERRUPTED}
    assert fail(ZeroDivisionError("one by none")) == {
        "type": "InternalError",
        "status": 900,
        "message": "one by none",
        "exit_code": 7,
        "facts": {},
    }
    assert fail(KeyboardInterrupt())["type"] == "Interrupted"


def test_changed_weights_are_1(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from dataclasses import replace

    from sslm.engine.model import Model

    with Model(stories_artifact()) as model:
        found = replace(model.verify(), ok=False, first_difference="layer 3")
    monkeypatch.setattr(Model, "verify", lambda model, on_progress: found)
    assert run(["verify", str(stories_artifact())]) == 1


@pytest.mark.parametrize(
    "arguments",
    [
        ("generate", "a", "b"),
        ("chat", "a"),
        ("verify", "a", "b"),
        ("inspect", "a", "b"),
        ("convert", "a", "b", "-o", "c"),
        ("pull", "a", "b"),
        ("prove", "a", "b"),
        ("eval", "a", "b"),
        ("list", "a"),
        ("doctor", "a"),
        ("tokenize", "a", "b"),
    ],
)
def test_a_word_too_many_is_refused(
    arguments: tuple[str, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(list(arguments)) == 2
    assert "quote" in capsys.readouterr().err or arguments[0] == "eval"


@pytest.mark.parametrize(
    ("arguments", "hint"),
    [
        (("generat", "x"), "'generate'"),
        (("generate", "x", "--max-token", "3"), "--max-tokens"),
        (("verify", "--ofline"), "--offline"),
    ],
)
def test_a_misspelled_word_has_a_hint(
    arguments: tuple[str, ...], hint: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(list(arguments)) == 2
    assert hint in capsys.readouterr().err


def test_a_usage_error_cannot_steer_the_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    for words in (["\x1b[2J"], ["doctor", "\x1b[2J"], ["doctor", "--\x1b[2J"]):
        assert run(words) == 2
    assert "\x1b" not in capsys.readouterr().err


def test_after_two_dashes_a_prompt_may_look_like_an_option(sslm_command: Commands) -> None:
    from sslm.engine.model import Model

    with Model(stories_artifact()) as model:
        expected = model.generate("--json", max_tokens=3).text
    more = ("-m", stories_artifact(), "--max-tokens", "3")
    assert sslm_command.text("generate", *more, "--", "--json") == expected
    assert run(["doctor", "--", "--json"]) == 2


@pytest.mark.parametrize(
    ("shell", "code"),
    [("<&-", 3), (">&-", 0), ("2>&-", 0), ("2>/dev/full", 0), (">/dev/full", 5), ("| :", 0)],
)
def test_a_stream_that_is_closed_or_full_is_no_defect(shell: str, code: int) -> None:
    prompt = "-" if shell == "<&-" else PROMPT
    done = sslm_process(*generate(prompt), shell=shell)
    assert done.returncode == code, done.stderr
    assert b"Traceback" not in done.stderr
    assert b"Exception ignored" not in done.stderr


def test_a_chat_whose_stdin_is_closed_is_no_empty_chat(talker: Path) -> None:
    assert sslm_process("chat", "-m", talker, shell="<&-").returncode == 3


@pytest.mark.parametrize(("shell", "code"), [(">/dev/full", 5), ("| :", 0), (">&-", 0)])
def test_the_version_on_a_stream_that_fails_is_no_defect(shell: str, code: int) -> None:
    done = sslm_process("--version", shell=shell)
    assert done.returncode == code, done.stderr
    assert b"Traceback" not in done.stderr
    assert b"Exception ignored" not in done.stderr


def test_a_pipe_that_was_closed_before_the_version_is_no_defect() -> None:
    reading, writing = os.pipe()
    os.close(reading)
    done = subprocess.run(
        [sys.executable, "-m", "sslm", "--version"],
        stdout=writing,
        stderr=subprocess.PIPE,
        env=os.environ | ENVIRONMENT,
        check=False,
    )
    os.close(writing)
    assert (done.returncode, done.stderr) == (0, b"")


def test_an_empty_folder_is_not_taken_for_the_users_cache(sslm_command: Commands) -> None:
    """A variable that is not set would have ``rm --all`` empty another cache than was meant."""
    assert sslm_command.error("rm", "--all", "--yes", "--cache-dir", "", code=2) == "UsageError"


def test_a_json_error_on_a_full_disk_still_has_its_line() -> None:
    done = sslm_process(*generate(PROMPT), "--max-tokens", "0", "--json", shell=">/dev/full")
    assert done.returncode == 2
    assert done.stderr.startswith(b"error: --max-tokens is 0")


@pytest.mark.parametrize(
    ("data", "name"),
    [
        (b"", None),
        (b"\xff\xfe\x00", "BadUtf8Error"),
        (b"ok \x00 nul", None),
        (b"line\r\nline\r\n", None),
        (b"x" * (4 * limits.TEXT_SIZE_CHARS_MAX + 1), "TextTooLongError"),
    ],
)
def test_stdin_is_text_within_bounds(data: bytes, name: str | None) -> None:
    done = sslm_process(*generate("-"), "--json", data=data)
    facts = json.loads(done.stdout)
    assert facts.get("error", {}).get("type") == name
    if name is None:
        from sslm.engine.model import Model

        with Model(stories_artifact()) as model:
            assert facts["digest"] == model.generate(data.decode(), max_tokens=3).digest


@pytest.mark.parametrize("locale", ["C"])
def test_a_prompt_is_utf8_whatever_the_locale(locale: str) -> None:
    for prompt, code in (("é".encode(), 0), (b"\xff", 4)):
        done = sslm_process(*generate(prompt), "--json", LC_ALL=locale, PYTHONUTF8="0")
        assert done.returncode == code, done.stderr
        json.loads(done.stdout.decode("utf-8"))


KEYS = {
    "generate": {
        *(
            "text",
            "token_ids",
            "finish_reason",
            "stop_reason",
            "length_reason",
            "digest",
            "seed",
            "choosing",
            "logprobs",
            "model_id",
        ),
        *("backend", "tier", "threads", "usage"),
    },
    "verify": {
        *("ok", "digest", "first_difference", "backend", "tier", "threads", "run_count"),
        "model_id",
    },
    "prove": {"ok", "text", "token_ids", "digest", "model_id", "ways"},
    "doctor": {"ok", "native", "threads", "memory", "cache", "versions", "platform"},
    "list": {"cache_dir", "models", "known", "ignored"},
    "tokenize": {"token_ids", "pieces", "tokens"},
    "inspect": {
        *("format", "path", "size_bytes", "sha256", "model_id", "arithmetic_version", "config"),
        *("fraction_bits", "tokenizer", "golden", "schemas", "provenance", "weights", "tensors"),
        "weights_size_bytes",
        "huge_page_bytes",
    },
    "bench": {
        *("path", "model_id", "tier", "weights_size_bytes", "context_tokens", "adapted", "tests"),
    },
}
ARGUMENTS: dict[str, tuple[object, ...]] = {
    "generate": ("generate", PROMPT, "-m", stories_artifact, "--max-tokens", "3"),
    "verify": ("verify", stories_artifact),
    "prove": ("prove", PROMPT, "-m", stories_artifact, "--max-tokens", "2"),
    "doctor": ("doctor",),
    "list": ("list",),
    "tokenize": ("tokenize", PROMPT, "-m", stories_artifact),
    "inspect": ("inspect", stories_artifact),
    "bench": (
        *("bench", stories_artifact, "-p", "4", "-n", "2", "-b", "1", "-d", "0", "-t", "1"),
        *("-r", "1"),
    ),
}


@pytest.mark.parametrize("command", KEYS)
def test_json_output_has_the_documented_keys(sslm_command: Commands, command: str) -> None:
    found = set(sslm_command.json(*_made(ARGUMENTS[command])))
    assert found == KEYS[command]
    documented = (Path(__file__).parents[3] / "docs" / "cli.md").read_text(encoding="utf-8")
    section = documented.split(f"`{command}`: ", 1)[1].split("\n- ", 1)[0]
    assert {key for key in found if f"`{key}`" not in section} == set()


def test_a_tier_that_a_backend_does_not_have_is_not_blamed_on_the_machine(
    sslm_command: Commands,
) -> None:
    options = ("-m", stories_artifact(), "--backend", "reference", "--tier", "scalar")
    error = sslm_command.json("generate", PROMPT, *options, code=4)["error"]
    assert error["type"] == "TierUnavailableError"
    assert "with the backend reference" in error["message"]


@pytest.mark.parametrize(
    ("option", "value"),
    [
        *(("--max-tokens", value) for value in ("-1", "0", "1.5", "9999999999999999999999")),
        *(("--memory-bytes", value) for value in ("0", "-1", "9T9", "9999999999999999999T")),
        *(("--deadline-s", value) for value in ("-1", "inf", "nan", "1e300", "soon")),
        *(("--context-tokens", value) for value in ("-1", "0", "1048577", "all")),
        *(("--threads", value) for value in ("0", "-1", "1000", "many")),
        *(("--sha256", value) for value in ("", "abc")),
        ("--stop", ""),
        ("--stop", "x" * (limits.STOP_SIZE_CHARS_MAX + 1)),
        ("--backend", "none"),
        ("--tier", "none"),
    ],
)
def test_a_wrong_value_of_an_option_is_usage_and_named_as_it_is_typed(
    option: str, value: str, sslm_command: Commands
) -> None:
    arguments = ("generate", PROMPT, "-m", stories_artifact(), option, value)
    assert option in sslm_command.json(*arguments, code=2)["error"]["message"]


@pytest.mark.parametrize(
    "arguments",
    [
        ("convert", "no.gguf", "-o", "-"),
        ("batch", "no.jsonl", "--out", "-"),
        ("schema", "compile", "no.json", "-o", "-"),
        ("schema", "add", stories_artifact(), "no.json", "-o", "-"),
        ("generate", PROMPT, "-m", stories_artifact(), "--record", "-"),
    ],
    ids=["convert", "batch", "schema compile", "schema add", "record"],
)
def test_a_stream_is_no_file_to_write(
    arguments: tuple[object, ...],
    sslm_command: Commands,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    message = sslm_command.json(*arguments, code=2)["error"]["message"]
    assert message.endswith("it is '-', expected the path of a file (./- if that is its name)")
    assert list(tmp_path.iterdir()) == []


def test_every_format_of_weights_is_in_the_help(sslm_command: Commands) -> None:
    from sslm.convert.weight_formats import WEIGHT_FORMATS

    text = " ".join(sslm_command.text("convert", "--help").split())
    for what in ("the layers' weights", "embedding and output"):
        assert f"Format of {what}: {' or '.join(WEIGHT_FORMATS)}." in text


_POSITIVE = "expected an integer from 1 to"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("generate", "a", "--max-tokens", "x"), "'--max-tokens': it is 'x', expected an integer"),
        (("generate", "a", "--max-tokens", "-3"), f"--max-tokens is -3, {_POSITIVE} 1048576"),
        (("prove", "a", "--max-tokens", "0"), f"--max-tokens is 0, {_POSITIVE} 1048576"),
        (("generate", "a", "--context-tokens", "0"), f"--context-tokens is 0, {_POSITIVE} 512"),
        (
            ("generate", "a", "--deadline-s", "-1"),
            "--deadline-s is -1.0, expected a number of seconds from 0 to 31536000",
        ),
        (
            ("generate", "a", "-t", "257"),
            "it is '257', expected cores, or an integer from 1 to 256",
        ),
        (
            ("tokenize", "--decode", "1048576"),
            "TEXT: it has '1048576', expected token ids, each an integer from 0 to 1048575",
        ),
    ],
)
def test_numbers_are_refused_in_the_same_words(
    sslm_command: Commands, arguments: tuple[str, ...], message: str
) -> None:
    more = ("-m", stories_artifact())
    error = sslm_command.json(*arguments, *more, code=2)["error"]
    assert error["message"].endswith(message)
