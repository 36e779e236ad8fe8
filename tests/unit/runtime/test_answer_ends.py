"""Where a schema lets nothing follow, and what alone can begin an answer."""

import pytest

from sslm.errors.binding import SchemaDeadEndError
from sslm.runtime.sequences.schema_steps import admit_beginning
from sslm.runtime.sequences.sequence import Sequence
from sslm.schema.regular.language import Bytes, either
from sslm.schema.tokens.bound_schema import BoundSchema
from tests.bound_schemas import END_ID, bound, schema_of, split, text_of
from tests.runtime_cases import Case
from tests.unit.runtime.test_schemas import CHOICES, PROMPT, answer, begun

CD, A = split("cd")[0], split("a")[0]


def short_or_long(case: Case, **options: object) -> BoundSchema:
    """Return texts that may end behind "cd", or go on for many tokens."""
    language = either([Bytes(b"cd"), Bytes(b"cd" + b"ac" * 8)])
    return bound(language, case.program.vocab_size, **options)  # type: ignore[arg-type]


def beginning(sequence: Sequence, most: int) -> list[int]:
    with sequence.begin_use() as state:
        return admit_beginning(state, most).tolist()


@pytest.mark.parametrize("answer_tokens", [1, 2, 5])
def test_a_dead_end_is_seen_before_it_is_computed(case: Case, answer_tokens: int) -> None:
    schema = short_or_long(case, end_ids=())
    with begun(case, schema, answer_tokens=answer_tokens) as sequence:
        # What leads there is chosen, though nothing else can follow.
        assert beginning(sequence, 4) == []
        assert sequence.chosen() == CD
        is_last = answer_tokens == 1
        assert sequence.ending_after(CD) == ("complete" if is_last else "dead_end")
        assert sequence.decode_span() == [CD]
        case.run(sequence)
        for _ in range(2):
            with pytest.raises(SchemaDeadEndError):
                sequence.chosen()
        # It stays where it is, and says so also of what cannot come.
        assert sequence.ending_after(A) is None


def test_with_an_end_or_with_room_there_is_none(case: Case) -> None:
    for schema, answer_tokens in (
        (short_or_long(case), 5),
        (short_or_long(case, end_ids=()), 99),
        (short_or_long(case, end_ids=()), None),
    ):
        with begun(case, schema, answer_tokens=answer_tokens) as sequence:
            assert sequence.ending_after(CD) is None
            assert sequence.ending_after(END_ID) is None
    with case.sequence() as free:
        free.push(PROMPT)
        case.run(free)
        assert free.ending_after(free.chosen()) is None


@pytest.mark.parametrize("name", CHOICES)
def test_the_only_beginning_may_come_with_the_prompt(case: Case, name: str) -> None:
    schema = schema_of(case)
    with begun(case, schema, CHOICES[name]) as sequence:
        expected = answer(case, sequence, most=1)
        digest = sequence.digest
    for most in (0, 1, 9):
        with case.sequence(chooses=True) as sequence:
            sequence.bind(schema)
            sequence.choose(CHOICES[name], len(PROMPT))
            sequence.push(PROMPT)
            begins = beginning(sequence, most)
            assert text_of(begins) == [b"", b"abba", b"abbag"][min(most, 2)]
            assert sequence.stats().forced_tokens == len(begins)
            case.run(sequence)
            assert begins + answer(case, sequence, most=None) == expected
            assert sequence.digest == digest


def test_of_a_beginning_as_much_is_taken_as_there_is_room_for(case: Case) -> None:
    with case.sequence(context_tokens=len(PROMPT) + 1) as sequence:
        sequence.bind(schema_of(case))
        sequence.push(PROMPT)
        assert text_of(beginning(sequence, 9)) == b"abba"
        assert beginning(sequence, 9) == []


def test_without_a_schema_nothing_is_known_of_the_beginning(case: Case) -> None:
    with case.sequence() as sequence:
        sequence.push(PROMPT)
        assert beginning(sequence, 9) == []
        assert sequence.pending_count == len(PROMPT)
