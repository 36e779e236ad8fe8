"""Text to ids and back, against llama.cpp's own strings and against definitions."""

import subprocess
import sys
from types import SimpleNamespace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sslm import limits
from sslm.artifact.tokenizer_section import decode_vocabulary, encode_vocabulary
from sslm.errors import text as errors
from sslm.text.byte_bpe import ByteBpeEncoder
from sslm.text.sentencepiece import SentencePieceEncoder
from sslm.text.tokenizer import Tokenizer
from sslm.text.vocabulary import CHARACTER_OF_BYTE, SPACE, PreTokenizer, TokenType, Vocabulary
from tests.unit.text.vocabularies import (
    PUBLISHED,
    byte_level_fields,
    byte_level_tokenizer,
    published_strings,
    published_tokenizer,
    sentencepiece_fields,
    sentencepiece_tokenizer,
)

TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=40)


@pytest.mark.parametrize("name", PUBLISHED)
def test_published_strings(name: str) -> None:
    """All ids are llama.cpp's (without begin token), and give the string back."""
    strings = list(published_strings(name))
    assert len(strings) >= 46
    tokenizer = published_tokenizer(name)
    for text, expected in strings:
        ids = tokenizer.encode(text, add_bos=False, add_eos=False)
        assert ids == expected, text
        assert tokenizer.decode(ids) == text


@given(text=TEXTS)
def test_byte_level_round_trip(text: str) -> None:
    tokenizer = byte_level_tokenizer()
    assert tokenizer.decode(tokenizer.encode(text)) == text


@given(text=TEXTS)
def test_sentencepiece_round_trip(text: str) -> None:
    # U+2581 spells the space, so a text that has it comes back with spaces.
    text = text.replace(SPACE, " ")
    tokenizer = sentencepiece_tokenizer()
    assert tokenizer.decode(tokenizer.encode(text)) == text


# A byte token is spelled as one.
@pytest.mark.parametrize("kind", [kind for kind in TokenType if kind is not TokenType.BYTE])
@pytest.mark.parametrize("is_byte_level", [True, False])
def test_tokens_of_no_characters_stand_for_no_text(kind: TokenType, is_byte_level: bool) -> None:
    """Any number of them, of any type but bytes; llama.cpp takes such files too."""
    fields = byte_level_fields() if is_byte_level else sentencepiece_fields()
    plain = Tokenizer(Vocabulary(**fields))
    first = len(fields["tokens"])
    fields["tokens"] += ("", "")
    fields["token_types"] += bytes([kind, kind])
    if not is_byte_level:
        fields["scores"] += (10.0, 10.0)
    vocabulary = Vocabulary(**fields)
    tokenizer = Tokenizer(vocabulary, "{{ '' }}<|im_start|>")
    for text in ("", "abab ab", "a\n\u2581b", "<|im_end|>"):
        ids = plain.encode(text)
        assert tokenizer.encode(text) == ids
        assert tokenizer.encode_with_controls(text) == plain.encode_with_controls(text)
        spread = [first, *(one for token_id in ids for one in (token_id, first + 1))]
        assert tokenizer.decode(spread) == plain.decode(ids)
    assert tokenizer.token_bytes(first) == b""
    assert (
        decode_vocabulary(memoryview(encode_vocabulary(vocabulary)), base_offset_bytes=0)
        == vocabulary
    )


def test_merges_use_no_token_of_no_characters() -> None:
    fields = byte_level_fields()
    fields["tokens"] += ("",)
    fields["token_types"] += bytes([TokenType.NORMAL])
    fields["merges"] += ((len(fields["tokens"]) - 1, 0),)
    with pytest.raises(errors.MergePartError):
        Vocabulary(**fields)


def _merge_by_definition(text: str, scores: dict[str, float]) -> list[str]:
    symbols = list(text)
    while True:
        places = [
            (-scores[symbols[i] + symbols[i + 1]], i)
            for i in range(len(symbols) - 1)
            if symbols[i] + symbols[i + 1] in scores
        ]
        if not places:
            return symbols
        _, place = min(places)
        symbols[place : place + 2] = [symbols[place] + symbols[place + 1]]


