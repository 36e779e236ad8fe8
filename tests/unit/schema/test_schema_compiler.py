"""What a schema becomes: texts, refusals with their places, bounds that hold."""

import json
import re
from typing import Any

import pytest

from sslm.errors.base import SchemaError, SslmError
from sslm.errors.runtime import OptionRangeError
from sslm.errors.schema import SchemaBudgetError, UnsatisfiableSchemaError
from sslm.errors.schema_documents import (
    MalformedSchemaError,
    SchemaReferenceError,
    SchemaSizeError,
    SchemaSyntaxError,
    SchemaValueError,
    UnsupportedSchemaError,
)
from sslm.schema.documents.options import SchemaOptions
from sslm.schema.regular.budget import Budget, Meter
from sslm.schema.schema_compiler import check, compile_schema
from tests.schema_suite import groups

CLOSED = {"type": "object", "additionalProperties": False}


@pytest.mark.parametrize(
    ("schema", "texts", "others"),
    [
        # Spaces, other orders, other spellings of numbers and texts are no canonical ones.
        (
            {**CLOSED, "properties": {"b": {"type": "number"}, "a": {"type": "string"}}},
            ['{"b":1.5,"a":"é\\n"}', '{"a":"/"}', "{}"],
            ['{"a":"x","b":1}', '{"b": 1}', '{"b":1.50}', '{"b":1e3}', '{"a":"\\u00e9"}', "[]"],
        ),
        ({"type": "integer"}, ["0", "-12"], ["1.0", "-0", "01", "1.5", '"1"']),
        (
            {"const": {"b": [1.0, {"d": 1, "c": 2}], "a": 1e2}},
            ['{"b":[1,{"d":1,"c":2}],"a":100}'],
            [],
        ),
        (
            {"properties": {"a": {}, "b": {}}, "enum": [{"b": 1, "a": 2}]},
            ['{"a":2,"b":1}'],
            ['{"b":1,"a":2}'],
        ),
        # Free keys come last, in any order, and are not among the known ones.
        (
            {"type": "object", "properties": {"k": {"type": "null"}}},
            ['{"k":null,"z":1,"y":2}', '{"y":2,"z":1}'],
            ['{"z":1,"k":null}', '{"z":1,"k":1}'],
        ),
        ({"enum": []}, [], []),
        ({"type": ["string", "null"], "minimum": 3, "minItems": 2}, ['""', "null"], ["5", "[]"]),
        (
            {"type": "array", "uniqueItems": True, "items": {"enum": [1, 1.0, 2]}},
            ["[2,1]"],
            ["[1,1]"],
        ),
        ({"uniqueItems": True, "maxItems": 1}, ["[1]", "[]"], ["[1,2]"]),
    ],
)
def test_a_schema_has_its_texts(schema: Any, texts: list[str], others: list[str]) -> None:
    if not texts:
        with pytest.raises(UnsatisfiableSchemaError):
            compile_schema(schema)
        return
    automaton = compile_schema(json.dumps(schema)).automaton
    assert [text for text in texts if not automaton.matches(text.encode())] == []
    assert [text for text in others if automaton.matches(text.encode())] == []


def test_a_repeated_free_key_lets_nothing_through() -> None:
    # As the last value counts, this would be an object without any value of the wrong kind.
    wrong = {"not": {"additionalProperties": {"type": "string"}}, "type": "object"}
    assert [found.keyword for found in check(wrong)] == ["not"]
    # Without free keys there is none that could be repeated, and all is well.
    fine = {"allOf": [wrong, {"properties": {"a": {"type": "integer"}}, **CLOSED}]}
    automaton = compile_schema(fine).automaton
    assert automaton.matches(b'{"a":1}')
    assert not automaton.matches(b"{}")


