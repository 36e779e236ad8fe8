"""Compiled schemas as objects: from sources of every kind, to files and back."""

import copy
import dataclasses
import pickle
from array import array
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any, Literal, NamedTuple, NotRequired, TypedDict

import pytest
from jsonschema import Draft202012Validator

from sslm.answer_schemas.schema import Schema
from sslm.answer_schemas.sources import schema_document
from sslm.errors.base import SslmError
from sslm.errors.reading import UnreadableFileError
from sslm.errors.runtime import OptionRangeError
from sslm.errors.schema import UnspellableSchemaError
from sslm.errors.schema_documents import SchemaSizeError, UnsupportedSchemaError
from sslm.errors.schema_files import (
    NotASchemaFileError,
    SchemaDocumentError,
    SchemaNameError,
    SchemaSourceError,
    SchemaTablesError,
    SchemaVocabularyError,
)
from sslm.errors.status import Status
from sslm.formats.schemas.blob import encode_schema
from sslm.formats.schemas.containers import encode_schema_file
from sslm.text.tokenizer import Tokenizer
from tests.causes import raises
from tests.schema_files import SMALL, record_of, small_schema, small_tokenizer, text

TOKENIZER = small_tokenizer()


def compiled(source: object, **options: Any) -> Schema:
    return Schema.compile(source, tokenizer=TOKENIZER, **options)


def ids_of(*spellings: str) -> list[int]:
    return [TOKENIZER.vocabulary.tokens.index(one) for one in spellings]


def language(schema: Schema, *texts: str) -> list[bool]:
    """Which texts it allows."""
    table = schema.tables.table
    ends = [table.step(0, one.encode()) for one in texts]
    return [end is not None and bool(table.accepting[end]) for end in ends]


def test_it_says_what_it_is() -> None:
    schema = small_schema()
    assert schema.name == "lamp"
    assert schema.document.startswith('{"title":"Lamp","type":"object","properties":{"is_on":')
    assert language(schema, '{"is_on":true}', '{"is_on":1}', '{"is_on":false,"level":20}') == [
        True,
        False,
        True,
    ]
    assert TOKENIZER.encode_continuation('{"is_on":') == ids_of('{"', "is", "_", "on", '":')
    assert schema.shortest_tokens == len(ids_of('{"', "is", "_", "on", '":', "true", "}"))
    assert schema.mask_count == len(set(schema.tables.masks))
    assert repr(schema) == (
        f"<sslm.Schema 'lamp': {schema.state_count} states, {schema.mask_count} masks>"
    )
    assert Schema.check(SMALL) == []


def test_it_comes_back_from_a_file(tmp_path: Path) -> None:
    schema = small_schema()
    path = tmp_path / "lamp.sslms"
    schema.save(path)
    found = Schema.load(path, tokenizer=TOKENIZER)
    assert found == schema
    assert found.digest == schema.digest
    for part in ("distances", "mask_indices", "masks"):
        assert getattr(found.tables, part) == getattr(schema.tables, part)
    assert found.tables.only == schema.tables.only
    assert found.tables.table.steps == schema.tables.table.steps
    assert path.stat().st_size == 64 + schema.size_bytes


def test_copies_are_it() -> None:
    schema = small_schema()
    for one in (pickle.loads(pickle.dumps(schema)), copy.copy(schema), copy.deepcopy(schema)):
        assert one == schema
        assert hash(one) == hash(schema)
    assert schema != small_schema("other")
    assert schema.renamed("other") == small_schema("other")
    assert schema.renamed("other").digest == schema.digest
    assert schema != 1


def test_canonical_spans_are_an_option(tmp_path: Path) -> None:
    schema = small_schema(canonical_spans=False)
    assert schema.digest != small_schema().digest
    assert set(schema.tables.only.tokens) == {-1}
    schema.save(tmp_path / "x.sslms")
    assert not Schema.load(tmp_path / "x.sslms", tokenizer=TOKENIZER).prepared.has_canonical_spans


