"""Small schemas over made-up vocabularies, for models that know no text."""

from sslm.schema.regular.compiler import compile_language
from sslm.schema.regular.language import Bytes, Language, OneOf, Repeat, Sequence, either
from sslm.schema.tokens.bound_schema import BoundSchema
from sslm.schema.tokens.step_table import StepTable
from sslm.schema.tokens.tables import build_token_tables
from sslm.schema.tokens.trie import TokenTrie
from tests.runtime_cases import Case

LETTERS = "abcdefgh"
PAIRS = ("ab", "ba", "cd", "bac", "dba", "ee", "gh", "abba")
END_ID = 30
"""What ends an answer, and is no content."""


def content() -> dict[int, bytes]:
    """Return the bytes of the ids that have some: 0 … 15, as letters and as groups of them."""
    return dict(enumerate(text.encode() for text in (*LETTERS, *PAIRS)))


def text_of(ids: list[int]) -> bytes:
    """Return the bytes of ids."""
    return b"".join(content().get(token_id, b"") for token_id in ids)


def split(text: str) -> list[int]:
    """Split into the longest pieces that there are, from the left, as a tokenizer may."""
    ids = []
    known = content()
    rest = text.encode()
    while rest:
        fitting = [token_id for token_id, piece in known.items() if rest.startswith(piece)]
        ids.append(max(fitting, key=lambda token_id: len(known[token_id])))
        rest = rest[len(known[ids[-1]]) :]
    return ids


def fields() -> Language:
    """Return texts of two forced keys with a choice behind each."""
    letters = OneOf(((ord("c"), ord("f")),))
    return Sequence(
        (
            Bytes(b"abbag"),
            Repeat(letters, 1, 4),
            Bytes(b"ghba"),
            either([Bytes(b"cdcdab"), Bytes(b"ee"), Bytes(b"f")]),
            Bytes(b"h"),
        )
    )


def letters_without_end() -> Language:
    """Return texts of one or more letters."""
    return Repeat(OneOf(((ord("a"), ord("h")),)), 1, None)


def bound(
    language: Language,
    vocab_size: int,
    *,
    end_ids: tuple[int, ...] = (END_ID,),
    has_spans: bool = True,
) -> BoundSchema:
    """Compile a language for a model."""
    trie = TokenTrie(content(), vocab_size)
    automaton = compile_language(language)
    tables = build_token_tables(StepTable(automaton), trie, split if has_spans else None)
    name = repr(automaton.state_count).encode().rjust(32, b"\0")
    return BoundSchema(tables, trie, digest=name, end_ids=end_ids)


def schema_of(
    case: Case, *, end_ids: tuple[int, ...] = (END_ID,), has_spans: bool = True
) -> BoundSchema:
    """Return the schema of :func:`fields` for the model of a case."""
    return bound(fields(), case.program.vocab_size, end_ids=end_ids, has_spans=has_spans)


def other_schema_of(case: Case) -> BoundSchema:
    """Return another one."""
    return bound(letters_without_end(), case.program.vocab_size)
