"""Compiled schemas in model files: added, found by name, and bound to what they were made for."""

from collections.abc import Callable
from pathlib import Path

import pytest

from sslm import limits
from sslm.answer_schemas.schema import Schema
from sslm.artifact import read_artifact
from sslm.artifact.adding_schemas import add_schemas
from sslm.engine.model import Model
from sslm.errors.base import ArtifactError
from sslm.errors.commands import OutputExistsError
from sslm.errors.schema_files import (
    SchemaCapacityError,
    SchemaNameTakenError,
    SchemaTablesError,
    SchemaVocabularyError,
    StoredSchemaNameError,
    UnknownSchemaError,
)
from sslm.errors.status import Status
from sslm.formats.schemas.containers import encode_schema_section
from sslm.formats.sslm.container import SectionType
from tests.causes import raises
from tests.converted import stories_artifact
from tests.schema_files import SMALL, small_schema
from tests.unit.artifact.tiny_artifact import sections_of, with_section


@pytest.fixture(scope="module")
def plain() -> Path:
    return stories_artifact()


@pytest.fixture(scope="module")
def make(plain: Path) -> Callable[..., Schema]:
    with Model(plain) as model:
        tokenizer = model.tokenizer

    def made(name: str, source: object = SMALL) -> Schema:
        return Schema.compile(source, tokenizer=tokenizer, name=name)

    return made


def test_what_can_change_a_token_stays(
    plain: Path, make: Callable[..., Schema], tmp_path: Path
) -> None:
    before = plain.read_bytes()
    lamp = make("lamp")
    reports: list[tuple[int, int]] = []
    add_schemas(
        plain,
        tmp_path / "out.sslm",
        [lamp.prepared],
        on_progress=lambda done, total: reports.append((done, total)),
    )
    assert plain.read_bytes() == before
    out = (tmp_path / "out.sslm").read_bytes()
    assert reports[-1] == (len(out), len(out))
    old, new = sections_of(before), sections_of(out)
    assert {**old, SectionType.SCHEMAS: new[SectionType.SCHEMAS]} == new
    assert out == with_section(before, SectionType.SCHEMAS, new[SectionType.SCHEMAS])
    with Model(plain) as bare, Model(tmp_path / "out.sslm") as model:
        assert model.model_id == bare.model_id
        assert model.file_sha256 != bare.file_sha256
        assert bare.schema_names == ()
        assert model.schema_names == ("lamp",)
        assert model.schema("lamp") == lamp
        assert model.schema("lamp").name == "lamp"
        assert model.verify().ok
        prompt = [2, 3]
        assert model.generate(prompt, max_tokens=2) == bare.generate(prompt, max_tokens=2)


@pytest.mark.published_call("sslm_schema_lookup", here="Model.schema")
@pytest.mark.published_call(
    "sslm_schema_lookup", refusal="SSLM_SCHEMA_NOT_FOUND", here="UnknownSchemaError"
)
@pytest.mark.published_call("sslm_schema_count", here="len(Model.schema_names)")
@pytest.mark.published_call("sslm_schema_name", here="Model.schema_names")
def test_schemas_come_together_in_any_order(
    plain: Path, make: Callable[..., Schema], tmp_path: Path
) -> None:
    names = ["b", "A", "a.1", "c-2", "_"]
    schemas = [make(name, {"const": index}).prepared for index, name in enumerate(names)]
    add_schemas(plain, tmp_path / "one.sslm", schemas)
    add_schemas(plain, tmp_path / "part.sslm", schemas[3:])
    add_schemas(tmp_path / "part.sslm", tmp_path / "two.sslm", schemas[2::-1])
    one, two = (tmp_path / "one.sslm").read_bytes(), (tmp_path / "two.sslm").read_bytes()
    assert one == two
    with Model(tmp_path / "one.sslm") as model:
        assert model.schema_names == tuple(sorted(names))
        assert [model.schema(name).document for name in names] == [
            f'{{"const":{index}}}' for index in range(5)
        ]
        with pytest.raises(UnknownSchemaError, match=r"no schema named 'd'; it has A, _, a\.1, b"):
            model.schema("d")


def test_a_file_may_get_the_name_that_it_had(
    plain: Path, make: Callable[..., Schema], tmp_path: Path
) -> None:
    path = tmp_path / "model.sslm"
    path.write_bytes(plain.read_bytes())
    with pytest.raises(OutputExistsError):
        add_schemas(path, path, [make("lamp").prepared])
    assert path.read_bytes() == plain.read_bytes()
    add_schemas(path, path, [make("lamp").prepared], is_replaced=True)
    with Model(path) as model:
        assert model.schema_names == ("lamp",)


