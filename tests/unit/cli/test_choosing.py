"""How commands are told to choose tokens."""

import io
import json
import os
import sys
from pathlib import Path

import pytest

from sslm.answer_schemas.schema import Schema
from sslm.artifact.adding_schemas import add_schemas
from sslm.cli.app import run
from sslm.engine.model import Model
from tests.converted import talking_artifact
from tests.unit.cli.commands import Commands

PROMPT = "Once upon a time"
TYPED = (
    *("--temperature", "0.70000049", "--top-k", "40", "--top-p", ".95", "--min-p", "1e-3"),
    *("--seed", "18446744073709551615", "--repetition-penalty", "1.1", "--presence-penalty", "0.5"),
    *("--frequency-penalty", "-0.25", "--logit-bias", "5=-1.5", "--logit-bias", "300=2"),
)
MEANT = {
    **{"temperature": "0.7", "top_k": 40, "top_p": "0.95", "min_p": "0.001", "seed": 2**64 - 1},
    **{"repetition_penalty": "1.1", "presence_penalty": "0.5", "frequency_penalty": "-0.25"},
    "logit_bias": {"5": "-1.5", "300": "2"},
}


def test_options_are_told_as_they_were_rounded(sslm_command: Commands, stories: Path) -> None:
    facts = sslm_command.json("generate", PROMPT, "-m", stories, "--max-tokens", "12", *TYPED)
    assert facts["choosing"] == MEANT
    assert facts["seed"] == 2**64 - 1
    biases = {5: "-1.5", 300: 2}
    with Model(stories) as model:
        expected = model.generate(PROMPT, max_tokens=12, **(MEANT | {"logit_bias": biases}))  # type: ignore[arg-type]
    assert facts["token_ids"] == expected.token_ids
    assert facts["digest"] == expected.digest


def test_damped_greedy(sslm_command: Commands, stories: Path) -> None:
    damped = ("--damping", "2", "--damping-order", "3", "--damping-top-k", "9")
    facts = sslm_command.json("generate", PROMPT, "-m", stories, "--max-tokens", "30", *damped)
    assert facts["choosing"] == {"damping": "2", "damping_order": 3, "damping_top_k": 9}
    with Model(stories) as model:
        options = {"damping": 2, "damping_order": 3, "damping_top_k": 9}
        expected = model.generate(PROMPT, max_tokens=30, **options)  # type: ignore[arg-type]
    assert facts["token_ids"] == expected.token_ids


@pytest.mark.parametrize(
    ("arguments", "ending"),
    [((), "length)"), (("--seed", "7"), "length)"), (("--temperature", "1"), "length, seed 0)")],
)
def test_the_digest_line_names_the_seed_of_what_is_drawn(
    stories: Path, capsys: pytest.CaptureFixture[str], arguments: tuple[str, ...], ending: str
) -> None:
    assert run(["generate", PROMPT, "-m", str(stories), "--max-tokens", "2", *arguments]) == 0
    assert capsys.readouterr().err.splitlines()[-1].endswith(f"(2 tokens, {ending}")


def test_a_conversation_is_answered_so(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"Hello\n")))
    arguments = ["-m", str(talking_artifact()), "--max-tokens", "8", "--temperature", "1"]
    assert run(["chat", *arguments, "--seed", "4"]) == 0
    out, error = capsys.readouterr()
    with Model(talking_artifact()) as model:
        hello = [{"role": "user", "content": "Hello"}]
        expected = model.chat(hello, max_tokens=8, temperature=1, seed=4)
    assert out == expected.text + "\n"
    assert error.splitlines()[-1].startswith(f"digest {expected.digest} (")
    assert error.endswith(", seed 4)\n")


@pytest.mark.parametrize(
    ("arguments", "option"),
    [
        (("--temperature", "hot"), "--temperature is 'hot', expected 0"),
        (("--temperature", "nan"), "--temperature"),
        (("--top-k", "-1"), "--top-k is -1, expected"),
        (("--top-p", "0"), "--top-p is '0', expected"),
        (("--min-p", "1.1"), "--min-p"),
        (("--seed", "18446744073709551616"), "--seed"),
        (("--repetition-penalty", "0"), "--repetition-penalty"),
        (("--presence-penalty", "3"), "--presence-penalty"),
        (("--frequency-penalty", "-3"), "--frequency-penalty"),
        (("--logit-bias", "5=101"), "--logit-bias"),
        (("--logit-bias", "99999=1"), "--logit-bias"),
        (("--damping", "32"), "--damping"),
        (("--damping-order", "3"), "--damping-order cannot be used without damping"),
        (("--damping", "1", "--damping-top-k", "0"), "--damping-top-k"),
        (("--damping", "1", "--temperature", "1"), "--damping cannot be used with"),
    ],
)
def test_what_is_out_of_range_is_misuse(
    sslm_command: Commands, stories: Path, arguments: tuple[str, ...], option: str
) -> None:
    found = sslm_command.json("generate", PROMPT, "-m", stories, *arguments, code=2)["error"]
    assert option in found["message"]
    assert found["status"] in (110, 181)


@pytest.mark.parametrize(
    "typed",
    [("x=1",), ("5",), ("-5=1",), ("=1",), ("٣=1",), ("9" * 5000 + "=1",), ("5=1", "05=2")],
    ids=lambda typed: typed[0][:8],
)
def test_a_bias_is_an_id_with_a_value(
    sslm_command: Commands, stories: Path, typed: tuple[str, ...]
) -> None:
    words = [word for one in typed for word in ("--logit-bias", one)]
    assert sslm_command.error("generate", PROMPT, "-m", stories, *words, code=2) == "UsageError"


