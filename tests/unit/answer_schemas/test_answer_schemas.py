"""Answers that follow schemas, by every call."""

import copy
import dataclasses
import json
import pickle
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pydantic
import pytest
from jsonschema import Draft202012Validator

import sslm
from sslm.answer_schemas.schema import Schema
from sslm.artifact.adding_schemas import add_schemas
from sslm.engine.model import Model
from sslm.errors.binding import SchemaBudgetTokensError
from sslm.errors.runtime import OptionRangeError
from sslm.errors.schema_files import SchemaSourceError
from tests.converted import talking_artifact
from tests.unit.answering.test_answer_options import CONTEXT_TOKENS, FACES, HELLO, faces

WAYS: dict[str, dict[str, Any]] = {
    "greedy": {},
    "sampled": {"temperature": 1, "seed": 5},
    "penalized": {"repetition_penalty": 1.2, "presence_penalty": 0.1},
    "damped": {"damping": 2, "damping_order": 3},
}


@dataclasses.dataclass
class Lamp:
    """One of several."""

    is_on: bool
    level: int


@dataclasses.dataclass
class Room:
    """What a schema is made of."""

    lamps: list[Lamp]
    name: str | None


COLOURS = {
    "type": "object",
    "properties": {
        "colour": {"enum": ["red", "green"]},
        "amounts": {"type": "array", "items": {"type": "integer", "minimum": 0, "maximum": 99}},
    },
    "required": ["colour"],
    "additionalProperties": False,
}


@pytest.fixture(scope="module")
def model() -> Iterator[Model]:
    with Model(talking_artifact(), context_tokens=CONTEXT_TOKENS) as opened:
        yield opened


def fit(model: Model, schema: object) -> int:
    return Schema.compile(schema, tokenizer=model.tokenizer).shortest_tokens


@pytest.mark.parametrize("way", WAYS)
def test_every_face_answers_alike_and_validly(model: Model, way: str) -> None:
    max_tokens = fit(model, COLOURS) + 3
    options = {"max_tokens": max_tokens, "schema": COLOURS, **WAYS[way]}
    text, chat = model.generate("Hello", **options), model.chat(HELLO, **options)
    for answer in (text, chat):
        assert answer.parsed == json.loads(answer.text)
        Draft202012Validator(COLOURS).validate(answer.parsed)
        assert answer.finish_reason == "stop"
    for face in FACES:
        is_chat = "chat" in face or "session" in face
        assert faces(model)[face](**options) == (chat if is_chat else text), face


@pytest.mark.parametrize("way", WAYS)
def test_tokens_without_a_choice_make_no_difference(model: Model, way: str) -> None:
    options = {"max_tokens": fit(model, COLOURS) + 6, "schema": COLOURS, **WAYS[way]}
    jumped = model.generate("Hello", **options)
    # What is watched at each token is chosen token by token.
    watched = model.generate("Hello", **options, stop="\x00never\x00")
    assert jumped == watched
    assert watched.forced_tokens == 0
    assert jumped.forced_tokens > 0
    told = model.generate("Hello", **options, logprobs=1)
    assert (told.token_ids, told.digest) == (jumped.token_ids, jumped.digest)
    with Model(talking_artifact(), context_tokens=CONTEXT_TOKENS, backend="reference") as other:
        assert other.generate("Hello", **options) == jumped


def test_each_number_of_tokens_completes_or_is_refused(model: Model) -> None:
    least = fit(model, Room)
    with pytest.raises(SchemaBudgetTokensError) as caught:
        model.generate("Hello", schema=Room, max_tokens=least - 1)
    assert caught.value.facts() == {"budget_tokens": least - 1, "needed_tokens": least}
    for max_tokens in range(least, least + 8):
        answer = model.generate("Hello", schema=Room, max_tokens=max_tokens, temperature=1)
        assert isinstance(answer.parsed, Room)
        assert answer.finish_reason == "stop"
        assert len(answer.token_ids) <= max_tokens


def test_the_end_of_the_context_counts(model: Model) -> None:
    least = fit(model, Room)
    prompt = [260] * (CONTEXT_TOKENS - least)
    answer = model.generate(prompt, schema=Room, max_tokens=1000)
    assert isinstance(answer.parsed, Room)
    with pytest.raises(SchemaBudgetTokensError):
        model.generate([*prompt, 260], schema=Room, max_tokens=1000)


