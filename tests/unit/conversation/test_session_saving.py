"""Conversations as bytes: restored to the same bits, small, and trusted in nothing."""

import datetime
import hashlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from sslm.engine.model import Model
from sslm.errors.base import ArtifactError, SslmError
from sslm.errors.runtime import ContextLengthError, OptionRangeError
from sslm.errors.saves import (
    NotASavedSessionError,
    NotASaveError,
    SavedSessionValueError,
    SaveFeatureError,
    SaveIntegrityError,
    SaveModelError,
    SaveSizeError,
    SaveVersionError,
)
from sslm.errors.status import Status
from sslm.formats.saves.session import (
    SavedMessage,
    SavedSession,
    encode_session,
    read_saved_session,
)
from sslm.text.message import Message
from tests.causes import Kind, kind_of, raises
from tests.converted import talking_artifact
from tests.tiny_models import MODEL_ID
from tests.unit.engine.test_interrupts import held_bytes

DAY = datetime.date(2024, 2, 29)


@pytest.fixture(scope="module")
def model() -> Iterator[Model]:
    with Model(talking_artifact(ends_with_a_line=True)) as opened:
        yield opened
        assert held_bytes(opened) == opened._runner._lease.size_bytes


@pytest.fixture(scope="module")
def blobs(model: Model) -> dict[bool, bytes]:
    with model.session(system="Be brief.", date=DAY) as session:
        for text in ("Hello there", "Why?"):
            session.say(text, max_tokens=9)
        return {kv: session.save(kv=kv) for kv in (False, True)}


def sealed(blob: bytes | bytearray) -> bytes:
    """State size and hash of the content anew, as somebody with intent would."""
    changed = bytearray(blob)
    changed[16:24] = len(changed).to_bytes(8, "little")
    changed[32:64] = bytes(32)
    changed[32:64] = hashlib.sha256(changed).digest()
    return bytes(changed)


@pytest.mark.parametrize("kv", [False, True])
def test_a_restored_conversation_goes_on_to_the_same_bits(
    model: Model, blobs: dict[bool, bytes], kv: bool
) -> None:
    with model.restore_session(blobs[kv]) as session:
        messages = [*session.messages, Message("user", "Go on")]
        assert [one.role for one in messages] == ["system", *(["user", "assistant"] * 2), "user"]
        runs = session._tokens.committed.checkpoints.saved
        assert len(runs) == 1
        answer = session.say("Go on", max_tokens=9)
        assert answer == model.chat(messages, max_tokens=9, date=DAY)
        assert answer.usage.cached_tokens == len(runs[0].token_ids)
        assert session.save(kv=False) != blobs[False]
    with model.restore_session(bytearray(blobs[kv])) as session:
        assert session.save(kv=kv) == blobs[kv]
        assert session.save(kv=False) == blobs[False]


def test_texts_and_ids_are_small(blobs: dict[bool, bytes]) -> None:
    assert len(blobs[False]) < 1024 < len(blobs[True])


def test_a_conversation_without_states(model: Model) -> None:
    with model.session() as session:
        empty = session.save()
    with model.session(checkpoint_bytes=0) as session:
        session.say("Hello", max_tokens=3)
        messages, texts = session.messages, session.save(kv=True)
    for blob, expected in ((empty, []), (texts, messages)):
        assert len(read_saved_session(blob).states) == 0
        with model.restore_session(blob) as session:
            assert session.messages == expected
            asked = [*expected, Message("user", "x")]
            assert session.say("x", max_tokens=3) == model.chat(asked, max_tokens=3)


def test_a_budget_holds_for_what_is_restored(model: Model, blobs: dict[bool, bytes]) -> None:
    assert 500 < len(blobs[False]) < 3000
    with model.restore_session(blobs[True], checkpoint_count=0) as session:
        assert session.checkpoint_bytes == 0
    with pytest.raises(OptionRangeError):
        model.restore_session(blobs[True], checkpoint_count=65)
    with model.restore_session(blobs[True], checkpoint_bytes=100) as session:
        assert session.checkpoint_bytes == 0
        assert session._memory.pool.held_page_count == 0
    before = held_bytes(model)
    with pytest.raises(ContextLengthError):
        model.restore_session(blobs[True], context_tokens=8)
    assert held_bytes(model) == before


def test_it_lasts_in_another_process(tmp_path: Path, blobs: dict[bool, bytes]) -> None:
    file = tmp_path / "chat"
    file.write_bytes(blobs[True])
    with Model(talking_artifact(ends_with_a_line=True), backend="reference") as other:
        with other.restore_session(file.read_bytes()) as session:
            answer = session.say("Go on", max_tokens=2)
            messages = session.messages[:-1]
        assert answer == other.chat(messages, max_tokens=2, date=DAY)


