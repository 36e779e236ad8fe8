"""References lead where the draft says, or are refused by name."""

from typing import Any

import pytest

from sslm.errors.base import SchemaError
from sslm.errors.schema_documents import (
    MalformedSchemaError,
    SchemaReferenceError,
    SchemaSizeError,
    UnsupportedSchemaError,
)
from sslm.limits import SCHEMA_DOCUMENT_COUNT_MAX
from sslm.schema.documents.document import read_document
from sslm.schema.documents.references import References

OTHERS = {"http://x/other": {"$id": "http://x/other", "$anchor": "top", "$defs": {"a": True}}}


def _target(schema: dict[str, Any], keyword: str = "$ref") -> str:
    references = References(read_document(schema), OTHERS)
    return references.resolve(references.root, keyword, ()).pointer


@pytest.mark.parametrize(
    ("reference", "pointer"),
    [
        ("#", ""),
        ("", ""),
        ("#/$defs/a~1b", "/$defs/a~1b"),
        ("#/$defs/c%25d", "/$defs/c%d"),
        ("#name", "/$defs/named"),
        ("inner", "/$defs/resource"),
        ("inner#/$defs/deep", "/$defs/resource/$defs/deep"),
        ("http://x/inner#there", "/$defs/resource/$defs/deep"),
        ("#/allOf/1", "/allOf/1"),
        ("#/note/anywhere", "/note/anywhere"),
        ("other#top", "http://x/other"),
        ("http://x/other#/$defs/a", "http://x/other/$defs/a"),
    ],
)
def test_a_reference_leads_to_a_schema(reference: str, pointer: str) -> None:
    schema = {
        "$id": "http://x/main",
        "$ref": reference,
        "$defs": {
            "a/b": True,
            "c%d": True,
            "named": {"$anchor": "name"},
            "resource": {"$id": "inner", "$defs": {"deep": {"$anchor": "there"}}},
        },
        "allOf": [True, {}],
        "note": {"anywhere": {"type": "string"}},
    }
    assert _target(schema) == pointer


@pytest.mark.parametrize(
    "reference",
    [
        "#/$defs/none",
        "#none",
        "http://y/",
        "#/$defs/list/7",
        "#/$defs/list/x",
        "http://[",
        "#/type",
    ],
)
def test_a_reference_to_nothing_is_refused(reference: str) -> None:
    schema = {"$ref": reference, "type": "object", "$defs": {"list": {"enum": [1]}}}
    with pytest.raises(SchemaReferenceError, match=r"'/\$ref'"):
        _target(schema)


def test_names_inside_what_is_no_schema_are_no_names() -> None:
    schema = {"$ref": "#name", "enum": [{"$anchor": "name"}], "note": {"$anchor": "name"}}
    with pytest.raises(SchemaReferenceError):
        _target(schema)


def test_a_dynamic_reference_takes_the_outermost_anchor_of_its_name() -> None:
    inner = {
        "$id": "inner",
        "$dynamicAnchor": "node",
        "properties": {"x": {"$dynamicRef": "#node"}},
    }
    references = References(
        read_document(
            {
                "$id": "http://x/",
                "$dynamicAnchor": "node",
                "$ref": "inner",
                "$defs": {"inner": inner},
            }
        ),
        {},
    )
    scope = references.entered(references.root, ())
    target = references.resolve(references.root, "$ref", scope)
    asked = references.inside(target, "properties", "x")
    inside = references.entered(target, scope)
    assert references.resolve(asked, "$dynamicRef", inside) is references.root
    # Alone, it is an ordinary reference.
    alone = references.entered(target, ())
    assert references.resolve(asked, "$dynamicRef", alone) is target


@pytest.mark.parametrize(
    ("schema", "keyword"),
    [
        ({"type": "text"}, "type"),
        ({"type": []}, "type"),
        ({"required": ["a", 1]}, "required"),
        ({"properties": {"a": 1}}, "properties"),
        ({"allOf": []}, "allOf"),
        ({"allOf": {}}, "allOf"),
        ({"minLength": -1}, "minLength"),
        ({"minLength": 1.5}, "minLength"),
        ({"maxItems": True}, "maxItems"),
        ({"multipleOf": 0}, "multipleOf"),
        ({"minimum": "1"}, "minimum"),
        ({"items": [{}]}, "items"),
        ({"pattern": 1}, "pattern"),
        ({"uniqueItems": 1}, "uniqueItems"),
        ({"dependentRequired": {"a": "b"}}, "dependentRequired"),
        ({"$id": "a#b"}, "$id"),
        ({"$ref": 1}, "$ref"),
        ({"enum": 1}, "enum"),
    ],
)
def test_a_keyword_takes_only_its_values(schema: dict[str, Any], keyword: str) -> None:
    # Wherever it stands, even where nothing refers to it.
    outer = {"$defs": {"a/b": {"items": schema}}}
    with pytest.raises(MalformedSchemaError) as found:
        References(read_document(outer), {})
    assert found.value.keyword == keyword
    assert found.value.pointer == f"/$defs/a~1b/items/{keyword}"


@pytest.mark.parametrize(
    ("schema", "error"),
    [
        ({"$schema": "http://json-schema.org/draft-07/schema#"}, UnsupportedSchemaError),
        ({"$defs": {"a": {"$id": "x"}, "b": {"$id": "x"}}}, MalformedSchemaError),
        ({"$defs": {"a": {"$anchor": "x"}, "b": {"$anchor": "x"}}}, MalformedSchemaError),
        ([], MalformedSchemaError),
        ("text", MalformedSchemaError),
    ],
)
def test_a_document_that_is_no_schema_is_refused(schema: Any, error: type[SchemaError]) -> None:
    with pytest.raises(error):
        References(schema, {})


def test_documents_stop_at_their_bound() -> None:
    count = SCHEMA_DOCUMENT_COUNT_MAX
    others = {f"http://x/{at}": {"$ref": f"http://x/{at + 1}"} for at in range(count + 1)}
    references = References(read_document({"$ref": "http://x/0"}), others)
    node = references.root
    for _ in range(count - 1):
        node = references.resolve(node, "$ref", ())
    with pytest.raises(SchemaSizeError, match="documents"):
        references.resolve(node, "$ref", ())
