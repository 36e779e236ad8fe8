"""Byte-level byte-pair encoding of plain text, through the ``tokenizers`` library."""

import re
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from functools import partial
from itertools import chain
from typing import Any, Final

from sslm import limits
from sslm.errors.base import SslmError
from sslm.errors.text import TextNotEncodableError, TokenizerBuildError, TokenizerFailedError
from sslm.text.text_bounds import require_address_space
from sslm.text.vocabulary import CHARACTER_OF_BYTE, PreTokenizer, Vocabulary

_ENGLISH_ENDINGS: Final = "(?:'[sS]|'[tT]|'[rR][eE]|'[vV][eE]|'[mM]|'[lL][lL]|'[dD])"
_LINE_ENDS: Final = r"\s*[\r\n]+|\s+(?!\S)|\s+"
_GPT_2: Final = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"
_DIGIT_THEN_GPT_2: Final = (r"\p{N}", _GPT_2)

# Each pattern cuts the pieces that the one before it left; what no match covers is a piece too.
# Letters are cased by ASCII only, and no pattern normalizes its text.
_PATTERNS: Final[dict[PreTokenizer, tuple[str, ...]]] = {
    PreTokenizer.GPT_2: (_GPT_2,),
    PreTokenizer.SMOLLM: _DIGIT_THEN_GPT_2,
    PreTokenizer.STARCODER: _DIGIT_THEN_GPT_2,
    PreTokenizer.REFACT: _DIGIT_THEN_GPT_2,
    PreTokenizer.LLAMA_BPE: (
        rf"{_ENGLISH_ENDINGS}|[^\r\n\p{{L}}\p{{N}}]?\p{{L}}+|\p{{N}}{{1,3}}"
        rf"| ?[^\s\p{{L}}\p{{N}}]+[\r\n]*|{_LINE_ENDS}",
    ),
    PreTokenizer.QWEN2: (
        rf"{_ENGLISH_ENDINGS}|[^\r\n\p{{L}}\p{{N}}]?\p{{L}}+|\p{{N}}"
        rf"| ?[^\s\p{{L}}\p{{N}}]+[\r\n]*|{_LINE_ENDS}",
    ),
    PreTokenizer.QWEN35: (
        rf"{_ENGLISH_ENDINGS}|[^\r\n\p{{L}}\p{{N}}]?[\p{{L}}\p{{M}}]+|\p{{N}}"
        rf"| ?[^\s\p{{L}}\p{{M}}\p{{N}}]+[\r\n]*|{_LINE_ENDS}",
    ),
}


_OUT_OF_MEMORY: Final = re.compile(
    "fail to memory allocation|PyObject pointer is null|Python API call failed"
    "|failed to extract enum PyMerges"
)
"""What the library's patterns say in a bare ``Exception``, and its Rust code in a panic.

Merges always are of the type that it takes, so only a lack of memory keeps it from taking them.
"""


def is_failure_of_library(error: BaseException) -> bool:
    """Tell a failure from an interrupt: a panic of Rust code is no Exception.

    The class of panics cannot be imported, so it is known by its name.
    """
    if isinstance(error, MemoryError | RecursionError):
        return False
    return isinstance(error, Exception) or type(error).__name__ == "PanicException"


@contextmanager
def _told_by(refusal: Callable[[str], SslmError]) -> Iterator[None]:
    """Raise what fails in the library as an error of ours, which is made of its words."""
    try:
        yield
    except BaseException as error:
        if is_failure_of_library(error):
            is_memory = _OUT_OF_MEMORY.search(str(error))
            raise (MemoryError if is_memory else refusal)(str(error)) from error
        raise


def _require_memory(vocabulary: Vocabulary) -> None:
    """Raise TokenizerMemoryError if the library might not have the memory for a vocabulary."""
    sizes = [len(spelling) for spelling in vocabulary.tokens]
    size_chars = sum(sizes) + sum(map(sizes.__getitem__, chain.from_iterable(vocabulary.merges)))
    needed_bytes = (
        limits.TOKENIZER_MEMORY_BYTES
        + limits.TOKENIZER_MEMORY_PER_ITEM * (len(sizes) + len(vocabulary.merges))
        + limits.TOKENIZER_MEMORY_PER_CHARACTER * size_chars
    )
    require_address_space(f"building a tokenizer of {len(sizes)} tokens", needed_bytes)


class ByteBpeEncoder:
    """Turns plain text into the ids of a byte-level vocabulary; knows no special tokens.

    Args:
        vocabulary: Of the model.
        control_ids: Left out, so that no text can become one of them, by merging or as a piece.

    Raises:
        TokenizerBuildError: If the library does not take the vocabulary.
        TokenizerMemoryError: If there may not be the memory for it.
        MemoryError: If the library's patterns found none.
    """

    def __init__(self, vocabulary: Vocabulary, control_ids: Iterable[int]) -> None:
        from tokenizers import Regex, Tokenizer, models, pre_tokenizers

        tokens = vocabulary.tokens
        mergeable_ids = vocabulary.mergeable_ids()
        usable_ids = mergeable_ids.difference(control_ids)
        ids = {tokens[token_id]: token_id for token_id in usable_ids}
        merges = [(tokens[left], tokens[right]) for left, right in vocabulary.merges]
        _require_memory(vocabulary)
        if len(usable_ids) < len(mergeable_ids):
            merges = [
                (left, right)
                for left, right in merges
                if left in ids and right in ids and left + right in ids
            ]
        self._library: Any
        with _told_by(partial(TokenizerBuildError, len(tokens))):
            model = models.BPE(vocab=ids, merges=merges, ignore_merges=vocabulary.ignore_merges)
            self._library = Tokenizer(model)
            self._library.pre_tokenizer = pre_tokenizers.Sequence(
                [
                    *(
                        pre_tokenizers.Split(Regex(pattern), behavior="isolated")
                        for pattern in _PATTERNS[vocabulary.pre_tokenizer]
                    ),
                    pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
                ]
            )
        self._bytes_without_token = bytes(
            byte for byte, character in CHARACTER_OF_BYTE.items() if character not in ids
        )

    def encode(self, text: str, require_time: Callable[[], None]) -> list[int]:
        """Return the ids of *text*, which is valid Unicode; *require_time* may raise to stop.

        Raises:
            TextNotEncodableError: If the vocabulary lacks a byte of the text. The library would
                drop it silently.
            TokenizerFailedError: If the library fails.
            MemoryError: If the library's patterns found no memory.
        """
        require_time()
        self._refuse_missing_bytes(text)
        with _told_by(partial(TokenizerFailedError, len(text))):
            ids: list[int] = self._library.encode(text, add_special_tokens=False).ids
        return ids

    def _refuse_missing_bytes(self, text: str) -> None:
        if not self._bytes_without_token:
            return
        data = text.encode()
        if len(data.translate(None, self._bytes_without_token)) == len(data):
            return
        for character in text:
            for byte in character.encode():
                if byte in self._bytes_without_token:
                    raise TextNotEncodableError(byte, character)