def test_nothing_of_another_model_is_taken(blobs: dict[bool, bytes]) -> None:
    with Model(talking_artifact()) as other, pytest.raises(SaveModelError):
        other.restore_session(blobs[True])


@pytest.mark.parametrize("odd", [5, None, "text", [1]])
def test_only_bytes_are_restored(model: Model, odd: Any) -> None:
    with pytest.raises(OptionRangeError):
        model.restore_session(odd)


@pytest.mark.parametrize("kv", [False, True])
def test_a_save_that_was_cut_is_to_be_saved_again(
    model: Model, blobs: dict[bool, bytes], kv: bool
) -> None:
    for size in range(8, 64):
        with raises(Status.TRUNCATED_FILE, SaveSizeError) as caught:
            model.restore_session(blobs[kv][:size])
        if caught.value.status is Status.TRUNCATED_FILE:
            assert str(caught.value).endswith("get the file again, or save it again")


def test_each_defect_has_its_error(model: Model, blobs: dict[bool, bytes]) -> None:
    blob = blobs[False]
    one_more = bytearray(blob)
    one_more[70] ^= 1
    cases: dict[bytes, Kind] = {
        b"": NotASavedSessionError,
        b"SSLMSAVE" + blob[8:]: NotASavedSessionError,
        blob[:20]: Status.TRUNCATED_FILE,
        sealed(blob[:8] + b"\x02" + blob[9:]): SaveVersionError,
        sealed(blob[:12] + b"\x01" + blob[13:]): SaveFeatureError,
        blob[:-1]: SaveSizeError,
        blob + b"\0": SaveSizeError,
        bytes(one_more): SaveIntegrityError,
        sealed(blob[:24] + b"\xff" * 8 + blob[32:]): Status.FIELD_TOO_LARGE,
        sealed(blob[:24] + b"\xff\xff\0\0\0\0\0\0" + blob[32:]): Status.TRUNCATED_FILE,
        sealed(blob.replace(b'"role":"user"', b'"role":"uses"')): SavedSessionValueError,
        sealed(blob.replace(b"2024-02-29", b"2023-02-29")): SavedSessionValueError,
        sealed(blob.replace(b'"2024-02-29"', b'"2024W091\\n"')): SavedSessionValueError,
        sealed(blob.replace(b'"date"', b'"dats"')): Status.JSON_MISSING_KEY,
        sealed(blob.replace(b"SSLMSAVE", b"SSLMSAVF")): NotASaveError,
        # States that do not reach to the end of the file.
        sealed(blob + bytes(64)): SaveSizeError,
    }
    assert len(cases) == 16
    before = held_bytes(model)
    for case, expected in cases.items():
        with pytest.raises(ArtifactError) as refused:
            model.restore_session(case)
        assert kind_of(refused.value) is expected
        assert held_bytes(model) == before


@pytest.mark.parametrize("is_sealed", [False, True])
def test_a_changed_byte_is_refused_or_is_another_conversation(
    model: Model, blobs: dict[bool, bytes], is_sealed: bool
) -> None:
    blob = blobs[False]
    before = held_bytes(model)
    read = 0
    for offset in range(0, len(blob), 1 if is_sealed else 7):
        changed = bytearray(blob)
        changed[offset] ^= 1 << offset % 8
        try:
            with model.restore_session(sealed(changed) if is_sealed else changed) as session:
                read += 1
                again = session.save(kv=False)
        except SslmError:
            pass
        else:
            # What nothing depends on is spelled in one way only; a text may have become another.
            assert again[:16] == blob[:16]
        assert held_bytes(model) == before
    assert bool(read) == is_sealed


def test_there_is_one_spelling() -> None:
    saved = SavedSession(
        messages=(SavedMessage("user", "a\n\0é\U0001f600"), SavedMessage("assistant", "")),
        date=None,
        states=b"states",
    )
    blob = encode_session(saved)
    found = read_saved_session(blob)
    assert (found.messages, found.date, bytes(found.states)) == (saved.messages, None, b"states")
    assert encode_session(found) == blob
    padding = blob.index(b"states") - 1
    assert blob[padding] == 0
    with pytest.raises(ArtifactError):
        read_saved_session(sealed(blob[:padding] + b"\1" + blob[padding + 1 :]))
    many = SavedSession(messages=(SavedMessage("user", ""),) * 16385, date=None, states=b"")
    with raises(Status.JSON_RANGE):
        read_saved_session(encode_session(many))
    assert MODEL_ID not in blob
