"""``sslm schema``: what it prints, what it writes, and its exit codes."""

import json
from pathlib import Path

import pytest

from sslm.answer_schemas.schema import Schema
from sslm.cli.options.schema import _OPTIONS
from sslm.engine.model import Model
from sslm.schema.documents.options import SchemaOptions
from tests.schema_files import SMALL, text
from tests.unit.cli.commands import Commands


@pytest.fixture
def lamp(tmp_path: Path) -> Path:
    """A JSON Schema in a file."""
    path = tmp_path / "lamp.json"
    path.write_text(text(SMALL))
    return path


@pytest.fixture
def odd(tmp_path: Path) -> Path:
    """A JSON Schema of which two things cannot be enforced."""
    path = tmp_path / "odd.json"
    path.write_text('{"type": "string", "format": "color", "pattern": "(a)\\\\1"}')
    return path


def test_defaults_are_those_of_the_library() -> None:
    assert SchemaOptions(**{name: default for name, (_, default) in _OPTIONS.items()}) == (  # type: ignore[arg-type]
        SchemaOptions()
    )


def test_check_says_what_cannot_be_enforced(sslm_command: Commands, lamp: Path, odd: Path) -> None:
    facts = sslm_command.json("schema", "check", lamp)
    assert facts == {"ok": True, "refusals": [], "states": facts["states"]}
    out = sslm_command.text("schema", "check", lamp)
    assert out == f"{lamp}: all of it can be enforced, with {facts['states']} states\n"
    found = sslm_command.json("schema", "check", odd, code=4)
    assert (found["ok"], found["states"]) == (False, None)
    assert [(one["pointer"], one["keyword"]) for one in found["refusals"]] == [
        ("/format", "format"),
        ("/pattern", "pattern"),
    ]
    lines = sslm_command.text("schema", "check", odd, code=4).splitlines()
    assert [line.split()[:2] for line in lines] == [
        ["where", "keyword"],
        ["/format", "format"],
        ["/pattern", "pattern"],
    ]
    assert found["refusals"][0]["hint"] in lines[1]


@pytest.mark.parametrize(
    ("document", "error"),
    [
        ("{", "SchemaSyntaxError"),
        ('{"a":1,"a":2}', "SchemaDuplicateKeyError"),
        ('{"type":"strin"}', "MalformedSchemaError"),
        ('{"$ref":"#/nowhere"}', "SchemaReferenceError"),
        ("false", "UnsatisfiableSchemaError"),
        ('{"type":"string","minLength":99999,"maxLength":100000}', "SchemaBudgetError"),
    ],
)
def test_what_is_no_schema_is_refused(
    sslm_command: Commands, tmp_path: Path, document: str, error: str
) -> None:
    path = tmp_path / "x.json"
    path.write_text(document)
    assert sslm_command.error("schema", "check", path, code=4) == error
    assert str(path) in sslm_command.json("schema", "check", path, code=4)["error"]["message"]


def test_files_that_cannot_be_read(sslm_command: Commands, tmp_path: Path) -> None:
    for path in (tmp_path, tmp_path / "none.json"):
        assert sslm_command.error("schema", "check", path, code=3) == "UnreadableFileError"


def test_options_decide_what_is_refused(sslm_command: Commands, odd: Path, tmp_path: Path) -> None:
    odd.write_text('{"type": "string", "format": "color", "maxLength": 1, "typ": 1}')
    assert len(sslm_command.json("schema", "check", odd, code=4)["refusals"]) == 2
    ways = ("--formats", "annotate", "--unknown-keywords", "ignore")
    assert sslm_command.json("schema", "check", odd, *ways)["ok"]
    for option, value in (
        ("--formats", "maybe"),
        ("--unknown-keywords", "keep"),
        ("--free-levels", "9"),
        ("--recursion-levels", "0"),
        ("--spacing", "wide"),
        ("--free-keys", "none"),
    ):
        assert sslm_command.error("schema", "check", odd, option, value, code=2) == "UsageError"


