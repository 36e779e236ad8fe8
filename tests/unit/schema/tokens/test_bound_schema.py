"""What an answer may go on with, against a search through all tokens."""

import ctypes

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from sslm.schema.schema_compiler import compile_schema
from sslm.schema.tokens.bound_schema import ANY_COUNT, START, BoundSchema
from sslm.schema.tokens.step_table import NO_STATE, StepTable
from sslm.schema.tokens.tables import build_token_tables
from sslm.schema.tokens.trie import TokenTrie
from tests.unit.schema.tokens.test_tables import (
    VOCAB_SIZE,
    Ranges,
    automata,
    expected_tables,
    greedy_split,
    tokens_of,
)

END_ID = VOCAB_SIZE + 3


def mask_ids(schema: BoundSchema, state: int, remaining: int) -> set[int]:
    scratch = memoryview(bytearray(schema.scratch_size_bytes))
    address = schema.mask_address(state, remaining, scratch)
    words = (ctypes.c_uint32 * schema.struct.mask_words).from_address(address)
    return {32 * i + bit for i, word in enumerate(words) for bit in range(32) if word >> bit & 1}


@given(automata(), tokens_of, st.booleans())
def test_masks_leave_out_what_does_not_fit(
    automaton: Ranges, tokens: dict[int, bytes], is_end_allowed: bool
) -> None:
    trie = TokenTrie(tokens, END_ID + 1)
    distances, allowed = expected_tables(automaton, trie)
    assume(distances[START] != NO_STATE)
    tables = build_token_tables(StepTable(automaton), trie, lambda text: greedy_split(trie, text))
    ends = {END_ID} if is_end_allowed else set()
    schema = BoundSchema(tables, trie, digest=bytes(32), end_ids=tuple(ends))
    for state, distance in enumerate(distances):
        if distance == NO_STATE:
            continue
        at_end = ends if state in automaton.accepting else set()
        assert mask_ids(schema, state, ANY_COUNT) == allowed[state] | at_end
        for remaining in range(max(distance, 1), distance + 4):
            fitting = {
                token_id
                for token_id in allowed[state]
                if (target := schema.step(state, token_id)) is not None
                and distances[target] < remaining
            }
            assert mask_ids(schema, state, remaining) == fitting | at_end


TEXTS = (
    {"type": "string", "minLength": 3, "maxLength": 20},
    {"type": "string", "minLength": 19},
    {"type": "string", "pattern": "^[a-z]{2}[0-9a-f]{2,}$"},
    {"type": "string", "pattern": "aB"},
    {"type": "array", "items": {"type": "string", "maxLength": 2}, "minItems": 2},
    {"type": "object", "properties": {"aB": {"type": "integer"}}, "required": ["aB"]},
)
"""What bounds lengths, alphabets, and what must be met somewhere."""

ENDS = (
    "a",
    "b",
    "B",
    "7",
    ".",
    " ",
    '"',
    "\\",
    "\n",
    ",",
    ":",
    "{",
    "}",
    "[",
    "]",
    "é",
    "漢",
    "😀",
)


@st.composite
def vocabularies(draw: st.DrawFn) -> dict[int, bytes]:
    """Every byte that the schemas take, and tokens of whole, broken, many and quoted characters."""
    texts = st.text(ENDS, min_size=1, max_size=6).map(str.encode)
    bounds = st.tuples(texts, st.integers(0, 3), st.integers(0, 3))
    cut = bounds.map(lambda one: one[0][one[1] : len(one[0]) - one[2]] or one[0])
    long = st.tuples(st.sampled_from("aB7. é"), st.integers(14, 22), texts)
    ends = long.map(lambda one: (one[0] * one[1]).encode() + one[2])
    quoted = texts.map(lambda text: b'a"' + text)
    found = draw(st.lists(st.one_of(texts, cut, long.map(_repeated), ends, quoted), max_size=24))
    return dict(enumerate([bytes([byte]) for byte in range(256)] + found))


def _repeated(one: tuple[str, int, bytes]) -> bytes:
    return (one[0] * one[1]).encode()


@pytest.mark.parametrize("document", TEXTS, ids=str)
@settings(max_examples=8)
@given(tokens=vocabularies())
def test_masks_of_texts_leave_out_what_does_not_fit(
    document: dict[str, object], tokens: dict[int, bytes]
) -> None:
    table = StepTable(compile_schema(document).automaton)
    end_id = len(tokens)
    trie = TokenTrie(tokens, end_id + 1)
    tables = build_token_tables(table, trie, None)
    schema = BoundSchema(tables, trie, digest=bytes(32), end_ids=(end_id,))
    for state in range(table.state_count):
        targets = {one: table.step(state, token) for one, token in tokens.items()}
        steps = {one: target for one, target in targets.items() if target is not None}
        lengths = {one: schema.distance(target) for one, target in steps.items()}
        at_end = {end_id} if schema.is_accepting(state) else set()
        assert mask_ids(schema, state, ANY_COUNT) == set(steps) | at_end
        assert schema.distance(state) == 0 or schema.distance(state) == min(lengths.values()) + 1
        for remaining in range(max(lengths.values(), default=0) + 3):
            fitting = {one for one, length in lengths.items() if length < remaining}
            assert mask_ids(schema, state, remaining) == fitting | at_end


def test_a_step_takes_the_bytes_of_a_token() -> None:
    automaton = Ranges([{97: 1}, {98: 2}, {}], {1, 2})
    trie = TokenTrie({0: b"a", 1: b"ab", 2: b"b", 3: b"ba"}, 6)
    tables = build_token_tables(StepTable(automaton), trie, None)
    schema = BoundSchema(tables, trie, digest=bytes(32), end_ids=())
    assert [schema.step(0, token_id) for token_id in range(6)] == [1, 2, None, None, None, None]
    assert schema.step(1, 2) == 2
    assert [schema.is_accepting(state) for state in range(3)] == [False, True, True]
    assert [schema.is_final(state) for state in range(3)] == [False, False, True]
    assert schema.shortest == 1


def test_the_only_token_of_a_span_is_told() -> None:
    automaton = Ranges([{97: 1}, {98: 2}, {97: 2}], {2})
    trie = TokenTrie({0: b"a", 1: b"ab", 2: b"b"}, 3)
    tables = build_token_tables(StepTable(automaton), trie, lambda text: greedy_split(trie, text))
    schema = BoundSchema(tables, trie, digest=bytes(32), end_ids=())
    assert [schema.only_token(state) for state in range(3)] == [0, 2, None]
    assert mask_ids(schema, 0, ANY_COUNT) == {0}
    assert schema.shortest == 2
