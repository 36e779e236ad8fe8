"""The search that judges masks of whole vocabularies: right ones pass it, wrong ones do not."""

import random
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from benchmarks.schema_search import Tally, Texts, differences

from sslm.schema.documents.options import SchemaOptions
from sslm.schema.schema_compiler import compile_schema
from sslm.schema.tokens.bound_schema import BoundSchema
from sslm.schema.tokens.spans import Split
from sslm.schema.tokens.step_table import StepTable
from sslm.schema.tokens.tables import build_token_tables
from sslm.schema.tokens.trie import TokenTrie
from tests.mask_search import MaskSearch
from tests.schema_oracle import Oracle

DOCUMENT = {
    "type": "object",
    "properties": {
        "name": {"type": "string", "maxLength": 3},
        "is_on": {"type": "boolean"},
        "kind": {"enum": ["a", "b", "ab"]},
    },
    "required": ["name", "kind"],
    "additionalProperties": False,
}
WORDS = (b'{"', b'":', b'","', b'"}', b"na", b"me", b"name", b"kind", b"is_", b"on", b"true", b"ab")
TOKENS = dict(enumerate([*(bytes((byte,)) for byte in range(32, 256)), *WORDS, b"na"]))
VOCAB_SIZE = 250
END_ID = 249


def split(text: str) -> list[int]:
    """Split into the longest pieces, from the left."""
    ids, rest = [], text.encode()
    while rest:
        ids.append(
            max((i for i in TOKENS if rest.startswith(TOKENS[i])), key=lambda i: len(TOKENS[i]))
        )
        rest = rest[len(TOKENS[ids[-1]]) :]
    return ids


def schema_of(own_split: Split | None) -> BoundSchema:
    trie = TokenTrie(TOKENS, VOCAB_SIZE)
    tables = build_token_tables(StepTable(compile_schema(DOCUMENT).automaton), trie, own_split)
    return BoundSchema(tables, trie, digest=bytes(32), end_ids=(END_ID,))


def found_in(schema: BoundSchema, own_split: Split | None = split) -> tuple[list[str], Tally]:
    automaton = compile_schema(DOCUMENT).automaton
    search = MaskSearch(automaton, TOKENS, VOCAB_SIZE, split=own_split, end_ids=(END_ID,))
    texts = Texts(search, Oracle(DOCUMENT, {}, checks_formats=False), random.Random(1))
    tally = Tally()
    return list(differences(schema, texts, automaton.state_count, tally)), tally


@pytest.mark.parametrize("own_split", [split, None])
def test_masks_are_those_of_the_search(own_split: Split | None) -> None:
    wrong, tally = found_in(schema_of(own_split), own_split)
    assert wrong == []
    assert tally.masks > 100
    assert tally.allowed > tally.completions > 50
    assert tally.unfitting > 0
    assert (tally.only > 0) == (own_split is not None)


def _other_split(monkeypatch: pytest.MonkeyPatch) -> BoundSchema:
    return schema_of(lambda text: [ord(letter) - 32 for letter in text])


def _any_split(monkeypatch: pytest.MonkeyPatch) -> BoundSchema:
    return schema_of(None)


def _more(monkeypatch: pytest.MonkeyPatch) -> BoundSchema:
    original = BoundSchema.mask_address

    def one_more(self: BoundSchema, state: int, remaining: int, scratch: memoryview) -> int:
        return original(self, state, min(remaining + 1, (1 << 32) - 1), scratch)

    monkeypatch.setattr(BoundSchema, "mask_address", one_more)
    return schema_of(split)


def _another_state(monkeypatch: pytest.MonkeyPatch) -> BoundSchema:
    original = BoundSchema.mask_address

    def shifted(self: BoundSchema, state: int, remaining: int, scratch: memoryview) -> int:
        return original(self, state - int(state == 12), remaining, scratch)

    monkeypatch.setattr(BoundSchema, "mask_address", shifted)
    return schema_of(split)


@pytest.mark.parametrize("wrong", [_other_split, _any_split, _more, _another_state])
def test_wrong_masks_are_found(
    wrong: Callable[[pytest.MonkeyPatch], Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert found_in(wrong(monkeypatch))[0]


def test_steps_are_those_of_bytes() -> None:
    automaton = compile_schema(DOCUMENT).automaton
    search = MaskSearch(automaton, TOKENS, VOCAB_SIZE, split=None, end_ids=())
    for state in range(0, automaton.state_count, 5):
        leads = search.spelled(state)
        for token_id, text in TOKENS.items():
            expected = automaton.after(text, state)
            found = int(leads[token_id])
            assert (None if found == automaton.state_count else found) == expected
        assert not np.any(leads[len(TOKENS) :] != automaton.state_count)


@pytest.mark.parametrize("leaves_blank", [True, False])
def test_blanks_at_the_end_of_spans_are_left_or_not(leaves_blank: bool) -> None:
    automaton = compile_schema(DOCUMENT, SchemaOptions(spacing="spaced")).automaton
    trie = TokenTrie(TOKENS, VOCAB_SIZE)
    tables = build_token_tables(StepTable(automaton), trie, split, leaves_blank=True)
    schema = BoundSchema(tables, trie, digest=bytes(32), end_ids=(END_ID,))
    search = MaskSearch(
        automaton,
        TOKENS,
        VOCAB_SIZE,
        split=split,
        end_ids=(END_ID,),
        leaves_blank=leaves_blank,
    )
    texts = Texts(search, Oracle(DOCUMENT, {}, checks_formats=False), random.Random(1))
    wrong = list(differences(schema, texts, automaton.state_count, Tally()))
    assert (wrong == []) == leaves_blank