def test_logprobs_are_in_the_object(sslm_command: Commands, stories: Path) -> None:
    arguments = ("generate", PROMPT, "-m", stories, "--max-tokens", "3")
    assert sslm_command.json(*arguments)["logprobs"] is None
    told = sslm_command.json(*arguments, "--logprobs", "2")["logprobs"]
    with Model(stories) as model:
        expected = model.generate(PROMPT, max_tokens=3, logprobs=2).logprobs
        assert expected is not None
        for facts, one in zip(told, expected, strict=True):
            assert (facts["token_id"], facts["q20"]) == (one.token_id, one.q20)
            assert facts["logprob"] == str(one.decimal)
            assert facts["token"] == model.tokenizer.token_bytes(one.token_id).decode()
            assert [likely["q20"] for likely in facts["top"]] == [top.q20 for top in one.top]
    assert sslm_command.error(*arguments, "--logprobs", "21", code=2) == "OptionRangeError"


def test_logprobs_of_a_text_are_lines_on_stderr(
    stories: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = ["generate", PROMPT, "-m", str(stories), "--max-tokens", "2"]
    assert run(arguments) == 0
    plain = capsys.readouterr().out
    assert run([*arguments, "--logprobs", "1"]) == 0
    out, error = capsys.readouterr()
    assert out == plain
    lines = [line for line in error.splitlines() if line.startswith("logprob ")]
    with Model(stories) as model:
        told = model.generate(PROMPT, max_tokens=2, logprobs=1).logprobs or []
    assert [line.split()[1] for line in lines] == [str(one.decimal) for one in told]


def test_several_answers(sslm_command: Commands, stories: Path) -> None:
    arguments = ("generate", PROMPT, "-m", stories, "--max-tokens", "5", "--n", "3")
    drawn = ("--temperature", "1", "--seed", "9")
    with Model(stories) as model:
        expected = model.generate_n(PROMPT, 3, max_tokens=5, temperature=1, seed=9)
    answers = sslm_command.json(*arguments, *drawn)["answers"]
    assert [one["digest"] for one in answers] == [one.digest for one in expected]
    assert [one["seed"] for one in answers] == [one.seed for one in expected]
    text = sslm_command.text(*arguments, *drawn)
    assert text == "".join(one.text.removesuffix("\n") + "\n" for one in expected)
    assert sslm_command.error(*arguments, "--record", "x.sslmr", code=2) == "UsageError"
    assert sslm_command.error(*arguments[:-1], "0", code=2) == "OptionRangeError"


@pytest.mark.parametrize("kind", ["json", "sslms", "name"])
def test_an_answer_follows_a_schema(sslm_command: Commands, tmp_path: Path, kind: str) -> None:
    document, model_path = {"enum": ["left", "right"]}, talking_artifact()
    path = tmp_path / f"side.{kind}"
    with Model(model_path) as model:
        expected = model.generate("Where?", schema=document, max_tokens=9)
        schema = Schema.compile(document, tokenizer=model.tokenizer, name="side")
    asked = str(path)
    if kind == "json":
        path.write_text(json.dumps(document))
    elif kind == "sslms":
        schema.save(path)
    else:
        asked, with_schema = "side", tmp_path / "with.sslm"
        add_schemas(model_path, with_schema, [schema.prepared])
        model_path = with_schema
    arguments = ("generate", "Where?", "-m", model_path, "--max-tokens", "9")
    facts = sslm_command.json(*arguments, "--schema", asked)
    assert facts["token_ids"] == expected.token_ids
    assert facts["text"] in ('"left"', '"right"')
    assert facts["stop_reason"] == "schema"
    cut = sslm_command.json(*arguments[:-1], "1", "--schema", asked, "--finish", "cut")
    assert cut["finish_reason"] == "length"


def test_what_looks_like_a_file_is_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    command = ["generate", "Where?", "-m", str(talking_artifact()), "--max-tokens", "9", "-q"]
    for name in ("side.json", "SIDE.JSON", "side"):
        Path(name).write_text('{"enum":["left"]}')
    for asked in ("side.json", "SIDE.JSON", f".{os.sep}side"):
        assert run([*command, "--schema", asked]) == 0
        assert capsys.readouterr().out == '"left"'
    assert run([*command, "--schema", "side"]) == 4
    assert "the name of a file ends in .json or .sslms" in capsys.readouterr().err
    Path("side.json").write_text('{"enum":"left"}')
    assert run([*command, "--schema", "side.json"]) == 4
    expected = "error: side.json: 'enum' at '/enum' of the schema is 'left', expected a list\n"
    assert capsys.readouterr().err == expected


def test_an_answer_may_go_on_while_its_schema_lets_it(
    sslm_command: Commands, tmp_path: Path
) -> None:
    path = tmp_path / "number.json"
    path.write_text('{"enum":[1,123456]}')
    arguments = ("generate", "Where?", "-m", talking_artifact(), "--schema", path)
    never = (*arguments, "--max-tokens", "3", "--end-of-text", "never")
    assert sslm_command.json(*never)["finish_reason"] == "dead_end"
    assert sslm_command.error(*never[:-1], "ever", code=4) == "OptionRangeError"


def test_an_answer_without_room_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "side.json"
    path.write_text('{"enum":["left","right"]}')
    options = ["-m", str(talking_artifact()), "--max-tokens", "1", "--schema", str(path)]
    assert run(["generate", "Where?", *options]) == 4
    assert "the shortest that the schema takes has" in capsys.readouterr().err
