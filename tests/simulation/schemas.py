"""The schemas that schedules bind: for the runtime, and as the simulator knows them."""

from collections.abc import Callable, Iterable
from functools import cache
from itertools import product

from sslm.schema.regular.compiler import compile_language
from sslm.schema.regular.language import Bytes, Language, OneOf, Repeat, Sequence, either
from sslm.schema.tokens.bound_schema import BoundSchema
from sslm.schema.tokens.spans import Split
from sslm.schema.tokens.step_table import StepTable
from sslm.schema.tokens.tables import build_token_tables
from sslm.schema.tokens.trie import TokenTrie
from tests.simulation.automata import Automaton, Row, rows_of_texts

PIECES = (
    *(b"a", b"b", b"c", b"d", b"e", b"f", b"g", b"h"),
    *(b"ab", b"ba", b"cd", b"bac", b"dba", b"ee", b"gh", b"abba"),
    *(b'"', b"\xc3", b"\xa8", b"\xa9", b"\xe2", b"\x82\xac", b'\xa9"', b'a"', b"ab", b"\xc3\xa9"),
)
"""The bytes of the first ids; one piece has two. All vocabularies are larger."""

END_IDS = (30, 33)
NAMES = ("fields", "fields without end", "letters", "text", "text in any pieces", "short")
"""Forced keys with choices between them, with what ends them and without; texts without a bound;
characters of several bytes, with spans and without; and soon at an end, which is a dead one."""

_CONTENT = dict(enumerate(PIECES))
_LETTERS = "abcdefgh"
_CHARACTERS = ("a", "è", "é", "€")
_WORDS = (b"cdcdab", b"ee", b"f")
_SHORT = (b"ab", b"abba", b"cd", b"cdba", b"ex", b"cex", b"abex", b"abbaex")
"""No token has the last letter, so that nothing completes what has an e."""


def split(text: str) -> list[int]:
    """Split into the longest pieces that there are, from the left, as a tokenizer may."""
    ids, rest = [], text.encode()
    while rest:
        fitting = [i for i, piece in _CONTENT.items() if rest.startswith(piece)]
        if not fitting:
            return []
        ids.append(max(fitting, key=lambda i: (len(PIECES[i]), -i)))
        rest = rest[len(PIECES[ids[-1]]) :]
    return ids


def _fields() -> list[bytes]:
    middles = ["".join(some) for count in (1, 2, 3) for some in product("cdef", repeat=count)]
    return [b"abbag%bghba%bh" % (some.encode(), word) for some in middles for word in _WORDS]


def _texts() -> list[bytes]:
    inner = ["".join(some) for count in range(4) for some in product(_CHARACTERS, repeat=count)]
    return [f'"{one}"'.encode() for one in inner]


def _rows(name: str) -> tuple[list[Row], set[int]]:
    if name == "letters":
        # One letter at least.
        row = {ord(letter): 1 for letter in _LETTERS}
        return [row, row], {1}
    makers: dict[str, Callable[[], Iterable[bytes]]]
    makers = {"fields": _fields, "text": _texts, "short": lambda: _SHORT}
    return rows_of_texts(makers[name.split(maxsplit=1)[0]]())


@cache
def known(index: int) -> Automaton:
    """Return a schema as the simulator knows it."""
    name = NAMES[index]
    rows, accepting = _rows(name)
    return Automaton(rows, accepting, _CONTENT, _end_ids(name), _split(name))


def _end_ids(name: str) -> tuple[int, ...]:
    if name in {"fields without end", "short"}:
        return ()
    return END_IDS if name == "letters" else END_IDS[:1]


def _split(name: str) -> Split | None:
    return None if name == "text in any pieces" else split


def _language(name: str) -> Language:
    """Say the same as the rows do, in the package's words."""
    if name == "letters":
        return Repeat(OneOf(((ord("a"), ord("h")),)), 1, None)
    if name == "short":
        return either([Bytes(text) for text in _SHORT])
    if name.startswith("fields"):
        middle = Repeat(OneOf(((ord("c"), ord("f")),)), 1, 3)
        words = either([Bytes(word) for word in _WORDS])
        return Sequence((Bytes(b"abbag"), middle, Bytes(b"ghba"), words, Bytes(b"h")))
    characters = Repeat(either([Bytes(one.encode()) for one in _CHARACTERS]), 0, 3)
    return Sequence((Bytes(b'"'), characters, Bytes(b'"')))


@cache
def compiled(index: int, vocab_size: int) -> BoundSchema:
    """Return a schema as sequences are bound to it."""
    name = NAMES[index]
    trie = TokenTrie(_CONTENT, vocab_size)
    table = StepTable(compile_language(_language(name)))
    tables = build_token_tables(table, trie, _split(name))
    return BoundSchema(tables, trie, digest=name.encode().ljust(32), end_ids=_end_ids(name))
