"""Masks of schemas with a handful of texts, against trying out which tokens lead to one of them."""

from functools import cache

from hypothesis import example, given
from hypothesis import strategies as st

from sslm.errors.schema import UnspellableSchemaError
from sslm.schema.regular.compiler import compile_language
from sslm.schema.regular.language import Bytes, either
from sslm.schema.tokens.bound_schema import ANY_COUNT, BoundSchema
from sslm.schema.tokens.step_table import StepTable
from sslm.schema.tokens.tables import build_token_tables
from sslm.schema.tokens.trie import TokenTrie
from tests.unit.schema.tokens.test_bound_schema import END_ID, mask_ids
from tests.unit.schema.tokens.test_tables import greedy_split

ALPHABET = 'ab"éè'
NEVER = 1 << 20
a_text = st.text(ALPHABET, min_size=1, max_size=5).map(str.encode)
texts_of = st.sets(a_text, min_size=1, max_size=6)
byte = st.sampled_from(sorted(set(ALPHABET.encode())))
tokens_of = st.dictionaries(
    st.integers(0, END_ID - 1),
    st.one_of(
        st.lists(byte, min_size=1, max_size=2).map(bytes),
        byte.map(lambda one: bytes((one,))),
        st.text(ALPHABET, min_size=1, max_size=3).map(str.encode),
    ),
    min_size=4,
    max_size=14,
)


class Trials:
    """A schema as its texts, without any automaton: what is asked of a beginning is tried out."""

    def __init__(self, texts: set[bytes], trie: TokenTrie, *, has_spans: bool) -> None:
        self._texts = texts
        self._trie = trie
        self._has_spans = has_spans
        self.fewest = cache(self._fewest)

    def goes_on(self, begun: bytes) -> bool:
        return any(text.startswith(begun) for text in self._texts)

    def only_token(self, begun: bytes) -> int | None:
        """Return the first token of the split of what alone can come next, if anything has to."""
        span = b""
        while begun + span not in self._texts:
            size = len(begun + span)
            following = {text[size] for text in self._texts if text.startswith(begun + span)}
            if len(following) != 1:
                break
            span += bytes(following)
        if not span or not self._has_spans:
            return None
        text = span.decode(errors="replace")
        # A character that is cut in two begins with bytes that are none.
        whole = text.partition("\ufffd")[0]
        ids = greedy_split(self._trie, whole) if whole else []
        if ids:
            return ids[0]
        tokens = self._trie.tokens
        fitting = [i for i, piece in tokens.items() if span.startswith(piece)]
        return min(fitting, key=lambda i: (-len(tokens[i]), i), default=None)

    def ways(self, begun: bytes) -> dict[int, bytes]:
        """Return the tokens that may be tried, and what is begun with each."""
        only = self.only_token(begun)
        ids = self._trie.tokens if only is None else [only]
        after = {i: begun + self._trie.tokens[i] for i in ids}
        return {i: text for i, text in after.items() if self.goes_on(text)}

    def _fewest(self, begun: bytes) -> int:
        """Return how many tokens complete a beginning, at least."""
        if begun in self._texts:
            return 0
        return 1 + min((self.fewest(after) for after in self.ways(begun).values()), default=NEVER)

    def allowed(self, begun: bytes, remaining: int) -> set[int]:
        """Return the tokens after which so many, that one counted, complete a text."""
        ways = self.ways(begun).items()
        return {i for i, after in ways if self.fewest(after) < min(remaining, NEVER)}


CUT = {0: b"a", 1: b"a\xc3", 2: b"\xc3", 3: b"\xa8", 4: b"\xa9"}
"""What spells two texts whose span ends in the middle of a character."""


@example({"aé".encode(), "aè".encode()}, CUT, True, True)
@given(texts_of, tokens_of, st.booleans(), st.booleans())
def test_a_token_is_allowed_if_trying_completes_a_text(
    texts: set[bytes], tokens: dict[int, bytes], has_spans: bool, has_end: bool
) -> None:
    trie = TokenTrie(tokens, END_ID + 1)
    trials = Trials(texts, trie, has_spans=has_spans)
    table = StepTable(compile_language(either([Bytes(text) for text in sorted(texts)])))
    split = (lambda text: greedy_split(trie, text)) if has_spans else None
    try:
        tables = build_token_tables(table, trie, split)
    except UnspellableSchemaError:
        assert trials.fewest(b"") >= NEVER
        return
    ends = (END_ID,) if has_end else ()
    schema = BoundSchema(tables, trie, digest=bytes(32), end_ids=ends)
    for begun in {text[:size] for text in texts for size in range(len(text) + 1)}:
        state = table.step(0, begun)
        assert state is not None
        fewest = trials.fewest(begun)
        if fewest >= NEVER:
            continue
        assert schema.distance(state) == fewest
        at_end = set(ends) if begun in texts else set()
        for remaining in (ANY_COUNT, *range(fewest, fewest + 4)):
            expected = trials.allowed(begun, remaining) | at_end
            assert mask_ids(schema, state, remaining) == expected, (begun, remaining)
