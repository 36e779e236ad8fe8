"""Records are written by every call that can, whole or not at all, and change no answer."""

import asyncio
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import sslm.answering.recorder
import sslm.artifact.atomic_file
import sslm.artifact.saved_files
from sslm.answering.results import Completion
from sslm.engine.model import Model
from sslm.errors.artifact import DiskFullError, UnwritableFileError
from sslm.errors.base import SslmError
from sslm.errors.choosing import UnknownOptionError
from sslm.errors.commands import OutputIsFolderError, OutputNotFileError
from sslm.errors.runtime import DeadlineExceededError, OptionRangeError
from sslm.evidence.records import read_record
from sslm.formats.records.writer import HEADER_SIZE_BYTES, encode_record
from tests.converted import talking_artifact
from tests.file_sizes import file_size_limit
from tests.interrupting import interrupted_at_line, is_code_of

HELLO = [{"role": "user", "content": "Hello"}]
Call = Callable[..., Completion]


@pytest.fixture(scope="module")
def model() -> Iterator[Model]:
    with Model(talking_artifact(), context_tokens=128) as opened:
        yield opened


def faces(model: Model) -> dict[str, Call]:
    """Return every call that can record what it answers."""

    def by_session(method: str) -> Call:
        def ask(**options: Any) -> Completion:
            with model.session() as session:
                session.say("Bye", max_tokens=3)
                session.undo()
                found = getattr(session, method)("Hello", **options)
                if method == "asay":
                    return asyncio.run(found)  # type: ignore[no-any-return]
                return found if isinstance(found, Completion) else found.read()

        return ask

    return {
        "generate": lambda **options: model.generate("Hello", **options),
        "stream": lambda **options: model.stream("Hello", **options).read(),
        "chat": lambda **options: model.chat(HELLO, **options),
        "chat_stream": lambda **options: model.chat_stream(HELLO, **options).read(),
        "agenerate": lambda **options: asyncio.run(model.agenerate("Hello", **options)),
        "achat": lambda **options: asyncio.run(model.achat(HELLO, **options)),
        "say": by_session("say"),
        "session.stream": by_session("stream"),
        "asay": by_session("asay"),
    }


FACES = (
    *("generate", "stream", "chat", "chat_stream", "agenerate", "achat"),
    *("say", "session.stream", "asay"),
)


@pytest.mark.parametrize("face", FACES)
def test_a_record_says_what_the_answer_says(model: Model, tmp_path: Path, face: str) -> None:
    path = tmp_path / "run.sslmr"
    call = faces(model)[face]
    answer = call(max_tokens=6, record=path)
    assert answer == call(max_tokens=6)
    record = read_record(path)
    assert list(record.token_ids) == answer.token_ids
    assert (record.digest, record.model_id) == (answer.digest, model.model_id)
    assert (record.finish_reason, record.stop_reason) == ("length", None)
    assert (record.max_tokens, record.context_tokens) == (6, 128)
    assert len(record.prompt_token_ids) == answer.usage.prompt_tokens
    assert record.saved.is_continuation == (face in ("generate", "stream", "agenerate"))
    assert [entry.name for entry in tmp_path.iterdir()] == ["run.sslmr"]


@pytest.mark.parametrize("has_segments", [False, True])
def test_a_record_is_small(model: Model, tmp_path: Path, has_segments: bool) -> None:
    path = tmp_path / "run.sslmr"
    sizes = []
    for count in (5, 15):
        model.generate("Hello", max_tokens=count, record=path, record_segments=has_segments)
        sizes.append(path.stat().st_size)
    segments = 4 * (model.artifact.config.num_hidden_layers + 2)
    assert sizes[1] - sizes[0] == 10 * (36 + (segments if has_segments else 0))
    assert read_record(path).has_segments == has_segments


def test_digests_of_segments_change_no_token(model: Model, tmp_path: Path) -> None:
    plain, traced = tmp_path / "plain", tmp_path / "traced"
    answer = model.generate("Hello", max_tokens=6, record=plain)
    assert model.generate("Hello", max_tokens=6, record=traced, record_segments=True) == answer
    found = read_record(traced).saved
    assert encode_record(replace(found, segments=b"", segment_count=0)) == plain.read_bytes()
    # No two positions share a digest of any segment.
    digests = [digest for index in range(6) for digest in found.segment_digests(index)]
    assert len(set(digests)) == len(digests)


def test_what_is_only_told_is_no_part_of_a_record(model: Model, tmp_path: Path) -> None:
    """Log-probabilities score every row of the prompt, and change no digest of the last one."""
    plain, told = tmp_path / "plain", tmp_path / "told"
    options: dict[str, Any] = {"max_tokens": 4, "record_segments": True, "temperature": 1}
    prompt = [1, *range(3, 73)]
    model.generate(prompt, record=plain, **options)
    model.generate(prompt, record=told, logprobs=2, prompt_logprobs=3, **options)
    assert told.read_bytes() == plain.read_bytes()


def test_what_ended_the_answer_is_recorded(model: Model, tmp_path: Path) -> None:
    path = tmp_path / "run.sslmr"
    whole = model.generate("Hello", max_tokens=12)
    model.generate("Hello", record=path, stop_token_ids=[whole.token_ids[4]])
    record = read_record(path)
    assert (record.finish_reason, record.stop_reason) == ("stop", whole.token_ids[4])
    assert whole.token_ids[4] in record.stop_token_ids
    stop = whole.text[5:8]
    answer = model.generate("Hello", record=path, stop=["not in it", stop])
    record = read_record(path)
    assert (
        (record.finish_reason, record.stop_reason) == ("stop", stop) == (answer.finish_reason, stop)
    )
    answer = model.generate("Hello", record=path, max_tokens=1000)
    record = read_record(path)
    assert (len(record.token_ids), record.max_tokens) == (len(answer.token_ids), 1000)


