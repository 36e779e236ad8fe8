"""Defects that readers of tokenizers are known to have had, each by the error that names it here.

Every file is a whole model but for the one defect.
"""

from collections.abc import Callable

import pytest

from sslm import limits
from sslm.errors import text as text_errors
from sslm.errors.base import SslmError
from sslm.errors.status import Status
from sslm.text.vocabulary import PreTokenizer, Vocabulary
from tests.causes import kind_of
from tests.gguf_files import (
    Typed,
)
from tests.hostile.small_models import (
    byte_level_metadata,
    sentencepiece_metadata,
)
from tests.hostile.whole_models import byte_level, load, sentencepiece, strings_of
from tests.unit.text.vocabularies import byte_level_fields

TOO_LONG = limits.CHAT_TEMPLATE_SIZE_CHARS_MAX + 1


@pytest.mark.parametrize(
    "spelling", ["<0x-1>", "<0xG0>", "<0x1>", "<0x100>", "<0x0a>", "<0x+1>", "<0x 1>", "0x41", "a",
                 "<0x\uff11\uff10>", "<0x41>\n"]
)  # fmt: skip
def test_a_byte_token_that_names_no_byte(spelling: str) -> None:
    metadata = sentencepiece_metadata()
    tokens = list(strings_of(metadata, "tokenizer.ggml.tokens"))
    tokens[3 + 0x0A] = spelling
    if spelling == "a":
        tokens[260] = "c"
    with pytest.raises(text_errors.ByteTokenError):
        load(sentencepiece(tokenizer__ggml__tokens=tokens))


def test_a_byte_token_twice() -> None:
    tokens = strings_of(sentencepiece_metadata(), "tokenizer.ggml.tokens")
    tokens[4] = tokens[3]
    with pytest.raises(text_errors.DuplicateTokenError):
        load(sentencepiece(tokenizer__ggml__tokens=tokens))


def test_a_byte_without_token() -> None:
    types = [2, 3, 3] + [6] * 255 + [1] * 5
    with pytest.raises(text_errors.ByteTokensMissingError) as caught:
        load(sentencepiece(tokenizer__ggml__token_type=types))
    assert caught.value.args == (255, 255)


def test_a_byte_token_of_a_byte_level_vocabulary() -> None:
    with pytest.raises(text_errors.ByteTokenError):
        load(byte_level(tokenizer__ggml__token_type=[6] + [1] * 257 + [3, 4]))


TOKENIZER_DEFECTS: dict[str, tuple[Callable[[], bytes], object]] = {
    "scores as u8": (
        lambda: sentencepiece(tokenizer__ggml__scores=Typed("array", [0] * 263, "u8")),
        Status.GGUF_WRONG_VALUE_TYPE,
    ),
    "too few scores": (
        lambda: sentencepiece(tokenizer__ggml__scores=[0.0] * 262),
        text_errors.VocabularyCountError,
    ),
    "a score that is not a number": (
        lambda: sentencepiece(tokenizer__ggml__scores=[float("nan")] + [0.0] * 262),
        Status.GGUF_VALUE_OUT_OF_RANGE,
    ),
    "an infinite score": (
        lambda: sentencepiece(tokenizer__ggml__scores=[float("inf")] + [0.0] * 262),
        Status.GGUF_VALUE_OUT_OF_RANGE,
    ),
    "types as u32": (
        lambda: sentencepiece(tokenizer__ggml__token_type=Typed("array", [1] * 263, "u32")),
        Status.GGUF_WRONG_VALUE_TYPE,
    ),
    "too few types": (
        lambda: byte_level(tokenizer__ggml__token_type=[1] * 259),
        text_errors.VocabularyCountError,
    ),
    "a type below 0": (
        lambda: byte_level(tokenizer__ggml__token_type=[-1] + [1] * 259),
        text_errors.TokenTypeError,
    ),
    "a type above 255": (
        lambda: byte_level(tokenizer__ggml__token_type=[256] + [1] * 259),
        text_errors.TokenTypeError,
    ),
    "a type that is none": (
        lambda: byte_level(tokenizer__ggml__token_type=[7] + [1] * 259),
        text_errors.TokenTypeError,
    ),
    "a merge of one part": (
        lambda: byte_level(tokenizer__ggml__merges=["he"]),
        text_errors.MergePartError,
    ),
    "a merge of a token that is not there": (
        lambda: byte_level(tokenizer__ggml__merges=["h xyz"]),
        text_errors.MergePartError,
    ),
    "a merge of a control token": (
        lambda: byte_level(tokenizer__ggml__merges=["h <|end|>"]),
        text_errors.MergePartError,
    ),
    "a merge that makes no token": (
        lambda: byte_level(tokenizer__ggml__merges=["h l"]),
        text_errors.MergeResultError,
    ),
    "a merge twice": (
        lambda: byte_level(tokenizer__ggml__merges=["h e", "h e"]),
        text_errors.DuplicateMergeError,
    ),
    "a token that is too long": (
        lambda: byte_level(tokenizer__ggml__tokens=["a" * 1025, *_byte_level_tokens()[1:]]),
        text_errors.TokenSpellingError,
    ),
    "a token outside the byte alphabet": (
        lambda: byte_level(tokenizer__ggml__tokens=["\u4e2d", *_byte_level_tokens()[1:]]),
        text_errors.TokenNotByteLevelError,
    ),
    "a token twice": (
        lambda: byte_level(tokenizer__ggml__tokens=["he", *_byte_level_tokens()[1:]]),
        text_errors.DuplicateTokenError,
    ),
    "a named token that is not there": (
        lambda: byte_level(tokenizer__ggml__eos_token_id=260),
        text_errors.SpecialTokenIdError,
    ),
    "a named token of 2**32-1": (
        lambda: byte_level(tokenizer__ggml__eos_token_id=(1 << 32) - 1),
        Status.GGUF_VALUE_OUT_OF_RANGE,
    ),
    "an unknown kind": (
        lambda: byte_level(tokenizer__ggml__model="bert"),
        text_errors.TokenizerUnsupportedError,
    ),
    "an unknown pre-tokenizer": (
        lambda: byte_level(tokenizer__ggml__pre="(a+)+$"),
        text_errors.TokenizerUnsupportedError,
    ),
    "an endless chat template": (
        lambda: byte_level(tokenizer__chat_template="x" * TOO_LONG),
        Status.GGUF_VALUE_OUT_OF_RANGE,
    ),
}  # fmt: skip


