"""Keys that no schema names, left out: what is left is valid, and has no such keys."""

import json
from collections import Counter
from pathlib import Path
from typing import Any, Final

import pytest

from sslm.errors.base import SslmError
from sslm.errors.schema import UnsatisfiableSchemaError
from sslm.schema.documents.options import SchemaOptions
from sslm.schema.schema_compiler import CompiledSchema, check, compile_schema
from tests.automata import only_in_first
from tests.schema_maker import Maker
from tests.schema_oracle import Oracle
from tests.schema_walks import Walker

SCHEMAS: Final = {
    path.stem: path for path in sorted((Path(__file__).parents[2] / "schemas").glob("*.json"))
}
ALONE: Final = (
    *("pydantic_config", "pydantic_event", "pydantic_extraction", "pydantic_linked_list"),
    *("pydantic_many", "pydantic_money_out", "pydantic_order", "pydantic_permissions"),
    *("pydantic_person", "pydantic_point", "pydantic_recipe", "pydantic_score", "pydantic_tree"),
    "zod_user_in",
)
"""Schemas in which each object is described by one schema alone."""


def omitting(schema: Any, **options: Any) -> CompiledSchema:
    return compile_schema(schema, SchemaOptions(free_keys="omit", **options))


def closed(schema: Any) -> Any:
    """Forbid other keys wherever a schema names keys and says nothing of others."""
    if isinstance(schema, list):
        return [closed(one) for one in schema]
    if not isinstance(schema, dict):
        return schema
    found = {name: closed(one) for name, one in schema.items()}
    if isinstance(schema.get("properties"), dict):
        found.setdefault("additionalProperties", False)
    return found


@pytest.mark.parametrize("name", ALONE)
def test_it_is_as_if_the_schema_forbade_them(name: str) -> None:
    source = json.loads(SCHEMAS[name].read_bytes())
    found = omitting(source)
    assert found.automaton == compile_schema(closed(source)).automaton
    assert found.automaton.state_count < compile_schema(source).automaton.state_count


@pytest.mark.parametrize("name", sorted(SCHEMAS.keys() - {"pydantic_order_out"}))
def test_what_is_left_is_valid(name: str) -> None:
    source = SCHEMAS[name].read_bytes()
    assert only_in_first(omitting(source).automaton, compile_schema(source).automaton) is None


@pytest.mark.parametrize(
    ("schema", "values", "others"),
    [
        # Known are the keys that anything asked there names, through all that refers to it.
        ({"properties": {"a": True}}, [{"a": 1}, {}, [{"b": 1}], 1], [{"b": 1}, {"a": 1, "b": 1}]),
        ({"required": ["a"]}, [{"a": {"b": 1}}], [{"a": 1, "b": 1}]),
        (
            {"anyOf": [{"properties": {"a": True}}, {"$ref": "#/$defs/d"}],
             "$defs": {"d": {"properties": {"b": {"type": "null"}}}}},
            [{"a": 1}, {"b": None, "a": 1}],
            [{"c": 1}],
        ),
        ({"properties": {"a": {"enum": [{"x": 1}]}}}, [{"a": {"x": 1}}], [{"a": {"y": 1}}]),
        # Where no key is named, an object of any keys is meant.
        ({"type": "object"}, [{"b": {"c": 1}}], []),
        ({"properties": {"a": {"type": "object"}}}, [{"a": {"b": 1}}], [{"b": 1}]),
        # What says something of other keys keeps them; that there are none keeps nothing.
        ({"properties": {"a": True}, "additionalProperties": True}, [{"b": 1}], []),
        ({"properties": {"a": True}, "patternProperties": {"^b": True}}, [{"c": 1}], []),
        ({"properties": {"a": True}, "propertyNames": {"maxLength": 1}}, [{"c": 1}], [{"cc": 1}]),
        (
            {"properties": {"a": True}, "not": {"unevaluatedProperties": {"type": "null"}}},
            [],
            [{"a": None}],
        ),
        ({"properties": {"a": True}, "allOf": [{"additionalProperties": {}}]}, [{"c": 1}], []),
        ({"properties": {"a": {}}, "anyOf": [True, {"additionalProperties": False}]}, [{}],
         [{"c": 1}]),
        # Complements are those among the values that are left.
        ({"not": {"properties": {"a": {"const": 1}}}}, [{"a": 2}], [{"a": 1}, {}, {"b": 1}]),
        (
            {"oneOf": [{"properties": {"a": {"const": 1}}}, {"required": ["a"]}]},
            [{}, {"a": 2}],
            [{"a": 1}, {"b": 1}],
        ),
        (
            {"if": {"required": ["a"]}, "then": {"required": ["b"]}},
            [{}, {"b": 1}, {"a": 1, "b": 1}],
            [{"a": 1}, {"c": 1}],
        ),
    ],
)  # fmt: skip
def test_which_keys_are_left_out(schema: Any, values: list[Any], others: list[Any]) -> None:
    if check(schema, SchemaOptions(free_keys="omit")):
        assert not values
        return
    found = omitting(schema)
    oracle = Oracle(schema, {}, checks_formats=False)
    assert [value for value in values if not (found.allows(value) and oracle.allows(value))] == []
    assert [value for value in others if found.allows(value)] == []


def test_random_schemas_allow_no_more() -> None:
    outcomes: Counter[str] = Counter()
    for seed in range(16):
        maker = Maker(seed)
        schema = maker.schema(2)
        oracle = Oracle(schema, {}, checks_formats=False)
        try:
            found = omitting(schema, free_levels=1)
        except SslmError as error:
            outcomes[type(error).__name__] += 1
            continue
        walker = Walker(found.automaton, seed)
        assert all(oracle.accepts(walker.text(40)) for _ in range(10)), schema
        try:
            every = compile_schema(schema, SchemaOptions(free_levels=1))
        except SslmError:
            outcomes["compiles only without free keys"] += 1
            continue
        assert only_in_first(found.automaton, every.automaton) is None, schema
        outcomes["fewer" if found.automaton != every.automaton else "as many"] += 1
    assert min(outcomes["fewer"], outcomes["as many"]) >= 3


def test_what_no_automaton_could_decide_of_free_keys_is_decided_without() -> None:
    schema = {"properties": {"a": True, "b": True}, "type": "object"}
    counted = {**schema, "oneOf": [{"minProperties": 1}, {"maxProperties": 1}]}
    assert [one.keyword for one in check(counted)] == ["oneOf"]
    found = omitting(counted)
    assert [found.allows(value) for value in ({"a": 1, "b": 1}, {"a": 1})] == [True, False]


def test_nothing_may_be_left() -> None:
    schema = {"type": "object", "properties": {"a": True}, "minProperties": 2}
    with pytest.raises(UnsatisfiableSchemaError):
        omitting(schema)


def test_a_value_with_such_a_key_has_no_spelling() -> None:
    found = omitting({"properties": {"b": True, "a": {"properties": {"c": True}}}})
    assert found.canonical_text({"a": {"c": 1}, "b": 1}) == b'{"b":1,"a":{"c":1}}'
    assert found.canonical_text({"a": {"d": 1}}) is None
    assert found.canonical_text({"d": 1}) is None
    assert found.canonical_text([{"d": 1}]) == b'[{"d":1}]'
    assert found.digest != compile_schema(found.document).digest
