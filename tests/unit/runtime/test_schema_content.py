"""Content that is taken in up to somewhere: inside a character, a token, a span, or at an end."""

import ctypes

import pytest

from sslm.errors.base import SslmError
from sslm.errors.binding import SchemaBudgetTokensError, SchemaSpanUnreachableError
from sslm.errors.runtime import (
    ContextLengthError,
    KvPoolExhaustedError,
    PartlyAdmitted,
    TokenIdRangeError,
    TokenIdTypeError,
)
from sslm.runtime.saves.saving import restore, save
from sslm.runtime.sequences.options import SequenceOptions
from sslm.runtime.sequences.prefix import Prefix
from sslm.runtime.sequences.sequence import Sequence
from sslm.schema.regular.compiler import compile_language
from sslm.schema.regular.language import Bytes, Language, OneOf, Repeat, either
from sslm.schema.regular.language import Sequence as InOrder
from sslm.schema.tokens.bound_schema import BoundSchema
from sslm.schema.tokens.step_table import StepTable
from sslm.schema.tokens.tables import build_token_tables
from sslm.schema.tokens.trie import TokenTrie
from tests.runtime_cases import Case, refused, seen
from tests.sequences import LONGEST
from tests.tiny_models import MODEL_ID

PROMPT = [index * 5 % 37 for index in range(70)]
OPTIONS = SequenceOptions(context_tokens=LONGEST, reserved_tokens=0)
END_ID = 30
PIECES = [
    *(b'"', b"a", b"\xc3", b"\xa8", b"\xa9", b"\xe2", b"\x82\xac", b'\xa9"', b'a"', b"\xc3\xa9"),
    *(b"k", b"e", b"y", b":", b"key", b"ey", b':"', b'"k', b'key:"'),
]
"""Bytes, characters in parts and whole, and more than one character."""
ID = {piece: token_id for token_id, piece in enumerate(PIECES)}


def split(text: str) -> list[int]:
    """Split into the longest pieces, from the left."""
    ids, content = [], text.encode()
    while content:
        piece = max((one for one in PIECES if content.startswith(one)), key=len, default=b"")
        if not piece:
            return []
        ids.append(ID[piece])
        content = content[len(piece) :]
    return ids


def ids_of(*pieces: bytes) -> list[int]:
    return [ID[piece] for piece in pieces]


def compiled(case: Case, language: Language, **options: bool) -> BoundSchema:
    trie = TokenTrie(dict(enumerate(PIECES)), case.program.vocab_size)
    table = StepTable(compile_language(language))
    tables = build_token_tables(table, trie, split if options.get("has_spans", True) else None)
    ends = (END_ID,) if options.get("is_end_allowed", True) else ()
    return BoundSchema(tables, trie, digest=bytes(32), end_ids=ends)


def text_schema(case: Case) -> BoundSchema:
    """A forced key, and a text of at most three characters behind it."""
    two = InOrder((Bytes(b"\xc3"), OneOf(((0xA8, 0xA9),))))
    character = either([Bytes(b"a"), two, Bytes(b"\xe2\x82\xac")])
    text = InOrder((Bytes(b'"key":"'), Repeat(character, 0, 3), Bytes(b'"')))
    return compiled(case, text)


def allowed(sequence: Sequence) -> set[int]:
    """Return the ids that the mask in use has."""
    address = sequence.state.data.struct.span.allowed
    words = (ctypes.c_uint32 * 2).from_address(address)
    return {32 * i + bit for i, word in enumerate(words) for bit in range(32) if word >> bit & 1}


def begun(case: Case, schema: BoundSchema, answer_tokens: int | None = None) -> Sequence:
    sequence = case.sequence()
    sequence.bind(schema, answer_tokens=answer_tokens)
    sequence.push(PROMPT)
    case.run(sequence)
    return sequence


def rest(case: Case, sequence: Sequence, count: int = 5) -> tuple[object, ...]:
    """Let an answer go on for some tokens; return all that must be equal."""
    case.run(sequence)
    while count and not sequence.is_answer_complete:
        ids = sequence.decode_span(count)
        count -= len(ids)
        case.run(sequence)
        if END_ID in ids:
            break
    stats = sequence.stats()
    return sequence.token_ids, sequence.digest, stats.forced_tokens, stats.is_accepting


