"""Answers: where they end, and that reading them piece by piece changes nothing."""

import hashlib
import threading
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

from sslm import limits
from sslm.answering.cutoff import Cutoff
from sslm.answering.generation import Generation
from sslm.answering.request import Request, stop_strings
from sslm.answering.results import Completion
from sslm.engine.model import Model
from sslm.errors.base import SslmError
from sslm.errors.runtime import (
    ContextLengthError,
    EmptyPromptError,
    OptionRangeError,
    StreamUnfinishedError,
)
from sslm.errors.text import TextTypeError, TextUnicodeError
from tests.converted import stories_artifact
from tests.held_runs import GUARD_S, held

PROMPT = "Once upon a time"


@pytest.fixture(scope="module")
def model() -> Iterator[Model]:
    with Model(stories_artifact()) as opened:
        yield opened


@pytest.fixture(scope="module")
def answer(model: Model) -> Completion:
    return model.generate(PROMPT, max_tokens=30)


def request(**changes: object) -> Request:
    plain = Request(prompt_ids=(1,), max_tokens=5, stop=(), stop_token_ids=frozenset())
    return replace(plain, **changes)  # type: ignore[arg-type]


def run(model: Model, asked: Request) -> Completion:
    generation = Generation(model._runner, model.tokenizer, asked, Cutoff())
    for _ in generation.pieces():
        pass
    return generation.result()


def without_times(answer: Completion) -> Completion:
    usage = replace(answer.usage, prefill_ms=0, decode_ms=0)
    return replace(answer, usage=usage)


def test_taking_in_a_prompt_tells_how_far_it_is(model: Model) -> None:
    told: list[tuple[int, int]] = []
    with model.stream(
        [1] * 150, max_tokens=3, on_progress=lambda done, total: told.append((done, total))
    ) as stream:
        next(stream)
        assert told == [(64, 150), (128, 150), (150, 150)]
        assert len(list(stream)) == 2
    assert len(told) == 3


def test_an_answer_has_as_many_tokens_as_asked_for(model: Model, answer: Completion) -> None:
    assert (answer.finish_reason, answer.stop_reason) == ("length", None)
    assert len(answer.token_ids) == answer.usage.completion_tokens == 30
    assert answer.usage.prompt_tokens == len(model.tokenizer.encode(PROMPT))
    assert answer.text == model.tokenizer.decode(answer.token_ids, is_continuation=True)
    assert (answer.usage.prefill_ms or 0) > 0
    assert (answer.usage.decode_ms or 0) > 0


def test_a_shorter_answer_is_the_beginning_of_a_longer_one(
    model: Model, answer: Completion
) -> None:
    shorter = model.generate(PROMPT, max_tokens=7)
    assert shorter.token_ids == answer.token_ids[:7]
    assert answer.text.startswith(shorter.text)
    assert shorter.digest != answer.digest


def test_text_and_its_ids_are_the_same_prompt(model: Model, answer: Completion) -> None:
    ids = model.tokenizer.encode(PROMPT)
    assert without_times(model.generate(ids, max_tokens=30)) == without_times(answer)


def test_the_digest_closes_the_chain_over_what_was_computed(
    model: Model, answer: Completion
) -> None:
    """Computed from docs/arithmetic.md, 4, with the digests of the last layer's segments."""
    prompt = model.tokenizer.encode(PROMPT)
    computed = [*prompt, *answer.token_ids[:-1]]
    version = (1).to_bytes(4, "little")
    link = hashlib.sha256(b"sslm chain\0" + version + bytes.fromhex(model.model_id)).digest()
    for token_id, digest in zip(computed, last_layer_digests(model, computed), strict=True):
        link = hashlib.sha256(link + token_id.to_bytes(4, "little") + digest).digest()
    closed = b"sslm answer\0" + link + len(answer.token_ids).to_bytes(4, "little")
    closed += b"".join(token_id.to_bytes(4, "little") for token_id in answer.token_ids)
    assert answer.digest == hashlib.sha256(closed).hexdigest()


def last_layer_digests(model: Model, token_ids: list[int]) -> list[bytes]:
    from sslm.runtime.sequences.options import SequenceOptions

    runner = model._runner
    with runner.sequence(SequenceOptions(context_tokens=len(token_ids))) as sequence:
        found = []
        sequence.push(token_ids)
        while sequence.pending_count:
            for _, chunk in runner.advance([sequence]):
                digests = bytes(sequence.memory.digests)
                rows = range(chunk.span.row_count)
                found += [digests[32 * row : 32 * (row + 1)] for row in rows]
        return found


def test_streamed_pieces_join_to_the_answer(model: Model, answer: Completion) -> None:
    with model.stream(PROMPT, max_tokens=30) as stream:
        pieces = list(stream)
        streamed = stream.result()
    assert "".join(piece.text for piece in pieces) == answer.text
    assert [token_id for piece in pieces for token_id in piece.token_ids] == answer.token_ids
    assert without_times(streamed) == without_times(answer)