def test_all_refusals_are_found_with_their_places() -> None:
    schema = {
        "properties": {
            "a/b": {"type": "string", "formatt": "date", "format": "no-such"},
            "c": {"items": {"type": "string"}, "uniqueItems": True},
            "d": {"minProperties": 3},
            "e": {"pattern": "(a)\\1"},
            "f": {"dependencies": {}},
            "g": {"type": "integer", "format": "int32"},
            "h": {"x-note": 1, "title": "fine", "$comment": "fine", "default": 3},
        },
        "$defs": {"unused": {"formatt": 1}},
    }
    found = {(one.pointer, one.keyword) for one in check(schema)}
    assert found == {
        ("/properties/a~1b/formatt", "formatt"),
        ("/properties/a~1b/format", "format"),
        ("/properties/c/uniqueItems", "uniqueItems"),
        ("/properties/d/minProperties", "minProperties"),
        ("/properties/e/pattern", "pattern"),
        ("/properties/f/dependencies", "dependencies"),
        ("/properties/g/format", "format"),
    }
    assert all(len(one.hint) > 20 for one in check(schema))
    with pytest.raises(UnsupportedSchemaError) as refused:
        compile_schema(schema)
    first = check(schema)[0]
    assert (refused.value.pointer, refused.value.keyword) == (first.pointer, first.keyword)
    assert check({"type": "object"}) == []


@pytest.mark.parametrize(
    ("schema", "message"),
    [
        ({"type": "int"}, "'type' at '/type' of the schema is 'int', expected one of null, "),
        ({"a": 1, "minimum": [1]}, "'minimum' at '/minimum' of the schema is a list, expected a"),
        ({"not": {"minLength": 1.5}}, "'minLength' at '/not/minLength' of the schema is 1.5, exp"),
        ({"items": None}, "'items' at '/items' of the schema is null, expected a schema"),
        ({"pattern": "("}, "'pattern' at '/pattern' of the schema is '(', expected a regular ex"),
        ({"$anchor": "a", "not": {"$anchor": "a"}}, "'$anchor' at '/not' of the schema is 'a', "),
        (b"[]", "the schema is a list of nothing, expected an object, true or false"),
        ([{}], "the schema is a list, expected an object, true or false"),
        ("3", "the schema is 3, expected an object, true or false"),
        ({"$ref": "urn:x"}, "the document 'urn:x' is 'text', expected an object, true or false"),
        ({"$ref": "#"}, "'$ref' of the schema cannot be enforced exactly: it refers to itself"),
        ({"not": {"$ref": "#/a"}}, "the reference '#/a' at '/not/$ref' of the schema leads nowhe"),
        (b" " * 2000000, "the schema has more than 1048576 bytes; make it smaller"),
        ([[1] * 65536], "the schema has more than 65536 values at '/0/65534'; make it smaller"),
        ({"a": {3: 1}}, "the schema is not a JSON document: a key at '/a' is not a text, but of"),
        ({3: 1}, "the schema is not a JSON document: a key is not a text, but of the type int"),
    ],
)
def test_a_message_says_what_was_found_and_where(schema: Any, message: str) -> None:
    options = SchemaOptions(documents={"urn:x": '"text"'})
    with pytest.raises(SchemaError) as found:
        compile_schema(schema, options)
    assert str(found.value).startswith(message)


@pytest.mark.parametrize(
    ("schema", "hint"),
    [
        ({"minLenght": 1}, "did you mean minLength?"),
        ({"requird": []}, "did you mean required?"),
        ({"zzz": 1}, "no such keyword is known; correct it"),
        ({"type": "string", "nullable": True}, 'write type: ["...", "null"]'),
        ({"type": "string", "format": "uuid4"}, "write uuid, which takes any version"),
        ({"type": "string", "format": "path"}, "formats='annotate'"),
    ],
)
def test_a_hint_says_what_to_write(schema: Any, hint: str) -> None:
    (refused,) = check(schema)
    assert hint in refused.hint


def test_a_text_with_more_states_than_any_automaton_is_refused() -> None:
    for schema in ({"const": "x" * 70_000}, {"enum": ["x" * 70_000, 1]}):
        with pytest.raises(SchemaBudgetError, match="65536 states"):
            compile_schema(schema)


