"""Calls on schemas: bound to sequences and prefixes, content taken in, dead ends."""

from collections.abc import Callable
from typing import NamedTuple

import pytest

from sslm.errors.base import SslmError
from sslm.errors.binding import (
    SchemaBindError,
    SchemaBudgetTokensError,
    SchemaDeadEndError,
    SchemaSpanUnreachableError,
    SchemaUnboundError,
)
from sslm.errors.runtime import (
    ContextLengthError,
    SequenceBusyError,
    SnapshotMismatchError,
    TokenIdRangeError,
    TokenIdTypeError,
)
from sslm.runtime.sequences.prefix import Prefix
from sslm.runtime.sequences.sequence import Sequence
from sslm.schema.tokens.bound_schema import BoundSchema
from tests.bound_schemas import END_ID, other_schema_of, schema_of, split, text_of
from tests.runtime_cases import Case, refused, seen

PROMPT = [index * 5 % 37 for index in range(70)]
LONG = [index * 3 % 37 for index in range(140)]


class Answered(NamedTuple):
    """All that must be equal of two answers."""

    ids: list[int]
    digest: bytes | None
    selected: int | None
    forced_tokens: int
    is_accepting: bool


def answered(case: Case, sequence: Sequence, count: int = 9) -> Answered:
    """Let a sequence choose some tokens, and return all that must be equal."""
    case.run(sequence)
    ids: list[int] = []
    while len(ids) < count and not sequence.is_answer_complete:
        ids += sequence.decode_span(count - len(ids))
        case.run(sequence)
    stats = sequence.stats()
    return Answered(
        ids, sequence.digest, sequence.selected, stats.forced_tokens, stats.is_accepting
    )


def lone(case: Case, schema: BoundSchema | None, prompt: list[int]) -> Answered:
    with case.sequence() as sequence:
        sequence.bind(schema)
        sequence.push(prompt)
        return answered(case, sequence)


# Binding.


@pytest.mark.published_call("sslm_seq_set_schema", here="Sequence.bind")
@pytest.mark.published_call("sslm_seq_schema_bound", here="Sequence.schema")
def test_a_schema_is_bound_bound_otherwise_and_taken_away(case: Case) -> None:
    schema, other = schema_of(case), other_schema_of(case)
    with case.sequence() as sequence:
        assert sequence.schema is None
        for wanted in (schema, other, schema, None, other):
            sequence.bind(wanted)
            assert sequence.schema is wanted
        sequence.push(PROMPT)
        assert answered(case, sequence) == lone(case, other, PROMPT)


USES: dict[str, Callable[[Case, Sequence], object]] = {
    "push": lambda case, sequence: sequence.push(PROMPT),
    "push nothing": lambda case, sequence: sequence.push([]),
    "prefill": lambda case, sequence: sequence.prefill(PROMPT),
    "prefill nothing": lambda case, sequence: sequence.prefill([]),
    "content": lambda case, sequence: sequence.prefill_content(split("abba")),
    "no content": lambda case, sequence: sequence.prefill_content([]),
    "adopt nothing": lambda case, sequence: sequence.adopt(
        case.sequence(sequence.state.hold.pool).snapshot()
    ),
}


@pytest.mark.parametrize("use", USES)
@pytest.mark.published_call(
    "sslm_seq_set_schema", refusal="SSLM_SCHEMA_BIND_REJECTED", here="SchemaBindError"
)
def test_a_sequence_that_was_used_is_reset_before_it_is_bound(case: Case, use: str) -> None:
    schema, other = schema_of(case), other_schema_of(case)
    with case.sequence() as sequence:
        sequence.bind(schema)
        USES[use](case, sequence)
        for wanted in (other, schema, None):
            with refused(SchemaBindError, sequence) as caught:
                sequence.bind(wanted)
            assert caught.value.facts() == {"token_count": sequence.pending_count}
        assert sequence.schema is schema
        sequence.reset()
        sequence.bind(other)
        sequence.push(PROMPT)
        assert answered(case, sequence) == lone(case, other, PROMPT)


