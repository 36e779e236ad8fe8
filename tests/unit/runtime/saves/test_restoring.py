"""Calls that save a sequence and restore it."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from sslm import memory as own_memory
from sslm.errors.binding import SchemaBindError
from sslm.errors.runtime import (
    ContextLengthError,
    KvPoolExhaustedError,
    MemoryRefusedError,
    SequenceNotFreshError,
)
from sslm.errors.saves import (
    NotASaveError,
    SaveIntegrityError,
    SaveModelError,
    SavePartSizeError,
    SaveSchemaError,
    SaveSizeError,
    SaveStatesError,
)
from sslm.formats.saves.reader import read_save
from sslm.formats.saves.writer import encode_save
from sslm.runtime.saves.saving import restore, restore_into, save, save_size_bytes_max
from sslm.runtime.sequences.kv_pool import KvPool
from sslm.runtime.sequences.options import SequenceOptions
from sslm.runtime.sequences.sequence import Sequence
from tests.bound_schemas import bound, fields, letters_without_end
from tests.runtime_cases import Case, refused, seen
from tests.sequences import LONGEST
from tests.tiny_models import MODEL_ID

PROMPT = [index * 5 % 37 for index in range(70)]
OPTIONS = SequenceOptions(context_tokens=LONGEST, reserved_tokens=0)

Change = Callable[[bytes], bytes]


def restored(case: Case, blob: bytes, pool: KvPool | None = None, **options: Any) -> Sequence:
    merged = replace(OPTIONS, **options)
    return restore(blob, case.program, pool or case.pool(), MODEL_ID, merged)


@pytest.mark.published_call("sslm_seq_state_size", here="save_size_bytes_max(program, token_count)")
def test_no_save_is_larger_than_its_bound(case: Case) -> None:
    with case.sequence() as sequence:
        for ids in ([], [1], PROMPT, [2] * 129):
            sequence.push(ids)
            while sequence.pending_count:
                size = len(save(sequence))
                assert size <= save_size_bytes_max(case.program, sequence.state.token_count)
                case.step(sequence)


@pytest.mark.published_call("sslm_seq_save", here="save(sequence)")
@pytest.mark.published_call(
    "sslm_seq_restore", here="restore(blob, …), restore_into(sequence, blob)"
)
@pytest.mark.parametrize("units", [0, 1, 2, 3, 4, 5, 6, 7])
def test_a_sequence_goes_on_elsewhere(case: Case, units: int) -> None:
    """Pending, mid-chunk, between two chunks, within the head, with a token chosen."""
    with case.sequence() as sequence:
        sequence.push(PROMPT)
        for _ in range(units):
            if sequence.pending_count:
                case.step(sequence)
        before = seen(sequence)
        blob = save(sequence)
        assert seen(sequence) == before
        with restored(case, blob) as other, case.sequence() as fresh:
            restore_into(fresh, blob)
            for one in (other, fresh):
                assert (save(one), one.stats()) == (blob, sequence.stats())
                case.require_as_alone(one, PROMPT)
        case.require_as_alone(sequence, PROMPT)


@pytest.mark.published_call(
    "sslm_seq_restore", case="from a larger buffer", here="restore(blob, …), restore_into"
)
@pytest.mark.parametrize("byte", [0, 0xA5])
def test_what_follows_a_save_in_its_buffer_is_ignored(case: Case, byte: int) -> None:
    with case.filled(PROMPT) as source, case.sequence() as fresh:
        blob = save(source)
        buffer = bytearray([byte]) * save_size_bytes_max(case.program, LONGEST)
        buffer[: len(blob)] = blob
        restore_into(fresh, memoryview(buffer))
        with restored(case, bytes(buffer)) as other:
            for one in (fresh, other):
                assert save(one) == blob
                case.require_as_alone(one, PROMPT)


@pytest.mark.published_call("sslm_seq_save", case="mid-token", here="save(sequence)")
def test_half_a_token_goes_on_elsewhere(case: Case) -> None:
    with case.filled(PROMPT) as sequence:
        sequence.decode()
        while sequence.pending_count:
            case.step(sequence)
            with restored(case, save(sequence)) as other:
                case.require_as_alone(other, PROMPT)
        case.require_as_alone(sequence, PROMPT)


@pytest.mark.published_call(
    "sslm_seq_save", case="token ids alone", here="save(sequence, kv=False)"
)
def test_token_ids_alone(case: Case) -> None:
    with case.filled(PROMPT) as sequence:
        blob = save(sequence, kv=False)
        assert len(blob) < 1024
        with restored(case, blob) as other:
            assert (other.position, other.pending_count) == (0, 70)
            case.require_as_alone(other, PROMPT)


# What is refused.


def _cut(blob: bytes) -> bytes:
    return blob[:-1]


def _flipped(blob: bytes) -> bytes:
    return blob[:-1] + bytes([blob[-1] ^ 1])


def _foreign(blob: bytes) -> bytes:
    return b"SSB5" + blob[4:]


def _without_residual(blob: bytes) -> bytes:
    """Sealed again: the hash is right, and the sequence could not be resumed."""
    saved = read_save(blob)
    assert saved.memory is not None
    return encode_save(replace(saved, memory=replace(saved.memory, last_residual=b"")))


def _of_another_model(blob: bytes) -> bytes:
    return encode_save(replace(read_save(blob), model_id=bytes(32)))


def _of_other_states(blob: bytes) -> bytes:
    saved = read_save(blob)
    assert saved.memory is not None
    first = saved.memory.states[0]
    states = (replace(first, head_dim=first.head_dim + 1), *saved.memory.states[1:])
    return encode_save(replace(saved, memory=replace(saved.memory, states=states)))


def require_refused(case: Case, change: Change, kind: type[Any]) -> None:
    """Restore what was changed, into a new sequence and into a fresh one; then what was saved."""
    pool = case.pool()
    with case.filled(PROMPT, pool) as source, case.sequence(pool) as fresh:
        blob = save(source)
        bad = change(blob)
        with refused(kind, source, fresh):
            restored(case, bad, pool)
        with refused(kind, source, fresh):
            restore_into(fresh, bad)
        restore_into(fresh, blob)
        case.require_as_alone(fresh, PROMPT)
        case.require_as_alone(source, PROMPT)


@pytest.mark.published_call(
    "sslm_seq_restore",
    refusal="SSLM_INVALID_ARGUMENT",
    case="bytes that were cut or changed",
    here="ArtifactError: one class per defect, as `tests/unit/runtime/saves/test_checks.py` shows",
)
@pytest.mark.parametrize(
    ("change", "kind"),
    [(_cut, SaveSizeError), (_flipped, SaveIntegrityError), (_foreign, NotASaveError)],
)
def test_bytes_that_are_no_save(case: Case, change: Change, kind: type[Any]) -> None:
    require_refused(case, change, kind)


@pytest.mark.published_call(
    "sslm_seq_restore",
    refusal="SSLM_INVALID_ARGUMENT",
    case="into a sequence that has tokens, also mid-chunk",
    here="SequenceNotFreshError",
)
@pytest.mark.parametrize("slices", [0, 1, 9])
def test_only_a_fresh_sequence_is_restored(case: Case, slices: int) -> None:
    pool = case.pool()
    with case.filled(PROMPT, pool) as source, case.sequence(pool) as sequence:
        sequence.push([1, 2])
        for _ in range(slices):
            if sequence.pending_count:
                case.step(sequence)
        with refused(SequenceNotFreshError, source, sequence):
            restore_into(sequence, save(source))
        case.require_as_alone(sequence, [1, 2])


@pytest.mark.published_call(
    "sslm_seq_restore", refusal="SSLM_RESTORE_MODEL_MISMATCH", here="SaveModelError"
)
def test_a_save_of_another_model(case: Case) -> None:
    require_refused(case, _of_another_model, SaveModelError)


@pytest.mark.published_call(
    "sslm_seq_restore", refusal="SSLM_RESTORE_KV_MISMATCH", here="SaveStatesError"
)
def test_a_save_of_other_states(case: Case) -> None:
    require_refused(case, _of_other_states, SaveStatesError)


@pytest.mark.published_call(
    "sslm_seq_restore",
    refusal="SSLM_RESTORE_RESIDUAL_LOST",
    here="none: every save has its residual, and one that lacks it is damaged (SavePartSizeError)",
)
def test_a_save_without_the_last_residual(case: Case) -> None:
    require_refused(case, _without_residual, SavePartSizeError)


@pytest.mark.published_call(
    "sslm_seq_restore", refusal="SSLM_CONTEXT_CAP_EXCEEDED", here="ContextLengthError"
)
def test_a_save_that_is_longer_than_the_context(case: Case) -> None:
    pool = case.pool()
    with case.filled(PROMPT, pool) as source, case.sequence(pool, context_tokens=69) as short:
        blob = save(source)
        with refused(ContextLengthError, source, short):
            restore_into(short, blob)
        with refused(ContextLengthError, source):
            restored(case, blob, pool, context_tokens=69)
        with restored(case, blob, pool, context_tokens=72) as other:
            case.require_as_alone(other, PROMPT)


@pytest.mark.published_call(
    "sslm_seq_restore", refusal="SSLM_KV_POOL_EXHAUSTED", here="KvPoolExhaustedError"
)
def test_a_save_for_which_there_are_no_pages(case: Case) -> None:
    pool = case.pool(3)
    with case.filled(PROMPT, pool) as source, case.sequence(pool) as fresh:
        blob = save(source)
        with refused(KvPoolExhaustedError, source, fresh):
            restore_into(fresh, blob)
        with refused(KvPoolExhaustedError, source, fresh):
            restored(case, blob, pool)
        source.close()
        restore_into(fresh, blob)
        case.require_as_alone(fresh, PROMPT)


@pytest.mark.published_call(
    "sslm_seq_restore", refusal="SSLM_ALLOCATION_FAILED", here="MemoryRefusedError"
)
def test_a_save_for_which_there_is_no_memory(case: Case, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(size: int) -> Any:
        raise MemoryError(size)

    pool = case.pool()
    with case.filled(PROMPT, pool) as source:
        blob = save(source)
        with monkeypatch.context() as patch, refused(MemoryRefusedError, source):
            patch.setattr(own_memory, "bytearray", refuse, raising=False)
            restored(case, blob, pool)
        with restored(case, blob, pool) as other:
            case.require_as_alone(other, PROMPT)


# With a schema.


@pytest.mark.published_call(
    "sslm_seq_restore", refusal="SSLM_RESTORE_SCHEMA_MISMATCH", here="SaveSchemaError"
)
def test_a_save_that_follows_another_schema(case: Case) -> None:
    schema = bound(fields(), case.program.vocab_size)
    with case.sequence() as source:
        source.bind(schema)
        source.push(PROMPT)
        case.run(source)
        blob = save(source)
    others = (None, bound(letters_without_end(), case.program.vocab_size))
    for other in (*others, bound(fields(), case.program.vocab_size, end_ids=())):
        with case.sequence() as sequence:
            with refused(SaveSchemaError, sequence) as caught:
                restore_into(sequence, blob, schema=other)
            assert caught.value.facts()["found"] == schema.digest.hex()
            restore_into(sequence, blob, schema=schema)
            assert save(sequence) == blob


@pytest.mark.published_call(
    "sslm_seq_restore", case="in the middle of an answer", here="restore_into"
)
@pytest.mark.parametrize("kv", [True, False])
def test_a_save_goes_on_in_its_schema(case: Case, kv: bool) -> None:
    schema, other = (
        bound(language(), case.program.vocab_size) for language in (fields, letters_without_end)
    )

    def rest(sequence: Sequence) -> tuple[object, ...]:
        case.run(sequence)
        ids = []
        while not sequence.is_answer_complete:
            ids += sequence.decode_span()
            case.run(sequence)
        return ids, sequence.digest, sequence.stats().forced_tokens, sequence.token_ids

    with case.sequence() as source:
        source.bind(schema, answer_tokens=schema.shortest + 2)
        source.push(PROMPT)
        case.run(source)
        for _ in range(3):
            source.decode()
            case.step(source)
            blob = save(source, kv=kv)
            snapshot = source.snapshot()
            with case.sequence(source.state.hold.pool) as right:
                right.bind(schema, answer_tokens=schema.shortest + 2)
                right.adopt(snapshot)
                expected = rest(right)
            snapshot.release()
            with case.sequence() as sequence:
                sequence.bind(other)
                restore_into(sequence, blob, schema=schema)
                assert save(sequence, kv=kv) == blob
                with refused(SchemaBindError, sequence):
                    sequence.bind(other)
                assert rest(sequence) == expected
                # A reset keeps what the save follows.
                sequence.reset()
                assert sequence.schema is schema
                sequence.bind(other)
            case.run(source)