def test_options_of_another_kind_are_refused_by_name() -> None:
    odd_documents: tuple[Any, ...] = (3, ["urn:x"], {3: {}})
    for documents in odd_documents:
        with pytest.raises(OptionRangeError, match="documents"):
            SchemaOptions(documents=documents)
    with pytest.raises(OptionRangeError, match="budget"):
        compile_schema({}, budget=3)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("schema", "error"),
    [
        ("{", SchemaSyntaxError),
        ({"type": "strin"}, MalformedSchemaError),
        ({"pattern": "("}, MalformedSchemaError),
        ({"patternProperties": {"[": True}}, MalformedSchemaError),
        ({"$ref": "#/nowhere"}, SchemaReferenceError),
        ({"$ref": "#"}, UnsupportedSchemaError),
        ({"anyOf": [{"type": "null"}, {"$ref": "#"}]}, UnsupportedSchemaError),
        ({"$schema": "http://json-schema.org/draft-07/schema#"}, UnsupportedSchemaError),
        ({"type": "string", "const": 1}, UnsatisfiableSchemaError),
        (
            {"properties": {"a": {"$ref": "#"}}, "required": ["a"], "type": "object"},
            UnsatisfiableSchemaError,
        ),
        ({"type": "array", "maxItems": 10**9, "minItems": 10**9}, SchemaBudgetError),
        ({"type": "string", "maxLength": 10**9}, SchemaBudgetError),
        (
            {
                "$defs": {str(at): {"$ref": f"#/$defs/{at + 1}"} for at in range(999)}
                | {"999": {}},
                "$ref": "#/$defs/0",
            },
            SchemaSizeError,
        ),
    ],
)
def test_what_is_wrong_has_a_name(schema: Any, error: type[SslmError]) -> None:
    with pytest.raises(error):
        compile_schema(schema)


def test_unknown_keywords_and_formats_can_be_ignored() -> None:
    schema = {"type": "string", "maxLenght": 3, "format": "no-such"}
    options = SchemaOptions(unknown_keywords="ignore", formats="annotate")
    assert check(schema, options) == []
    assert compile_schema(schema, options).allows("longer")


def test_documents_are_given_and_not_fetched() -> None:
    schema = {"$ref": "http://x/y#/$defs/a"}
    with pytest.raises(SchemaReferenceError, match="none is fetched"):
        compile_schema(schema)
    options = SchemaOptions(documents={"http://x/y": b'{"$defs":{"a":{"const":7}}}'})
    assert compile_schema(schema, options).automaton.matches(b"7")


def test_the_depth_is_that_of_the_options() -> None:
    tree = {
        "type": "object",
        "properties": {"n": {"type": "array", "items": {"$ref": "#"}}},
        "additionalProperties": False,
    }
    for levels in (1, 3):
        compiled = compile_schema(tree, SchemaOptions(recursion_levels=levels))
        value: Any = {}
        for _ in range(levels - 1):
            value = {"n": [value]}
        assert compiled.allows(value)
        assert not compiled.allows({"n": [value]})
    anything = compile_schema(True, SchemaOptions(free_levels=1))
    assert anything.allows([1, {}]) is False
    assert anything.canonical_text([[1]]) is None
    assert anything.canonical_text([1]) == b"[1]"


def test_a_value_that_is_no_json_has_no_spelling() -> None:
    compiled = compile_schema(True)
    assert compiled.canonical_text({"a": 1.0, "b": "\x01é"}) == '{"a":1,"b":"\\u0001é"}'.encode()
    for value in (object(), float("nan"), "\ud800", {1: 2}, b"bytes"):
        with pytest.raises(SchemaValueError):
            compiled.canonical_text(value)


def test_a_digest_names_schema_and_options() -> None:
    digest = compile_schema({"type": "null"}).digest
    assert compile_schema(b'{ "type" : "null" }').digest == digest
    others = [
        compile_schema({"type": "null", "title": "x"}),
        compile_schema({"type": "null"}, SchemaOptions(free_levels=1)),
        compile_schema({"type": "null"}, SchemaOptions(documents={"a": True})),
    ]
    assert len({digest, *(one.digest for one in others)}) == 4


