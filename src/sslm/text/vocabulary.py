"""The validated record from which a tokenizer is built."""

import math
import re
from collections.abc import Iterator
from dataclasses import dataclass
from enum import IntEnum, StrEnum
from itertools import chain, compress
from typing import Final

from sslm import limits
from sslm.errors.text import (
    ByteTokenError,
    ByteTokensMissingError,
    DuplicateMergeError,
    DuplicateTokenError,
    MergePartError,
    MergeResultError,
    SpecialTokenIdError,
    TokenizerUnsupportedError,
    TokenNotByteLevelError,
    TokenScoreError,
    TokenSpellingError,
    TokenTypeError,
    VocabularyCountError,
    VocabularyFieldError,
    VocabularySizeError,
)

SPACE = "\u2581"
"""What spells a space in SentencePiece vocabularies."""
_BYTE_TOKEN = re.compile("<0x([0-9A-F]{2})>")
_VISIBLE_ASCII = re.compile("[!-~]+")
_PRINTABLE: Final = (*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100))
_OTHERS: Final = tuple(byte for byte in range(256) if byte not in _PRINTABLE)
BYTE_OF_CHARACTER: Final = {
    **{chr(byte): byte for byte in _PRINTABLE},
    **{chr(0x100 + index): byte for index, byte in enumerate(_OTHERS)},
}
"""The byte that each character of GPT-2's alphabet stands for.

Printable Latin-1 bytes stand for themselves; the others take the characters from U+0100 on.
"""
CHARACTER_OF_BYTE: Final = {byte: character for character, byte in BYTE_OF_CHARACTER.items()}
"""The character that spells each byte."""
_TO_LATIN_1: Final = {ord(character): byte for character, byte in BYTE_OF_CHARACTER.items()}


class TokenizerKind(StrEnum):
    """How a vocabulary turns text into tokens."""

    BYTE_BPE = "byte_bpe"
    """Ranked merges over bytes, inside pieces that a pre-tokenizer cuts."""

    SENTENCEPIECE = "sentencepiece"
    """Merges by score over characters, with one token per byte for what is left."""


class PreTokenizer(StrEnum):
    """The rule that cuts a text into pieces before merging, by the name that GGUF files use."""

    GPT_2 = "gpt-2"
    SMOLLM = "smollm"
    STARCODER = "starcoder"
    REFACT = "refact"
    LLAMA_BPE = "llama-bpe"
    QWEN2 = "qwen2"
    QWEN35 = "qwen35"
    DEFAULT = "default"
    """None: the only one of SentencePiece vocabularies."""


class TokenType(IntEnum):
    """What a token stands for, by the numbers that GGUF files use."""

    NORMAL = 1
    UNKNOWN = 2
    CONTROL = 3
    USER_DEFINED = 4
    UNUSED = 5
    BYTE = 6


