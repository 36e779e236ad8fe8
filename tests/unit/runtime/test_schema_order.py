"""Calls on a sequence that follows a schema, in any order: what is a use, and what stays bound."""

import threading
from collections.abc import Callable

import pytest

from sslm.errors.base import SslmError
from sslm.errors.binding import (
    SchemaBindError,
    SchemaBudgetTokensError,
    SchemaDeadEndError,
    SchemaUnboundError,
)
from sslm.errors.runtime import (
    NothingChosenError,
    ObjectClosedError,
    OptionRangeError,
    PrefixFrozenError,
    SequenceBusyError,
    SequenceInUseError,
    SnapshotMismatchError,
)
from sslm.errors.saves import SaveModelError, SaveSchemaError
from sslm.program.choice import Choice
from sslm.runtime.saves.saving import restore, restore_into, save
from sslm.runtime.sequences.options import SequenceOptions
from sslm.runtime.sequences.prefix import Prefix
from sslm.runtime.sequences.sequence import Sequence
from sslm.schema.tokens.bound_schema import BoundSchema
from tests.bound_schemas import bound, fields, other_schema_of, schema_of, split, text_of
from tests.runtime_cases import Case, refused
from tests.sequences import LONGEST
from tests.tiny_models import MODEL_ID

PROMPT = [index * 5 % 37 for index in range(70)]
OPTIONS = SequenceOptions(context_tokens=LONGEST, reserved_tokens=0)
TEXT = split("abbag") + split("cd") + split("ghba") + split("ee")
"""Content of the first schema, up to where one letter alone completes it."""


def spoken(case: Case, sequence: Sequence, count: int = 6) -> tuple[object, ...]:
    """Let a fresh sequence take a prompt in and answer."""
    sequence.push(PROMPT)
    case.run(sequence)
    ids: list[int] = []
    while len(ids) < count and not sequence.is_answer_complete:
        ids += sequence.decode_span(count - len(ids))
        case.run(sequence)
    return ids, sequence.digest, sequence.stats().forced_tokens


def lone(case: Case, schema: BoundSchema | None, answer_tokens: int | None = None) -> object:
    with case.sequence() as sequence:
        sequence.bind(schema, answer_tokens=answer_tokens)
        return spoken(case, sequence)


def empty_save(case: Case, schema: BoundSchema | None, *, model_id: bytes = MODEL_ID) -> bytes:
    with case.sequence(model_id=model_id) as source:
        source.bind(schema)
        return save(source)


# What is no use.

LOOKS: dict[str, Callable[[Sequence], object]] = {
    "save": save,
    "snapshot": lambda one: one.snapshot().release(),
    "stats": lambda one: one.stats(),
    "choose": lambda one: one.choose(Choice(top_k=3), 5),
    "rescore": lambda one: one.rescore(),
    "bind": lambda one: one.bind(None),
    "reset": lambda one: one.reset(),
}


@pytest.mark.parametrize("look", LOOKS)
@pytest.mark.published_call(
    "sslm_seq_set_schema", case="after calls that compute nothing", here="Sequence.bind"
)
def test_looking_is_no_use(case: Case, look: str) -> None:
    other = other_schema_of(case)
    with case.sequence() as sequence:
        sequence.bind(schema_of(case))
        LOOKS[look](sequence)
        sequence.bind(other)
        sequence.choose(None)
        assert spoken(case, sequence) == lone(case, other)


REFUSALS: dict[str, tuple[type[SslmError], Callable[[Case, Sequence], object]]] = {
    "decode": (NothingChosenError, lambda case, one: one.decode()),
    "span": (OptionRangeError, lambda case, one: one.decode_span(0)),
    "choose": (OptionRangeError, lambda case, one: one.choose(None, LONGEST + 1)),
    "bind with too few tokens": (
        SchemaBudgetTokensError,
        lambda case, one: one.bind(schema_of(case), answer_tokens=1),
    ),
    "bind for another vocabulary": (
        OptionRangeError,
        lambda case, one: one.bind(bound(fields(), case.program.vocab_size + 1)),
    ),
    "adopt of another pool's": (
        SnapshotMismatchError,
        lambda case, one: one.adopt(case.filled(PROMPT).snapshot()),
    ),
    "adopt of another model's": (
        SnapshotMismatchError,
        lambda case, one: one.adopt(
            case.sequence(one.state.hold.pool, model_id=bytes(32)).snapshot()
        ),
    ),
    "restore of another model's": (
        SaveModelError,
        lambda case, one: restore_into(one, empty_save(case, None, model_id=bytes(32))),
    ),
    "restore of another schema's": (
        SaveSchemaError,
        lambda case, one: restore_into(one, empty_save(case, other_schema_of(case))),
    ),
}


