"""Arguments of another kind than expected: refused by name, and shown in few characters."""

import asyncio
import copy
import itertools
from collections.abc import Callable, Iterator
from decimal import Decimal
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import sslm
from sslm.answering.request import stop_strings
from sslm.engine.model import Model
from sslm.errors.base import ArtifactError, SslmError
from sslm.errors.catalog import UnknownModelError
from sslm.errors.runtime import (
    MemoryBudgetError,
    NotCopyableError,
    OptionRangeError,
    TokenIdRangeError,
    TokenIdTypeError,
)
from sslm.errors.showing import briefly
from sslm.errors.text import MessageFieldError, TextTypeError
from tests.converted import stories_artifact, talking_artifact

HUGE = 10**5000
HELLO = [{"role": "user", "content": "Hello"}]


@pytest.fixture(scope="module")
def model() -> Iterator[Model]:
    with Model(talking_artifact()) as opened:
        yield opened


class _Unshowable:
    def __repr__(self) -> str:
        raise KeyError("no")


def _message(error: type[SslmError], call: Callable[[], object]) -> str:
    with pytest.raises(error) as caught:
        call()
    message = str(caught.value)
    message.encode()
    assert len(message) < 5000
    return message


def test_any_value_is_shown_in_few_characters() -> None:
    assert briefly("no") == "'no'"
    assert briefly(-7) == "-7"
    assert briefly([Decimal("2.0"), "2.0"]) == "[2.0, '2.0']"
    assert briefly(HUGE) == "an integer of 16610 bits"
    for odd in ([HUGE], {HUGE: 1}, (-HUGE,), _Unshowable(), ["x" * 10**5] * 100, b"x" * 10**6):
        assert len(briefly(odd)) < 1000


@pytest.mark.parametrize("odd", [5, None, b"model.sslm", 1.5, ["a"]])
def test_a_path_is_a_text_or_a_path(odd: Any, tmp_path: Path) -> None:
    # Bytes are taken for those of a file, and say themselves that they are none.
    kind = ArtifactError if isinstance(odd, bytes) else OptionRangeError
    expected = "b'mode'" if isinstance(odd, bytes) else "path"
    assert expected in _message(kind, lambda: sslm.load(odd))
    assert expected in _message(kind, lambda: Model(odd))
    if odd is not None:
        call = lambda: sslm.load(stories_artifact(), cache_dir=odd)  # noqa: E731
        assert "cache_dir" in _message(OptionRangeError, call)


@pytest.mark.parametrize(
    "options",
    [
        {"threads": HUGE},
        {"context_tokens": -HUGE},
        {"memory_bytes": HUGE},
        {"sha256": HUGE},
        {"sha256": "x" * 10**5},
        {"backend": HUGE},
        {"backend": "x" * 10**5},
        {"tier": "x" * 10**5},
        {"tier": ["scalar"]},
        {"backend": _Unshowable()},
        {"mmap": "no"},
        {"mmap": 0},
        {"parallel_for": HUGE},
        {"parallel_for": _Unshowable()},
    ],
)
def test_odd_options_of_a_model(options: dict[str, Any]) -> None:
    for call in (Model, sslm.load):
        message = _message(SslmError, lambda call=call: call(stories_artifact(), **options))  # type: ignore[misc]
        assert next(iter(options)) in message


@pytest.mark.parametrize(
    "options", [{"download": "x"}, {"download": None}, {"on_progress": 5}, {"mmap": "no"}]
)
def test_odd_options_of_loading(options: dict[str, Any]) -> None:
    message = _message(OptionRangeError, lambda: sslm.load(stories_artifact(), **options))
    assert next(iter(options)) in message


@pytest.mark.parametrize(
    "options",
    [
        {"max_tokens": HUGE},
        {"max_tokens": [HUGE]},
        {"max_tokens": np.bool_(True)},
        {"max_tokens": np.array([1, 2])},
        {"deadline_s": HUGE},
        {"deadline_s": _Unshowable()},
        {"stop": HUGE},
        {"stop": itertools.repeat("x")},
        {"stop": 5},
    ],
)
def test_odd_options_of_a_request(model: Model, options: dict[str, Any]) -> None:
    calls: list[Callable[[], object]] = [
        lambda: model.generate("a", **options),
        lambda: model.chat(HELLO, **options),
        lambda: model.generate_many(["a"], **options),
        lambda: asyncio.run(model.agenerate("a", **options)),
    ]
    for call in calls:
        assert next(iter(options)) in _message(OptionRangeError, call)


