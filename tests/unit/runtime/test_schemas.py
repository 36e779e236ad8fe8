"""A sequence that follows a schema, however it is computed."""

from dataclasses import replace
from typing import Any

import pytest

from sslm.errors.binding import SchemaBudgetTokensError, SchemaDeadEndError
from sslm.errors.runtime import ContextLengthError, KvPoolExhaustedError, OptionRangeError
from sslm.program.choice import MICRO, Choice, Decoder
from sslm.runtime.sequences.sequence import Sequence
from sslm.runtime.slices.stepper import advance, finished
from sslm.schema.tokens.bound_schema import BoundSchema
from tests.bound_schemas import END_ID, bound, fields, letters_without_end, schema_of, text_of
from tests.runtime_cases import Case, refused, seen
from tests.tiny_models import ALL_UNITS

PROMPT = [index * 5 % 37 for index in range(70)]
SAMPLING = Choice(decoder=Decoder.SAMPLING, temperature=20 * MICRO, seed=3)
CHOICES = {
    "greedy": Choice(),
    "penalties": Choice(repetition=3 * MICRO, bias=((3, 2 * MICRO),)),
    "sampling": SAMPLING,
    "few": replace(SAMPLING, top_k=3, min_p=MICRO // 100),
    "damped": Choice(decoder=Decoder.DAMPED, top_k=6, damping=1 << 16, damping_order=2),
}


def begun(
    case: Case,
    schema: BoundSchema,
    choice: Choice | None = None,
    answer_tokens: int | None = None,
    **options: Any,
) -> Sequence:
    sequence = case.sequence(chooses=True, **options)
    sequence.bind(schema, answer_tokens=answer_tokens)
    sequence.choose(choice, len(PROMPT))
    sequence.push(PROMPT)
    case.run(sequence)
    return sequence


def answer(
    case: Case, sequence: Sequence, *, most: int | None, units: int = ALL_UNITS
) -> list[int]:
    """Let a sequence answer until nothing may follow but an end."""
    ids: list[int] = []
    while not sequence.is_answer_complete:
        ids += sequence.decode_span(most)
        if ids[-1] == END_ID:
            break
        while sequence.has_work:
            case.step(sequence, units)
    return ids


@pytest.mark.parametrize("name", CHOICES)
def test_tokens_that_alone_may_follow_need_not_be_chosen(case: Case, name: str) -> None:
    schema = schema_of(case)
    ends = []
    for most, units in ((1, ALL_UNITS), (None, ALL_UNITS), (2, 1), (None, 1)):
        with begun(case, schema, CHOICES[name]) as sequence:
            ids = answer(case, sequence, most=most, units=units)
            ends.append((ids, sequence.token_ids, sequence.digest, sequence.saturations))
            forced = sequence.stats().forced_tokens
            assert (forced > 0) == (most != 1)
        text = text_of(ids)
        assert text.startswith(b"abbag")
        assert text.endswith(b"h")
    assert all(end == ends[0] for end in ends)


@pytest.mark.parametrize("name", CHOICES)
def test_backends_choose_alike(case: Case, name: str) -> None:
    schema = schema_of(case)
    other = Case(case.reference, case.reference, case.tensors)
    one, two = (begun(each, schema, CHOICES[name], 14) for each in (case, other))
    assert answer(case, one, most=None) == answer(other, two, most=1)
    assert one.digest == two.digest


@pytest.mark.parametrize("has_spans", [True, False])
def test_answers_fit(case: Case, has_spans: bool) -> None:
    schema = schema_of(case, has_spans=has_spans)
    sizes = []
    for answer_tokens in range(schema.shortest, schema.shortest + 6):
        with begun(case, schema, SAMPLING, answer_tokens) as sequence:
            ids = answer(case, sequence, most=None)
            assert len(ids) <= answer_tokens
            assert sequence.stats().is_accepting
            sizes.append(len(ids))
    assert sizes[0] == schema.shortest
    assert max(sizes) > min(sizes)


def test_a_text_without_end_ends_where_its_tokens_do(case: Case) -> None:
    schema = bound(letters_without_end(), case.program.vocab_size)
    # Tokens that an end would take the place of.
    choice = Choice(bias=((END_ID, -1000 * MICRO),))
    with begun(case, schema, choice, answer_tokens=5) as sequence:
        ids = answer(case, sequence, most=None)
        assert len(ids) == 5
        # Nothing but the end may follow, and then again nothing else.
        assert sequence.decode() == END_ID
        case.run(sequence)
        assert sequence.chosen() == END_ID


def test_fewer_tokens_than_the_shortest_answer_are_refused(case: Case) -> None:
    schema, sequence = schema_of(case), case.sequence()
    with refused(SchemaBudgetTokensError, sequence) as caught:
        sequence.bind(schema, answer_tokens=schema.shortest - 1)
    expected = {"budget_tokens": schema.shortest - 1, "needed_tokens": schema.shortest}
    assert caught.value.facts() == expected
    for answer_tokens in (0, -1, 0xFFFF_FFFF):
        with refused(OptionRangeError, sequence):
            sequence.bind(schema, answer_tokens=answer_tokens)


def test_a_schema_of_another_vocabulary_is_refused(case: Case) -> None:
    sequence = case.sequence()
    with refused(OptionRangeError, sequence):
        sequence.bind(bound(fields(), case.program.vocab_size + 1))
    with refused(OptionRangeError, sequence):
        case.sequence(has_all_logits=True).bind(schema_of(case))


def test_only_as_much_is_taken_along_as_there_is_room_for(case: Case) -> None:
    schema = schema_of(case)
    with begun(case, schema, context_tokens=len(PROMPT) + 2) as sequence:
        assert len(sequence.decode_span()) == 2
        case.run(sequence)
        with refused(ContextLengthError, sequence):
            sequence.decode_span()
    pool = case.pool(2)
    sequence = case.sequence(pool, chooses=True)
    sequence.bind(schema)
    sequence.push([PROMPT[0]] * 127)
    case.run(sequence)
    if case.program.state_layout.page_size_bytes:
        assert len(sequence.decode_span()) == 1
        case.run(sequence)
        with refused(KvPoolExhaustedError, sequence):
            sequence.decode_span()
    with refused(OptionRangeError, sequence):
        sequence.decode_span(0)


def test_neighbours_follow_schemas_of_their_own(case: Case) -> None:
    schemas = [schema_of(case), bound(letters_without_end(), case.program.vocab_size), None]
    alone, together = [], []
    for schema in schemas:
        with case.sequence() as lone:
            lone.bind(schema)
            lone.push(PROMPT)
            case.run(lone)
            ids = []
            for _ in range(4):
                ids.append(lone.decode())
                case.run(lone)
            alone.append((ids, lone.digest))
    pool = case.pool()
    sequences = [case.sequence(pool) for _ in schemas]
    for sequence, schema in zip(sequences, schemas, strict=True):
        sequence.bind(schema)
        sequence.push(PROMPT)
    answers: list[list[int]] = [[] for _ in schemas]
    for round_index in range(5):
        while waiting := [one for one in sequences if one.has_work]:
            finished(advance(case.plan, waiting, budget_units=1, row_count_max=64))
        if round_index < 4:
            for ids, sequence in zip(answers, sequences, strict=True):
                ids.append(sequence.decode())
    together = [(ids, one.digest) for ids, one in zip(answers, sequences, strict=True)]
    assert together == alone


def test_nothing_that_follows_is_a_dead_end_each_time(case: Case) -> None:
    schema = schema_of(case, end_ids=())
    with begun(case, schema) as sequence:
        answer(case, sequence, most=None)
        before = seen(sequence)
        for _ in range(3):
            with refused(SchemaDeadEndError, sequence) as caught:
                sequence.decode()
            assert "the text is complete" in str(caught.value)
        assert sequence.selected == -1
        assert seen(sequence) == before
        # Also after another choice was asked, whose head runs again.
        sequence.choose(SAMPLING, len(PROMPT))
        case.run(sequence)
        with refused(SchemaDeadEndError, sequence):
            sequence.decode_span()