@pytest.mark.parametrize("refusal", REFUSALS)
def test_what_is_refused_is_no_use(case: Case, refusal: str) -> None:
    kind, call = REFUSALS[refusal]
    schema, other = schema_of(case), other_schema_of(case)
    with case.sequence() as sequence:
        sequence.bind(schema)
        with refused(kind, sequence):
            call(case, sequence)
        assert sequence.schema is schema
        sequence.bind(other)
        assert spoken(case, sequence) == lone(case, other)


@pytest.mark.published_call(
    "sslm_seq_set_schema", case="while another call uses the sequence", here="SequenceInUseError"
)
def test_a_sequence_in_use_is_not_bound_and_can_be_afterwards(case: Case) -> None:
    schema, other = schema_of(case), other_schema_of(case)
    with case.sequence() as sequence:
        sequence.bind(schema)
        with sequence.begin_use():
            for call in (
                lambda: sequence.bind(other),
                lambda: sequence.prefill_content(TEXT),
                sequence.decode_span,
                sequence.stats,
            ):
                with pytest.raises(SequenceInUseError):
                    call()
            assert sequence.schema is schema
        sequence.bind(other)
        assert spoken(case, sequence) == lone(case, other)
    for call in (lambda: sequence.bind(other), lambda: sequence.prefill_content([0])):
        with pytest.raises(ObjectClosedError):
            call()


# What is one, and how it ends.


@pytest.mark.parametrize("units", [1, 2, 3, 4, 5])
def test_a_chunk_in_progress_is_a_use_and_content_goes_behind_it(case: Case, units: int) -> None:
    schema = schema_of(case)
    with case.sequence() as sequence, case.sequence() as right:
        for one in (sequence, right):
            one.bind(schema)
            one.push(PROMPT)
        for _ in range(units):
            if sequence.has_work:
                case.step(sequence, 1)
        with refused(SchemaBindError, sequence):
            sequence.bind(None)
        if sequence.has_work:
            with refused(SequenceBusyError, sequence):
                sequence.decode_span()
        for one in (sequence, right):
            one.prefill_content(TEXT)
            case.run(one)
        assert (sequence.selected, sequence.digest) == (right.selected, right.digest)
        assert sequence.decode() == split("h")[0]


@pytest.mark.published_call(
    "sslm_seq_restore", case="before it is bound, a reset", here="SchemaBindError"
)
def test_who_was_restored_is_reset_before_it_is_bound(case: Case) -> None:
    schema, other = schema_of(case), other_schema_of(case)
    for followed in (schema, None):
        blob = empty_save(case, followed)
        one = restore(blob, case.program, case.pool(), MODEL_ID, OPTIONS, schema=schema)
        two = case.sequence()
        restore_into(two, blob, schema=schema)
        for sequence in (one, two):
            assert sequence.schema is followed
            for wanted in (other, schema, None):
                with refused(SchemaBindError, sequence):
                    sequence.bind(wanted)
            sequence.reset()
            assert sequence.schema is followed
            sequence.bind(other)
            assert spoken(case, sequence) == lone(case, other)
            sequence.close()


