"""The options that every call takes by the same names."""

import asyncio
from collections.abc import Callable, Iterator
from itertools import count
from typing import Any

import pytest

from sslm import limits
from sslm.answering.results import Completion
from sslm.engine.model import Model
from sslm.errors.choosing import UnknownOptionError
from sslm.errors.runtime import OptionRangeError
from tests.converted import talking_artifact

CONTEXT_TOKENS = 128
HELLO = [{"role": "user", "content": "Hello"}]

Call = Callable[..., Completion]


@pytest.fixture(scope="module")
def model() -> Iterator[Model]:
    with Model(talking_artifact(), context_tokens=CONTEXT_TOKENS) as opened:
        yield opened


def faces(model: Model) -> dict[str, Call]:
    """Return every call that answers one prompt or conversation."""

    def by_session(method: str) -> Call:
        def ask(**options: Any) -> Completion:
            with model.session() as session:
                found = getattr(session, method)("Hello", **options)
                answer: Completion = asyncio.run(found) if method == "asay" else found
                return answer

        return ask

    def by_edit(**options: Any) -> Completion:
        with model.session() as session:
            session.say("Bye", max_tokens=1)
            return session.edit(0, "Hello", **options)

    def by_sequence(**options: Any) -> Completion:
        with model.sequence("Hello", **options) as sequence:
            while not sequence.done:
                sequence.advance(layers=1000)
            return sequence.result()

    def by_reset(**options: Any) -> Completion:
        with model.sequence("Bye", context_tokens=CONTEXT_TOKENS) as sequence:
            sequence.reset("Hello", **options)
            while not sequence.done:
                sequence.advance(layers=1000)
            return sequence.result()

    return {
        "generate": lambda **options: model.generate("Hello", **options),
        "stream": lambda **options: model.stream("Hello", **options).read(),
        "agenerate": lambda **options: asyncio.run(model.agenerate("Hello", **options)),
        "astream": lambda **options: asyncio.run(model.astream("Hello", **options).read()),
        "chat": lambda **options: model.chat(HELLO, **options),
        "chat_stream": lambda **options: model.chat_stream(HELLO, **options).read(),
        "achat": lambda **options: asyncio.run(model.achat(HELLO, **options)),
        "achat_stream": lambda **options: asyncio.run(model.achat_stream(HELLO, **options).read()),
        "session.say": by_session("say"),
        "session.asay": by_session("asay"),
        "session.edit": by_edit,
        "sequence": by_sequence,
        "sequence.reset": by_reset,
    }


FACES = (
    *("generate", "stream", "agenerate", "astream", "chat", "chat_stream", "achat"),
    *("achat_stream", "session.say", "session.asay", "session.edit", "sequence", "sequence.reset"),
)
each_face = pytest.mark.parametrize("face", FACES)


def test_every_face_is_listed(model: Model) -> None:
    assert tuple(faces(model)) == FACES


@each_face
def test_an_unknown_option_is_refused_with_the_nearest_known_one(model: Model, face: str) -> None:
    with pytest.raises(UnknownOptionError, match="'max_token' here; did you mean 'max_tokens'"):
        faces(model)[face](max_token=5)
    # No guess where nothing is like it.
    with pytest.raises(UnknownOptionError, match=r"'xyzzy' here; there are .*max_tokens, "):
        faces(model)[face](xyzzy=5)
    # As for any other function that does not know an argument.
    with pytest.raises(TypeError):
        faces(model)[face](stop_tokens=[5])


@each_face
def test_an_id_of_the_callers_ends_an_answer(model: Model, face: str) -> None:
    ask = faces(model)[face]
    whole = ask(max_tokens=8)
    stop_id = whole.token_ids[3]
    first = whole.token_ids.index(stop_id)
    ended = ask(max_tokens=8, stop_token_ids=iter([stop_id]))
    assert ended.token_ids == whole.token_ids[: first + 1]
    assert (ended.finish_reason, ended.stop_reason) == ("stop", stop_id)
    assert whole.text.startswith(ended.text)
    assert ended.length_reason is None


@each_face
def test_what_ends_an_answer_for_its_length_is_told(model: Model, face: str) -> None:
    ask = faces(model)[face]
    asked = ask(max_tokens=2)
    assert (asked.finish_reason, asked.length_reason) == ("length", "max_tokens")
    room = CONTEXT_TOKENS - asked.usage.prompt_tokens
    cut = ask(max_tokens=room + 1)
    exact = ask(max_tokens=room)
    assert (len(cut.token_ids), len(exact.token_ids)) == (room, room)
    assert (cut.length_reason, exact.length_reason) == ("context", "max_tokens")
    assert cut.text == exact.text


@pytest.mark.parametrize(
    "ids",
    [5, "5", b"\5", [-1], [10**9], [True], [1.0], ["5"], [None], count(), [[5]]],
    ids=repr,
)
def test_odd_stop_ids_are_refused(model: Model, ids: Any) -> None:
    with pytest.raises(OptionRangeError, match="stop_token_ids"):
        model.generate("Hello", stop_token_ids=ids)


def test_stop_ids_are_as_many_as_they_may_be(model: Model) -> None:
    most = limits.STOP_TOKEN_ID_COUNT_MAX
    ids = list(range(min(most, model.tokenizer.vocab_size)))
    assert model.generate("Hello", max_tokens=2, stop_token_ids=[7] * most) is not None
    with pytest.raises(OptionRangeError, match=f"more than {most} ids"):
        model.generate("Hello", stop_token_ids=[*ids, *[7] * most])


def test_an_answer_tells_its_seed_and_no_options_if_none_were_given(model: Model) -> None:
    answer = model.generate("Hello", max_tokens=2)
    assert (answer.seed, answer.choosing) == (0, {})