@dataclass(frozen=True, slots=True, kw_only=True)
class Vocabulary:
    """All tokens of a model, with what is needed to turn text into them and back.

    Attributes:
        kind: The algorithm.
        pre_tokenizer: ``DEFAULT`` if, and only if, *kind* is SentencePiece.
        tokens: Spellings; the index is the token id. Normal tokens of a byte-level vocabulary are
            spelled in the byte alphabet, those of SentencePiece with U+2581 for a space; all
            others as plain text. A token of no characters stands for no text.
        token_types: One :class:`TokenType` per token, as a byte.
        scores: SentencePiece only, one per token: finite, exactly the file's float32 values. A
            pair whose result has a higher score is merged first.
        merges: Byte-level only: pairs of token ids, first rank first. No pair occurs twice, and
            the two spellings joined are the spelling of a token; see :meth:`mergeable_ids`.
        ignore_merges: Whether a piece that is a token is taken whole, whatever the merges say.
        bos_token_id: Begin of sequence.
        eos_token_id: End of sequence.
        unknown_token_id: Stands for what has no token; never produced here.
        padding_token_id: Fills batches; never produced here.
        end_token_ids: The ids that end an answer as the file has it, ascending, *eos_token_id*
            among them; see :mod:`sslm.text.structure` for others.
        add_bos: Whether a prompt begins with *bos_token_id* unless the caller says otherwise.
        add_eos: The same for *eos_token_id* at the end.
        add_space_prefix: SentencePiece only: whether a space is put before the text, which
            detokenizing removes.
    """

    kind: TokenizerKind
    pre_tokenizer: PreTokenizer
    tokens: tuple[str, ...]
    token_types: bytes
    scores: tuple[float, ...] = ()
    merges: tuple[tuple[int, int], ...] = ()
    ignore_merges: bool = False
    bos_token_id: int | None = None
    eos_token_id: int | None = None
    unknown_token_id: int | None = None
    padding_token_id: int | None = None
    end_token_ids: tuple[int, ...] = ()
    add_bos: bool = False
    add_eos: bool = False
    add_space_prefix: bool = False

    def __post_init__(self) -> None:
        self._check_sizes()
        self._check_spellings()
        self._check_types()
        self._check_named_ids()
        if self.kind is TokenizerKind.BYTE_BPE:
            self._check_byte_level()
            self._check_merges()
        else:
            self._check_sentencepiece()

    def ids_of_type(self, *types: TokenType) -> Iterator[int]:
        """Yield the ids of all tokens of *types*, ascending."""
        is_wanted = bytes(kind in types for kind in range(256))
        return compress(range(len(self.token_types)), self.token_types.translate(is_wanted))

    def mergeable_ids(self) -> set[int]:
        """Return the ids of tokens that merges may use: those whose spelling is of bytes.

        User-defined tokens are spelled as plain text. Only visible ASCII is spelled alike in the
        byte alphabet; any other character would stand for another byte there.
        """
        found = set(self.ids_of_type(TokenType.NORMAL))
        if "" in self.tokens:
            found.difference_update(one for one, text in enumerate(self.tokens) if not text)
        return found.union(
            token_id
            for token_id in self.ids_of_type(TokenType.USER_DEFINED)
            if _VISIBLE_ASCII.fullmatch(self.tokens[token_id])
        )

    def _check_sizes(self) -> None:
        token_count = len(self.tokens)
        if not 1 <= token_count <= limits.VOCAB_SIZE_MAX:
            raise VocabularySizeError("tokens", token_count, 1, limits.VOCAB_SIZE_MAX)
        if len(self.merges) > limits.MERGE_COUNT_MAX:
            raise VocabularySizeError("merges", len(self.merges), 0, limits.MERGE_COUNT_MAX)
        if len(self.token_types) != token_count:
            raise VocabularyCountError("token types", len(self.token_types), token_count)
        is_sentencepiece = self.kind is TokenizerKind.SENTENCEPIECE
        if is_sentencepiece and len(self.scores) != token_count:
            raise VocabularyCountError("scores", len(self.scores), token_count)
        if is_sentencepiece != (self.pre_tokenizer is PreTokenizer.DEFAULT):
            raise TokenizerUnsupportedError(
                "the pre-tokenizer",
                str(self.pre_tokenizer),
                f"for {self.kind}: " + ", ".join(pre_tokenizers_of(self.kind)),
            )
        foreign = {
            "has no merges": is_sentencepiece and bool(self.merges),
            "has no rule to ignore merges": is_sentencepiece and self.ignore_merges,
            "has no scores": not is_sentencepiece and bool(self.scores),
            "adds no space prefix": not is_sentencepiece and self.add_space_prefix,
            "that adds a begin token has to name it": self.add_bos and self.bos_token_id is None,
            "that adds an end token has to name it": self.add_eos and self.eos_token_id is None,
        }
        for problem, is_found in foreign.items():
            if is_found:
                raise VocabularyFieldError(str(self.kind), problem)

    def _check_spellings(self) -> None:
        for token_id, spelling in enumerate(self.tokens):
            if len(spelling) > limits.TOKEN_SIZE_CHARS_MAX:
                problem = f"has {len(spelling)} characters, more than {limits.TOKEN_SIZE_CHARS_MAX}"
                raise TokenSpellingError(token_id, problem)
        try:
            "".join(self.tokens).encode()
        except UnicodeEncodeError:
            for token_id, spelling in enumerate(self.tokens):
                if any("\ud800" <= character <= "\udfff" for character in spelling):
                    problem = "holds a lone surrogate, which has no UTF-8 form"
                    raise TokenSpellingError(token_id, problem) from None
            raise
        if len(set(self.tokens)) != len(self.tokens):
            first_ids: dict[str, int] = {}
            for token_id, spelling in enumerate(self.tokens):
                # Tokens of no characters stand for no text, so that any number may be alike.
                if spelling and spelling in first_ids:
                    raise DuplicateTokenError(first_ids[spelling], token_id, spelling)
                first_ids[spelling] = token_id

    def _check_types(self) -> None:
        strangers = set(self.token_types) - set(TokenType)
        if strangers:
            token_id = next(i for i, kind in enumerate(self.token_types) if kind in strangers)
            raise TokenTypeError(token_id, self.token_types[token_id])
        special_count = 0
        for kind in (TokenType.CONTROL, TokenType.USER_DEFINED):
            sizes_chars = [(len(self.tokens[i]), i) for i in self.ids_of_type(kind)]
            size_chars, token_id = max(sizes_chars, default=(0, 0))
            if size_chars > limits.SPECIAL_TOKEN_SIZE_CHARS_MAX:
                most = limits.SPECIAL_TOKEN_SIZE_CHARS_MAX
                problem = f"is a special token of {size_chars} characters, more than {most}"
                raise TokenSpellingError(token_id, problem)
            total, most = sum(size for size, _ in sizes_chars), limits.SPECIAL_TOKENS_SIZE_CHARS_MAX
            if total > most:
                what = f"characters in {kind.name.lower()} tokens"
                raise VocabularySizeError(what, total, 0, most)
            special_count += len(sizes_chars)
        if special_count > limits.SPECIAL_TOKEN_COUNT_MAX:
            most = limits.SPECIAL_TOKEN_COUNT_MAX
            raise VocabularySizeError("special tokens", special_count, 0, most)

    def _check_named_ids(self) -> None:
        last_id = len(self.tokens) - 1
        named = [
            ("bos_token_id", self.bos_token_id),
            ("eos_token_id", self.eos_token_id),
            ("unknown_token_id", self.unknown_token_id),
            ("padding_token_id", self.padding_token_id),
            *(("end_token_ids", token_id) for token_id in self.end_token_ids),
        ]
        for name, token_id in named:
            if token_id is not None and not 0 <= token_id <= last_id:
                raise SpecialTokenIdError(name, token_id, last_id)
        if list(self.end_token_ids) != sorted(set(self.end_token_ids)):
            problem = "lists its end_token_ids in ascending order, each once"
            raise VocabularyFieldError(str(self.kind), problem)
        if self.eos_token_id is not None and self.eos_token_id not in self.end_token_ids:
            problem = "counts its eos_token_id among its end_token_ids"
            raise VocabularyFieldError(str(self.kind), problem)

    # These checks run whenever a model is opened. Each looks at everything at once, and searches
    # for the offender only once there is one.

    def _check_byte_level(self) -> None:
        for token_id in self.ids_of_type(TokenType.BYTE):
            raise ByteTokenError(token_id, self.tokens[token_id])
        normal = [self.tokens[token_id] for token_id in self.ids_of_type(TokenType.NORMAL)]
        strangers = set("".join(normal)) - BYTE_OF_CHARACTER.keys()
        if strangers:
            token_id, spelling, character = next(
                (token_id, spelling, character)
                for token_id, spelling in enumerate(self.tokens)
                for character in spelling
                if character in strangers and self.token_types[token_id] == TokenType.NORMAL
            )
            raise TokenNotByteLevelError(token_id, spelling, character)

    def _check_merges(self) -> None:
        tokens = self.tokens
        ordinary_ids = self.mergeable_ids()
        if not ordinary_ids.issuperset(chain.from_iterable(self.merges)):
            index, part = next(
                (index, part)
                for index, pair in enumerate(self.merges)
                for part in pair
                if part not in ordinary_ids
            )
            raise MergePartError(index, f"token id {part}")
        sizes, most = [len(spelling) for spelling in tokens], limits.MERGES_SIZE_CHARS_MAX
        size_chars = sum(map(sizes.__getitem__, chain.from_iterable(self.merges)))
        if size_chars > most:
            raise VocabularySizeError("characters in merges", size_chars, 0, most)
        ordinary = {tokens[token_id] for token_id in ordinary_ids}
        if not ordinary.issuperset(tokens[left] + tokens[right] for left, right in self.merges):
            results = (tokens[left] + tokens[right] for left, right in self.merges)
            index, result = next(pair for pair in enumerate(results) if pair[1] not in ordinary)
            raise MergeResultError(index, result)
        if len(set(self.merges)) != len(self.merges):
            first_indices: dict[tuple[int, int], int] = {}
            for index, pair in enumerate(self.merges):
                if pair in first_indices:
                    spellings = (tokens[pair[0]], tokens[pair[1]])
                    raise DuplicateMergeError(first_indices[pair], index, spellings)
                first_indices[pair] = index

    def _check_sentencepiece(self) -> None:
        for token_id, score in enumerate(self.scores):
            if not math.isfinite(score):
                raise TokenScoreError(token_id, repr(score))
        found = bytearray(256)
        for token_id in self.ids_of_type(TokenType.BYTE):
            byte = byte_of_byte_token(self.tokens[token_id])
            if byte is None:
                raise ByteTokenError(token_id, self.tokens[token_id])
            found[byte] = 1
        if 0 in found:
            raise ByteTokensMissingError(sum(found), found.index(0))
        # Without it a space would be spelled by the bytes of U+2581, and come back as that.
        if SPACE not in {self.tokens[one] for one in self.ids_of_type(TokenType.NORMAL)}:
            problem = "needs a normal token for a space, spelled U+2581"
            raise VocabularyFieldError(str(self.kind), problem)


def pre_tokenizers_of(kind: TokenizerKind) -> list[str]:
    """Return the names of the pre-tokenizers that vocabularies of *kind* may have, sorted."""
    if kind is TokenizerKind.SENTENCEPIECE:
        return [PreTokenizer.DEFAULT.value]
    return sorted(one.value for one in PreTokenizer if one is not PreTokenizer.DEFAULT)


def byte_of_byte_token(spelling: str) -> int | None:
    """Return the byte that a spelling such as ``<0x0A>`` names, or None if it names none."""
    match = _BYTE_TOKEN.fullmatch(spelling)
    return None if match is None else int(match[1], 16)


def bytes_of_spelling(spelling: str) -> bytes:
    """Return the bytes that *spelling*, made only of the alphabet's characters, stands for."""
    return spelling.translate(_TO_LATIN_1).encode("latin-1")
