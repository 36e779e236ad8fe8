"""Opening a model, and what it says of itself."""

import hashlib
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from sslm.engine.model import Model
from sslm.errors.base import SslmError
from sslm.errors.engine import (
    ModelHashMismatchError,
    NoChatTemplateError,
    NotAnArtifactError,
)
from sslm.errors.program import BackendUnavailableError, TierUnavailableError
from sslm.errors.reading import UnreadableFileError
from sslm.errors.runtime import (
    ContextLengthError,
    EmptyPromptError,
    MemoryBudgetError,
    ObjectClosedError,
    OptionRangeError,
    StreamUnfinishedError,
    TokenIdRangeError,
)
from sslm.opening.model_file import DEFAULT_CONTEXT_TOKENS
from tests.converted import STORIES_SOURCE, stories_artifact

PROMPT = "Once upon a time"


@pytest.fixture(scope="module")
def path() -> Path:
    return stories_artifact()


@pytest.fixture
def model(path: Path) -> Iterator[Model]:
    with Model(path) as opened:
        yield opened


def test_a_model_describes_itself(model: Model, path: Path) -> None:
    assert model.path == path
    assert len(bytes.fromhex(model.model_id)) == 32
    assert model.file_sha256 == hashlib.sha256(path.read_bytes()).hexdigest()
    assert model.arithmetic_version == 1
    assert model.context_tokens == min(512, DEFAULT_CONTEXT_TOKENS)
    assert (model.backend, model.threads) == ("native", 1)


def test_the_file_can_be_insisted_on(path: Path) -> None:
    sha256 = hashlib.sha256(path.read_bytes()).hexdigest()
    Model(path, sha256=f" {sha256.upper()}\n").close()
    # The whole line that sha256sum prints will do.
    Model(path, sha256=f"{sha256}  {path}\n").close()
    for odd in ("", "00", "xy" * 32):
        with pytest.raises(OptionRangeError):
            Model(path, sha256=odd)
    with pytest.raises(ModelHashMismatchError) as caught:
        Model(path, sha256="ab" * 32)
    assert (caught.value.found, caught.value.expected) == (sha256, "ab" * 32)


@pytest.mark.parametrize(
    ("options", "error"),
    [
        ({"threads": 0}, OptionRangeError),
        ({"threads": 257}, OptionRangeError),
        ({"context_tokens": 0}, OptionRangeError),
        ({"context_tokens": 513}, OptionRangeError),
        ({"backend": "cuda"}, BackendUnavailableError),
        ({"tier": "mmx"}, TierUnavailableError),
        ({"backend": "reference", "tier": "avx2"}, TierUnavailableError),
        ({"memory_bytes": 1000}, MemoryBudgetError),
    ],
)
def test_options_are_checked(path: Path, options: dict[str, Any], error: type[SslmError]) -> None:
    with pytest.raises(error):
        Model(path, **options)


def test_a_gguf_file_is_refused_with_the_way_out() -> None:
    with pytest.raises(NotAnArtifactError, match="sslm convert"):
        Model(STORIES_SOURCE)


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(UnreadableFileError, match=r"none\.sslm"):
        Model(tmp_path / "none.sslm")


def test_every_way_to_open_gives_the_same_answer(path: Path) -> None:
    answers = set()
    ways: list[dict[str, Any]] = [{}, {"mmap": False}, {"threads": 2}, {"tier": "scalar"}]
    for options in ways:
        with Model(path, **options) as model:
            answer = model.generate(PROMPT, max_tokens=12)
            answers.add((answer.text, tuple(answer.token_ids), answer.digest))
    with Model(path, backend="reference") as model:
        answer = model.generate(PROMPT, max_tokens=12)
        answers.add((answer.text, tuple(answer.token_ids), answer.digest))
    assert len(answers) == 1


