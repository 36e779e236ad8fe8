"""Automata and tables of compiled schemas: one spelling, and only those that compiling makes."""

from array import array
from dataclasses import replace

import pytest

from sslm.errors.base import SslmError
from sslm.errors.schema_files import (
    SchemaAutomatonError,
    SchemaNumbersError,
    SchemaTableFormError,
)
from sslm.formats.schemas.automaton import Row, encode_automaton, read_automaton
from sslm.formats.schemas.tables import FREE, NONE, StateTables, encode_tables, read_tables
from sslm.formats.whole_numbers import encode_numbers

# The texts "ab" and "a" followed by digits and "c".
ROWS: tuple[Row, ...] = (
    ((97, 97, 1),),
    ((48, 57, 2), (98, 98, 3)),
    ((48, 57, 2), (99, 99, 3)),
    (),
)
ACCEPTING = bytes([0, 0, 0, 1])
SHAPES = 4
TABLES = StateTables(
    only_tokens=array("i", [5, FREE, FREE, FREE]),
    only_targets=array("I", [1, NONE, NONE, NONE]),
    distances=array("I", [2, 1, 1, 0]),
    mask_indices=array("I", [NONE, 0, 1, 2]),
)
TABLE_NUMBERS = [3, 6, 1, 2, 0, 2, 1, 1, 2]


def test_spelling_of_an_automaton() -> None:
    shapes = [1, 97, 0, 2, 48, 9, 40, 0, 2, 48, 9, 41, 0, 0]
    states = [0, 0, 2, 0, 0, 4, 2, 1, 7]
    numbers = [*shapes, *states]
    assert encode_automaton(ROWS, ACCEPTING) == (SHAPES, encode_numbers(numbers))
    assert decoded(numbers) == (ROWS, ACCEPTING)


def decoded(
    numbers: list[int], states: int = len(ROWS), shapes: int = SHAPES
) -> tuple[tuple[Row, ...], bytes]:
    data = memoryview(encode_numbers(numbers))
    return read_automaton(data, state_count=states, shape_count=shapes)


@pytest.mark.parametrize(
    ("numbers", "states", "shapes"),
    [
        ([1, 97, 0, 0, 0], 1, 1),  # Its target is not counted.
        ([1, 97, 0, 0, 1], 1, 1),  # It leads to itself for ever.
        ([1, 97, 0, 0, 2], 1, 1),  # A target before the first state.
        ([0, 1], 2, 1),  # The second state is not reached.
        ([0, 1], 1, 2),  # A shape is missing.
        ([0, 1, 97, 0, 1], 1, 2),  # A shape that no state has.
        ([0, 0, 1, 1], 1, 2),  # Twice one shape.
        ([0, 1, 97, 0, 3, 0, 1], 2, 2),  # The shapes are in another order.
        ([2, 97, 0, 0, 0, 0, 0, 1, 3], 2, 2),  # 97 and 98 lead to one state, and could be one.
        ([1, 97, 159, 0, 0, 0, 3], 2, 2),  # A range beyond the last byte.
        ([2, 97, 158, 0, 0, 0, 0, 0, 1, 3], 3, 2),
        ([0, 1, 0], 1, 1),  # A number too many.
        ([0, 0], 1, 1),  # No text.
    ],
)
def test_other_automata_are_refused(numbers: list[int], states: int, shapes: int) -> None:
    with pytest.raises((SchemaAutomatonError, SchemaNumbersError)):
        decoded(numbers, states, shapes)


def test_states_are_numbered_as_compiling_does() -> None:
    rows: tuple[Row, ...] = (((97, 97, 2), (98, 98, 1)), (), ())
    with pytest.raises(SchemaAutomatonError):
        encode_automaton(rows, bytes([0, 1, 1]))


def read_table_numbers(numbers: list[int], mask_count: int = 3) -> StateTables:
    data = memoryview(encode_numbers(numbers))
    return read_tables(data, ROWS, ACCEPTING, mask_count=mask_count, vocab_size=10)


def test_spelling_of_tables() -> None:
    assert encode_tables(ROWS, ACCEPTING, TABLES) == encode_numbers(TABLE_NUMBERS)
    assert read_table_numbers(TABLE_NUMBERS) == TABLES
    # Without an only token the first state has a mask.
    free = replace(
        TABLES,
        only_tokens=array("i", [FREE] * 4),
        only_targets=array("I", [NONE] * 4),
        mask_indices=array("I", [0, 1, 2, 0]),
    )
    numbers = [3, 0, 0, 2, 1, 2, 2, 1, 0]
    assert encode_tables(ROWS, ACCEPTING, free) == encode_numbers(numbers)
    assert read_table_numbers(numbers) == free


@pytest.mark.parametrize(
    ("numbers", "error"),
    [
        ([3, 6, 0, 2, 0, 2, 1, 1, 2], SchemaTableFormError),  # A token of no bytes.
        ([3, 6, 2, 2, 0, 2, 1, 1, 2], SchemaTableFormError),  # It ends behind the span.
        ([3, 11, 1, 2, 0, 2, 1, 1, 2], SchemaNumbersError),  # No such token.
        ([4, 6, 1, 2, 0, 2, 1, 1, 2], SchemaTableFormError),  # Another distance than its token's.
        ([0, 6, 1, 2, 0, 2, 1, 1, 2], SchemaTableFormError),  # No answer begins.
        ([3, 6, 1, 1, 0, 2, 1, 1, 2], SchemaTableFormError),  # Distance 0 at no end.
        ([3, 6, 1, 2, 0, 2, 1, 2, 2], SchemaTableFormError),  # Another one at an end.
        ([3, 6, 1, 2, 0, 6, 1, 1, 2], SchemaNumbersError),  # More tokens than states.
        ([3, 6, 1, 2, 3, 2, 1, 1, 2], SchemaNumbersError),  # No such mask.
        ([3, 6, 1, 2, 0, 2, 0, 1, 2], SchemaTableFormError),  # Nobody has mask 1.
        ([3, 6, 1, 2, 0, 2, 1, 1], SchemaNumbersError),
        ([3, 6, 1, 2, 0, 2, 1, 1, 2, 0], SchemaNumbersError),
    ],
)
def test_other_tables_are_refused(numbers: list[int], error: type[SslmError]) -> None:
    with pytest.raises(error):
        read_table_numbers(numbers)