@given(
    pieces=st.dictionaries(st.text("ab▁", min_size=1, max_size=4), st.integers(-3, 0)),
    text=st.text("ab c", max_size=16),
)
@settings(max_examples=300)
def test_sentencepiece_merges_as_defined(pieces: dict[str, int], text: str) -> None:
    """Highest score first, leftmost among equals, whether or not words can be cut apart."""
    pieces = {SPACE: 0} | pieces
    fields = sentencepiece_fields()
    vocabulary = Vocabulary(
        **fields
        | {
            "tokens": (*fields["tokens"][:259], *pieces),
            "token_types": fields["token_types"][:259] + bytes([TokenType.NORMAL]) * len(pieces),
            "scores": (*[0.0] * 259, *map(float, pieces.values())),
        }
    )
    ids = SentencePieceEncoder(vocabulary).encode(text, lambda: None)
    expected = []
    scores = {piece: float(score) for piece, score in pieces.items()}
    for symbol in _merge_by_definition(text.replace(" ", SPACE), scores):
        known = symbol in pieces
        spellings = [symbol] if known else [f"<0x{byte:02X}>" for byte in symbol.encode()]
        expected += [vocabulary.tokens.index(spelling) for spelling in spellings]
    assert ids == expected


def test_controls_in_text_are_literal() -> None:
    text = "hel<|im_end|><s>"
    tokenizer = byte_level_tokenizer()
    ids = tokenizer.encode(text)
    assert ids == [257, *b"<|im_end|><s>"]
    assert tokenizer.decode(ids) == text
    assert tokenizer.encode_with_controls(text) == [257, 259, 261]
    assert tokenizer.decode([257, 259, 261]) == "hel"


def test_sentencepiece_controls_cannot_be_merged() -> None:
    """A control token has the highest score, 0, and its halves may be tokens."""
    fields = sentencepiece_fields()
    halves = ("<", "/", "s", ">", "</", "s>")
    tokenizer = sentencepiece_tokenizer(
        tokens=fields["tokens"] + halves,
        token_types=fields["token_types"] + bytes([TokenType.NORMAL] * len(halves)),
        scores=fields["scores"] + (-1.0,) * len(halves),
        add_space_prefix=False,
    )
    spelled = [tokenizer.spelling(token_id) for token_id in tokenizer.encode("a</s>")]
    assert spelled == ["<s>", "a", "</", "s>"]
    assert tokenizer.encode_with_controls("a</s>")[-1] == 2


def test_user_defined_tokens_are_found_in_text() -> None:
    tokenizer = byte_level_tokenizer()
    assert tokenizer.encode("h<think>he") == [104, 262, 256]
    assert tokenizer.decode([262]) == "<think>"
    assert published_tokenizer("qwen2").encode("a[PAD151646]") == [64, 151646]


@pytest.mark.parametrize("byte", [0xA2, 0x80, 0x20])
def test_a_user_defined_token_is_no_byte(byte: int) -> None:
    """Spelled as plain text, it looks like the spelling of a byte that has no token of its own."""
    fields = byte_level_fields()
    kinds = bytearray(fields["token_types"])
    kinds[byte] = TokenType.USER_DEFINED
    tokenizer = byte_level_tokenizer(token_types=bytes(kinds))
    spelling = fields["tokens"][byte]
    assert tokenizer.encode(spelling) == [byte]
    assert tokenizer.decode([byte]) == spelling
    text = bytes([byte]).decode() if byte < 128 else bytes([0xC3, byte]).decode()
    with pytest.raises(errors.TextNotEncodableError):
        tokenizer.encode(text)


def test_merges_may_use_a_user_defined_token_of_visible_ascii() -> None:
    kinds = bytearray(byte_level_fields()["token_types"])
    kinds[256] = TokenType.USER_DEFINED
    tokenizer = byte_level_tokenizer(token_types=bytes(kinds))
    assert tokenizer.vocabulary.merges[1] == (256, ord("l"))
    assert tokenizer.decode(tokenizer.encode("hello")) == "hello"


