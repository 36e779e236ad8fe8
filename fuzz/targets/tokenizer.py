"""Made-up vocabularies of each kind, and texts to tokenize with them."""

import struct
from typing import Any, Final

from fuzz.choices import Choices
from fuzz.target import Outcomes, Target, require
from sslm.errors.base import ArgumentError, ArtifactError
from sslm.text.detokenizer import Detokenizer
from sslm.text.special_tokens import SpecialTokenFinder
from sslm.text.stops import StopStrings
from sslm.text.tokenizer import Tokenizer
from sslm.text.vocabulary import (
    CHARACTER_OF_BYTE,
    PreTokenizer,
    TokenizerKind,
    TokenType,
    Vocabulary,
    pre_tokenizers_of,
)

_BYTE_LETTERS: Final = tuple(CHARACTER_OF_BYTE[byte] for byte in b"aehl \n'<|0\xc3\xa9\xe2\x96\x81")
_PIECE_LETTERS: Final = tuple("aehl\u2581\n'<|0\u00e9")
_SPECIAL_LETTERS: Final = tuple("<|ae> \u2581\u00e9")
_BYTE_LEVEL_TYPES: Final = (1, 1, 1, 3, 4, 5, 2)
_PIECE_TYPES: Final = (1, 1, 1, 3, 4, 5, 2, 6)
_EXTRA_TOKEN_COUNT_MAX: Final = 12
_TEXT_SIZE_CHARS_MAX: Final = 80

_TEXTLESS: Final = frozenset({TokenType.CONTROL, TokenType.UNUSED, TokenType.UNKNOWN})
"""Types of tokens that stand for no text."""


def run(data: bytes, outcomes: Outcomes) -> None:
    """Build a vocabulary, and check every promise that a tokenizer of it gives."""
    choices = Choices(data)
    with outcomes.refusals(ArtifactError):
        vocabulary = _vocabulary(choices)
        tokenizer = Tokenizer(vocabulary)
        outcomes.reached(f"{vocabulary.kind} built")
        for _ in range(2):
            text = _text(choices, tokenizer)
            _check_finder(tokenizer, text)
            with outcomes.refusals(ArgumentError):
                _check_encoding(tokenizer, text, outcomes)
        _check_decoding(tokenizer, choices)
    _check_stops(choices)


def _vocabulary(choices: Choices) -> Vocabulary:
    fields = _byte_level(choices) if choices.below(2) else _sentencepiece(choices)
    count = len(fields["tokens"])
    for name in ("bos_token_id", "eos_token_id", "unknown_token_id", "padding_token_id"):
        limit = count + 1 if choices.is_chosen(16) else max(count, 1)
        fields[name] = choices.below(limit) if choices.is_chosen(3) else None
    eos = fields["eos_token_id"]
    fields["end_token_ids"] = () if eos is None or choices.is_chosen(16) else (eos,)
    # A flag without its token is refused: that once in a while is enough.
    fields["add_bos"] = choices.is_chosen(2 if fields["bos_token_id"] is not None else 64)
    fields["add_eos"] = choices.is_chosen(2 if eos is not None else 64)
    return Vocabulary(**fields)


def _byte_level(choices: Choices) -> dict[str, Any]:
    tokens = list(CHARACTER_OF_BYTE.values())
    if choices.is_chosen(4):
        del tokens[choices.below(len(tokens)) :]
    types = [1] * len(tokens)
    merges = []
    for _ in range(choices.below(_EXTRA_TOKEN_COUNT_MAX)):
        kind = choices.pick(_BYTE_LEVEL_TYPES) if not choices.is_chosen(16) else choices.below(256)
        if kind == 1 and tokens:
            pair = choices.below(len(tokens)), choices.below(len(tokens))
            if choices.is_chosen(2):
                letters = [tokens.index(one) for one in _BYTE_LETTERS if one in tokens] or [0]
                pair = choices.pick(letters), choices.pick(letters)
            merges.append(pair)
            spelling = tokens[pair[0]] + tokens[pair[1]]
        else:
            spelling = choices.text(6, alphabet=_SPECIAL_LETTERS) or "<"
        if spelling not in tokens or choices.is_chosen(32):
            tokens.append(spelling)
            types.append(kind)
    if types and choices.is_chosen(4):
        types[choices.below(len(types))] = choices.pick(_BYTE_LEVEL_TYPES)
    return {
        "kind": TokenizerKind.BYTE_BPE,
        "pre_tokenizer": PreTokenizer(choices.pick(pre_tokenizers_of(TokenizerKind.BYTE_BPE))),
        "tokens": tuple(tokens),
        "token_types": bytes(types),
        "merges": tuple(merges),
        "ignore_merges": choices.is_chosen(2),
    }


def _sentencepiece(choices: Choices) -> dict[str, Any]:
    tokens = [f"<0x{byte:02X}>" for byte in range(256)]
    if choices.is_chosen(8):
        del tokens[choices.below(len(tokens))]
    types = [6] * len(tokens)
    scores = [0.0] * len(tokens)
    for _ in range(choices.below(_EXTRA_TOKEN_COUNT_MAX)):
        kind = choices.pick(_PIECE_TYPES) if not choices.is_chosen(16) else choices.below(256)
        letters = _PIECE_LETTERS if kind == 1 else _SPECIAL_LETTERS
        spelling = choices.text(4, alphabet=letters) if kind != 6 else choices.pick(tokens)
        spelling = spelling or letters[4]
        if spelling not in tokens or choices.is_chosen(32):
            tokens.append(spelling)
            types.append(kind)
            bits = choices.take(4).ljust(4, b"\0") if choices.is_chosen(8) else b"\0\0\x80\x3f"
            scores.append(struct.unpack("<f", bits)[0] - choices.below(4))
    return {
        "kind": TokenizerKind.SENTENCEPIECE,
        "pre_tokenizer": PreTokenizer.DEFAULT,
        "tokens": tuple(tokens),
        "token_types": bytes(types),
        "scores": tuple(scores),
        "add_space_prefix": choices.is_chosen(2),
    }


