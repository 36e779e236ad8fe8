"""Prompts of any size are refused at once, in every face, and none that would fit is."""

import asyncio
import itertools
import pickle
import sys
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sslm import limits
from sslm.engine.model import Model
from sslm.errors.base import SslmError
from sslm.errors.runtime import ContextLengthError, DeadlineExceededError, OptionRangeError
from sslm.errors.text import TextBytesError, TokenizerMemoryError
from sslm.text.tokenizer import Tokenizer
from tests.converted import stories_artifact, talking_artifact
from tests.unit.text.vocabularies import (
    byte_level_tokenizer,
    published_tokenizer,
    sentencepiece_tokenizer,
)

LONG = "a" * (limits.TEXT_SIZE_CHARS_MAX // 2)
PIECES = ["hello", " ", "  ", "\u2581", "é", "日本語", "<s>", "<|im_start|>", "\n", "0", "ab" * 20]


@pytest.fixture(scope="module")
def model() -> Iterator[Model]:
    with Model(talking_artifact()) as opened:
        yield opened


def _faces(model: Model, **options: Any) -> list[Callable[[Any], object]]:
    def talk(text: str) -> list[dict[str, str]]:
        return [{"role": "user", "content": text}]

    return [
        lambda text: model.generate(text, **options),
        lambda text: model.stream(text, **options).read(),
        lambda text: model.generate_many([text], **options),
        lambda text: asyncio.run(model.agenerate(text, **options)),
        lambda text: model.chat(talk(text), **options),
        lambda text: asyncio.run(model.achat(talk(text), **options)),
    ]


def test_a_text_beyond_the_context_is_not_tokenized(
    model: Model, monkeypatch: pytest.MonkeyPatch
) -> None:
    read: list[object] = []
    monkeypatch.setattr(model.tokenizer, "encode_parts", read.append)
    longest = max(map(len, model.tokenizer.vocabulary.tokens))
    for face in _faces(model):
        with pytest.raises(ContextLengthError, match="at least") as caught:
            face(LONG)
        least = -(-len(LONG) // longest) + 1
        # A template writes a little around its messages.
        assert least <= caught.value.needed_tokens <= least + 10
    assert read == []


def test_a_larger_context_is_advised_only_where_the_model_allows_one(model: Model) -> None:
    refusals: list[Callable[[str], object]]
    refusals = [*_faces(model), model.sequence, lambda text: _said(model, text)]
    for text in (LONG, "a b " * 300):
        for refuse in refusals:
            with pytest.raises(ContextLengthError) as caught:
                refuse(text)
            assert str(caught.value).endswith("; shorten the prompt or lower max_tokens")
    with Model(talking_artifact(), context_tokens=40) as small:
        refusals = [*_faces(small), small.sequence, lambda text: _said(small, text)]
        for text in (LONG, "a b " * 300):
            for refuse in refusals:
                with pytest.raises(ContextLengthError) as caught:
                    refuse(text)
                assert str(caught.value).endswith(
                    ", or ask for a larger context_tokens: the model allows 512"
                )
                assert str(pickle.loads(pickle.dumps(caught.value))) == str(caught.value)


def _said(model: Model, text: str) -> object:
    with model.session() as session:
        return session.say(text)


def test_every_face_has_the_deadlines_error(model: Model) -> None:
    for face in _faces(model, deadline_s=0):
        with pytest.raises(DeadlineExceededError):
            face(LONG)


def test_the_deadline_is_looked_at_when_a_text_is_tokenized(
    model: Model, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = [0.0]

    def encode_slowly(text: str, **_: object) -> list[int]:
        now[0] += 2
        return [1] * 10_000

    monkeypatch.setattr("sslm.answering.cutoff.time.monotonic", lambda: now[0])
    monkeypatch.setattr(model.tokenizer, "encode", encode_slowly)
    with pytest.raises(DeadlineExceededError):
        model.generate("a", deadline_s=1)
    # Rows behind the one that took the time are not tokenized.
    now[0] = 0
    rows = model.generate_many(["a", "b", "c"], deadline_s=1, return_errors=True)
    assert [type(row) for row in rows] == [DeadlineExceededError] * 3
    assert now[0] == 2


@given(st.lists(st.sampled_from(PIECES) | st.text(max_size=5), max_size=30))
def test_a_text_that_fits_is_never_refused(pieces: list[str]) -> None:
    text = "".join(pieces).encode(errors="replace").decode()
    for tokenizer in (sentencepiece_tokenizer(), byte_level_tokenizer()):
        _require_room_is_a_bound(tokenizer, text)


@pytest.mark.parametrize("name", ["gpt-2", "llama-spm", "qwen2"])
def test_the_longest_tokens_fit(name: str) -> None:
    tokenizer = published_tokenizer(name)
    for token_id in sorted(
        range(tokenizer.vocab_size), key=lambda one: -len(tokenizer.spelling(one))
    )[:50]:
        text = tokenizer.token_bytes(token_id).decode(errors="ignore") * 20
        _require_room_is_a_bound(tokenizer, text)
        _require_room_is_a_bound(tokenizer, tokenizer.spelling(token_id) * 20)


def _require_room_is_a_bound(tokenizer: Tokenizer, text: str) -> None:
    for ids in (
        tokenizer.encode(text, add_bos=False, add_eos=False),
        tokenizer.encode_with_controls(text, add_bos=False, add_eos=False),
    ):
        most = len(ids) + 1
        tokenizer.require_room(text, context_tokens=most, model_tokens=most)


class _EndlessList(list[int]):
    """Says that it is short, and has no end."""

    def __iter__(self) -> Iterator[int]:
        return itertools.repeat(1)


def test_the_deadline_counts_while_prompts_are_taken(model: Model) -> None:
    """An iterator without end is left once the time is over, long before there are too many."""
    taken = itertools.count()

    def slowly(item: Any) -> Iterator[Any]:
        for _ in itertools.count():
            next(taken)
            time.sleep(0.02)
            yield item

    calls: tuple[tuple[Callable[..., object], object], ...] = (
        (model.generate_many, "a"),
        (model.generate, 3),
        (model.chat, {"role": "user", "content": "a"}),
    )
    for call, item in calls:
        with pytest.raises(DeadlineExceededError):
            call(slowly(item), deadline_s=0.1)
    assert next(taken) <= 18


def test_no_more_ids_are_taken_than_fit(model: Model) -> None:
    taken = []

    def endless() -> Iterator[int]:
        for index in itertools.count():
            taken.append(index)
            yield 1

    odd: Any
    for odd, needed in (
        (endless(), 513),
        (_EndlessList([1]), 513),
        (range(10**12), 10**12 + 1),
        (range(10**30), sys.maxsize + 1),
        ([1] * 512, 513),
    ):
        with pytest.raises(ContextLengthError) as caught:
            model.generate(odd)
        assert caught.value.needed_tokens == needed
    assert len(taken) == 512
    assert len(model.generate(iter([1] * 511)).token_ids) == 1  # type: ignore[arg-type]


def test_prompts_are_counted_before_one_is_tokenized(
    model: Model, monkeypatch: pytest.MonkeyPatch
) -> None:
    read: list[object] = []
    monkeypatch.setattr(model.tokenizer, "encode", read.append)
    monkeypatch.setattr(limits, "PROMPT_COUNT_MAX", 3)
    source = iter(itertools.count())
    with pytest.raises(OptionRangeError, match="at most 3"):
        model.generate_many(str(one) for one in source)
    assert (read, next(source)) == ([], 4)


@pytest.mark.parametrize("odd", [None, 5, "hi", b"hi", {"role": "user", "content": "hi"}])
def test_messages_are_several(model: Model, odd: Any) -> None:
    calls: list[Callable[[], object]] = [
        lambda: model.chat(odd),
        lambda: model.chat_stream(odd),
        lambda: asyncio.run(model.achat(odd)),
    ]
    for call in calls:
        with pytest.raises(OptionRangeError, match="messages"):
            call()


def test_messages_without_end_are_too_many(model: Model) -> None:
    with pytest.raises(SslmError, match="messages"):
        model.chat(itertools.repeat({"role": "user", "content": "a"}))  # type: ignore[arg-type]


def test_a_model_bounds_the_bytes_of_a_text() -> None:
    with Model(stories_artifact(), text_bytes=20) as model:
        assert model.generate("Once upon a time", max_tokens=1).token_ids
        with pytest.raises(TextBytesError, match="the text has 21 bytes"):
            model.generate("Once upon a time, the")
        rows = model.generate_many(["Once", "a" * 21], max_tokens=1, return_errors=True)
        assert [type(row).__name__ for row in rows] == ["Completion", "TextBytesError"]
        with pytest.raises(TextBytesError):
            model.tokenizer.encode("a" * 21)
        with pickle.loads(pickle.dumps(model)) as again, pytest.raises(TextBytesError):
            again.generate("Once upon a time, the")
    with Model(stories_artifact()) as model:
        assert model.spec.text_bytes == 1 << 20
        with pytest.raises(TextBytesError):
            model.tokenizer.encode("a" * ((1 << 20) + 1))
    with Model(stories_artifact(), text_bytes=None) as model:
        assert model.tokenizer.encode("a " * (1 << 19) + "a")
    for odd in (0, -1, limits.TEXT_BYTES_MAX + 1, "1", 1.5, True):
        with pytest.raises(OptionRangeError, match="text_bytes"):
            Model(stories_artifact(), text_bytes=odd)  # type: ignore[arg-type]


def test_a_conversation_is_bounded_as_it_is_rendered() -> None:
    with Model(talking_artifact(), text_bytes=40) as model:
        assert model.chat([{"role": "user", "content": "Hi"}], max_tokens=1).token_ids
        with pytest.raises(TextBytesError, match="the rendered prompt"):
            model.chat([{"role": "user", "content": "a" * 30}])
        with model.session() as session, pytest.raises(TextBytesError):
            session.say("a" * 30)


def test_a_budget_of_memory_holds_for_a_text_that_is_tokenized() -> None:
    with Model(stories_artifact()) as model:
        needed = model.footprint().total
    text = "a " * 9_000
    with Model(stories_artifact(), memory_bytes=needed) as model:
        assert model.generate("Once upon a time", max_tokens=1).token_ids
        with pytest.raises(TokenizerMemoryError) as caught:
            model.tokenizer.encode(text)
        assert caught.value.needed_bytes == 512 * len(text) - (8 << 20)
    with Model(stories_artifact(), memory_bytes=needed + 512 * len(text)) as model:
        assert model.tokenizer.encode(text)
        assert model.generate("Once upon a time", max_tokens=1).token_ids