def test_options_and_documents_are_kept(tmp_path: Path) -> None:
    other = {"type": "boolean"}
    schema = compiled(
        {"$ref": "https://example.com/b", "typ": 1},
        documents={"https://example.com/b": other},
        unknown_keywords="ignore",
        free_levels=1,
        formats="annotate",
        spacing="flexible",
        free_keys="omit",
    )
    schema.save(tmp_path / "x.sslms")
    options = Schema.load(tmp_path / "x.sslms").prepared.options
    assert options == schema.prepared.options
    assert dict(options.documents) == {"https://example.com/b": other}
    assert (options.unknown_keywords, options.free_levels) == ("ignore", 1)
    assert (options.spacing, options.free_keys) == ("flexible", "omit")


def test_a_blank_behind_a_colon_goes_with_the_word_behind_it(tmp_path: Path) -> None:
    tokenizer = small_tokenizer("Ġtrue")
    schema = Schema.compile(SMALL, tokenizer=tokenizer, spacing="spaced")
    mark, blank, word = map(tokenizer.vocabulary.tokens.index, ('":', "Ġ", "Ġtrue"))
    table = schema.tables.table
    states = [table.step(0, text) for text in (b'{"is_on', b'{"is_on":')]
    assert [schema.tables.allowed_ids(state) for state in states if state is not None] == [
        [mark],
        [blank, word],
    ]
    schema.save(tmp_path / "x.sslms")
    assert Schema.load(tmp_path / "x.sslms", tokenizer=tokenizer) == schema


def test_a_token_that_ends_an_answer_is_no_content() -> None:
    vocabulary = small_tokenizer().vocabulary
    ends = tuple(sorted((vocabulary.tokens.index("is"), *vocabulary.end_token_ids)))
    ending = Tokenizer(dataclasses.replace(vocabulary, end_token_ids=ends))
    for tokenizer, is_content in ((TOKENIZER, True), (ending, False)):
        tables = Schema.compile({"type": "string"}, tokenizer=tokenizer).tables
        inside = tables.table.step(0, b'"')
        assert inside is not None
        assert (ends[0] in tables.allowed_ids(inside)) == is_content
        assert Schema.compile({"const": "is"}, tokenizer=tokenizer).shortest_tokens == (
            3 if is_content else 4
        )


def test_choices_that_came_later_are_told_only_where_they_are_made(tmp_path: Path) -> None:
    plain = record_of(small_schema())
    assert plain.options == (
        b'{"canonical_spans":true,"compiler_version":1,"formats":"assert","free_levels":2,'
        b'"recursion_levels":4,"unknown_keywords":"refuse"}'
    )
    schema = small_schema(spacing="spaced")
    assert schema.digest != small_schema().digest
    path = tmp_path / "x.sslms"
    schema.save(path)
    assert Schema.load(path, tokenizer=TOKENIZER) == schema
    told = b',"spacing":"spaced",'
    said = record_of(schema).options
    assert said.count(told) == 1
    for lie, error in (
        (b',"spacing":"compact",', SchemaDocumentError),
        (b',"spacing":"wide",', SchemaDocumentError),
        (b',"free_keys":"allow","spacing":"spaced",', Status.JSON_NOT_CANONICAL),
        (b',"spacing":1,', Status.JSON_TYPE),
        (b',"spacings":"spaced",', Status.JSON_UNKNOWN_KEY),
    ):
        record = dataclasses.replace(record_of(schema), options=said.replace(told, lie))
        path.write_bytes(encode_schema_file(encode_schema(record)))
        with raises(error):
            Schema.load(path)
    # Whoever leaves it out gets what is compiled without it, which is another automaton.
    record = dataclasses.replace(record_of(schema), options=plain.options)
    path.write_bytes(encode_schema_file(encode_schema(record)))
    with pytest.raises(SchemaTablesError, match="the automaton"):
        Schema.load(path, tokenizer=TOKENIZER)