def test_a_record_is_replaced_and_nothing_else_is(model: Model, tmp_path: Path) -> None:
    path = tmp_path / "run.sslmr"
    path.write_bytes(b"")
    model.generate("Hello", max_tokens=2, record=path)
    model.generate("Hello", max_tokens=3, record=str(path))
    assert len(read_record(path).token_ids) == 3
    other = tmp_path / "model.sslm"
    other.write_bytes(b"SSLM and more")
    with pytest.raises(OutputNotFileError):
        model.generate("Hello", max_tokens=2, record=other)
    assert other.read_bytes() == b"SSLM and more"
    with pytest.raises(OutputIsFolderError):
        model.generate("Hello", max_tokens=2, record=tmp_path)
    with pytest.raises(UnwritableFileError):
        model.stream("Hello", max_tokens=2, record=tmp_path / "absent" / "a")


def test_a_request_that_does_not_end_leaves_no_record(model: Model, tmp_path: Path) -> None:
    path = tmp_path / "run.sslmr"
    with model.stream("Hello", max_tokens=9, record=path) as stream:
        next(stream)
    with pytest.raises(DeadlineExceededError):
        model.generate("Hello", max_tokens=9, record=path, deadline_s=0)
    stream = model.stream("Hello", max_tokens=9, record=path)
    next(stream)
    stream.close()
    assert list(tmp_path.iterdir()) == []


def test_a_full_disk_leaves_the_former_record(model: Model, tmp_path: Path) -> None:
    path = tmp_path / "run.sslmr"
    answer = model.generate("Hello", max_tokens=2, record=path)
    former = path.read_bytes()
    for room in (0, HEADER_SIZE_BYTES, len(former) + 35):
        with file_size_limit(room), pytest.raises(DiskFullError):
            model.generate("Hello", max_tokens=3, record=path)
        assert path.read_bytes() == former
        assert [entry.name for entry in tmp_path.iterdir()] == ["run.sslmr"]
    assert model.generate("Hello", max_tokens=2, record=path) == answer


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_an_interrupt_at_any_line_leaves_a_whole_record_or_none(
    model: Model, tmp_path: Path
) -> None:
    path = tmp_path / "run.sslmr"
    modules = (sslm.answering.recorder, sslm.artifact.saved_files, sslm.artifact.atomic_file)
    outcomes = set()
    line = 0
    while True:
        line += 1
        is_interrupted = interrupted_at_line(
            line,
            lambda: model.generate("Hello", max_tokens=2, record=path),
            is_code_of(*modules),
        )
        names = [entry.name for entry in tmp_path.iterdir()]
        # An interrupt while the temporary is taken away leaves it to the next one that writes.
        assert {name for name in names if not name.startswith(".")} <= {"run.sslmr"}
        outcomes.add(path.exists())
        if path.exists():
            assert len(read_record(path).token_ids) == 2
            path.unlink()
        if not is_interrupted:
            break
    assert outcomes == {False, True}
    assert line > 50


@pytest.mark.parametrize(
    "options",
    [
        {"record": 7},
        {"record": b"a"},
        {"record_segments": True},
        {"record": "a", "record_segments": 1},
        {"record": "a", "record_segments": None},
    ],
    ids=str,
)
def test_odd_options_are_refused(model: Model, options: dict[str, Any]) -> None:
    with pytest.raises(OptionRangeError, match="record"):
        model.generate("Hello", max_tokens=1, **options)


def test_calls_that_cannot_record_say_so(model: Model, tmp_path: Path) -> None:
    path = tmp_path / "a"
    options: dict[str, Any] = {"record": path}
    with pytest.raises((UnknownOptionError, TypeError)):
        model.generate_many(["Hello"], max_tokens=1, **options)
    with pytest.raises(UnknownOptionError):
        model.sequence("Hello", max_tokens=1, **options)
    with model.session() as session, pytest.raises(OptionRangeError, match="in a session"):
        session.say("Hello", record=path, record_segments=True)
    assert list(tmp_path.iterdir()) == []


def test_no_record_grows_beyond_what_is_read(
    model: Model, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sslm.limits.RECORD_SIZE_BYTES_MAX", 300)
    with pytest.raises(OptionRangeError, match="record"):
        model.generate("Hello", max_tokens=100, record=tmp_path / "a")
    assert list(tmp_path.iterdir()) == []


def test_errors_of_a_session_leave_its_conversation(model: Model, tmp_path: Path) -> None:
    with model.session() as session:
        with pytest.raises(SslmError):
            session.say("Hello", max_tokens=2, record=tmp_path)
        assert session.messages == []
        assert session.say("Hello", max_tokens=2, record=tmp_path / "a").token_ids


def test_a_cancelled_stream_writes_nothing(model: Model, tmp_path: Path) -> None:
    async def leave() -> None:
        stream = model.astream("Hello", max_tokens=100, record=tmp_path / "a")
        async for _ in stream:
            break
        await stream.aclose()

    asyncio.run(leave())
    assert list(tmp_path.iterdir()) == []