def test_an_answer_may_be_cut(model: Model) -> None:
    answer = model.generate("Hello", schema=Room, max_tokens=3, finish="cut")
    assert (answer.finish_reason, answer.parsed, len(answer.token_ids)) == ("length", None, 3)
    assert answer.text.startswith('{"')


def test_objects_of_the_class_come_back(model: Model) -> None:
    schema = {
        "const": {"lamps": [{"is_on": True, "level": 2}], "name": None},
    }
    found = model.generate("Hello", schema=schema, max_tokens=100)
    assert found.parsed == schema["const"]
    from sslm.answer_schemas.binder import parse_as

    assert parse_as(Room, found.text) == Room([Lamp(True, 2)], None)


def test_a_pydantic_model_comes_back(model: Model) -> None:
    kind = pydantic.create_model("Pair", left=(bool, ...), right=(bool, ...))
    answer = model.generate("Hello", schema=kind, max_tokens=40)
    assert type(answer.parsed) is kind


def test_a_schema_knows_the_class_that_it_was_compiled_from(model: Model) -> None:
    for spacing, text in (("compact", '{"lamps":['), ("spaced", '{"lamps": [')):
        schema = Schema.compile(Room, tokenizer=model.tokenizer, spacing=spacing)  # type: ignore[arg-type]
        for one in (schema, schema.renamed("other"), copy.deepcopy(schema), copy.copy(schema)):
            answer = model.generate("Hello", schema=one, max_tokens=100)
            assert answer.text.startswith(text)
            assert isinstance(answer.parsed, Room)
        sent = pickle.loads(pickle.dumps(schema))
        assert (sent, sent.kind) == (schema, None)
        assert isinstance(model.generate("Hello", schema=sent, max_tokens=100).parsed, dict)


def test_schemas_come_by_name_and_compiled(model: Model, tmp_path: Path) -> None:
    schema = Schema.compile(COLOURS, tokenizer=model.tokenizer, name="colours")
    expected = model.generate("Hello", schema=COLOURS, max_tokens=40)
    assert model.generate("Hello", schema=schema, max_tokens=40) == expected
    path = tmp_path / "with.sslm"
    add_schemas(Path(talking_artifact()), path, [schema.prepared])
    with Model(path, context_tokens=CONTEXT_TOKENS) as other:
        assert other.generate("Hello", schema="colours", max_tokens=40) == expected


def test_a_stream_gives_the_text_piece_by_piece(model: Model) -> None:
    expected = model.generate("Hello", schema=COLOURS, max_tokens=40)
    stream = model.stream("Hello", schema=COLOURS, max_tokens=40)
    pieces = [piece.text for piece in stream]
    assert "".join(pieces) == expected.text
    assert len([piece for piece in pieces if piece]) > 3
    assert stream.result() == expected


def test_a_conversation_goes_on_with_and_without_schemas(model: Model) -> None:
    def talk(session: sslm.Session, schema: object) -> tuple[str, str, str]:
        first = session.say("One?", schema=schema, max_tokens=30).text
        second = session.say("Two?", max_tokens=5).text
        return first, second, session.say("Three?", schema=COLOURS, max_tokens=30).text

    with model.session() as kept, model.session(checkpoint_bytes=0) as forgetful:
        assert talk(kept, COLOURS) == talk(forgetful, COLOURS)
        # An answer again, now without the schema by which the prompt's last token was followed.
        again = [one.edit(4, "Three?", max_tokens=4).text for one in (kept, forgetful)]
        assert again[0] == again[1]


@pytest.mark.parametrize(
    ("options", "kind"),
    [
        ({"schema": COLOURS, "finish": "fits"}, OptionRangeError),
        ({"finish": "fit"}, OptionRangeError),
        ({"schema": 3}, SchemaSourceError),
    ],
)
def test_what_cannot_be_is_refused(
    model: Model, options: dict[str, Any], kind: type[sslm.SslmError]
) -> None:
    with pytest.raises(kind):
        model.generate("Hello", **options)
