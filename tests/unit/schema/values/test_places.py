"""Places know what speaks of their parts: the order of keys, and how deep they go."""

from typing import Any

import pytest

from sslm.errors.runtime import OptionRangeError
from sslm.errors.schema_documents import SchemaSizeError
from sslm.limits import SCHEMA_KEY_COUNT_MAX, SCHEMA_PATTERN_COUNT_MAX
from sslm.schema.documents.document import read_document
from sslm.schema.documents.options import SchemaOptions
from sslm.schema.documents.references import References
from sslm.schema.values.places import Place, PlaceTable
from sslm.schema.values.speakers import Member, SpeakerTable
from sslm.schema.values.spelling import spelled


class Beginnings:
    """Patterns that are beginnings of keys; every combination occurs if one begins the other."""

    def matching(self, key: str, patterns: tuple[str, ...]) -> frozenset[str]:
        return frozenset(pattern for pattern in patterns if key.startswith(pattern))

    def has_keys(
        self, names: tuple[str, ...], patterns: tuple[str, ...], matched: frozenset[str]
    ) -> bool:
        longest = max(matched, key=len, default="")
        return matched == self.matching(longest, patterns)


def _places(schema: Any, **options: Any) -> tuple[PlaceTable, Place]:
    references = References(read_document(schema), {})
    table = PlaceTable(SpeakerTable(references), Beginnings(), SchemaOptions(**options))
    return table, table.root(Member(references.root, ()))


@pytest.mark.parametrize(
    ("schema", "names"),
    [
        ({"properties": {"b": {}, "a": {}}}, "ba"),
        ({"required": ["z", "a"], "properties": {"b": {}, "a": {}}}, "baz"),
        ({"allOf": [{"properties": {"x": {}}}], "properties": {"a": {}}}, "xa"),
        ({"properties": {"a": {}}, "allOf": [{"properties": {"x": {}, "a": {}}}]}, "ax"),
        ({"$ref": "#/$defs/d", "$defs": {"d": {"properties": {"q": {}}}}, "required": ["r"]}, "qr"),
        ({"anyOf": [{"properties": {"a": {}}}, {"not": {"properties": {"b": {}}}}]}, "ab"),
        ({"if": {"required": ["a"]}, "then": {"properties": {"b": {}}}, "else": True}, "ba"),
        (
            {"dependentRequired": {"a": ["b"]}, "dependentSchemas": {"c": {"required": ["d"]}}},
            "abcd",
        ),
        ({"enum": [{"y": 1, "x": 2}, 3, [{"n": 1}]], "properties": {"x": {}}}, "xy"),
        ({"items": {"properties": {"a": {}}}}, ""),
    ],
)
def test_known_keys_are_in_order_of_their_first_appearance(schema: Any, names: str) -> None:
    _, place = _places(schema)
    assert place.names == tuple(names)


def _place_of(table: PlaceTable, place: Place, key: str) -> Place:
    found = table.class_of(place, key)
    assert found is not None
    return found.place


def test_what_speaks_of_a_part_is_found_through_all_that_refers() -> None:
    table, place = _places(
        {
            "properties": {"a": {"properties": {"one": {}}}},
            "patternProperties": {"a": {"properties": {"two": {}}}},
            "additionalProperties": {"properties": {"three": {}}},
            "allOf": [{"additionalProperties": {"properties": {"four": {}}}}],
            "const": {"a": {"five": 1}},
        }
    )
    assert table.of_key(place, "a").names == ("one", "two", "four", "five")
    named = {tuple(sorted(one.matched)): one.place.names for one in table.classes(place)}
    assert named == {("a",): ("two", "four"), (): ("three", "four")}
    assert _place_of(table, place, "about").names == ("two", "four")


def test_items_are_told_apart_as_far_as_schemas_do() -> None:
    table, place = _places(
        {
            "prefixItems": [{"required": ["a"]}, True],
            "items": {"required": ["b"]},
            "contains": {"required": ["c"]},
        }
    )
    found = [table.of_item(place, index).names for index in (0, 1, 2, 7, None)]
    assert place.prefix_count == 2
    assert found == [("a", "c"), ("c",), ("b", "c"), ("b", "c"), ("b", "c")]