def test_equal_schemas_have_equal_automata() -> None:
    schema = {"type": "object", "properties": {"a": {"$ref": "#/$defs/x"}, "b": {"type": "array"}}}
    schema["$defs"] = {"x": {"anyOf": [{"type": "string"}, {"type": "null"}]}}
    automata = [compile_schema(schema).automaton for _ in range(2)]
    assert automata[0] == automata[1]


def test_many_optional_keys_stay_small() -> None:
    keys = {f"key_{at}": {"type": "string"} for at in range(15)}
    compiled = compile_schema({**CLOSED, "properties": keys}, budget=Budget(states=1000))
    assert compiled.allows({"key_14": "", "key_0": ""})


def test_what_grew_is_named() -> None:
    names = {"type": "array", "items": {"type": "string"}, "maxItems": 99}
    with pytest.raises(SchemaBudgetError) as refused:
        compile_schema({**CLOSED, "properties": {"names": names}}, budget=Budget(states=600))
    assert refused.value.where == "maxItems at #/properties/names"


_DOUBLES = "a.{24}b"
_SEARCHES = [{"pattern": f"{one}.*{two}"} for one in "abcd" for two in "wxyz"]


@pytest.mark.parametrize(
    ("schema", "where"),
    [
        ({"type": "string", "allOf": _SEARCHES}, "allOf at #"),
        ({"properties": {"x": {"type": "string", "anyOf": _SEARCHES}}}, "anyOf at #/properties/x"),
        ({"items": {"type": "string", "oneOf": _SEARCHES}}, "oneOf at #/items"),
        ({"enum": [f"{at:05}" + "x" * 60 for at in range(1000)]}, "enum at #"),
        ({"allOf": [{"multipleOf": n} for n in (97, 101, 103)]}, "allOf at #"),
        ({"propertyNames": {"pattern": _DOUBLES}}, "pattern at #/propertyNames"),
        ({"items": {"patternProperties": {_DOUBLES: {}}}}, "patternProperties at #/items"),
        ({"type": "string", "not": {"pattern": _DOUBLES}}, "pattern at #/not"),
        ({"type": "string", "not": {"anyOf": _SEARCHES}}, "not at #"),
        (
            {"anyOf": [{"type": "string", "maxLength": 9000}, {"pattern": "^a"}]},
            "maxLength at #/anyOf/0",
        ),
        ({"items": {"$ref": "#"}, "maxItems": 99}, "maxItems at #"),
    ],
)
def test_every_refusal_names_keyword_and_place(schema: Any, where: str) -> None:
    with pytest.raises(SchemaBudgetError) as refused:
        compile_schema(schema, budget=Budget(states=8000, steps=150_000))
    assert refused.value.where == where


def test_what_keys_take_is_told_with_the_schema_that_names_them() -> None:
    for schema, where in (
        ({"required": ["a"]}, "required at #"),
        ({"const": {"a": 1}}, "#/const"),
    ):
        with pytest.raises(SchemaBudgetError) as refused:
            compile_schema(schema, budget=Budget(steps=1))
        assert refused.value.where == where


def test_of_recursive_schemas_the_inner_one_is_named() -> None:
    title = "Recursive references between schemas"
    group = next(one for one in groups() if one.description == title)
    with pytest.raises(SchemaBudgetError) as refused:
        compile_schema(group.schema, group.options)
    assert refused.value.where == "properties and required at #/$defs/node"


