"""Every defect of a vocabulary has its own error."""

import pickle
from collections.abc import Callable
from typing import Any

import pytest

from sslm.errors import text as errors
from sslm.errors.base import SslmError
from sslm.text.vocabulary import PreTokenizer, TokenType, Vocabulary
from tests.unit.text.vocabularies import byte_level_fields, sentencepiece_fields

Fields = dict[str, Any]


def _token(token_id: int, spelling: str) -> Callable[[Fields], Fields]:
    def change(fields: Fields) -> Fields:
        tokens = list(fields["tokens"])
        tokens[token_id] = spelling
        return {"tokens": tuple(tokens)}

    return change


def _type(token_id: int, kind: int) -> Callable[[Fields], Fields]:
    def change(fields: Fields) -> Fields:
        kinds = bytearray(fields["token_types"])
        kinds[token_id] = kind
        return {"token_types": bytes(kinds)}

    return change


def _score(token_id: int, score: float) -> Callable[[Fields], Fields]:
    def change(fields: Fields) -> Fields:
        scores = list(fields["scores"])
        scores[token_id] = score
        return {"scores": tuple(scores)}

    return change


def _many_controls(count: int) -> Callable[[Fields], Fields]:
    """Add control tokens of 250 characters."""

    def change(fields: Fields) -> Fields:
        spellings = tuple(f"<{index:0248}>" for index in range(count))
        kinds = fields["token_types"] + bytes([TokenType.CONTROL] * count)
        return {"tokens": fields["tokens"] + spellings, "token_types": kinds}

    return change


def _set(**changes: Any) -> Callable[[Fields], Fields]:
    return lambda _: changes


BYTE_LEVEL_DEFECTS = [
    (_set(tokens=()), errors.VocabularySizeError),
    (_set(token_types=b""), errors.VocabularyCountError),
    (_token(257, "a" * 1025), errors.TokenSpellingError),
    (_token(258, "<" * 257), errors.TokenSpellingError),
    (_token(262, "\ud800"), errors.TokenSpellingError),
    (_many_controls(1100), errors.VocabularySizeError),
    (_token(7, "a"), errors.DuplicateTokenError),
    (_type(7, 0), errors.TokenTypeError),
    (_type(7, 7), errors.TokenTypeError),
    (_type(7, 6), errors.ByteTokenError),
    (_token(257, "hel "), errors.TokenNotByteLevelError),
    (_set(merges=((256, 263),)), errors.MergePartError),
    (_set(merges=((-1, 256),)), errors.MergePartError),
    (_set(merges=((258, 259),)), errors.MergePartError),
    (_set(merges=((97, 98),)), errors.MergeResultError),
    (_type(257, 3), errors.MergeResultError),
    (lambda fields: _type(0, 4)(fields) | {"merges": ((0, 101),)}, errors.MergePartError),
    (_set(merges=((104, 101), (104, 101))), errors.DuplicateMergeError),
    (_set(bos_token_id=263), errors.SpecialTokenIdError),
    (_set(unknown_token_id=-1), errors.SpecialTokenIdError),
    (_set(end_token_ids=(259, 263)), errors.SpecialTokenIdError),
    (_set(end_token_ids=(260, 259)), errors.VocabularyFieldError),
    (_set(end_token_ids=(260,)), errors.VocabularyFieldError),
    (_set(scores=(0.0,) * 263), errors.VocabularyFieldError),
    (_set(add_space_prefix=True), errors.VocabularyFieldError),
    (_set(add_bos=True, bos_token_id=None), errors.VocabularyFieldError),
    (_set(pre_tokenizer=PreTokenizer.DEFAULT), errors.TokenizerUnsupportedError),
]

SENTENCEPIECE_DEFECTS = [
    (_set(scores=()), errors.VocabularyCountError),
    (_score(9, float("nan")), errors.TokenScoreError),
    (_score(9, float("inf")), errors.TokenScoreError),
    (_token(3, "<0x0g>"), errors.ByteTokenError),
    (_token(13, "<0x0a>"), errors.ByteTokenError),
    (_type(13, 1), errors.ByteTokensMissingError),
    (_set(merges=((3, 4),)), errors.VocabularyFieldError),
    (_type(259, 4), errors.VocabularyFieldError),
    (_token(259, "c"), errors.VocabularyFieldError),
    (_set(ignore_merges=True), errors.VocabularyFieldError),
    (_set(pre_tokenizer=PreTokenizer.QWEN2), errors.TokenizerUnsupportedError),
]


@pytest.mark.parametrize(("change", "error"), BYTE_LEVEL_DEFECTS)
def test_byte_level_defects(change: Callable[[Fields], Fields], error: type[SslmError]) -> None:
    fields = byte_level_fields()
    Vocabulary(**fields)
    with pytest.raises(error) as caught:
        Vocabulary(**(fields | change(fields)))
    assert str(pickle.loads(pickle.dumps(caught.value))) == str(caught.value)


@pytest.mark.parametrize(("change", "error"), SENTENCEPIECE_DEFECTS)
def test_sentencepiece_defects(change: Callable[[Fields], Fields], error: type[SslmError]) -> None:
    fields = sentencepiece_fields()
    Vocabulary(**fields)
    with pytest.raises(error):
        Vocabulary(**(fields | change(fields)))


def test_messages_name_the_offender() -> None:
    fields = byte_level_fields()
    with pytest.raises(errors.DuplicateTokenError, match="tokens 7 and 97 are both spelled 'a'"):
        Vocabulary(**(fields | _token(7, "a")(fields)))
    with pytest.raises(errors.MergeResultError, match="merge 0 produces 'ab'"):
        Vocabulary(**(fields | {"merges": ((97, 98),)}))