def _text(choices: Choices, tokenizer: Tokenizer) -> str:
    text = ""
    while not choices.is_used_up and len(text) < _TEXT_SIZE_CHARS_MAX and choices.below(8):
        if choices.is_chosen(3):
            text += tokenizer.spelling(choices.below(tokenizer.vocab_size))
        else:
            text += choices.text(8)
    return text


def _naive_split(ids: dict[str, int], text: str) -> list[str | int]:
    """Split at the leftmost, longest spellings, by trying them all at every place."""
    parts: list[str | int] = []
    place = plain_from = 0
    while place < len(text):
        found = [one for one in ids if text.startswith(one, place)]
        if not found:
            place += 1
            continue
        if plain_from < place:
            parts.append(text[plain_from:place])
        longest = max(found, key=len)
        parts.append(ids[longest])
        place = plain_from = place + len(longest)
    return [*parts, text[plain_from:]] if plain_from < len(text) else parts


def _check_finder(tokenizer: Tokenizer, text: str) -> None:
    vocabulary = tokenizer.vocabulary
    user_defined = vocabulary.ids_of_type(TokenType.USER_DEFINED)
    for special in (tokenizer.control_ids.values(), user_defined):
        ids = {vocabulary.tokens[one]: one for one in special}
        found = list(SpecialTokenFinder(ids).split(text))
        require(found == _naive_split(ids, text), "the finder takes the leftmost, longest token")


def _check_encoding(tokenizer: Tokenizer, text: str, outcomes: Outcomes) -> None:
    vocabulary = tokenizer.vocabulary
    ids = tokenizer.encode(text, add_bos=False, add_eos=False)
    outcomes.reached("text encoded")
    types = vocabulary.token_types
    require(all(0 <= one < tokenizer.vocab_size for one in ids), "ids are in range")
    structural = set(tokenizer.control_ids.values())
    require(not any(types[one] in _TEXTLESS for one in ids), "text becomes tokens that have text")
    require(structural.isdisjoint(ids), "no text becomes a control token")
    begin = [vocabulary.bos_token_id] if vocabulary.add_bos else []
    end = [vocabulary.eos_token_id] if vocabulary.add_eos else []
    require(
        tokenizer.encode(text) == [*begin, *ids, *end], "begin and end tokens as they are asked"
    )
    if _promises_round_trip(vocabulary, text):
        require(tokenizer.decode(ids) == text, "decoding gives the text back")
        outcomes.reached("round trip")
    with_controls = tokenizer.encode_with_controls(text, add_bos=False, add_eos=False)
    controls = [one for one in tokenizer.split_controls(text) if isinstance(one, int)]
    found = [one for one in with_controls if one in structural]
    require(found == controls, "trusted text has the control tokens that it spells")


def _promises_round_trip(vocabulary: Vocabulary, text: str) -> bool:
    if vocabulary.kind is TokenizerKind.BYTE_BPE:
        return True
    # U+2581 is how spaces are spelled, and a space prefix goes behind every user-defined token.
    user_defined = vocabulary.ids_of_type(TokenType.USER_DEFINED)
    has_user_defined = any(vocabulary.tokens[one] in text for one in user_defined)
    return "\u2581" not in text and not (vocabulary.add_space_prefix and has_user_defined)


def _check_decoding(tokenizer: Tokenizer, choices: Choices) -> None:
    ids = [choices.below(tokenizer.vocab_size) for _ in range(choices.below(24))]
    is_continuation = choices.is_chosen(2)
    whole = tokenizer.decode(ids, is_continuation=is_continuation)
    detokenizer = Detokenizer(tokenizer, is_continuation=is_continuation)
    pieces = [detokenizer.push(one) for one in ids]
    require("".join(pieces) + detokenizer.finish() == whole, "pieces join to the whole text")


def _check_stops(choices: Choices) -> None:
    letters = ("a", "b", "ab", "\u00e9")
    stops = [choices.text(3, alphabet=letters) or "a" for _ in range(choices.below(4))]
    pieces = [choices.text(4, alphabet=letters) for _ in range(choices.below(8))]
    text = "".join(pieces)
    hits = [(text.find(stop), len(stop), stop) for stop in stops if stop in text]
    expected = (text, None) if not hits else (text[: min(hits)[0]], min(hits)[2])
    held, shown, ended_by = StopStrings(stops), "", None
    for piece in pieces:
        result = held.push(piece)
        shown, ended_by = shown + result.text, result.stop
        if ended_by is not None:
            break
    else:
        result = held.finish()
        shown, ended_by = shown + result.text, result.stop
    require((shown, ended_by) == expected, "a stop ends the text wherever it is cut")


TARGET: Final = Target(
    name="tokenizer",
    subject="made-up vocabularies and texts to the tokenizer and back, with naive oracles",
    run=run,
    modules=(
        "sslm.text.vocabulary",
        "sslm.text.byte_bpe",
        "sslm.text.detokenizer",
        "sslm.text.sentencepiece",
        "sslm.text.special_tokens",
        "sslm.text.stops",
        "sslm.text.tokenizer",
        "sslm.text.vocabulary",
    ),
    size_bytes_max=512,
    reaches=("byte_bpe built", "sentencepiece built", "round trip"),
)