REFUSALS: dict[str, tuple[type[SslmError], Callable[[Case, Sequence], object]]] = {
    "an id": (TokenIdRangeError, lambda case, one: one.push([1, case.largest_id + 1])),
    "no id": (TokenIdTypeError, lambda case, one: one.prefill(["1"])),
    "context": (ContextLengthError, lambda case, one: one.push([1] * 201)),
    "content": (SchemaSpanUnreachableError, lambda case, one: one.prefill_content([7])),
    "advance": (SequenceBusyError, lambda case, one: case.step(one)),
}


@pytest.mark.parametrize("refusal", REFUSALS)
@pytest.mark.published_call(
    "sslm_seq_set_schema",
    case="after a call that was refused",
    here="Sequence.bind",
)
def test_a_refused_call_is_no_use(case: Case, refusal: str) -> None:
    kind, call = REFUSALS[refusal]
    other = other_schema_of(case)
    with case.sequence() as sequence:
        sequence.bind(schema_of(case))
        with refused(kind, sequence):
            call(case, sequence)
        sequence.bind(other)
        sequence.push(PROMPT)
        assert answered(case, sequence) == lone(case, other, PROMPT)


@pytest.mark.published_call("sslm_seq_reset", case="the schema stays bound", here="Sequence.reset")
def test_a_reset_keeps_the_schema_from_anywhere(case: Case) -> None:
    schema = schema_of(case)
    expected = lone(case, schema, PROMPT)
    with case.sequence() as sequence:
        sequence.bind(schema)
        for stop in range(8):
            sequence.push(PROMPT)
            for _ in range(stop):
                if sequence.has_work:
                    case.step(sequence)
            sequence.reset()
            assert (sequence.schema, sequence.stats().forced_tokens) == (schema, 0)
            sequence.push(PROMPT)
            assert answered(case, sequence) == expected
            sequence.reset()


# Content.


@pytest.mark.published_call(
    "sslm_prefill", case="a schema's content", here="Sequence.prefill_content"
)
def test_content_leads_the_answer_on(case: Case) -> None:
    schema = schema_of(case)
    with case.sequence() as sequence, case.sequence() as chosen:
        for one in (sequence, chosen):
            one.bind(schema)
            one.push(PROMPT)
        case.run(chosen)
        ids = split("abbagcd")
        first = chosen.decode_span()
        assert first == ids[: len(first)]
        case.run(chosen)
        chosen.prefill_content(ids[len(first) :])
        sequence.prefill_content(ids)
        assert sequence.stats().forced_tokens == len(ids)
        left, right = answered(case, sequence), answered(case, chosen)
        assert (left.ids, left.digest, left.selected) == (right.ids, right.digest, right.selected)
        assert text_of(sequence.token_ids[len(PROMPT) :]).startswith(b"abbagcd")


@pytest.mark.published_call(
    "sslm_prefill", refusal="SSLM_SCHEMA_SPAN_UNBOUND", here="SchemaUnboundError"
)
@pytest.mark.published_call(
    "sslm_prefix_prefill", refusal="SSLM_SCHEMA_SPAN_UNBOUND", here="SchemaUnboundError"
)
def test_content_needs_a_schema(case: Case) -> None:
    with case.filled(PROMPT) as sequence:
        for ids in ([], [1], ["x"]):
            with refused(SchemaUnboundError, sequence):
                sequence.prefill_content(ids)
        case.require_as_alone(sequence, PROMPT)
    with Prefix(case.sequence()) as prefix, refused(SchemaUnboundError, prefix.sequence):
        prefix.prefill_content([1])


