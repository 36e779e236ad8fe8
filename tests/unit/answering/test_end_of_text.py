"""Answers that end wherever their schema lets them, or go on while they can."""

from collections.abc import Iterator
from typing import Any

import pytest

from sslm.engine.model import Model
from sslm.errors.runtime import OptionRangeError
from tests.converted import talking_artifact
from tests.unit.answer_schemas.test_answer_schemas import COLOURS, WAYS, fit
from tests.unit.answering.test_answer_options import CONTEXT_TOKENS, FACES, HELLO, faces

ONE_OR_MANY = {"enum": [1, 123456]}
"""Behind the 1, nothing leads on that would fit few tokens."""
NUMBER = {"type": "integer"}


@pytest.fixture(scope="module")
def model() -> Iterator[Model]:
    with Model(talking_artifact(), context_tokens=CONTEXT_TOKENS) as opened:
        yield opened


@pytest.mark.published_call(
    "sslm_decode_step",
    refusal="out_tokens -2",
    case="of a request",
    here="finish_reason: `dead_end`",
)
def test_every_face_comes_to_the_same_dead_end(model: Model) -> None:
    options: dict[str, Any] = {"schema": ONE_OR_MANY, "max_tokens": 3, "end_of_text": "never"}
    text, chat = model.generate("Hello", **options), model.chat(HELLO, **options)
    for answer in (text, chat):
        assert (answer.text, answer.finish_reason, answer.stop_reason) == ("1", "dead_end", None)
        assert (answer.length_reason, len(answer.token_ids)) == (None, 1)
        # It can only be where the text satisfies the schema.
        assert answer.parsed == 1
    for face in FACES:
        is_chat = "chat" in face or "session" in face
        for _ in range(2):
            assert faces(model)[face](**options) == (chat if is_chat else text), face
    assert model.generate_many(["Hello"] * 3, **options) == [
        model.generate("Hello", **options, seed=one.seed)
        for one in model.generate_many(["Hello"] * 3, **options)
    ]
    assert model.generate_n("Hello", 2, **options)[0] == text
    watched = model.generate("Hello", **options, stop="\x00never\x00", logprobs=0)
    assert (watched.finish_reason, watched.digest) == ("dead_end", text.digest)
    with Model(talking_artifact(), context_tokens=CONTEXT_TOKENS, backend="reference") as other:
        assert other.generate("Hello", **options) == text


def test_the_end_is_allowed_where_nobody_says_otherwise(model: Model) -> None:
    allowed = model.generate("Hello", schema=ONE_OR_MANY, max_tokens=3, end_of_text="allowed")
    assert allowed == model.generate("Hello", schema=ONE_OR_MANY, max_tokens=3)
    assert (allowed.text, allowed.finish_reason) == ("1", "stop")
    assert allowed.stop_reason == allowed.token_ids[-1]


@pytest.mark.parametrize("finish", ["fit", "cut"])
@pytest.mark.parametrize("max_tokens", range(1, 9))
def test_an_answer_without_end_tokens_goes_on_while_it_can(
    model: Model, finish: Any, max_tokens: int
) -> None:
    options: dict[str, Any] = {"finish": finish, "end_of_text": "never", "max_tokens": max_tokens}
    number = model.generate("Hello", schema=NUMBER, **options)
    assert len(number.token_ids) == max_tokens
    if finish == "fit":
        assert (number.finish_reason, number.stop_reason) == ("stop", "schema")
        assert number.parsed == int(number.text)
    else:
        assert (number.finish_reason, number.parsed) == ("length", None)
    choice = model.generate("Hello", schema=ONE_OR_MANY, **options)
    if choice.finish_reason == "length":
        assert finish == "cut"
        assert choice.parsed is None
    else:
        assert choice.parsed in ONE_OR_MANY["enum"]


@pytest.mark.parametrize("way", WAYS)
def test_tokens_without_a_choice_make_no_difference(model: Model, way: str) -> None:
    max_tokens = fit(model, COLOURS) + 6
    options = {"max_tokens": max_tokens, "schema": COLOURS, "end_of_text": "never", **WAYS[way]}
    jumped = model.generate("Hello", **options)
    watched = model.generate("Hello", **options, stop="\x00never\x00")
    assert jumped == watched
    assert watched.forced_tokens == 0 < jumped.forced_tokens
    # Behind the last bracket nothing can follow, so nothing is changed by leaving ends out.
    assert jumped == model.generate("Hello", **{**options, "end_of_text": "allowed"})


def test_a_conversation_goes_on_behind_a_dead_end(model: Model) -> None:
    with model.session() as kept, model.session(checkpoint_bytes=0) as forgetful:
        for session in (kept, forgetful):
            answer = session.say("Hello", schema=ONE_OR_MANY, max_tokens=3, end_of_text="never")
            assert answer.finish_reason == "dead_end"
            assert session.messages[-1].content == "1"
        assert kept.say("More?", max_tokens=5) == forgetful.say("More?", max_tokens=5)


def test_a_stream_ends_there_too(model: Model) -> None:
    stream = model.stream("Hello", schema=ONE_OR_MANY, max_tokens=3, end_of_text="never")
    assert "".join(piece.text for piece in stream) == "1"
    assert stream.partial == stream.result().parsed == 1


@pytest.mark.parametrize(
    ("options", "found"),
    [
        ({"schema": COLOURS, "end_of_text": "ever"}, "'ever'"),
        ({"schema": COLOURS, "end_of_text": True}, "True"),
        ({"end_of_text": "never"}, "'never', expected None"),
        ({"end_of_text": "allowed"}, "'allowed', expected None"),
    ],
)
def test_what_cannot_be_is_refused(model: Model, options: dict[str, Any], found: str) -> None:
    with pytest.raises(OptionRangeError, match=f"end_of_text.*{found}"):
        model.generate("Hello", **options)