@pytest.mark.parametrize("pre_tokenizer", [PreTokenizer.SMOLLM, PreTokenizer.LLAMA_BPE])
@pytest.mark.parametrize("spelling", ["<|im_end|>", "###", "end"])
def test_an_end_token_that_is_called_user_defined_is_literal_in_text(
    spelling: str, pre_tokenizer: PreTokenizer
) -> None:
    fields = byte_level_fields()
    tokens, kinds = list(fields["tokens"]), bytearray(fields["token_types"])
    tokens[259], kinds[259] = spelling, TokenType.USER_DEFINED
    tokenizer = byte_level_tokenizer(
        tokens=tuple(tokens),
        token_types=bytes(kinds),
        pre_tokenizer=pre_tokenizer,
        ignore_merges=True,
    )
    text = f"{spelling} {spelling}"
    space = CHARACTER_OF_BYTE[32]
    assert [tokenizer.spelling(one).replace(space, " ") for one in tokenizer.encode(text)] == [
        *text
    ]
    assert tokenizer.encode_with_controls(spelling) == [259]


def test_longest_special_token_wins() -> None:
    fields = byte_level_fields()
    tokens = (*fields["tokens"], "<", "<|", "<thinking>")
    types = fields["token_types"] + bytes([TokenType.USER_DEFINED] * 2 + [TokenType.CONTROL])
    # "<" is a byte's spelling already, so it takes its place as a user-defined token.
    tokens = tokens[:263] + tokens[264:]
    types = types[:263] + types[264:]
    tokenizer = byte_level_tokenizer(tokens=tokens, token_types=types)
    assert tokenizer.encode_with_controls("<|<thinking><|im_end|>") == [263, 264, 259]
    assert tokenizer.encode("<think") == [*b"<think"]


def test_begin_and_end_tokens() -> None:
    tokenizer = byte_level_tokenizer(add_bos=True, add_eos=True)
    assert tokenizer.encode("a") == [261, 97, 259]
    assert tokenizer.encode("a", add_bos=False, add_eos=False) == [97]
    assert byte_level_tokenizer().encode("a", add_bos=True) == [261, 97]
    assert tokenizer.encode("") == [261, 259]


def test_space_prefix() -> None:
    tokenizer = sentencepiece_tokenizer()
    prefixed = tokenizer.vocabulary.tokens.index("▁ab")
    assert tokenizer.encode("ab") == [1, prefixed]
    assert tokenizer.encode("") == [1]
    assert tokenizer.encode_with_controls("ab</s>ab") == [1, prefixed, 2, prefixed]
    assert tokenizer.decode([1, prefixed]) == "ab"
    assert tokenizer.decode([prefixed], is_continuation=True) == " ab"
    unprefixed = sentencepiece_tokenizer(add_space_prefix=False)
    assert unprefixed.decode([prefixed]) == " ab"


def test_token_bytes() -> None:
    tokenizer = byte_level_tokenizer()
    assert [tokenizer.token_bytes(i) for i in (10, 0xE2, 257, 259, 262)] == [
        *(b"\n", b"\xe2", b"hel", b"", b"<think>")
    ]
    tokenizer = sentencepiece_tokenizer()
    assert [tokenizer.token_bytes(i) for i in (0, 1, 13, 259)] == [b"", b"", b"\n", b" "]
    assert tokenizer.spelling(13) == "<0x0A>"


@pytest.mark.parametrize("token_id", [-1, 263])
def test_ids_out_of_range(token_id: int) -> None:
    with pytest.raises(errors.TokenizerIdError, match="0 to 262"):
        byte_level_tokenizer().decode([97, token_id])


def test_bad_texts() -> None:
    tokenizer = byte_level_tokenizer()
    with pytest.raises(errors.TextUnicodeError, match=r"U\+D83D at character 1"):
        tokenizer.encode("a\ud83d")
    with pytest.raises(errors.TextTypeError, match="found bytes"):
        tokenizer.encode(b"a")  # type: ignore[arg-type]
    with pytest.raises(errors.TextTooLongError):
        tokenizer.encode("a" * (limits.TEXT_SIZE_CHARS_MAX + 1))