@pytest.mark.published_call(
    "sslm_prefill", refusal="SSLM_SCHEMA_SPAN_UNREACHABLE", here="SchemaSpanUnreachableError"
)
def test_content_that_is_not_taken_is_taken_in_up_to_there(case: Case) -> None:
    schema = schema_of(case)
    good, bad = split("abbagc"), [7, 2, 2]
    with case.sequence() as sequence, case.sequence() as right:
        for one in (sequence, right):
            one.bind(schema)
            one.push(PROMPT)
            case.run(one)
        with pytest.raises(SchemaSpanUnreachableError) as caught:
            sequence.prefill_content([*good, *bad])
        right.prefill_content(good)
        assert caught.value.consumed_tokens == len(good)
        assert (caught.value.token_id, caught.value.index) == (7, len(good))
        assert seen(sequence) == seen(right)
        assert answered(case, sequence) == answered(case, right)


@pytest.mark.parametrize("token_id", [END_ID, END_ID + 1])
def test_what_is_no_content_is_not_taken_in(case: Case, token_id: int) -> None:
    with case.sequence() as sequence:
        sequence.bind(other_schema_of(case))
        sequence.push(PROMPT)
        sequence.prefill_content([0])
        with refused(SchemaSpanUnreachableError, sequence):
            sequence.prefill_content([token_id])


def test_content_that_does_not_fit_is_not_taken_in(case: Case) -> None:
    schema = schema_of(case)
    with case.sequence() as sequence:
        sequence.bind(schema, answer_tokens=schema.shortest)
        sequence.push(PROMPT)
        with pytest.raises(SchemaSpanUnreachableError, match="within its tokens") as caught:
            # By letters, as many as that: one of the two pairs has to be one token.
            sequence.prefill_content([0, 1, 1, 0, 6, 2, 2, 2])
        assert sequence.pending_count == len(PROMPT) + caught.value.consumed_tokens
        assert len(answered(case, sequence).ids) == schema.shortest - caught.value.consumed_tokens


# Dead ends.


@pytest.mark.published_call("sslm_decode_step", refusal="out_tokens -2", here="SchemaDeadEndError")
def test_a_dead_end_changes_nothing_and_comes_again(case: Case) -> None:
    schema = schema_of(case, end_ids=())
    neighbour = case.sequence()
    neighbour.push(PROMPT)
    with case.sequence() as sequence:
        sequence.bind(schema)
        sequence.push(PROMPT)
        ids = answered(case, sequence, 30).ids
        for _ in range(3):
            with refused(SchemaDeadEndError, sequence):
                sequence.decode()
            with refused(SequenceBusyError, sequence):
                case.step(sequence)
        assert sequence.stats().is_accepting
        # Whatever the caller does next goes on from there.
        sequence.push([1])
        case.run(sequence)
        sequence.reset()
        sequence.push(PROMPT)
        assert answered(case, sequence, 30).ids == ids
    case.require_as_alone(neighbour, PROMPT)


@pytest.mark.published_call(
    "sslm_stats", case="schema_accepting", here="SequenceStats.is_accepting"
)
def test_accepting_is_told_exactly(case: Case) -> None:
    with case.sequence() as sequence:
        assert not sequence.stats().is_accepting
        sequence.bind(other_schema_of(case))
        assert not sequence.stats().is_accepting
        sequence.prefill_content([0])
        assert sequence.stats().is_accepting
        sequence.reset()
        sequence.bind(schema_of(case))
        texts = []
        for token_id in split("abbagccghbaeeh"):
            sequence.prefill_content([token_id])
            texts.append(sequence.stats().is_accepting)
        assert texts == [False] * (len(texts) - 1) + [True]
        assert sequence.is_answer_complete


# Prefixes.


@pytest.mark.published_call("sslm_prefix_set_schema", here="Prefix.bind")
def test_a_prefix_with_a_schema_is_adopted_where_it_stands(case: Case) -> None:
    schema, pool = schema_of(case), case.pool()
    content = split("abbagc")
    with case.sequence(pool) as right:
        right.bind(schema)
        right.push(LONG)
        right.prefill_content(content)
        expected = answered(case, right)
    with Prefix(case.sequence(pool)) as prefix:
        prefix.bind(schema)
        prefix.prefill(LONG)
        prefix.prefill_content(content)
        case.run(prefix.sequence)
        prefix.freeze()
        with case.sequence(pool) as sequence:
            sequence.bind(schema)
            prefix.adopt_into(sequence)
            assert answered(case, sequence) == expected


