"""What no text satisfies is refused ahead of time, and what is compiled always has a way on."""

from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from sslm.errors.schema import UnsatisfiableSchemaError, UnspellableSchemaError
from sslm.schema.schema_compiler import compile_schema
from sslm.schema.tokens.bound_schema import ANY_COUNT, START, BoundSchema
from sslm.schema.tokens.step_table import StepTable
from sslm.schema.tokens.tables import TokenTables, build_token_tables
from sslm.schema.tokens.trie import TokenTrie
from tests.unit.schema.tokens.test_bound_schema import END_ID, mask_ids
from tests.unit.schema.tokens.test_tables import Ranges, automata, greedy_split, tokens_of

NO_VALUE: dict[str, Any] = {
    "false": False,
    "a kind without its values": {"type": "string", "const": 1},
    "no value of an enumeration": {"enum": []},
    "bounds that cross": {"type": "integer", "minimum": 3, "maximum": 2},
    "no multiple between bounds": {"type": "number", "multipleOf": 5, "minimum": 6, "maximum": 9},
    "lengths that cross": {"type": "string", "minLength": 3, "maxLength": 2},
    "a pattern longer than allowed": {"type": "string", "pattern": "^abc$", "maxLength": 2},
    "a key that nothing can be": {
        "type": "object",
        "properties": {"a": False},
        "required": ["a"],
        "additionalProperties": False,
    },
    "items that nothing can be": {"type": "array", "items": False, "minItems": 1},
    "both of what excludes each other": {"allOf": [{"type": "null"}, {"type": "boolean"}]},
    "one of two that are always both": {"oneOf": [{"type": "null"}, {"const": None}]},
    "all but everything": {"not": {}},
    "a value inside of itself": {
        "type": "object",
        "properties": {"a": {"$ref": "#"}},
        "required": ["a"],
        "additionalProperties": False,
    },
}


@pytest.mark.published_call("schema compiler", here="Schema.compile")
@pytest.mark.published_call(
    "schema compiler",
    refusal="SSLM_SCHEMA_UNSATISFIABLE",
    case="no value satisfies it",
    here="UnsatisfiableSchemaError",
)
@pytest.mark.parametrize("name", NO_VALUE)
def test_a_schema_that_nothing_satisfies(name: str) -> None:
    with pytest.raises(UnsatisfiableSchemaError):
        compile_schema(NO_VALUE[name])


BESIDE = "of the schema, together with what stands beside it"
CAUSES: dict[str, tuple[Any, str]] = {
    "a kind": ({"type": "string", "const": 1}, f"'const' at '/const' {BESIDE}"),
    "an enumeration": ({"type": "string", "enum": [1, 2]}, f"'enum' at '/enum' {BESIDE}"),
    "bounds": (
        {"type": "integer", "minimum": 3, "maximum": 2},
        f"'maximum' at '/maximum' {BESIDE}",
    ),
    "lengths, deep inside": (
        {
            "type": "object",
            "properties": {
                "a": {
                    "type": "array",
                    "items": {"type": "string", "minLength": 3, "maxLength": 2},
                    "minItems": 1,
                }
            },
            "required": ["a"],
        },
        f"'maxLength' at '/properties/a/items/maxLength' {BESIDE}",
    ),
    "a key": (
        {"type": "object", "required": ["b"], "additionalProperties": False},
        "false at '/additionalProperties' of the schema",
    ),
    "items": ({"type": "array", "items": False, "minItems": 1}, "false at '/items' of the schema"),
    "alternatives": ({"oneOf": [{"const": 1}, {"const": 1}]}, f"'oneOf' at '/oneOf' {BESIDE}"),
    "a reference": (
        {"$ref": "#/$defs/a~1b", "$defs": {"a/b": {"allOf": [{"const": 1}, {"const": 2}]}}},
        f"'allOf' at '/$defs/a~1b/allOf' {BESIDE}",
    ),
    "different items": (
        {"type": "array", "items": {"enum": [1, 2]}, "minItems": 3, "uniqueItems": True},
        f"'uniqueItems' at '/uniqueItems' {BESIDE}",
    ),
    "both branches": (
        {"if": {"type": "string"}, "then": False, "else": False},
        "false at '/then' of the schema",
    ),
    "nothing to leave out": (False, "the schema as a whole"),
}


@pytest.mark.parametrize("name", CAUSES)
def test_the_part_is_named_without_which_something_would_satisfy_it(name: str) -> None:
    schema, where = CAUSES[name]
    with pytest.raises(UnsatisfiableSchemaError) as refused:
        compile_schema(schema)
    assert refused.value.where == where


def tables_of(document: Any, pieces: bytes) -> TokenTables:
    trie = TokenTrie({index: bytes((byte,)) for index, byte in enumerate(pieces)}, 64)
    table = StepTable(compile_schema(document).automaton)
    return build_token_tables(table, trie, lambda text: greedy_split(trie, text))


@pytest.mark.published_call(
    "schema compiler",
    refusal="SSLM_SCHEMA_UNSATISFIABLE",
    case="this vocabulary spells no text of it",
    here="UnspellableSchemaError",
)
def test_a_schema_that_a_vocabulary_cannot_spell() -> None:
    either = {"enum": ["ab", "cd"]}
    for missing in b'"abcd':
        pieces = bytes(byte for byte in b'"abcd' if byte != missing)
        # One of the two texts is enough.
        if missing in b"abcd":
            assert tables_of(either, pieces).distances[0] == 4
            pieces = bytes(byte for byte in pieces if byte not in b"abcd")
        with pytest.raises(UnspellableSchemaError):
            tables_of(either, pieces)


def test_a_text_that_cannot_be_completed_is_not_begun() -> None:
    # Behind "a, nothing spells the b.
    tables = tables_of({"enum": ["ab", "cd", "cb"]}, b'"acd')
    quote, a, c, d = range(4)
    step, state = tables.table.step, START
    assert [tables.allowed_ids(state)] == [[quote]]
    state = step(state, b'"') or 0
    assert tables.allowed_ids(state) == [c]
    state = step(state, b"c") or 0
    assert tables.allowed_ids(state) == [d]
    assert a not in tables.allowed_ids(state)


@given(automata(), tokens_of, st.booleans(), st.integers(0, 3))
def test_wherever_an_answer_comes_it_can_be_completed(
    automaton: Ranges, tokens: dict[int, bytes], has_spans: bool, more: int
) -> None:
    """Every state that masks lead to accepts, or allows a token that leads nearer to an end."""
    trie = TokenTrie(tokens, END_ID + 1)
    split = (lambda text: greedy_split(trie, text)) if has_spans else None
    try:
        tables = build_token_tables(StepTable(automaton), trie, split)
    except UnspellableSchemaError:
        assume(False)
    schema = BoundSchema(tables, trie, digest=bytes(32), end_ids=())
    budgets = (ANY_COUNT, schema.shortest + more)
    for budget in budgets:
        reached, waiting = {(START, budget)}, [(START, budget)]
        while waiting:
            state, remaining = waiting.pop()
            ids = mask_ids(schema, state, remaining) if remaining else set()
            assert ids or schema.is_accepting(state)
            left = ANY_COUNT if remaining == ANY_COUNT else remaining - 1
            targets = [schema.step(state, token_id) for token_id in ids]
            assert all(one is not None and schema.distance(one) <= left for one in targets)
            if not schema.is_accepting(state):
                nearest = min(schema.distance(one) for one in targets if one is not None)
                assert nearest == schema.distance(state) - 1
            new = {(one, left) for one in targets if one is not None} - reached
            reached |= new
            waiting += sorted(new)