def test_truths_dates_and_callbacks_are_what_they_say(model: Model) -> None:
    odd: Any
    for odd in ("no", 1, None):
        asked = partial(model.generate_many, ["a"], return_errors=odd)
        assert "return_errors" in _message(OptionRangeError, asked)
    for odd in ("2020-01-01", 5):
        for face in (model.chat, model.chat_stream):
            assert "date" in _message(OptionRangeError, partial(face, HELLO, date=odd))
    odd = 5
    for call in (
        partial(model.stream, "a", on_progress=odd),
        partial(model.chat_stream, HELLO, on_progress=odd),
        partial(model.verify, on_progress=odd),
    ):
        assert "on_progress" in _message(OptionRangeError, call)
    with Model(stories_artifact()) as golden:
        assert golden.verify(on_progress=None).ok


def test_a_callback_is_one_also_when_it_comes_late(model: Model) -> None:
    with model.stream("a", max_tokens=1) as stream, pytest.raises(OptionRangeError):
        stream.telling("x")  # type: ignore[arg-type]


def test_an_array_without_dimensions_is_not_several(model: Model) -> None:
    calls: tuple[Callable[[Any], object], ...] = (model.generate_many, model.chat, model.generate)
    for call in calls:
        with pytest.raises(SslmError):
            call(np.array(3))


def test_odd_ids_and_texts(model: Model) -> None:
    ids = [1, HUGE]
    assert "16610 bits" in _message(TokenIdRangeError, lambda: model.generate(ids))
    odd: Any = [[HUGE]]
    _message(TokenIdTypeError, lambda: model.generate(odd))
    assert "token ids" in _message(TextTypeError, lambda: model.generate(odd[0][0]))
    with pytest.raises(TextTypeError, match="found bytes"):
        model.generate("a", stop=b"x")  # type: ignore[arg-type]
    odd = [{HUGE: 1}]
    _message(MessageFieldError, lambda: model.chat(odd))


def test_a_name_that_no_terminal_can_show(tmp_path: Path) -> None:
    for name in ("\ud800", "x" * 10**5):
        call = lambda name=name: sslm.load(name, cache_dir=tmp_path)  # noqa: E731
        assert "there is no model" in _message(UnknownModelError, call)


def test_stops_are_taken_up_to_one_too_many() -> None:
    assert len(stop_strings(str(one) for one in itertools.count())) == 17  # type: ignore[arg-type]


def test_integers_of_other_libraries_are_welcome(model: Model) -> None:
    with Model(
        talking_artifact(),
        threads=np.int64(1),  # type: ignore[arg-type]
        context_tokens=np.uint16(64),  # type: ignore[arg-type]
        memory_bytes=np.int64(1 << 30),  # type: ignore[arg-type]
    ) as other:
        assert (type(other.threads), type(other.context_tokens)) == (int, int)
        assert other.spec.load().spec == other.spec
        expected = model.generate("a", max_tokens=3)
        assert other.generate("a", max_tokens=np.int32(3)) == expected  # type: ignore[arg-type]
        assert other.footprint(np.int64(2)) == other.footprint(2)  # type: ignore[arg-type]


def test_what_a_model_says_of_itself_cannot_be_assigned(model: Model) -> None:
    for name in ("threads", "context_tokens"):
        with pytest.raises(AttributeError):
            setattr(model, name, 2)


def test_models_and_streams_show_what_they_are() -> None:
    opened = Model(stories_artifact(), tier="scalar")
    assert repr(opened) == f"<sslm.Model {str(stories_artifact())!r}, tier scalar, open>"
    stream = opened.stream("a", max_tokens=1)
    assert repr(stream) == "<sslm.Stream, not complete>"
    stream.read()
    assert repr(stream) == "<sslm.Stream, complete>"
    assert repr(opened.astream("a")) == "<sslm.AsyncStream, not begun>"
    opened.close()
    assert repr(opened).endswith("closed>")


def test_each_result_is_its_own(model: Model) -> None:
    stream = model.stream("a", max_tokens=3)
    first = stream.read()
    first.token_ids.clear()
    assert len(stream.result().token_ids) == 3


def test_messages_say_what_can_be_done_instead(model: Model) -> None:
    assert "unpickling" in _message(NotCopyableError, lambda: copy.copy(model))
    with Model(talking_artifact(), context_tokens=64) as free:
        limit = free.footprint().total - 1
    with Model(talking_artifact(), context_tokens=64, memory_bytes=limit) as full:
        message = _message(MemoryBudgetError, lambda: full.generate([1] * 60))
    assert message.startswith(f"all that is open would take {limit + 1} bytes")