@pytest.mark.parametrize(
    ("source", "name"),
    [
        (SMALL, "Lamp"),
        ({**SMALL, "title": "a lamp: it's on!"}, "a-lamp-it-s-on"),
        ({**SMALL, "title": "灯"}, "schema"),
        ({**SMALL, "title": "x" * 99}, "x" * 64),
        (text(SMALL), "schema"),
        (text(SMALL).encode(), "schema"),
        (True, "schema"),
    ],
)
def test_names_come_from_what_is_given(source: object, name: str) -> None:
    assert compiled(source).name == name


def test_files_are_read_and_name_it(tmp_path: Path) -> None:
    path = tmp_path / "big-lamp.schema.json"
    path.write_text(text(SMALL))
    assert compiled(path).name == "big-lamp"
    assert compiled(path).digest == small_schema().digest
    path.write_text("{}" + " " * (1 << 20))
    with pytest.raises(SchemaSizeError):
        compiled(path)
    with pytest.raises(UnreadableFileError):
        compiled(tmp_path)


@pytest.mark.parametrize("name", ["", "a b", "ä", "x" * 65, "a/b", 3])
def test_other_names_are_refused(name: Any) -> None:
    with pytest.raises(SchemaNameError):
        compiled(SMALL, name=name)
    with pytest.raises(SchemaNameError):
        small_schema().renamed(name)


class _Model:
    """Does what a pydantic model class does."""

    @classmethod
    def model_json_schema(cls) -> dict[str, object]:
        return {"title": "Model", **SMALL}


def test_pydantic_models_say_their_schema() -> None:
    assert compiled(_Model).digest == small_schema().digest
    assert compiled(_Model).name == "_Model"


@dataclasses.dataclass
class Inner:
    weight: float


class Options(TypedDict):
    first: str
    second: NotRequired[int]


@dataclasses.dataclass
class Everything:
    name: str
    count: int
    is_on: bool
    inner: Inner
    kind: Literal["a", 2, None]
    maybe: int | None
    names: list[str]
    pair: tuple[int, str]
    many: tuple[int, ...]
    table: dict[str, bool]
    options: Options
    anything: Any
    rest: list[Any] = dataclasses.field(default_factory=list)


def test_dataclasses_and_typed_dicts_become_schemas() -> None:
    document = schema_document(Everything)
    assert isinstance(document, dict)
    assert document["required"] == [field.name for field in dataclasses.fields(Everything)][:-1]
    assert document["properties"]["options"] == {
        "type": "object",
        "properties": {"first": {"type": "string"}, "second": {"type": "integer"}},
        "required": ["first"],
        "additionalProperties": False,
    }
    value = {
        "name": "n",
        "count": 1,
        "is_on": True,
        "inner": {"weight": 1.5},
        "kind": None,
        "maybe": None,
        "names": ["a"],
        "pair": [1, "b"],
        "many": [1, 2, 3],
        "table": {"k": False},
        "options": {"first": "f"},
        "anything": {"x": []},
    }
    validator = Draft202012Validator(document)
    assert validator.is_valid(value)
    for key, wrong in (
        ("count", 1.5),
        ("kind", "b"),
        ("pair", [1]),
        ("table", {"k": 1}),
        ("options", {"second": 1}),
        ("inner", {"weight": 1, "more": 2}),
    ):
        assert not validator.is_valid({**value, key: wrong})
    assert Schema.check(Everything) == []


@dataclasses.dataclass
class Odd:
    when: complex


@dataclasses.dataclass
class Recursive:
    next: "Recursive | None"


@dataclasses.dataclass
class Unknown:
    what: "NotThere"  # type: ignore[name-defined]  # noqa: F821


@dataclasses.dataclass
class Keyed:
    by_number: dict[int, str]


@dataclasses.dataclass
class Chosen:
    which: Literal[b"x"]


class Row(NamedTuple):
    a: int


