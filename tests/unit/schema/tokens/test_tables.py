"""Masks, only tokens and distances, against a search through all tokens."""

from functools import cache

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sslm import limits
from sslm.errors.schema import SchemaBudgetError, UnspellableSchemaError
from sslm.schema.schema_compiler import compile_schema
from sslm.schema.tokens.spans import FREE, only_tokens
from sslm.schema.tokens.step_table import NO_STATE, StepTable
from sslm.schema.tokens.tables import TokenTables, build_token_tables, value_pointer
from sslm.schema.tokens.trie import TokenTrie

ALPHABET = 'a\\"'
"""One byte of each kind: what has no quotation mark stays inside of a text."""
VOCAB_SIZE = 40


class Ranges:
    """An automaton as it is written down."""

    def __init__(self, rows: list[dict[int, int]], accepting: set[int]) -> None:
        self.rows = rows
        self.accepting = accepting

    @property
    def state_count(self) -> int:
        return len(self.rows)

    def row(self, state: int) -> list[tuple[int, int, int]]:
        return [(byte, byte, target) for byte, target in sorted(self.rows[state].items())]

    def is_accepting(self, state: int) -> bool:
        return state in self.accepting


@st.composite
def automata(draw: st.DrawFn) -> Ranges:
    """Automata all of whose states lead to an accepting one, and are reached from the first."""
    count = draw(st.integers(1, 7))
    states = st.integers(0, count - 1)
    bytes_ = st.sampled_from([ord(letter) for letter in ALPHABET])
    rows = [draw(st.dictionaries(bytes_, states, max_size=3)) for _ in range(count)]
    accepting = draw(st.sets(states, min_size=1))
    return live_part(Ranges(rows, accepting))


def live_part(automaton: Ranges) -> Ranges:
    live = set(automaton.accepting)
    while True:
        more = {i for i, row in enumerate(automaton.rows) if live & set(row.values())} | live
        if more == live:
            break
        live = more
    live.add(0)
    order = sorted(live)
    number = {state: index for index, state in enumerate(order)}
    rows = [{b: number[t] for b, t in automaton.rows[i].items() if t in live} for i in order]
    return Ranges(rows, {number[i] for i in automaton.accepting})


tokens_of = st.dictionaries(
    st.integers(0, VOCAB_SIZE - 1),
    st.text(ALPHABET, min_size=1, max_size=4).map(str.encode),
    min_size=1,
    max_size=12,
)


def greedy_split(trie: TokenTrie, text: str) -> list[int]:
    """Split as a tokenizer may: not by the longest token, but by the shortest."""
    ids = []
    rest = text.encode()
    while rest:
        fitting = [i for i, token in trie.tokens.items() if rest.startswith(token)]
        if not fitting:
            return []
        ids.append(min(fitting, key=lambda i: (len(trie.tokens[i]), -i)))
        rest = rest[len(trie.tokens[ids[-1]]) :]
    return ids


def step(automaton: Ranges, state: int, text: bytes) -> int | None:
    for byte in text:
        target = automaton.rows[state].get(byte)
        if target is None:
            return None
        state = target
    return state


def expected_only(automaton: Ranges, trie: TokenTrie, state: int) -> int:
    """The first token of the split of the text that a state leaves no choice about."""
    span, at = b"", state
    while at not in automaton.accepting and len(automaton.rows[at]) == 1 and len(span) < 256:
        ((byte, at),) = automaton.rows[at].items()
        span += bytes([byte])
    if not span:
        return FREE
    ids = greedy_split(trie, span.decode())
    if ids:
        return ids[0]
    begins = [i for i, token in trie.tokens.items() if span.startswith(token)]
    return min(begins, key=lambda i: (-len(trie.tokens[i]), i), default=FREE)


def expected_tables(automaton: Ranges, trie: TokenTrie) -> tuple[list[int], list[set[int]]]:
    """Distances and allowed ids, by going through every token of every state."""
    count = automaton.state_count
    edges: list[dict[int, int]] = []
    for state in range(count):
        only = expected_only(automaton, trie, state)
        ids = trie.tokens if only == FREE else [only]
        steps = {i: step(automaton, state, trie.tokens[i]) for i in ids}
        edges.append({i: target for i, target in steps.items() if target is not None})
    distances = [0 if state in automaton.accepting else NO_STATE for state in range(count)]
    for _ in range(count):
        for state in range(count):
            nearest = min((distances[t] for t in edges[state].values()), default=NO_STATE)
            if nearest != NO_STATE:
                distances[state] = min(distances[state], nearest + 1)
    allowed = [{i for i, target in row.items() if distances[target] != NO_STATE} for row in edges]
    return distances, allowed