def test_a_save_without_schema_unbinds_and_one_with_it_binds(case: Case) -> None:
    schema, other = schema_of(case), other_schema_of(case)
    with case.sequence() as source:
        source.push(PROMPT)
        blob = save(source)
    with case.sequence() as sequence:
        sequence.bind(schema)
        restore_into(sequence, blob)
        assert sequence.schema is None
        with refused(SchemaUnboundError, sequence):
            sequence.prefill_content([])
        case.require_as_alone(sequence, PROMPT)
    with case.sequence() as sequence:
        # The one that is bound is at hand without being named.
        sequence.bind(schema)
        restore_into(sequence, empty_save(case, schema))
        assert sequence.schema is schema
        assert spoken(case, sequence) == lone(case, schema)
    with case.sequence() as sequence:
        sequence.bind(other)
        with refused(SaveSchemaError, sequence):
            restore_into(sequence, empty_save(case, schema))


def test_who_went_back_to_a_checkpoint_is_bound_after_a_reset(case: Case) -> None:
    schema, other = schema_of(case), other_schema_of(case)
    with case.sequence() as sequence:
        sequence.bind(schema, answer_tokens=20)
        sequence.push(PROMPT)
        case.run(sequence)
        sequence.prefill_content(TEXT[:3])
        case.run(sequence)
        forced = sequence.stats().forced_tokens
        checkpoint = sequence.snapshot()
        firsts = []
        for _ in range(3):
            sequence.decode_span()
            case.run(sequence)
            sequence.decode()
            case.run(sequence)
            firsts.append((sequence.token_ids, sequence.digest, sequence.stats().forced_tokens))
            sequence.reset()
            sequence.adopt(checkpoint)
            assert sequence.stats().forced_tokens == forced
            with refused(SchemaBindError, sequence):
                sequence.bind(other)
        assert firsts == [firsts[0]] * 3
        checkpoint.release()
        sequence.reset()
        # What the answer may have is kept with the schema.
        assert spoken(case, sequence) == lone(case, schema, 20)
        sequence.reset()
        sequence.bind(other)
        assert spoken(case, sequence) == lone(case, other)


# Dead ends.


def at_dead_end(case: Case, sequence: Sequence, schema: BoundSchema) -> None:
    sequence.bind(schema)
    sequence.push(PROMPT)
    sequence.prefill_content([*TEXT, *split("h")])
    case.run(sequence)


def test_a_dead_end_is_gone_back_from_saved_and_left(case: Case) -> None:
    schema, pool = schema_of(case, end_ids=()), case.pool()
    with case.sequence(pool) as sequence:
        sequence.bind(schema)
        sequence.push(PROMPT)
        sequence.prefill_content(TEXT)
        case.run(sequence)
        checkpoint = sequence.snapshot()
        assert sequence.decode_span() == split("h")
        case.run(sequence)
        ends = [sequence.digest, sequence.token_ids, sequence.stats().forced_tokens]
        with refused(SchemaDeadEndError, sequence):
            sequence.decode_span()
        blobs = [save(sequence, kv=kv) for kv in (True, False)]
        frozen = sequence.snapshot()
        copies = [
            restore(blob, case.program, case.pool(), MODEL_ID, OPTIONS, schema=schema)
            for blob in blobs
        ]
        copies.append(case.sequence(pool))
        copies[-1].bind(schema)
        copies[-1].adopt(frozen)
        for copy in copies:
            case.run(copy)
            for _ in range(2):
                with refused(SchemaDeadEndError, copy):
                    copy.decode()
            assert [copy.digest, copy.token_ids, copy.stats().forced_tokens] == ends
            copy.close()
        # Back from the dead end, the same is chosen again.
        sequence.reset()
        sequence.adopt(checkpoint)
        assert sequence.decode() == split("h")[0]
        sequence.reset()
        sequence.bind(None)
        sequence.push(PROMPT)
        case.require_as_alone(sequence, PROMPT)
        for snapshot in (checkpoint, frozen):
            snapshot.release()
    assert pool.held_page_count == 0


def test_a_reset_leads_out_of_a_dead_end(case: Case) -> None:
    schema = schema_of(case, end_ids=())
    with case.sequence() as sequence:
        at_dead_end(case, sequence, schema)
        with refused(SchemaDeadEndError, sequence):
            sequence.decode()
        with refused(SchemaBindError, sequence):
            sequence.bind(None)
        sequence.reset()
        assert spoken(case, sequence) == lone(case, schema)