STOPS: dict[str, tuple[list[bytes], bytes, set[bytes] | None]] = {
    "inside a character of two bytes": (
        [b'"', b"key", b'"', b":", b'"', b"a", b"\xc3"],
        b"a",
        {b"\xa8", b"\xa9", b'\xa9"'},
    ),
    "inside a character of three bytes": (
        [b'"', b"key", b'"', b":", b'"', b"\xe2"],
        b"\xa9",
        {b"\x82\xac"},
    ),
    "inside a token of a span": ([b'"', b"k", b"e"], b"k", {b"y"}),
    "inside a span spelled otherwise": ([b'"k', b"ey"], b":", {b'"'}),
    "at a span's end": ([b'"', b"key", b'"', b":"], b"a", {b'"'}),
    "where the last character was": (
        [b'"', b"key", b'"', b":", b'"', b"a", b"a", b"\xc3\xa9"],
        b"a",
        {b'"'},
    ),
    "at the end": ([b'"', b"key", b'"', b":", b'"', b'a"'], b"a", set()),
}


@pytest.mark.parametrize("stop", STOPS)
@pytest.mark.parametrize("is_chunked", [False, True])
@pytest.mark.published_call(
    "sslm_prefill",
    refusal="SSLM_SCHEMA_SPAN_UNREACHABLE",
    case="inside a character, a token or a span, or at the end",
    here="SchemaSpanUnreachableError",
)
def test_an_answer_goes_on_from_where_content_stopped(
    case: Case, stop: str, is_chunked: bool
) -> None:
    good, bad, follow = STOPS[stop]
    ids, schema = ids_of(*good), text_schema(case)
    with begun(case, schema) as right, begun(case, schema) as sequence:
        # Token by token, each computed before the next one is taken in.
        for token_id in ids:
            right.prefill_content([token_id])
            case.run(right)
        if is_chunked:
            sequence.prefill_content(ids[:1])
            case.step(sequence, 1)
            with pytest.raises(SchemaSpanUnreachableError) as caught:
                sequence.prefill_content([*ids[1:], ID[bad], ids[0]])
            assert caught.value.consumed_tokens == len(ids) - 1
        else:
            with pytest.raises(SchemaSpanUnreachableError) as caught:
                sequence.prefill_content([*ids, ID[bad], ids[0]])
            assert caught.value.consumed_tokens == len(ids)
        assert caught.value.token_id == ID[bad]
        case.run(sequence)
        expected = {ID[piece] for piece in follow or ()} | ({END_ID} if not follow else set())
        assert allowed(sequence) == expected
        assert sequence.stats().is_accepting == (not follow)
        assert sequence.selected in expected
        # Refused again, and now as a whole.
        with refused(SchemaSpanUnreachableError, sequence):
            sequence.prefill_content([ID[bad]])
        assert everything_goes_on(case, sequence, schema) == rest(case, right)


def everything_goes_on(case: Case, sequence: Sequence, schema: BoundSchema) -> object:
    """Save, fork and roll back a sequence, and return what all of these come to."""
    pool = sequence.state.hold.pool
    checkpoint = sequence.snapshot()
    ends = []
    for kv in (True, False):
        blob = save(sequence, kv=kv)
        with restore(blob, case.program, case.pool(), MODEL_ID, OPTIONS, schema=schema) as other:
            ends.append(rest(case, other))
    with case.sequence(pool) as fork:
        fork.bind(schema)
        fork.adopt(checkpoint)
        ends.append(rest(case, fork))
    ends.append(rest(case, sequence))
    sequence.reset()
    sequence.adopt(checkpoint)
    ends.append(rest(case, sequence))
    checkpoint.release()
    assert ends == [ends[0]] * len(ends)
    return ends[0]


# What stops content, and when it is told.