def test_a_footprint_grows_by_what_a_sequence_takes(model: Model, path: Path) -> None:
    none, one, four = (model.footprint(count) for count in (0, 1, 4))
    assert none.weights == path.stat().st_size
    assert none.kv == 0
    assert four.kv == 4 * one.kv
    assert four.scratch - none.scratch == 4 * (one.scratch - none.scratch)
    assert one.total == one.weights + one.kv + one.scratch
    # Codes and exponents of 5 layers with 4 heads of 8, for keys as for values, in 512 positions.
    assert one.kv == 512 * 5 * 2 * (4 * 8 * 2 + 4)
    with pytest.raises(OptionRangeError):
        model.footprint(-1)


def test_the_footprint_is_admitted_and_one_byte_less_is_not(path: Path) -> None:
    with Model(path, context_tokens=64) as model:
        needed = model.footprint().total
    with Model(path, context_tokens=64, memory_bytes=needed) as model:
        model.generate([1] * 60, max_tokens=5)
    with (
        Model(path, context_tokens=64, memory_bytes=needed - 1) as model,
        pytest.raises(MemoryBudgetError) as caught,
    ):
        model.generate([1] * 60, max_tokens=5)
    assert (caught.value.needed_bytes, caught.value.limit_bytes) == (needed, needed - 1)


def test_memory_is_given_back_after_each_answer(path: Path) -> None:
    with Model(path, context_tokens=64) as model:
        needed = model.footprint().total
    with Model(path, context_tokens=64, memory_bytes=needed) as model:
        for _ in range(3):
            with model.stream([1] * 60, max_tokens=5) as stream:
                next(stream)
        assert len(model.generate([1] * 60, max_tokens=4).token_ids) == 4


@pytest.mark.parametrize(
    ("prompt", "error"),
    [
        ([], EmptyPromptError),
        ([1, 512], TokenIdRangeError),
        ([1, -1], TokenIdRangeError),
        ([1] * 512, ContextLengthError),
    ],
)
def test_prompts_are_checked(model: Model, prompt: list[int], error: type[SslmError]) -> None:
    with pytest.raises(error):
        model.generate(prompt)


def test_a_model_without_a_template_does_not_chat(model: Model) -> None:
    with pytest.raises(NoChatTemplateError):
        model.chat([{"role": "user", "content": "Hi"}])


def test_closing_twice_is_closing_once(path: Path) -> None:
    model = Model(path)
    model.close()
    model.close()
    with pytest.raises(ObjectClosedError):
        model.generate([1])


def test_threads_take_turns_and_change_nothing(model: Model) -> None:
    prompts = [PROMPT, "Lily", "The big dog", "One day"]
    alone = [model.generate(prompt, max_tokens=20) for prompt in prompts]
    together: dict[int, str] = {}

    def answer(index: int) -> None:
        together[index] = model.generate(prompts[index], max_tokens=20).digest

    threads = [threading.Thread(target=answer, args=(index,)) for index in range(len(prompts))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [together[index] for index in range(len(prompts))] == [one.digest for one in alone]


def test_a_closed_model_says_so(path: Path) -> None:
    model = Model(path)
    model.close()
    for call in (model.footprint, model.verify, lambda: model.file_sha256):
        with pytest.raises(ObjectClosedError):
            call()
    with pytest.raises(ObjectClosedError):
        model.generate(PROMPT)


@pytest.mark.parametrize(
    "options",
    [
        {"threads": "2"},
        {"threads": True},
        {"context_tokens": 64.0},
        {"memory_bytes": -1},
        {"memory_bytes": 1.5},
        {"backend": "reference", "threads": 2},
    ],
)
def test_options_of_another_type_are_refused(path: Path, options: dict[str, Any]) -> None:
    with pytest.raises(OptionRangeError):
        Model(path, **options)


def test_verification_needs_room_for_the_golden_runs(path: Path) -> None:
    with Model(path, context_tokens=4) as model, pytest.raises(ContextLengthError):
        model.verify()


def test_a_stream_that_was_closed_early_has_no_result(model: Model) -> None:
    with model.stream(PROMPT, max_tokens=5) as stream:
        next(stream)
    assert list(stream) == []
    with pytest.raises(StreamUnfinishedError):
        stream.result()