@pytest.mark.published_call(
    "sslm_decode_step",
    refusal="out_tokens -2",
    case="beside others that go on",
    here="SchemaDeadEndError",
)
def test_a_dead_end_is_one_sequences_and_not_the_batchs(case: Case) -> None:
    schema, pool = schema_of(case, end_ids=()), case.pool()
    with case.sequence(pool) as dead, case.sequence(pool) as free, case.sequence(pool) as other:
        dead.bind(schema)
        other.bind(schema)
        dead.push(PROMPT)
        dead.prefill_content([*TEXT, *split("h")])
        free.push(PROMPT)
        other.push(PROMPT)
        case.run_together([dead, free, other])
        for _ in range(2):
            with refused(SchemaDeadEndError, dead, free, other):
                dead.decode()
        case.require_as_alone(free, PROMPT)
        assert other.decode() == TEXT[0]


# Prefixes.


def test_a_prefix_is_bound_before_it_is_used_and_not_once_it_is_frozen(case: Case) -> None:
    schema, pool = schema_of(case), case.pool()
    with Prefix(case.sequence(pool)) as prefix:
        prefix.bind(other_schema_of(case))
        prefix.bind(schema)
        prefix.freeze()
        for call in (lambda: prefix.bind(None), lambda: prefix.prefill_content(TEXT)):
            with pytest.raises(PrefixFrozenError):
                call()
        with case.sequence(pool) as sequence:
            # Of no tokens, but of this schema: it is a use, and has to be the same one.
            with refused(SnapshotMismatchError, sequence):
                prefix.adopt_into(sequence)
            sequence.bind(schema)
            prefix.adopt_into(sequence)
            with refused(SchemaBindError, sequence):
                sequence.bind(None)
            assert spoken(case, sequence) == lone(case, schema)
    with pytest.raises(ObjectClosedError):
        prefix.bind(None)


@pytest.mark.parametrize("answer_tokens", [None, 14, 16])
def test_prefixes_lie_on_each_other_and_leave_each_answer_its_own_tokens(
    case: Case, answer_tokens: int | None
) -> None:
    schema, pool = schema_of(case), case.pool()
    content = [*split("abbag"), *split("c"), *split("d")]
    with case.sequence(pool) as right:
        right.bind(schema, answer_tokens=answer_tokens)
        right.push(PROMPT)
        right.prefill_content(content)
        case.run(right)
        expected = rest(case, right)
    with Prefix(case.sequence(pool)) as below, Prefix(case.sequence(pool)) as above:
        below.bind(schema)
        below.prefill(PROMPT)
        below.prefill_content(content[:2])
        case.run(below.sequence)
        below.freeze()
        above.bind(schema, answer_tokens=17)
        below.adopt_into(above.sequence)
        above.prefill_content(content[2:])
        case.run(above.sequence)
        above.freeze()
        for _ in range(2):
            with case.sequence(pool) as sequence:
                sequence.bind(schema, answer_tokens=answer_tokens)
                above.adopt_into(sequence)
                assert sequence.stats().forced_tokens == len(content)
                assert rest(case, sequence) == expected
    assert pool.held_page_count == 0


def rest(case: Case, sequence: Sequence) -> tuple[object, ...]:
    """Let an answer come to its end."""
    case.run(sequence)
    while not sequence.is_answer_complete:
        sequence.decode_span()
        case.run(sequence)
    stats = sequence.stats()
    return text_of(sequence.token_ids), sequence.digest, stats.forced_tokens, stats.is_accepting


# Many threads.


def test_threads_share_a_schema(case: Case) -> None:
    schema = schema_of(case)
    expected = lone(case, schema, 16)
    found: list[object] = []

    def answer() -> None:
        for _ in range(3):
            with case.sequence() as sequence:
                sequence.bind(schema, answer_tokens=16)
                # Runs of one plan take turns; what is looked at in between is the schema's.
                sequence.push(PROMPT)
                sequence.prefill_content(TEXT)
                sequence.reset()
                with turns:
                    found.append(spoken(case, sequence))

    turns = threading.Lock()
    threads = [threading.Thread(target=answer) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == [expected] * 12
