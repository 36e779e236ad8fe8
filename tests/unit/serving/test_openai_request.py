"""Requests of the OpenAI interface: fields, and what each comes to."""

from typing import Any

import pytest

from sslm.errors.batches import BatchFieldError, BatchModelError, BatchValueError
from sslm.serving.openai_request import CHAT_URL, TEXT_URL, ModelNames, asked

NAMES = ModelNames(name="small", model_id="ab" * 32)
MESSAGES = [{"role": "user", "content": "Hi"}]


def chat(**fields: Any) -> Any:
    body = {"messages": MESSAGES} | fields
    return asked(CHAT_URL, body, names=NAMES, max_tokens=9)


def text(**fields: Any) -> Any:
    return asked(TEXT_URL, {"prompt": "Once"} | fields, names=NAMES, max_tokens=9)


def test_a_plain_request_is_greedy() -> None:
    assert text().row.prompt == "Once"
    assert (text().row.options, text().count, text().is_chat) == ({"max_tokens": 9}, 1, False)
    assert chat().row.messages == MESSAGES
    assert (chat().row.options, chat().row.prompt) == ({"max_tokens": 9}, "")
    assert chat().is_chat
    nothing = dict.fromkeys(["temperature", "n", "seed", "stream", "model", "max_tokens", "stop"])
    assert text(**nothing) == text()


def test_options_are_passed_on() -> None:
    given = {"temperature": 1, "top_p": "0.5", "seed": 7, "stop": ["a"], "damping": 2, "top_k": 3}
    assert text(**given).row.options == {"max_tokens": 9} | given
    assert chat(max_completion_tokens=4).row.options == {"max_tokens": 4}
    assert chat(max_completion_tokens=4, max_tokens=4).row.options == {"max_tokens": 4}
    assert text(logit_bias={"0": -100, "17": 2}).row.options["logit_bias"] == {0: -100, 17: 2}
    assert text(n=3).count == 3
    assert text(logprobs=2).row.options["logprobs"] == 2
    assert chat(logprobs=True, top_logprobs=4).row.options["logprobs"] == 4
    assert chat(logprobs=True).row.options["logprobs"] == 0
    assert "logprobs" not in chat(logprobs=False).row.options


def test_the_model_is_asked_for_by_its_names() -> None:
    assert text(model="small").model == "small"
    assert text(model="ab" * 32).model == "ab" * 32
    assert text().model is None
    with pytest.raises(BatchModelError) as caught:
        text(model="other")
    assert (caught.value.found, caught.value.name) == ("other", "small")
    names = ModelNames(name="small", model_id="x", is_any=True)
    assert asked(TEXT_URL, {"prompt": "a", "model": "b"}, names=names, max_tokens=1).model == "b"


@pytest.mark.parametrize(
    ("make", "field"),
    [
        (lambda: text(foo=1), "body.foo"),
        (lambda: text(messages=MESSAGES), "body.messages"),
        (lambda: chat(prompt="a"), "body.prompt"),
        (lambda: text(echo=True), "body.echo"),
        (lambda: chat(tools=[{}]), "body.tools"),
        (lambda: text(best_of=2), "body.best_of"),
    ],
)
def test_fields_that_are_not_known_are_refused(make: Any, field: str) -> None:
    with pytest.raises(BatchFieldError) as caught:
        make()
    assert caught.value.field == field


@pytest.mark.parametrize(
    ("make", "field"),
    [
        (lambda: asked("/v1/embeddings", {}, names=NAMES, max_tokens=1), "url"),
        (lambda: asked(None, {}, names=NAMES, max_tokens=1), "url"),
        (lambda: asked(["/v1/completions"], {}, names=NAMES, max_tokens=1), "url"),
        (lambda: asked(TEXT_URL, [], names=NAMES, max_tokens=1), "body"),
        (lambda: asked(TEXT_URL, None, names=NAMES, max_tokens=1), "body"),
        (lambda: text(prompt=None), "body.prompt"),
        (lambda: chat(messages=None), "body.messages"),
        (lambda: chat(messages="Hi"), "body.messages"),
        (lambda: text(model=5), "model"),
        (lambda: text(model="m" * 513), "model"),
        (lambda: text(stream=True), "body.stream"),
        (lambda: text(stream=0), "body.stream"),
        (lambda: text(n=0), "body.n"),
        (lambda: text(n=True), "body.n"),
        (lambda: text(n=129), "body.n"),
        (lambda: text(n="2"), "body.n"),
        (lambda: chat(max_tokens=1, max_completion_tokens=2), "body.max_completion_tokens"),
        (lambda: text(logit_bias=[1]), "body.logit_bias"),
        (lambda: text(logit_bias={"01": 1}), "body.logit_bias"),
        (lambda: text(logit_bias={"-1": 1}), "body.logit_bias"),
        (lambda: text(logit_bias={"²": 1}), "body.logit_bias"),
        (lambda: chat(logprobs=3), "body.logprobs"),
        (lambda: chat(top_logprobs=3), "body.top_logprobs"),
    ],
)
def test_values_that_mean_nothing_are_refused(make: Any, field: str) -> None:
    with pytest.raises(BatchValueError) as caught:
        make()
    assert caught.value.field == field