def test_a_stream_has_no_result_before_its_end(model: Model) -> None:
    with model.stream(PROMPT, max_tokens=30) as stream:
        next(stream)
        with pytest.raises(StreamUnfinishedError):
            stream.result()
    assert list(stream) == []


def test_a_stop_string_ends_the_answer_before_it(model: Model, answer: Completion) -> None:
    stop = answer.text[10:14]
    stopped = model.generate(PROMPT, max_tokens=30, stop=["nowhere", stop])
    assert stopped.text == answer.text[: answer.text.index(stop)]
    assert (stopped.finish_reason, stopped.stop_reason) == ("stop", stop)
    count = len(stopped.token_ids)
    assert stopped.token_ids == answer.token_ids[:count]
    assert stop in model.tokenizer.decode(stopped.token_ids, is_continuation=True)
    assert stop not in model.tokenizer.decode(stopped.token_ids[:-1], is_continuation=True)


def test_text_held_back_for_a_stop_comes_out_at_the_end(model: Model, answer: Completion) -> None:
    stop = answer.text[-1] + "never"
    assert model.generate(PROMPT, max_tokens=30, stop=stop).text == answer.text


def test_a_stop_id_ends_the_answer_and_is_part_of_the_ids(model: Model, answer: Completion) -> None:
    prompt = tuple(model.tokenizer.encode(PROMPT))
    stop_id = answer.token_ids[9]
    count = answer.token_ids.index(stop_id) + 1
    asked = request(prompt_ids=prompt, max_tokens=30, stop_token_ids=frozenset({stop_id}))
    stopped = run(model, asked)
    assert stopped.token_ids == answer.token_ids[:count]
    assert (stopped.finish_reason, stopped.stop_reason) == ("stop", stop_id)
    kept = answer.token_ids[: count - 1]
    assert stopped.text == model.tokenizer.decode(kept, is_continuation=True)
    assert stopped.digest == model.generate(PROMPT, max_tokens=count).digest


def test_the_end_of_the_context_ends_the_answer(model: Model) -> None:
    with Model(model.path, context_tokens=10) as short:
        assert len(short.generate([1] * 7, max_tokens=100).token_ids) == 3
        assert len(short.generate([1] * 9, max_tokens=100).token_ids) == 1
        with pytest.raises(ContextLengthError) as caught:
            short.generate([1] * 10)
    assert (caught.value.needed_tokens, caught.value.limit_tokens) == (11, 10)


@pytest.mark.parametrize(
    ("changes", "error"),
    [
        ({"prompt_ids": ()}, EmptyPromptError),
        ({"max_tokens": 0}, OptionRangeError),
        ({"max_tokens": -1}, OptionRangeError),
        ({"max_tokens": True}, OptionRangeError),
        ({"max_tokens": 1.5}, OptionRangeError),
        ({"max_tokens": limits.CONTEXT_TOKENS_MAX + 1}, OptionRangeError),
        ({"stop": ("",)}, OptionRangeError),
        ({"stop": ("x" * (limits.STOP_SIZE_CHARS_MAX + 1),)}, OptionRangeError),
        ({"stop": ("x",) * (limits.STOP_COUNT_MAX + 1)}, OptionRangeError),
        ({"stop": (3,)}, TextTypeError),
        ({"stop": ("\ud800",)}, TextUnicodeError),
    ],
)
def test_requests_are_checked(changes: dict[str, object], error: type[SslmError]) -> None:
    with pytest.raises(error):
        request(**changes)


def test_stops_come_in_three_forms() -> None:
    assert stop_strings(None) == ()
    assert stop_strings("ab") == ("ab",)
    assert stop_strings(["a", "b"]) == ("a", "b")


def test_another_thread_may_close_a_stream(model: Model) -> None:
    stream = model.stream(PROMPT, max_tokens=400)
    next(stream)
    pieces: list[str] = []
    reader = threading.Thread(target=lambda: pieces.extend(piece.text for piece in stream))
    with held(model, after=3) as hold:
        reader.start()
        hold.wait()
        stream.close()
        reader.join(GUARD_S)
    assert not reader.is_alive()
    assert len(pieces) == 3
    with pytest.raises(StreamUnfinishedError):
        stream.result()


def test_answers_are_equal_whatever_they_took(model: Model, answer: Completion) -> None:
    again = model.generate(PROMPT, max_tokens=30)
    assert again == answer
    assert hash(again) == hash(answer)


@pytest.mark.parametrize("prompt", [b"abc", {1: 2}, {1, 2}, None, 5])
def test_a_prompt_is_text_or_ids(model: Model, prompt: Any) -> None:
    with pytest.raises(TextTypeError):
        model.generate(prompt)


def test_stops_are_a_string_or_several(model: Model) -> None:
    with pytest.raises(OptionRangeError):
        model.generate(PROMPT, stop=5)  # type: ignore[arg-type]
