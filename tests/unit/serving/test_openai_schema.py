"""What requests of the OpenAI interface say of schemas."""

import json
from typing import Any

import pytest

from sslm.errors.batches import BatchFieldError, BatchValueError
from sslm.errors.schema_documents import SchemaSizeError
from sslm.serving.json_text import read_json
from sslm.serving.openai_request import TEXT_URL, ModelNames, asked

NAMES = ModelNames(name="small", model_id="ab" * 32)
SCHEMA = {"type": "object", "properties": {"b": {"maximum": 0.50}, "a": {"const": 1.0}}}
SPELLED = b'{"type":"object","properties":{"b":{"maximum":0.5},"a":{"const":1}}}'


def options(**fields: Any) -> Any:
    body = read_json("a test", json.dumps({"prompt": "a"} | fields).encode())
    found = asked(TEXT_URL, body, names=NAMES, max_tokens=9).row.options
    assert found["max_tokens"] == 9
    return {name: value for name, value in found.items() if name != "max_tokens"}


def wrapped(schema: object, **fields: Any) -> Any:
    inner = {"name": "a", "schema": schema} | fields
    return {"type": "json_schema", "json_schema": inner}


def test_schemas_are_texts_by_which_equal_ones_are_known() -> None:
    assert options(response_format=wrapped(SCHEMA)) == {"schema": SPELLED}
    assert options(schema=SCHEMA) == {"schema": SPELLED}
    assert options(response_format=wrapped(SCHEMA, strict=True, description="b")) == {
        "schema": SPELLED
    }
    assert options(schema=True) == {"schema": b"true"}
    assert options(schema={}) == {"schema": b"{}"}


def test_schemas_have_names_ends_and_formats() -> None:
    assert options(schema="order", finish="cut", end_of_text="never") == {
        "schema": "order",
        "finish": "cut",
        "end_of_text": "never",
    }
    assert options(response_format={"type": "json_object"}) == {"schema": b'{"type":"object"}'}
    # A text is asked for, whatever the job says of requests that say nothing.
    assert options(response_format={"type": "text"}) == {"schema": None}
    assert options(response_format=None, schema=None, finish=None) == {}


@pytest.mark.parametrize(
    ("fields", "place"),
    [
        ({"schema": 1}, "body.schema"),
        ({"schema": []}, "body.schema"),
        ({"schema": {}, "response_format": {"type": "text"}}, "body.schema"),
        ({"response_format": "json"}, "body.response_format"),
        ({"response_format": {}}, "body.response_format.type"),
        ({"response_format": {"type": ["text"]}}, "body.response_format.type"),
        ({"response_format": {"type": "grammar"}}, "body.response_format.type"),
        ({"response_format": {"type": "json_schema"}}, "body.response_format.json_schema"),
        ({"response_format": wrapped(None)}, "body.response_format.json_schema.schema"),
        ({"response_format": wrapped("a")}, "body.response_format.json_schema.schema"),
        ({"response_format": wrapped({}, name=1)}, "body.response_format.json_schema.name"),
        ({"response_format": wrapped({}, strict=1)}, "body.response_format.json_schema.strict"),
    ],
)
def test_what_cannot_be_understood_is_refused(fields: Any, place: str) -> None:
    with pytest.raises(BatchValueError) as caught:
        options(**fields)
    assert caught.value.field == place


def test_fields_that_are_not_known_are_refused() -> None:
    with pytest.raises(BatchFieldError, match=r"response_format\.schema"):
        options(response_format={"type": "text", "schema": {}})
    with pytest.raises(BatchFieldError, match=r"json_schema\.examples"):
        options(response_format=wrapped({}, examples=[]))


def test_schemas_may_be_as_deep_as_schemas_are() -> None:
    deep: Any = {"type": "string"}
    for _ in range(31):
        deep = {"items": deep, "type": "array"}
    assert json.loads(options(response_format=wrapped(deep))["schema"]) == deep
    with pytest.raises(SchemaSizeError):
        options(schema={"const": json.loads("[" * 65 + "]" * 65)})