def _depth(table: PlaceTable, place: Place, key: str) -> int:
    depth = 0
    while not place.is_scalar:
        place = table.of_key(place, key) if key in place.names else _place_of(table, place, key)
        depth += 1
    return depth


@pytest.mark.parametrize("levels", [0, 1, 3])
def test_free_places_nest_as_deep_as_chosen(levels: int) -> None:
    assert _depth(*_places(True, free_levels=levels), "a") == levels
    # Below what a schema speaks of, anew.
    schema = {"properties": {"a": {"properties": {"a": {"required": ["a"]}}}}}
    assert _depth(*_places(schema, free_levels=levels), "a") == 2 + levels


@pytest.mark.parametrize("levels", [1, 2, 5])
def test_recursion_is_unrolled_as_often_as_chosen(levels: int) -> None:
    schema = {"properties": {"a": {"$ref": "#"}}}
    assert _depth(*_places(schema, recursion_levels=levels), "a") == levels
    # Two schemas that contain each other: each so often.
    mutual = {
        "properties": {"a": {"$ref": "#/$defs/other"}},
        "$defs": {"other": {"properties": {"a": {"$ref": "#"}}}},
    }
    assert _depth(*_places(mutual, recursion_levels=levels), "a") == 2 * levels
    # What is used twice, but not inside itself, is no recursion.
    twice = {
        "properties": {
            "a": {"properties": {"a": {"$ref": "#/$defs/d"}}},
            "b": {"$ref": "#/$defs/d"},
        },
        "$defs": {"d": {"properties": {"c": {}}}},
    }
    table, place = _places(twice, recursion_levels=levels, free_levels=1)
    assert _depth(table, place, "a") == 4
    assert table.of_key(table.of_key(place, "a"), "a") is table.of_key(place, "b")


def test_equal_places_are_one() -> None:
    table, place = _places({"properties": {"a": {"type": "string"}, "b": {"minimum": 1}, "c": {}}})
    inside = {table.of_key(place, name) for name in "abc"} | {table.of_item(place, None)}
    assert len(inside) == 1


def test_a_value_is_spelled_in_the_order_of_its_place() -> None:
    table, place = _places({"properties": {"b": {}, "a": {"properties": {"y": {}, "x": {}}}}})
    value = read_document({"zz": 1, "a": {"x": 1, "w": [{"n": 1, "m": 2}], "y": 2}, "b": 3})
    text = b'{"b":3,"a":{"y":2,"x":1,"w":[{"n":1,"m":2}]},"zz":1}'
    assert spelled(value, place, table) == text
    assert spelled(read_document({"b": [[[1]]]}), place, table) is None
    assert spelled(None, place, table) == b"null"


def test_places_stop_at_their_bounds(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sslm.schema.values.places.SCHEMA_PLACE_COUNT_MAX", 50)
    keys = [f"key {at}" for at in range(SCHEMA_KEY_COUNT_MAX + 1)]
    patterns = {"x" * at: True for at in range(SCHEMA_PATTERN_COUNT_MAX + 1)}
    wide: Any = {"type": "integer"}
    for level in range(6):
        wide = {"properties": {"a": wide, f"b{level}": wide}}
    for schema, what in (
        ({"required": keys}, "keys of one object"),
        ({"patternProperties": patterns}, "patterns for keys"),
        (wide, "places of an instance"),
    ):
        with pytest.raises(SchemaSizeError, match=what):
            _places(schema)


@pytest.mark.parametrize(
    "options",
    [
        {"free_levels": -1},
        {"free_levels": 9},
        {"free_levels": True},
        {"recursion_levels": 0},
        {"recursion_levels": 33},
        {"unknown_keywords": "allow"},
        {"formats": None},
    ],
)
def test_an_option_takes_only_its_values(options: dict[str, Any]) -> None:
    with pytest.raises(OptionRangeError):
        SchemaOptions(**options)