def test_compile_writes_what_python_does(
    sslm_command: Commands, lamp: Path, stories: Path, tmp_path: Path
) -> None:
    out = tmp_path / "out.sslms"
    facts = sslm_command.json("schema", "compile", lamp, "-m", stories, "-o", out)
    with Model(stories) as model:
        schema = Schema.compile(lamp, tokenizer=model.tokenizer)
        assert Schema.load(out, tokenizer=model.tokenizer) == schema
    assert facts["path"] == str(out)
    assert {name: facts[name] for name in ("name", "digest", "states", "masks")} == {
        "name": "lamp",
        "digest": schema.digest,
        "states": schema.state_count,
        "masks": schema.mask_count,
    }
    command = ("schema", "compile", lamp, "-m", stories, "-o", out)
    for spacing in ("spaced", "flexible"):
        assert facts["free_keys"] == "allow"
        facts = sslm_command.json(*command, "--force", "--spacing", spacing)
        shown = sslm_command.json("schema", "show", out, "-m", stories)
        checked = sslm_command.json("schema", "check", lamp, "--spacing", spacing)
        assert (facts["spacing"], shown["spacing"]) == (spacing, spacing)
        assert checked["states"] == facts["states"] > schema.state_count
        assert Schema.load(out).prepared.options.spacing == spacing
    assert sslm_command.error(*command, code=4) == "OutputExistsError"
    named = (*command, "--force", "--name", "other", "--no-canonical-spans")
    lines = sslm_command.text(*named).splitlines()
    assert lines[:2] == [str(out), "  name      other"]
    assert lines[-1] == "  spans     text without a choice is split in any way"
    assert sslm_command.error(*named, "--name", "a b", code=4) == "SchemaNameError"
    assert Schema.load(out).name == "other"


def test_add_list_and_show(
    sslm_command: Commands, lamp: Path, stories: Path, tmp_path: Path
) -> None:
    before = stories.read_bytes()
    yes, out = tmp_path / "yes.json", tmp_path / "out.sslm"
    yes.write_text('{"enum": ["yes", 1.50]}')
    sslms = tmp_path / "lamp.sslms"
    sslm_command.text("schema", "compile", lamp, "-m", stories, "-o", sslms)
    facts = sslm_command.json("schema", "add", stories, sslms, yes, "-o", out)
    assert stories.read_bytes() == before
    assert [one["name"] for one in facts["added"]] == ["lamp", "yes"]
    assert facts["size_bytes"] == out.stat().st_size
    assert facts["model_id"] == sslm_command.json("inspect", out)["model_id"]
    assert facts["model_id"] == sslm_command.json("inspect", stories)["model_id"]
    assert sslm_command.json("verify", out)["ok"]

    listed = sslm_command.json("schema", "list", out)
    assert [one["name"] for one in listed["schemas"]] == ["lamp", "yes"]
    rows = sslm_command.text("schema", "list", out).splitlines()
    assert rows[0].split() == ["name", "states", "masks", "bytes", "shortest", "answer"]
    assert [row.split()[0] for row in rows[1:]] == ["lamp", "yes"]
    assert sslm_command.json("schema", "list", stories)["schemas"] == []

    shown = sslm_command.json("schema", "show", out, "yes")
    assert shown["document"] == '{"enum":["yes",1.5]}'
    assert shown["is_cross_checked"]
    assert {**listed["schemas"][1], **shown} == shown
    told = sslm_command.text("schema", "show", out, "lamp")
    assert json.loads(told[told.index("\n{\n") :]) == SMALL
    assert "checked   compiled again, and the same" in told
    alone = sslm_command.json("schema", "show", sslms)
    assert not alone["is_cross_checked"]
    assert sslm_command.json("schema", "show", sslms, "-m", stories)["is_cross_checked"]

    assert sslm_command.error("schema", "show", out, code=2) == "UsageError"
    assert sslm_command.error("schema", "show", out, "no", code=4) == "UnknownSchemaError"
    assert sslm_command.error("schema", "show", stories, code=4) == "UnknownSchemaError"
    assert sslm_command.error("schema", "show", sslms, "lamp", code=2) == "UsageError"
    assert sslm_command.error("schema", "show", out, "yes", "-m", out, code=2) == "UsageError"