FAULTS: dict[str, tuple[list[object], type[SslmError]]] = {
    "schema": ([*ids_of(b'"', b"key"), ID[b"a"], -1], SchemaSpanUnreachableError),
    "what ends an answer": ([*ids_of(b'"', b"key"), END_ID], SchemaSpanUnreachableError),
    "what is no content": ([*ids_of(b'"', b"key"), END_ID + 1], SchemaSpanUnreachableError),
    "vocabulary": ([*ids_of(b'"', b"key"), 1 << 20, ID[b"a"]], TokenIdRangeError),
    "no id": ([*ids_of(b'"', b"key"), "1"], TokenIdTypeError),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_what_comes_first_stops_content(case: Case, fault: str) -> None:
    ids, kind = FAULTS[fault]
    schema = text_schema(case)
    with begun(case, schema) as sequence, begun(case, schema) as right:
        with pytest.raises(kind) as caught:
            sequence.prefill_content(ids)
        assert isinstance(caught.value, PartlyAdmitted)
        assert caught.value.consumed_tokens == 2
        right.prefill_content(ids[:2])
        assert seen(sequence) == seen(right)
        assert rest(case, sequence) == rest(case, right)


def test_what_has_no_room_stops_content(case: Case) -> None:
    schema, ids = text_schema(case), ids_of(b'"', b"key", b'"', b":")
    with case.sequence(context_tokens=len(PROMPT) + 3) as sequence:
        sequence.bind(schema)
        sequence.push(PROMPT)
        with pytest.raises(ContextLengthError) as caught:
            # The schema would refuse what lies behind the end of the context.
            sequence.prefill_content([*ids, ID[b"a"]])
        assert caught.value.consumed_tokens == 3
        assert sequence.stats().forced_tokens == 3
        case.run(sequence)
        assert allowed(sequence) == {ID[b':"']}
        with refused(ContextLengthError, sequence):
            sequence.decode_span()
    if not case.program.state_layout.page_size_bytes:
        return
    with case.sequence(case.pool(2)) as sequence:
        sequence.bind(schema)
        sequence.push([1] * 126)
        with pytest.raises(KvPoolExhaustedError) as exhausted:
            sequence.prefill_content(ids)
        assert exhausted.value.consumed_tokens == 2
        case.run(sequence)
        assert allowed(sequence) == {ID[b'"']}


@pytest.mark.published_call(
    "sslm_prefix_prefill",
    refusal="SSLM_SCHEMA_SPAN_UNREACHABLE",
    here="SchemaSpanUnreachableError",
)
def test_a_prefix_takes_content_in_up_to_there(case: Case) -> None:
    schema, pool = text_schema(case), case.pool()
    content = ids_of(b'"', b"key", b'"', b":", b'"', b"\xc3")
    with begun(case, schema) as right:
        right.prefill_content(content)
        expected = rest(case, right)
    with Prefix(case.sequence(pool)) as prefix:
        prefix.bind(schema)
        prefix.prefill(PROMPT)
        with pytest.raises(SchemaSpanUnreachableError) as caught:
            prefix.prefill_content([*content, ID[b"a"]])
        assert caught.value.consumed_tokens == len(content)
        case.run(prefix.sequence)
        prefix.freeze()
        with case.sequence(pool) as sequence:
            sequence.bind(schema)
            prefix.adopt_into(sequence)
            assert rest(case, sequence) == expected


def test_a_prefix_is_adopted_only_where_its_content_leaves_enough_tokens(case: Case) -> None:
    schema, pool = text_schema(case), case.pool()
    # Letter by letter, which takes more than the shortest answer.
    content = ids_of(b'"', b"k", b"e", b"y", b'"', b":", b'"')
    with Prefix(case.sequence(pool)) as prefix:
        prefix.bind(schema)
        prefix.prefill_content(content)
        case.run(prefix.sequence)
        prefix.freeze()
        for answer_tokens in range(schema.shortest, len(content) + 3):
            with case.sequence(pool) as sequence:
                sequence.bind(schema, answer_tokens=answer_tokens)
                if answer_tokens <= len(content):
                    with refused(SchemaBudgetTokensError, sequence):
                        prefix.adopt_into(sequence)
                    continue
                prefix.adopt_into(sequence)
                case.run(sequence)
                left = answer_tokens - len(content)
                assert ID[b'"'] in allowed(sequence)
                assert (ID[b"a"] in allowed(sequence)) == (left > 1)
                rest(case, sequence, 30)
                assert sequence.stats().positions - len(content) <= left + 1


# Where a text may end.


@pytest.mark.parametrize("is_end_allowed", [True, False])
def test_content_stops_where_a_text_may_end_and_may_go_on(case: Case, is_end_allowed: bool) -> None:
    language = either([Bytes(b"k"), Bytes(b"key")])
    schema = compiled(case, language, is_end_allowed=is_end_allowed)
    with begun(case, schema) as sequence:
        # The span ends where the text may end, and no token goes beyond a span.
        assert allowed(sequence) == set(ids_of(b"k"))
        with pytest.raises(SchemaSpanUnreachableError):
            sequence.prefill_content(ids_of(b"k", b":"))
        case.run(sequence)
        assert sequence.stats().is_accepting
        assert not sequence.is_answer_complete
        ends = {END_ID} if is_end_allowed else set()
        # No span: the text may also end here.
        assert allowed(sequence) == set(ids_of(b"e", b"ey")) | ends
        sequence.prefill_content(ids_of(b"e"))
        case.run(sequence)
        assert allowed(sequence) == set(ids_of(b"y"))
        assert not sequence.stats().is_accepting


def test_forced_tokens_are_counted_through_everything(case: Case) -> None:
    schema, pool = text_schema(case), case.pool()
    with case.sequence(pool) as sequence:
        sequence.bind(schema)
        sequence.push(PROMPT)
        case.run(sequence)

        def counts() -> int:
            return sequence.stats().forced_tokens

        span = sequence.decode_span()
        # The chosen one was chosen; those behind it were not.
        assert counts() == len(span) - 1 > 0
        case.run(sequence)
        before = counts()
        checkpoint = sequence.snapshot()
        sequence.decode()
        assert counts() == before
        case.run(sequence)
        with pytest.raises(SchemaSpanUnreachableError) as caught:
            sequence.prefill_content(ids_of(b"k", b"k"))
        assert counts() == before + (caught.value.consumed_tokens or 0)
        sequence.push([1])
        after = counts()
        blob = save(sequence, kv=False)
        with restore(blob, case.program, pool, MODEL_ID, OPTIONS, schema=schema) as other:
            assert other.stats().forced_tokens == after
        sequence.reset()
        assert counts() == 0
        sequence.adopt(checkpoint)
        assert counts() == before
        checkpoint.release()


def test_content_takes_no_more_tokens_than_the_answer_has(case: Case) -> None:
    schema = compiled(case, Repeat(OneOf(((ord("a"), ord("z")),)), 1, None))
    letter = ID[b"a"]
    with begun(case, schema, answer_tokens=2) as sequence, begun(case, schema) as right:
        with pytest.raises(SchemaSpanUnreachableError, match="within its tokens") as caught:
            sequence.prefill_content([letter] * 4)
        assert caught.value.consumed_tokens == 2
        assert sequence.is_answer_complete
        case.run(sequence)
        assert allowed(sequence) == {END_ID}
        assert sequence.ending_after(letter) is None
        with refused(SchemaSpanUnreachableError, sequence):
            sequence.prefill_content([letter])
        right.prefill_content([letter] * 4)
        # A reset gives all of them back.
        sequence.reset()
        assert sequence.prefill_content([letter] * 2) == 2


def test_content_that_no_tokens_could_complete_is_not_taken(case: Case) -> None:
    # Nothing spells the z, so that what begins with e cannot be ended.
    language = either([Bytes(b"ez"), Bytes(b"aez"), Bytes(b"ay")])
    schema = compiled(case, language)
    for answer_tokens in (None, 9):
        with begun(case, schema, answer_tokens) as sequence:
            assert allowed(sequence) == {ID[b"a"]}
            with refused(SchemaSpanUnreachableError, sequence) as caught:
                sequence.prefill_content(ids_of(b"e"))
            assert "no tokens complete" in str(caught.value)
            sequence.prefill_content(ids_of(b"a"))
            with refused(SchemaSpanUnreachableError, sequence):
                sequence.prefill_content(ids_of(b"e"))
            case.run(sequence)
            assert allowed(sequence) == {ID[b"y"]}


def test_what_completes_an_answer_is_chosen_and_not_taken_along(case: Case) -> None:
    schema = compiled(case, InOrder((OneOf(((ord("a"), ord("b")),)), Bytes(b"ey"))))
    with begun(case, schema) as sequence:
        # Behind the letter one token alone may follow, which completes the text.
        assert sequence.decode_span() == ids_of(b"a")
        case.run(sequence)
        assert not sequence.is_answer_complete
        assert sequence.ending_after(ID[b"ey"]) == "complete"
        assert sequence.decode_span() == ids_of(b"ey")
        assert sequence.is_answer_complete
        assert sequence.stats().forced_tokens == 0


def test_a_reset_gives_all_tokens_of_an_answer_back(case: Case) -> None:
    schema = text_schema(case)
    content = ids_of(b'"', b"k", b"e", b"y", b'"', b":")
    with begun(case, schema, schema.shortest + 2) as sequence:
        ids = rest(case, sequence, 30)
        for _ in range(2):
            sequence.reset()
            with pytest.raises(SchemaSpanUnreachableError):
                sequence.prefill_content([*content, ID[b"a"]])
            sequence.reset()
            sequence.push(PROMPT)
            assert rest(case, sequence, 30) == ids