def _byte_level_tokens() -> list[str]:
    return strings_of(byte_level_metadata(), "tokenizer.ggml.tokens")


@pytest.mark.parametrize("defect", TOKENIZER_DEFECTS)
def test_tokenizer(defect: str) -> None:
    make, error = TOKENIZER_DEFECTS[defect]
    with pytest.raises(SslmError) as caught:
        load(make())
    assert kind_of(caught.value) is error


def test_merges_cannot_ask_for_more_characters_than_a_file_is_worth() -> None:
    """A merge of two long tokens takes eight bytes in a file and two thousand characters here."""
    longest = ["a" * size for size in range(1, limits.TOKEN_SIZE_CHARS_MAX + 1)]
    halves = [(left, right) for left in range(1024) for right in range(1023 - left)]
    count = limits.MERGES_SIZE_CHARS_MAX // 512
    fields = byte_level_fields() | {
        "tokens": (*longest, "<|end|>"),
        "token_types": bytes([1] * 1024 + [3]),
        "merges": tuple(halves[-count:]),
        "bos_token_id": None,
        "eos_token_id": 1024,
        "end_token_ids": (1024,),
    }
    sizes = sum(left + right + 2 for left, right in fields["merges"])
    assert sizes > limits.MERGES_SIZE_CHARS_MAX
    with pytest.raises(text_errors.VocabularySizeError) as caught:
        Vocabulary(**fields)
    assert caught.value.args == ("characters in merges", sizes, 0, limits.MERGES_SIZE_CHARS_MAX)


class PanicException(BaseException):
    """As the library's: no Exception, and known by its name alone."""


@pytest.mark.parametrize("error", [PanicException("no"), ValueError("no")])
def test_a_panic_while_a_tokenizer_is_built(
    monkeypatch: pytest.MonkeyPatch, error: BaseException
) -> None:
    import tokenizers

    def fail(**_: object) -> None:
        raise error

    monkeypatch.setattr(tokenizers.models, "BPE", fail)
    with pytest.raises(text_errors.TokenizerBuildError):
        load(byte_level())


@pytest.mark.parametrize("error", [KeyboardInterrupt(), MemoryError()])
def test_an_interrupt_is_no_failure_of_the_library(
    monkeypatch: pytest.MonkeyPatch, error: BaseException
) -> None:
    import tokenizers

    def fail(**_: object) -> None:
        raise error

    monkeypatch.setattr(tokenizers.models, "BPE", fail)
    with pytest.raises(type(error)):
        load(byte_level())


def test_no_regex_of_a_file_is_compiled(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is compiled depends on the name of the rule alone, which is one of a closed list."""
    import tokenizers

    compiled: list[str] = []
    plain = tokenizers.Regex

    def watch(pattern: str) -> object:
        compiled.append(pattern)
        return plain(pattern)

    monkeypatch.setattr(tokenizers, "Regex", watch)
    load(byte_level())
    expected = list(compiled)
    assert expected
    compiled.clear()
    hostile = "(a+)+$"
    tokens = [*_byte_level_tokens()[:-2], hostile, hostile * 2]
    load(byte_level(tokenizer__ggml__tokens=tokens, tokenizer__ggml__pre_tokenizer=hostile,
                    tokenizer__huggingface__json=hostile))  # fmt: skip
    assert compiled == expected
    names = {one.value for one in PreTokenizer} | {"llama3", "llama-v3", "llama", "qwen2", ""}
    for name in ("", "(a+)+$", "smollm ", "SMOLLM", "default\0"):
        if name in names:
            continue
        with pytest.raises(text_errors.TokenizerUnsupportedError):
            load(byte_level(tokenizer__ggml__pre=name))