def test_names_are_taken_once(plain: Path, make: Callable[..., Schema], tmp_path: Path) -> None:
    lamp = make("lamp").prepared
    out = tmp_path / "out.sslm"
    with pytest.raises(SchemaNameTakenError):
        add_schemas(plain, out, [lamp, lamp])
    add_schemas(plain, out, [lamp])
    with pytest.raises(SchemaNameTakenError):
        add_schemas(out, tmp_path / "more.sslm", [make("lamp", True).prepared])
    assert sorted(path.name for path in tmp_path.iterdir()) == ["out.sslm"]


def test_schemas_of_another_vocabulary_are_refused(plain: Path, tmp_path: Path) -> None:
    foreign = small_schema().prepared
    with pytest.raises(SchemaVocabularyError, match="'lamp'"):
        add_schemas(plain, tmp_path / "out.sslm", [foreign])
    section = encode_schema_section([("lamp", foreign.encoded)])
    path = tmp_path / "forged.sslm"
    path.write_bytes(with_section(plain.read_bytes(), SectionType.SCHEMAS, section))
    with pytest.raises(SchemaVocabularyError):
        read_artifact(path)


def test_a_section_holds_so_many(make: Callable[..., Schema]) -> None:
    one = make("lamp").prepared.encoded
    with pytest.raises(SchemaCapacityError):
        encode_schema_section([(f"{n:05}", one) for n in range(limits.STORED_SCHEMA_COUNT_MAX + 1)])


def section(*schemas: Schema) -> bytes:
    return encode_schema_section([(one.name, one.prepared.encoded) for one in schemas])


def test_sections_are_of_one_form(plain: Path, make: Callable[..., Schema], tmp_path: Path) -> None:
    a, b = make("a"), make("b", {"const": 1})
    sound = section(a, b)
    size_a, size_b = (len(one.prepared.encoded) for one in (a, b))
    head, first, second = sound[:24], sound[24 : 24 + size_a], sound[24 + size_a :]
    swapped = head[:8] + size_b.to_bytes(8, "little") + size_a.to_bytes(8, "little")
    twice = head[:8] + 2 * size_a.to_bytes(8, "little")
    named = first.replace(b"a{", b"/{", 1)
    for content, error in (
        (swapped + second + first, StoredSchemaNameError),
        (twice + first + first, StoredSchemaNameError),
        (head + named + second, StoredSchemaNameError),
        (sound + b"\0", Status.TRAILING_BYTES),
        (sound[:-1], Status.TRUNCATED_FILE),
        (b"\0\4\0\1" + sound[4:], Status.FIELD_TOO_LARGE),
        (sound[:4] + b"\1" + sound[5:], Status.FIELD_TOO_LARGE),
    ):
        path = tmp_path / "spoiled.sslm"
        path.write_bytes(with_section(plain.read_bytes(), SectionType.SCHEMAS, content))
        with raises(error):
            read_artifact(path)


def test_damage_inside_is_found_at_once(
    plain: Path, make: Callable[..., Schema], tmp_path: Path
) -> None:
    path = tmp_path / "out.sslm"
    add_schemas(plain, path, [make("lamp").prepared])
    content = bytearray(path.read_bytes())
    content[-1] ^= 1
    path.write_bytes(content)
    with raises(Status.SSLM_INTEGRITY):
        read_artifact(path)


def test_a_lie_is_found_by_whoever_asks(
    plain: Path, make: Callable[..., Schema], tmp_path: Path
) -> None:
    lamp, other = make("lamp").prepared.encoded, make("lamp", {"const": "a"}).prepared.encoded
    # The only token of the first state is said to be another one.
    at = _first_only_token(make("lamp", {"const": "a"}))
    lie = other[:at] + bytes([other[at] ^ 1]) + other[at + 1 :]
    path = tmp_path / "lie.sslm"
    content = encode_schema_section([("lamp", lie)])
    path.write_bytes(with_section(plain.read_bytes(), SectionType.SCHEMAS, content))
    with Model(path) as model:
        with pytest.raises(SchemaTablesError, match=r"'lamp'.*only token of state 0"):
            model.schema("lamp")
        report = model.verify()
        assert not report.ok
        assert str(report.first_difference).startswith("schema lamp:")
        sha256 = model.file_sha256
    with Model(path, sha256=sha256) as model:
        # Whoever names the file's hash has said that it is the right one.
        assert model.schema("lamp").document == '{"const":"a"}'
    broken = lamp[:-1] + bytes([lamp[-1] ^ 0xFF])
    content = encode_schema_section([("lamp", broken)])
    path.write_bytes(with_section(plain.read_bytes(), SectionType.SCHEMAS, content))
    with Model(path) as model, pytest.raises(ArtifactError):
        model.schema("lamp")


def _first_only_token(schema: Schema) -> int:
    """Where the only token of the first state is, behind its distance."""
    encoded = schema.prepared.encoded
    sizes = [int.from_bytes(encoded[32 + 4 * n : 36 + 4 * n], "little") for n in range(11)]
    name, options, document, documents, *_, automaton, _, _ = sizes
    return 32 + 4 * 12 + name + options + document + documents + automaton + 1
