"""Tokens that a schema leaves no choice about, and what is saved by knowing them."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import sslm
from sslm.answer_schemas.binder import SchemaBinder
from sslm.engine.model import Model
from sslm.opening.runner import Runner
from sslm.runtime.sequences.schema_binding import Binding, Place
from tests.converted import talking_artifact
from tests.unit.answer_schemas.test_answer_schemas import COLOURS, WAYS, fit
from tests.unit.answering.test_answer_options import CONTEXT_TOKENS, FACES, faces

LONG = {"const": {"text": "x" * 150, "more": ["y" * 80, True]}}
"""Nothing of it is a choice."""
NEVER = "\x00never\x00"
"""A stop, for which each token is looked at where it is chosen."""


@pytest.fixture(scope="module")
def model() -> Iterator[Model]:
    with Model(talking_artifact(), context_tokens=CONTEXT_TOKENS) as opened:
        yield opened


def forced_count(model: Model, schema: object, token_ids: list[int], max_tokens: int) -> int:
    """Return before how many tokens there was no choice; not counted is one that ends the text."""
    binder: SchemaBinder = model._schemas()()
    found = binder.answer_schema(schema, None, None)
    assert found is not None
    binding, place, count = Binding(found.bound, max_tokens), Place(), 0
    for token_id in token_ids:
        only = binding.only_token(place)
        after = binding.after(place, token_id)
        assert after is not None
        count += only is not None and not binding.is_complete(after)
        place = after
    return count


@pytest.mark.parametrize("way", WAYS)
def test_every_face_counts_them_alike(model: Model, way: str) -> None:
    max_tokens = fit(model, COLOURS) + 6
    options = {"max_tokens": max_tokens, "schema": COLOURS, **WAYS[way]}
    for face in FACES:
        answer = faces(model)[face](**options)
        assert answer.finish_reason == "stop", face
        expected = forced_count(model, COLOURS, answer.token_ids, max_tokens)
        assert answer.forced_tokens == expected > 3, face


@pytest.mark.parametrize("is_together", [False, True])
def test_nothing_is_scored_but_where_something_is_chosen(
    model: Model, monkeypatch: pytest.MonkeyPatch, is_together: bool
) -> None:
    scored = []
    advance = Runner.advance_each

    def counted(self: Runner, sequences: Any, **others: Any) -> Any:
        outcomes = advance(self, sequences, **others)
        scored.extend([one.chunk for one in outcomes if one.chunk and one.chunk.has_logits])
        return outcomes

    monkeypatch.setattr(Runner, "advance_each", counted)
    options: dict[str, Any] = {"max_tokens": fit(model, COLOURS) + 6, "schema": COLOURS}
    if is_together:
        answer = model.generate_many(["Hello"], **options)[0]
    else:
        answer = model.generate("Hello", **options)
    assert len(scored) == len(answer.token_ids) - answer.forced_tokens
    # The first run ends with what the answer can only begin with.
    assert scored[0].span.row_count > answer.usage.prompt_tokens


def test_what_a_text_begins_with_is_there_before_anything_is_computed(model: Model) -> None:
    with model.sequence("Hello", schema=COLOURS, max_tokens=40) as sequence:
        assert sequence.text == '{"colour":"'
        assert sequence.partial == {"colour": ""}
        assert (sequence.done, sequence.new_text()) == (False, sequence.text)
        while not sequence.done:
            sequence.advance(layers=1)
        assert sequence.result() == model.generate("Hello", schema=COLOURS, max_tokens=40)


def test_a_beginning_longer_than_chunks_is_as_token_by_token() -> None:
    with Model(talking_artifact(), context_tokens=512) as model:
        shortest = fit(model, LONG)
        for prompt in ("Hello", "Hello " * 30):
            jumped = model.generate(prompt, schema=LONG, max_tokens=shortest)
            watched = model.generate(prompt, schema=LONG, max_tokens=shortest, stop=NEVER)
            assert jumped == watched
            assert jumped.parsed == LONG["const"]
            assert jumped.forced_tokens == len(jumped.token_ids) - 1


@pytest.mark.parametrize("max_tokens", range(1, 8))
def test_an_answer_may_be_cut_off_in_its_beginning(model: Model, max_tokens: int) -> None:
    options: dict[str, Any] = {"schema": COLOURS, "finish": "cut", "max_tokens": max_tokens}
    expected = {
        is_chat: model.chat([{"role": "user", "content": "Hello"}], **options, stop=NEVER)
        if is_chat
        else model.generate("Hello", **options, stop=NEVER)
        for is_chat in (False, True)
    }
    for face in FACES:
        answer = faces(model)[face](**options)
        assert answer == expected["chat" in face or "session" in face], face
        assert answer.forced_tokens <= max_tokens - 1


def test_the_progress_of_a_prompt_is_that_of_the_prompt(model: Model) -> None:
    told: list[tuple[int, int]] = []
    stream = model.stream(
        "Hello " * 8,
        schema=COLOURS,
        max_tokens=40,
        on_progress=lambda *done: told.append(done),
    )
    count = stream.read().usage.prompt_tokens
    assert told[-1] == (count, count)
    assert all(done <= total == count for done, total in told)


def test_a_checkpoint_of_a_prompt_has_nothing_of_its_answer(model: Model, tmp_path: Path) -> None:
    options: dict[str, Any] = {"schema": COLOURS, "max_tokens": 40}
    path = tmp_path / "run.sslmr"
    with model.session() as session:
        first = session.say("Hello", **options)
        again = session.edit(0, "Hello", max_tokens=4)
        assert again.usage.cached_tokens == again.usage.prompt_tokens
        assert again == model.chat([{"role": "user", "content": "Hello"}], max_tokens=4)
        other = session.edit(0, "Hello", **options, temperature=1, seed=5, record=path)
        assert other.usage.cached_tokens == other.usage.prompt_tokens
        assert other.forced_tokens > 0
        assert sslm.replay(path, model, schema=COLOURS).identical
    assert first == model.chat([{"role": "user", "content": "Hello"}], **options)
