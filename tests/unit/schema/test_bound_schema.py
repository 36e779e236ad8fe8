"""What an answer may go on with, against a search through all tokens."""

import ctypes

from hypothesis import assume, given
from hypothesis import strategies as st

from sslm.schema.bound_schema import ANY_COUNT, START, BoundSchema
from sslm.schema.step_table import NO_STATE, StepTable
from sslm.schema.token_tables import build_token_tables
from sslm.schema.token_trie import TokenTrie
from tests.unit.schema.test_token_tables import (
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
                if distances[schema.step(state, token_id)] < remaining
            }
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