def test_bytes_without_token_are_refused() -> None:
    fields = byte_level_fields()
    tokens = ("¡¡", *fields["tokens"][1:])
    tokenizer = byte_level_tokenizer(tokens=tokens)
    assert tokenizer.encode("a") == [97]
    with pytest.raises(errors.TextNotEncodableError, match="byte 0x00"):
        tokenizer.encode("a\0")


def test_a_panic_becomes_an_error() -> None:
    class PanicException(BaseException):
        pass

    class Panicking:
        def encode(self, text: str, **_: object) -> None:
            raise PanicException(text)

    encoder = ByteBpeEncoder(Vocabulary(**byte_level_fields()), control_ids=())
    encoder._library = Panicking()
    with pytest.raises(errors.TokenizerFailedError, match="1 characters: a"):
        encoder.encode("a", lambda: None)


@pytest.mark.parametrize(
    "told",
    [
        "Oniguruma error: fail to memory allocation",
        "PyObject pointer is null",
        "failed to extract enum PyMerges",
    ],
)
def test_a_lack_of_memory_in_the_library_is_one_here(
    told: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its patterns say so in a bare Exception, of which a caller would not know what it is."""

    def fail(*_: object, **__: object) -> None:
        raise Exception(told)

    encoder = ByteBpeEncoder(Vocabulary(**byte_level_fields()), control_ids=())
    encoder._library = SimpleNamespace(encode=fail)
    with pytest.raises(MemoryError, match=told):
        encoder.encode("a", lambda: None)
    monkeypatch.setattr("tokenizers.Regex", fail)
    with pytest.raises(MemoryError, match=told):
        ByteBpeEncoder(Vocabulary(**byte_level_fields()), control_ids=())


def test_a_pattern_that_the_library_refuses_is_told_by_our_error(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    patterns = dict.fromkeys(PreTokenizer, ("(",))
    monkeypatch.setattr("sslm.text.byte_bpe._PATTERNS", patterns)
    with pytest.raises(errors.TokenizerBuildError, match="end pattern with unmatched"):
        ByteBpeEncoder(Vocabulary(**byte_level_fields()), control_ids=())


def test_long_words_take_little_time() -> None:
    """A million characters without a space, where a quadratic algorithm would take hours."""
    assert len(byte_level_tokenizer().encode("hel" * 300_000)) == 300_000
    assert len(sentencepiece_tokenizer().encode("a" * 200_000)) > 100_000


def test_importing_loads_no_library() -> None:
    code = (
        "import sys, sslm.text.tokenizer, sslm.text.detokenizer, sslm.text.templates.chat_template;"
        "import sslm.text.chat_encoding;"
        "assert not {'tokenizers', 'jinja2', 'numpy'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


class OutOfTimeError(Exception):
    """Raised by a clock of these tests."""


class Looks:
    """Counts how often the time is asked for, and says at one of them that it is over."""

    def __init__(self, last: int | None = None) -> None:
        self.count = 0
        self._last = last

    def __call__(self) -> None:
        self.count += 1
        if self.count == self._last:
            raise OutOfTimeError


LONG = {
    "one word": (sentencepiece_tokenizer(), "a" * 40_000, 12),
    "words": (sentencepiece_tokenizer(), "ab " * 20_000, 5),
    "special tokens": (byte_level_tokenizer(), "<think>a" * 20_000, 20_000),
    "beginnings of special tokens": (byte_level_tokenizer(), "<t" * 100_000, 4),
}


@pytest.mark.parametrize("name", LONG)
def test_time_is_looked_at_while_a_text_is_tokenized(name: str) -> None:
    tokenizer, text, least = LONG[name]
    looks = Looks()
    ids = tokenizer.encode(text, require_time=looks)
    assert looks.count >= least
    assert ids == tokenizer.encode(text)
    for last in (1, 2, looks.count):
        with pytest.raises(OutOfTimeError):
            tokenizer.encode(text, require_time=Looks(last))