def test_what_is_too_large_is_told_with_its_place() -> None:
    keys = [f"k{at}" for at in range(3)]
    web = {
        f"d{at}": {
            "properties": {
                key: {"$ref": f"#/$defs/d{(3 * at + to) % 30}"} for to, key in enumerate(keys)
            }
        }
        for at in range(30)
    }
    chain = {f"d{at}": {"$ref": f"#/$defs/d{at + 1}"} for at in range(3000)}
    for schema, what, pointer in (
        ({"enum": [[{"k": at} for at in range(5000)]]}, "places of an instance", r"/enum"),
        ({"$ref": "#/$defs/d0", "$defs": {**chain, "d3000": {}}}, "levels", r"/\$defs/d\d+"),
        ({"$ref": "#/$defs/d0", "$defs": web}, "levels of an instance", r"/\$defs/d\d+"),
    ):
        with pytest.raises(SchemaSizeError, match=what) as refused:
            compile_schema(schema)
        assert re.fullmatch(pointer, refused.value.pointer)


def test_deciding_it_depends_on_too_many_alternatives_is_refused() -> None:
    alternatives = [{"properties": {f"k{at}": True}, "required": [f"k{at}"]} for at in range(7)]
    schema = {"anyOf": alternatives, "unevaluatedProperties": False}
    options = SchemaOptions(free_levels=0)
    assert [found.keyword for found in check(schema, options)] == ["unevaluatedProperties"]


def test_the_complement_of_a_format_has_none_of_its_texts() -> None:
    # Left out of the format, as it would take thousands of states, but valid: so not outside it.
    rare = "1998-12-31T15:59:60-08:00"
    assert not compile_schema({"format": "date-time"}).allows(rare)
    assert compile_schema({"format": "date-time"}, SchemaOptions(formats="exact")).allows(rare)
    outside = compile_schema({"type": "string", "not": {"format": "date-time"}})
    assert not outside.allows(rare)
    assert outside.allows("1998-12-31")
    # Which host names are valid takes tables that nobody has here.
    assert [found.pointer for found in check({"not": {"format": "hostname"}})] == ["/not/format"]


@pytest.mark.parametrize(
    "schema",
    [
        {"properties": {f"k{at}": {} for at in range(500)}, "anyOf": [{"required": ["k1"]}] * 100},
        {"prefixItems": [{"type": "null"}] * 300, "contains": {"const": 1}, "minContains": 200},
        {"properties": {f"k{at}": {} for at in range(500)}, "minProperties": 200},
    ],
)
def test_asking_too_much_is_refused_before_it_takes_long(schema: Any) -> None:
    with pytest.raises(SchemaSizeError, match="asked about"):
        compile_schema(schema)


def test_known_keys_count_once() -> None:
    keys = {f"k{at}": {"type": "null"} for at in range(300)}
    schema = {**CLOSED, "properties": keys, "required": list(keys)}
    assert compile_schema(schema).allows(dict.fromkeys(keys))


def test_long_work_tells_how_far_it_is_and_is_the_same_for_it() -> None:
    told: list[tuple[str, int, int]] = []
    texts = {"enum": [f"{number:0100}" for number in range(1000)]}
    found = compile_schema(texts, report=lambda *facts: told.append(facts))
    steps = [done for _, done, _ in told]
    assert steps == sorted(steps)
    assert {(what, total) for what, _, total in told} == {("schema budget", Budget().steps)}
    assert found.automaton.state_count == compile_schema(texts).automaton.state_count


def test_what_a_report_raises_ends_the_work() -> None:
    def stop(what: str, done: int, total: int) -> None:
        raise KeyboardInterrupt

    for call in (compile_schema, check):
        with pytest.raises(KeyboardInterrupt):
            call({"type": "string", "maxLength": 10}, report=stop)


def test_a_budget_is_exceeded_at_the_same_step_whoever_is_told() -> None:
    schema = {"type": "string", "maxLength": 2000}
    errors = []
    for report in (None, lambda *facts: None):
        with pytest.raises(SchemaBudgetError) as caught:
            compile_schema(schema, budget=Budget(steps=50_000), report=report)
        errors.append(str(caught.value))
    assert errors[0] == errors[1]


def test_long_constants_are_told_of_though_each_is_a_step() -> None:
    told: list[int] = []
    meter = Meter(Budget(), lambda what, done, total: told.append(done))
    for number in range(1000):
        meter.enter(str(number))
    assert len(told) > 10
