"""What an answer that follows a schema says before it is complete."""

import asyncio
import json
from collections.abc import Iterator
from itertools import pairwise
from typing import Any

import pytest

from sslm.answer_schemas.schema import Schema
from sslm.engine.model import Model
from tests.converted import talking_artifact
from tests.unit.answering.test_answer_options import CONTEXT_TOKENS, HELLO
from tests.unit.text.test_partial_json import is_beginning

LIST = {
    "type": "array",
    "items": {
        "type": "object",
        "properties": {
            "word": {"type": "string", "maxLength": 6},
            "amount": {"type": "integer", "minimum": 0, "maximum": 999},
        },
        "required": ["word", "amount"],
        "additionalProperties": False,
    },
    "minItems": 1,
    "maxItems": 3,
}
NUMBER = {"type": "integer", "minimum": 0, "maximum": 99999}
ASKED: dict[str, Any] = {"schema": LIST, "max_tokens": 60, "temperature": 1, "seed": 3}


@pytest.fixture(scope="module")
def model() -> Iterator[Model]:
    with Model(talking_artifact(), context_tokens=CONTEXT_TOKENS) as opened:
        yield opened


def require_growing(values: list[Any], whole: Any) -> None:
    """Check that values are what there was of a whole, ever more of it."""
    assert values[-1] == whole
    for earlier, later in pairwise(values):
        assert earlier is None or is_beginning(earlier, later)
    assert len({json.dumps(value) for value in values}) > 3


def test_a_stream_tells_what_is_complete(model: Model) -> None:
    with model.stream("Hello", **ASKED) as stream:
        values = [stream.partial] + [stream.partial for _ in stream]
        require_growing(values, stream.result().parsed)
    # It can still be asked, and nothing that was told has changed.
    assert stream.partial == values[-1]
    assert values[0] is None


def test_streams_of_coroutines_conversations_and_slices_tell_it_too(model: Model) -> None:
    async def asynchronous() -> list[Any]:
        stream = model.astream("Hello", **ASKED)
        values = [stream.partial]
        async for _ in stream:
            values.append(stream.partial)
        assert values[-1] == stream.result().parsed
        return values

    plain = model.stream("Hello", **ASKED)
    expected = [None, *(plain.partial for _ in plain)]
    assert asyncio.run(asynchronous()) == expected
    with model.sequence("Hello", **ASKED) as sequence:
        values = [sequence.partial]
        while not sequence.done:
            sequence.advance(layers=1)
            values.append(sequence.partial)
        require_growing(values, sequence.result().parsed)
    with model.session() as session:
        answer = session.stream("Hello", **ASKED)
        values = [answer.partial for _ in answer]
        require_growing(values, model.chat(HELLO, **ASKED).parsed)


def test_a_number_is_certain_when_the_answer_ends(model: Model) -> None:
    stream = model.stream("Hello", schema=NUMBER, max_tokens=3)
    values = [stream.partial for _ in stream]
    answer = stream.result()
    assert set(values[:-1]) == {None}
    assert values[-1] == answer.parsed == int(answer.text)


def test_of_an_answer_that_is_cut_off_the_complete_part_is_told(model: Model) -> None:
    stream = model.stream("Hello", **{**ASKED, "max_tokens": 12}, finish="cut")
    answer = stream.read()
    assert answer.parsed is None
    assert json.dumps(stream.partial, separators=(",", ":")).startswith(answer.text[:8])


def test_without_a_schema_there_is_nothing_to_tell(model: Model) -> None:
    stream = model.stream("Hello", max_tokens=3)
    assert [stream.partial for _ in stream] == [None] * 3
    assert stream.partial is None


def test_it_is_plain_values_also_of_a_class(model: Model) -> None:
    schema = Schema.compile(LIST, tokenizer=model.tokenizer)
    stream = model.stream("Hello", **{**ASKED, "schema": schema})
    stream.read()
    assert isinstance(stream.partial, list)
    assert isinstance(stream.partial[0], dict)
