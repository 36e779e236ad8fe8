"""``sslm batch`` with schemas."""

import json
from pathlib import Path
from typing import Any

import pytest

from sslm.answer_schemas.schema import Schema
from sslm.artifact.adding_schemas import add_schemas
from sslm.engine.model import Model
from sslm.sampling.seeds import row_seed
from sslm.serving.batch_input import BatchInput
from sslm.serving.batch_job import BatchJob
from sslm.serving.batch_lines import JobOptions
from tests.unit.cli.commands import Commands
from tests.unit.cli.test_batch import CHAT, answered, line

COLOURS: dict[str, Any] = {
    "type": "object",
    "properties": {"colour": {"enum": ["red", "green"]}, "amount": {"minimum": 0.5, "maximum": 2}},
    "required": ["colour"],
    "additionalProperties": False,
}
FORMAT = {"type": "json_schema", "json_schema": {"name": "colours", "schema": COLOURS}}
MESSAGES = [{"role": "user", "content": "Hi"}]


def texts(path: Path) -> list[str | None]:
    """Return the text of each line of answers; None where there is an error."""
    found: list[str | None] = []
    for one in answered(path):
        choice = one["response"]["body"].get("choices", [{}])[0]
        found.append(choice.get("text", choice.get("message", {}).get("content")))
    return found


@pytest.fixture
def model_with_schema(talker: Path, tmp_path: Path) -> Path:
    path = tmp_path / "with.sslm"
    with Model(talker) as model:
        schema = Schema.compile(COLOURS, tokenizer=model.tokenizer, name="colours")
    add_schemas(talker, path, [schema.prepared])
    return path


def test_answers_follow_the_schemas_of_their_lines(
    sslm_command: Commands, model_with_schema: Path, tmp_path: Path
) -> None:
    source, out = tmp_path / "in", tmp_path / "out"
    source.write_text(
        line("a", prompt="Hello", response_format=FORMAT)
        + line("b", CHAT, messages=MESSAGES, response_format=FORMAT, temperature=1)
        + line("c", prompt="Hello", schema=COLOURS, finish="cut", max_tokens=3)
        + line("d", prompt="Hello", schema="colours", temperature=1)
        + line("e", prompt="Hello", response_format={"type": "json_object"}, n=2, temperature=1)
        + line("f", prompt="Hello", response_format={"type": "text"}, max_tokens=4)
        + line("g", prompt="Hello", max_tokens=4)
    )
    sslm_command.text("batch", source, "-o", out, "-m", model_with_schema, "--max-tokens", 60)
    with Model(model_with_schema) as model:
        expected = [
            model.generate("Hello", schema=COLOURS, max_tokens=60),
            model.chat(
                MESSAGES, schema=COLOURS, max_tokens=60, temperature=1, seed=row_seed(0, "b")
            ),
            model.generate("Hello", schema=COLOURS, finish="cut", max_tokens=3),
            model.generate(
                "Hello", schema=COLOURS, max_tokens=60, temperature=1, seed=row_seed(0, "d")
            ),
            model.generate(
                "Hello",
                schema={"type": "object"},
                max_tokens=60,
                temperature=1,
                seed=row_seed(0, "e"),
            ),
            *(model.generate("Hello", max_tokens=4) for _ in "fg"),
        ]
    assert texts(out) == [one.text for one in expected]
    for index in (0, 1, 3):
        assert expected[index].parsed["colour"] in ("red", "green")
    told = [one["response"]["body"]["choices"][0] for one in answered(out)]
    assert [one["finish_reason"] for one in told] == [one.finish_reason for one in expected]
    assert [one["sslm"]["stop_reason"] for one in told] == [one.stop_reason for one in expected]


def test_what_is_wrong_with_a_schema_is_its_lines_alone(
    sslm_command: Commands, talker: Path, tmp_path: Path
) -> None:
    source, out = tmp_path / "in", tmp_path / "out"
    bad: dict[str, dict[str, Any]] = {
        "MalformedSchemaError": {"schema": {"type": "int"}},
        "UnsupportedSchemaError": {"schema": {"type": "string", "format": "iri"}},
        "UnsatisfiableSchemaError": {"schema": {"not": {}}},
        "UnknownSchemaError": {"schema": "colours"},
        "SchemaBudgetTokensError": {"response_format": FORMAT, "max_tokens": 2},
        "SchemaSizeError": {"schema": {"const": json.loads("[" * 64 + "]" * 64)}},
        "BatchValueError": {"response_format": {"type": "xml"}},
        "OptionRangeError": {"finish": "cut"},
    }
    lines = [line(f"{kind} {n}", prompt="a", **bad[kind]) for n in range(2) for kind in bad]
    source.write_text("".join(lines) + line("good", prompt="a", schema={"const": 1}))
    for name, size in (("together", 64), ("alone", 1)):
        out = tmp_path / name
        options = ("-m", talker, "--batch-size", size)
        facts = sslm_command.json("batch", source, "-o", out, *options, code=4)
        assert (facts["answered"], facts["refused"]) == (1, len(lines))
    *refused, last = answered(out)
    assert last["response"]["body"]["choices"][0]["text"] == "1"
    errors = [one["response"]["body"]["error"] for one in refused]
    assert [one["code"] for one in errors] == [*bad, *bad]
    assert errors[: len(bad)] == errors[len(bad) :]
    assert (tmp_path / "together").read_bytes() == (tmp_path / "alone").read_bytes()