@pytest.mark.parametrize(
    ("source", "named"),
    [
        (Odd, "Odd.when of the type complex"),
        (Recursive, "contains itself"),
        (Unknown, "types cannot be found out"),
        (Keyed, "Keyed.by_number"),
        (Chosen, "Chosen.which of the type Literal"),
        (Row, "the class Row"),
        (3, "of the type int"),
        (None, "of the type NoneType"),
        (["a"], "of the type list"),
    ],
)
def test_what_has_no_schema_is_refused_by_name(source: object, named: str) -> None:
    with pytest.raises(SchemaSourceError, match=named):
        compiled(source)


class Described:
    """A class that says no JSON Schema of itself."""

    @classmethod
    def model_json_schema(cls) -> object:
        raise LookupError("no such type\nfor more, see there")


class Adapter:
    """What tells a JSON Schema, and is none of the sources."""

    def json_schema(self) -> object:
        return {}


@pytest.mark.parametrize(
    ("source", "said"),
    [
        (Described, "the class Described .* its model_json_schema.. says LookupError: no such typ"),
        (Described(), "a value of the type Described .*: its class, and no object of it$"),
        (Adapter(), "a value of the type Adapter .* such as what its json_schema.. returns$"),
        (list[int], "the type list.int. cannot .* pydantic.TypeAdapter......json_schema.. makes$"),
        (Row(1), "a value of the type Row .* TypedDict class$"),
    ],
)
def test_what_else_to_give_is_told(source: object, said: str) -> None:
    with pytest.raises(SchemaSourceError, match=said):
        compiled(source)


def test_a_path_is_told_with_what_is_wrong_in_its_file(tmp_path: Path) -> None:
    path, sslms = tmp_path / "lamp.json", tmp_path / "lamp.sslms"
    small_schema().save(sslms)

    def notes(act: Callable[[], object]) -> list[str]:
        with pytest.raises(SslmError) as found:
            act()
        return [*getattr(found.value, "__notes__", []), *str(found.value).split()]

    for content in ("{", '{"type": "int"}', '{"minLenght": 1}', "false"):
        path.write_text(content)
        assert notes(lambda: compiled(path)).count(str(path)) == 1
    path.write_text("{")
    assert str(path) in notes(lambda: Schema.check(path))
    assert str(path) in notes(lambda: Schema.load(path))
    assert str(sslms) in notes(lambda: compiled(sslms))
    assert "compiled" in notes(lambda: compiled(sslms))
    assert str(tmp_path / "no") in "".join(notes(lambda: Schema.load(tmp_path / "no")))


def test_arguments_of_another_type_are_refused_by_name(tmp_path: Path) -> None:
    model: Any = object()
    calls: list[tuple[str, Callable[[], object]]] = [
        ("tokenizer", lambda: Schema.compile(SMALL, tokenizer=model)),
        ("tokenizer", lambda: Schema.compile(SMALL, tokenizer=None)),  # type: ignore[arg-type]
        ("tokenizer", lambda: Schema.load(tmp_path / "no", tokenizer=model)),
        ("documents", lambda: compiled(SMALL, documents=3)),
        ("budget", lambda: compiled(SMALL, budget=3)),
        ("path", lambda: Schema.load(3)),  # type: ignore[arg-type]
        ("path", lambda: small_schema().save(3)),  # type: ignore[arg-type]
    ]
    for name, call in calls:
        with pytest.raises(OptionRangeError, match=f"^{name} is "):
            call()


def test_what_cannot_be_enforced_is_told() -> None:
    source = {"type": "string", "format": "color", "pattern": "(a)\\1"}
    found = Schema.check(source)
    assert sorted(one.keyword for one in found) == ["format", "pattern"]
    with pytest.raises(UnsupportedSchemaError):
        compiled(source)
    with pytest.raises(OptionRangeError):
        compiled(SMALL, canonical_spans=1)