@given(automata(), tokens_of)
def test_tables_are_what_a_search_finds(automaton: Ranges, tokens: dict[int, bytes]) -> None:
    trie = TokenTrie(tokens, VOCAB_SIZE)
    distances, allowed = expected_tables(automaton, trie)
    table = StepTable(automaton)
    if distances[0] == NO_STATE:
        with pytest.raises(UnspellableSchemaError):
            build_token_tables(table, trie, lambda text: greedy_split(trie, text))
        return
    tables = build_token_tables(table, trie, lambda text: greedy_split(trie, text))
    assert list(tables.distances) == distances
    for state in range(automaton.state_count):
        if distances[state] != NO_STATE:
            assert set(tables.allowed_ids(state)) == allowed[state], state


@given(automata(), tokens_of)
def test_without_canonical_spans_every_spelling_is_allowed(
    automaton: Ranges, tokens: dict[int, bytes]
) -> None:
    trie = TokenTrie(tokens, VOCAB_SIZE)
    table = StepTable(automaton)

    @cache
    def can_end(state: int, fewer_than: int) -> bool:
        if state in automaton.accepting:
            return True
        targets = (step(automaton, state, token) for token in tokens.values())
        return fewer_than > 0 and any(
            can_end(target, fewer_than - 1) for target in targets if target is not None
        )

    if not can_end(0, automaton.state_count):
        with pytest.raises(UnspellableSchemaError):
            build_token_tables(table, trie, None)
        return
    tables: TokenTables = build_token_tables(table, trie, None)
    for state in range(automaton.state_count):
        if not can_end(state, automaton.state_count):
            continue
        targets = {i: step(automaton, state, token) for i, token in tokens.items()}
        expected = {
            i
            for i, target in targets.items()
            if target is not None and can_end(target, automaton.state_count)
        }
        assert set(tables.allowed_ids(state)) == expected


@pytest.mark.parametrize(
    ("limit", "what"),
    [("SCHEMA_MASK_COUNT_MAX", "different masks"), ("SCHEMA_LOOK_COUNT_MAX", "looks")],
)
def test_a_refusal_names_the_value_that_grew(
    limit: str, what: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = {"type": "string", "maxLength": 60}
    document = {
        "properties": {"a": {"type": "boolean"}, "b/c": {"type": "array", "items": text}},
        "required": ["a", "b/c"],
        "type": "object",
        "additionalProperties": False,
    }
    table = StepTable(compile_schema(document).automaton)
    tokens = [bytes([byte]) for byte in range(256)] + [b"a" * size for size in range(2, 40)]
    trie = TokenTrie(dict(enumerate(tokens)), len(tokens))
    monkeypatch.setattr(limits, limit, 20_000 if what == "looks" else 30)
    with pytest.raises(SchemaBudgetError, match=what) as refused:
        build_token_tables(table, trie, None)
    assert refused.value.where.endswith("lastly in the value at #/b~1c/0")


@pytest.mark.parametrize(
    ("text", "pointer"),
    [
        (b"", "#"),
        (b'{"a', "#"),
        (b'{"a":', "#/a"),
        (b'{"a":[[],"x,y",{"b', "#/a/2"),
        (b'{"a":{"b":1},"c":"\\"', "#/c"),
        (b'{"a":{"b":1}}', "#"),
    ],
)
def test_a_place_in_a_value_is_where_its_text_breaks_off(text: bytes, pointer: str) -> None:
    rows = [{byte: at + 1} for at, byte in enumerate(text)]
    table = StepTable(Ranges([*rows, {}], {len(text)}))
    assert value_pointer(table, len(text)) == pointer


def test_spans_that_follow_each_other_are_walked_through_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    long = limits.FORCED_SPAN_SIZE_BYTES_MAX * 4
    document = {"enum": ["a" * long + "b" * long, "c" + "a" * (long - 1) + "b" * long]}
    table = StepTable(compile_schema(document).automaton)
    steps, step = [], StepTable.step

    def counted(table: StepTable, state: int, text: bytes) -> int | None:
        steps.append(text)
        return step(table, state, text)

    spans = {}
    for state in range(table.state_count):
        at, span = state, bytearray()
        while len(span) < limits.FORCED_SPAN_SIZE_BYTES_MAX:
            byte = table.only_byte(at)
            if byte is None:
                break
            span.append(byte)
            at = step(table, at, bytes([byte])) or 0
        spans[state] = bytes(span)
    told: dict[bytes, list[int]] = {}
    monkeypatch.setattr(StepTable, "step", counted)
    tokens = [bytes([byte]) for byte in range(256)]
    trie = TokenTrie(dict(enumerate(tokens)), len(tokens))
    only = only_tokens(
        table, trie, lambda text: told.setdefault(text.encode(), list(text.encode()))
    )
    assert set(told) == set(spans.values()) - {b""}
    assert list(only.tokens) == [spans[state][0] if spans[state] else -1 for state in spans]
    # Once for its span, and once for where its token leads.
    assert len(steps) <= 2 * table.state_count