def test_the_jobs_schema_is_for_lines_that_say_nothing(
    sslm_command: Commands, model_with_schema: Path, tmp_path: Path
) -> None:
    source, path = tmp_path / "in", tmp_path / "colours.json"
    path.write_text(json.dumps(COLOURS))
    source.write_text(
        line("a", prompt="Hello")
        + line("b", prompt="Hello", response_format={"type": "text"}, max_tokens=3)
        + line("c", prompt="Hello", schema={"const": [1, 2, 3]})
        + line("d", prompt="Hello", finish="fit")
    )
    common = ("-m", model_with_schema, "--max-tokens", 30)
    with Model(model_with_schema) as model:
        schema = Schema.compile(COLOURS, tokenizer=model.tokenizer)
        schema.save(tmp_path / "colours.sslms")
        fit = model.generate("Hello", schema=COLOURS, max_tokens=30).text
        free = model.generate("Hello", max_tokens=3).text
    files = []
    for number, given in enumerate((path, tmp_path / "colours.sslms", "colours")):
        out = tmp_path / str(number)
        sslm_command.text("batch", source, "-o", out, "--schema", given, *common)
        assert texts(out) == [fit, free, "[1,2,3]", fit]
        files.append(out.read_bytes())
    # One schema, wherever it comes from; only its name differs, which no answer depends on.
    assert files[0] == files[1]
    out = tmp_path / "cut"
    sslm_command.text(
        *("batch", source, "-o", out, "--schema", path, "--finish", "cut", *common[:3], 4), code=4
    )
    found = answered(out)
    assert [len(one["response"]["body"]["choices"][0]["text"]) > 0 for one in found[:3]] == [
        True,
        True,
        True,
    ]
    assert found[3]["response"]["body"]["error"]["code"] == "SchemaBudgetTokensError"


def test_a_job_goes_on_only_with_its_own_schemas(
    sslm_command: Commands, talker: Path, model_with_schema: Path, tmp_path: Path
) -> None:
    source, out, path = tmp_path / "in", tmp_path / "out", tmp_path / "colours.json"
    source.write_text("".join(line(str(n), prompt="Hello") for n in range(4)))
    path.write_text(json.dumps(COLOURS))
    own = ("batch", source, "-o", out, "--max-tokens", 30, "--any-model")
    sslm_command.text(*own, "--schema", path, "-m", model_with_schema)
    whole = out.read_bytes()
    out.write_bytes(whole[: len(whole) // 2])
    other = tmp_path / "other.json"
    other.write_text('{"const": 1}')
    for options in (
        ("-m", model_with_schema),
        ("-m", model_with_schema, "--schema", other),
        ("-m", model_with_schema, "--schema", path, "--finish", "cut"),
        # The same model_id, but names would stand for other schemas.
        ("-m", talker, "--schema", path),
    ):
        assert sslm_command.error(*own, *options, code=3) == "BatchOutputMismatchError"
    facts = sslm_command.json(*own, "--schema", path, "-m", model_with_schema)
    assert facts["resumed"] > 0
    assert out.read_bytes() == whole


def test_a_schema_that_cannot_be_had_stops_the_job(
    sslm_command: Commands, talker: Path, tmp_path: Path
) -> None:
    source, out, path = tmp_path / "in", tmp_path / "out", tmp_path / "bad.json"
    source.write_text(line("a", prompt="a"))
    path.write_text('{"type": "int"}')
    own = ("batch", source, "-o", out, "-m", talker)
    assert sslm_command.error(*own, "--schema", path, code=4) == "MalformedSchemaError"
    assert sslm_command.error(*own, "--schema", "colours", code=4) == "UnknownSchemaError"
    missing = tmp_path / "missing.json"
    assert sslm_command.error(*own, "--schema", missing, code=3) == "UnreadableFileError"
    sslm_command.error(*own, "--finish", "fits", code=2)
    assert not out.exists()


def test_rows_of_one_schema_compile_it_once(
    talker: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = tmp_path / "in"
    several: list[Any] = [{"enum": [n, n + 100]} for n in range(50)]
    wrong = {"type": "int"}
    lines = [
        line(str(n), prompt="a", schema=wrong if n % 9 == 8 else several[n % 50])
        for n in range(200)
    ]
    source.write_text("".join(lines))
    compiled: list[object] = []
    compile_schema = Schema.compile

    def compile_and_note(given: object, **options: Any) -> Schema:
        compiled.append(given)
        return compile_schema(given, **options)

    monkeypatch.setattr(Schema, "compile", compile_and_note)
    with Model(talker) as model:
        options = JobOptions(
            seed=0,
            max_tokens=9,
            context_tokens=model.context_tokens,
            date=None,
            model="stories",
            is_any_model=False,
        )
        summary = BatchJob(model, BatchInput(source), options).run(tmp_path / "out")
    assert (summary.answered, summary.refused) == (178, 22)
    assert len(compiled) == len(set(map(str, compiled))) == 51