@pytest.mark.published_call(
    "sslm_prefix_set_schema", refusal="SSLM_SCHEMA_BIND_REJECTED", here="SchemaBindError"
)
def test_a_prefix_that_was_used_is_not_bound(case: Case) -> None:
    with Prefix(case.sequence()) as prefix:
        prefix.prefill([])
        with refused(SchemaBindError, prefix.sequence):
            prefix.bind(schema_of(case))


@pytest.mark.published_call(
    "sslm_seq_adopt_prefix",
    refusal="SSLM_PREFIX_SCHEMA_MISMATCH",
    here="SnapshotMismatchError: 116",
)
def test_a_prefix_with_another_schema_is_not_adopted(case: Case) -> None:
    schema, pool = schema_of(case), case.pool()
    with Prefix(case.sequence(pool)) as prefix:
        prefix.bind(schema)
        prefix.prefill(PROMPT)
        case.run(prefix.sequence)
        prefix.freeze()
        for other in (other_schema_of(case), schema_of(case, end_ids=()), None):
            with case.sequence(pool) as sequence:
                sequence.bind(other)
                with refused(SnapshotMismatchError, sequence) as caught:
                    prefix.adopt_into(sequence)
                assert caught.value.facts()["what"] == "the schema"
                assert caught.value.status == 116
                # It may still be bound, and is as good as new.
                sequence.bind(schema)
                prefix.adopt_into(sequence)
                assert answered(case, sequence) == lone(case, schema, PROMPT)


@pytest.mark.parametrize("units", [None, 1, 3])
def test_a_prefix_without_schema_is_what_comes_before_an_answer(
    case: Case, units: int | None
) -> None:
    schema, pool = schema_of(case), case.pool()
    with case.sequence(pool) as source:
        source.push(LONG)
        if units is None:
            case.run(source)
        else:
            case.step(source, units)
        snapshot = source.snapshot()
    with case.sequence(pool) as sequence:
        sequence.bind(schema)
        sequence.adopt(snapshot)
        assert answered(case, sequence) == lone(case, schema, LONG)
    snapshot.release()


def test_a_snapshot_is_adopted_within_another_number_of_tokens(case: Case) -> None:
    schema, pool = schema_of(case), case.pool()
    content = [0, 1, 1, 0, 6]
    with case.sequence(pool) as source:
        source.bind(schema)
        source.push(PROMPT)
        source.prefill_content(content)
        case.run(source)
        snapshot = source.snapshot()
    assert snapshot.schema is not None
    needed = len(content) + schema.distance(snapshot.schema.place.state)
    for answer_tokens in range(schema.shortest, needed + 3):
        with case.sequence(pool) as sequence:
            sequence.bind(schema, answer_tokens=answer_tokens)
            if answer_tokens < needed:
                with refused(SchemaBudgetTokensError, sequence) as caught:
                    sequence.adopt(snapshot)
                assert caught.value.facts() == {
                    "budget_tokens": answer_tokens,
                    "needed_tokens": needed,
                }
                continue
            sequence.adopt(snapshot)
            ids = answered(case, sequence, 30).ids
            assert len(content) + len(ids) <= answer_tokens
            assert sequence.is_answer_complete
    snapshot.release()


def test_a_snapshot_can_be_freed_of_its_schema(case: Case) -> None:
    schema, pool = schema_of(case), case.pool()
    with case.sequence(pool) as source:
        source.bind(schema)
        source.push(PROMPT)
        case.run(source)
        snapshot = source.snapshot().unbound()
    with case.sequence(pool) as sequence:
        sequence.adopt(snapshot)
        assert sequence.has_work
        case.require_as_alone(sequence, PROMPT)
    snapshot.release()