def test_another_vocabulary_is_refused(tmp_path: Path) -> None:
    schema = small_schema()
    other = small_tokenizer("more")
    schema.save(tmp_path / "x.sslms")
    with pytest.raises(SchemaVocabularyError):
        Schema.load(tmp_path / "x.sslms", tokenizer=other)
    with pytest.raises(SchemaVocabularyError):
        schema.cross_check(other)
    assert Schema.compile(SMALL, tokenizer=other, name="lamp").digest != schema.digest


def test_a_vocabulary_that_cannot_spell_it() -> None:
    # Nothing spells a byte beyond ASCII alone: a word without a space has no merges to make it.
    with pytest.raises(UnspellableSchemaError):
        Schema.compile({"const": "é"}, tokenizer=_ascii_tokenizer())


def _ascii_tokenizer() -> Any:
    class Ascii:
        """A tokenizer of which only ASCII has tokens."""

        vocabulary = TOKENIZER.vocabulary
        vocab_size = TOKENIZER.vocab_size
        end_token_ids = TOKENIZER.end_token_ids

        def token_bytes(self, token_id: int) -> bytes:
            found = TOKENIZER.token_bytes(token_id)
            return found if found.isascii() else b""

        encode_continuation = staticmethod(TOKENIZER.encode_continuation)

    return Ascii()


@pytest.mark.parametrize("part", ["distance", "mask", "only token"])
def test_tables_of_another_automaton_are_found(part: str, tmp_path: Path) -> None:
    schema = small_schema()
    record = record_of(schema)
    tables = record.tables
    aims = set(tables.only_targets)
    if part == "distance":
        distances = array("I", tables.distances)
        free = [i for i in range(len(distances)) if tables.only_tokens[i] < 0 and i not in aims]
        distances[next(i for i in free if distances[i] > 1)] += 1
        record = dataclasses.replace(
            record, tables=dataclasses.replace(tables, distances=distances)
        )
    elif part == "mask":
        indices = array("I", tables.mask_indices)
        # Of a mask that several states have, so that all masks are still used.
        count = Counter(index for index in indices if index < len(record.masks))
        state = next(i for i, index in enumerate(indices) if count[index] > 1)
        indices[state] = (indices[state] + 1) % len(record.masks)
        record = dataclasses.replace(
            record, tables=dataclasses.replace(tables, mask_indices=indices)
        )
    else:
        tokens = array("i", tables.only_tokens)
        at = next(i for i, token in enumerate(tokens) if token >= 0)
        tokens[at] ^= 1
        record = dataclasses.replace(record, tables=dataclasses.replace(tables, only_tokens=tokens))
    path = tmp_path / "lie.sslms"
    path.write_bytes(encode_schema_file(encode_schema(record)))
    assert Schema.load(path, tokenizer=TOKENIZER, cross_check=False).digest != schema.digest
    with pytest.raises(SchemaTablesError, match=part):
        Schema.load(path, tokenizer=TOKENIZER)


def test_another_document_is_found(tmp_path: Path) -> None:
    record = record_of(small_schema())
    path = tmp_path / "lie.sslms"
    for old, new in ((b'"maximum":20', b'"maximum":10'), (b'"maximum":20', b'"maximum":2 ')):
        lie = dataclasses.replace(record, document=record.document.replace(old, new))
        path.write_bytes(encode_schema_file(encode_schema(lie)))
        if b" " in new:
            with pytest.raises(SchemaDocumentError, match="not in its one spelling"):
                Schema.load(path)
            continue
        assert Schema.load(path).digest == small_schema().digest
        with pytest.raises(SchemaTablesError, match="the automaton"):
            Schema.load(path, tokenizer=TOKENIZER)


@pytest.mark.parametrize("content", [b"", b"SSLM", b"{}", b"SSLMSAVE" + bytes(99)])
def test_other_files_are_refused(content: bytes, tmp_path: Path) -> None:
    path = tmp_path / "x.sslms"
    path.write_bytes(content)
    with pytest.raises(NotASchemaFileError):
        Schema.load(path)
    with pytest.raises(SslmError):
        Schema.load(tmp_path / "none.sslms")