def test_add_refuses(
    sslm_command: Commands, lamp: Path, odd: Path, stories: Path, tmp_path: Path
) -> None:
    out = tmp_path / "out.sslm"

    def error(*arguments: object, code: int = 4) -> str:
        return sslm_command.error("schema", "add", stories, *arguments, code=code)

    assert error(odd, "-o", out) == "UnsupportedSchemaError"
    assert error(lamp, lamp, "-o", out) == "SchemaNameTakenError"
    assert error(lamp, odd, "-o", out, "--name", "x", code=2) == "UsageError"
    assert error(lamp, "-o", stories) == "OutputNotFileError"
    assert not out.exists()
    sslm_command.text("schema", "add", stories, lamp, "-o", out, "--name", "x")
    assert error(lamp, "-o", out) == "OutputExistsError"
    assert sslm_command.error(
        "schema", "add", out, lamp, "-o", out, "--force", "--name", "x", code=4
    )
    facts = sslm_command.json("schema", "add", out, lamp, "-o", out, "--force")
    assert [one["name"] for one in facts["added"]] == ["lamp"]
    assert [one["name"] for one in sslm_command.json("schema", "list", out)["schemas"]] == [
        "lamp",
        "x",
    ]
    assert sorted(path.suffix for path in tmp_path.iterdir()) == [".json", ".json", ".sslm"]


def test_no_input_is_replaced(
    sslm_command: Commands, lamp: Path, stories: Path, tmp_path: Path
) -> None:
    model, sslms = tmp_path / "model.sslm", tmp_path / "lamp.sslms"
    model.write_bytes(stories.read_bytes())
    sslm_command.text("schema", "compile", lamp, "-m", model, "-o", sslms)
    before = {path: path.read_bytes() for path in (model, sslms, lamp)}
    linked = tmp_path / "linked.json"
    linked.hardlink_to(lamp)
    commands: tuple[tuple[object, ...], ...] = (
        ("schema", "compile", lamp, "-m", model, "-o", lamp),
        ("schema", "compile", lamp, "-m", model, "-o", linked),
        ("schema", "compile", lamp, "-m", model, "-o", model),
        ("schema", "add", model, sslms, "-o", sslms),
        ("schema", "add", model, sslms, lamp, "-o", lamp),
    )
    for command in commands:
        for force in ((), ("--force",)):
            assert sslm_command.error(*command, *force, code=4) == "OutputNotFileError"
    assert {path: path.read_bytes() for path in before} == before


def test_the_group_tells_its_commands(sslm_command: Commands) -> None:
    assert "Example: sslm schema check order.json" in sslm_command.text("schema", "--help")
    sslm_command.text("schema", code=2)
    assert sslm_command.error("schema", "nothing", code=2) == "UsageError"


def test_free_keys_can_be_left_out(sslm_command: Commands, stories: Path, tmp_path: Path) -> None:
    path, out = tmp_path / "a.json", tmp_path / "a.sslms"
    path.write_text('{"type": "object", "properties": {"a": {"type": "null"}}}')
    states = sslm_command.json("schema", "check", path)["states"]
    omit = ("--free-keys", "omit")
    assert sslm_command.json("schema", "check", path, *omit)["states"] < states
    facts = sslm_command.json("schema", "compile", path, "-m", stories, "-o", out, *omit)
    assert facts["free_keys"] == "omit"
    model = tmp_path / "model.sslm"
    sslm_command.json("schema", "add", stories, path, "-o", model, *omit, "--spacing", "spaced")
    (listed,) = sslm_command.json("schema", "list", model)["schemas"]
    assert (listed["free_keys"], listed["spacing"]) == ("omit", "spaced")
    assert listed["states"] == facts["states"] + 1
    lines = sslm_command.text("schema", "show", model).splitlines()
    assert "  options   free_keys omit, spacing spaced" in lines
