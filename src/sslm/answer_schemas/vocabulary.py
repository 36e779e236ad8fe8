"""What of a vocabulary can be content of answers, worked out once for each tokenizer."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final
from weakref import WeakKeyDictionary

from sslm.artifact.tokenizer_section import encode_vocabulary
from sslm.errors.runtime import OptionRangeError
from sslm.errors.showing import briefly
from sslm.errors.text import TextNotEncodableError
from sslm.hashes import Sha256
from sslm.progress import StageProgress, untold_stage
from sslm.schema.tokens.trie import TokenTrie
from sslm.text.tokenizer import Tokenizer


@dataclass(frozen=True, slots=True)
class SchemaVocabulary:
    """The content of a vocabulary.

    Args:
        trie: The tokens that have bytes; control, unknown and unused ones have none. Those that
            end an answer are left out too: as content they would end it where it is not complete.
        sha256: 32 bytes: of the section that a model file has for this vocabulary.
    """

    trie: TokenTrie
    sha256: bytes


VOCABULARY_WORK: Final = "vocabulary"
"""What is reported while a vocabulary's content is gathered: how many tokens were seen."""
_REPORT_TOKENS: Final = 2048
"""Between two reports: a few milliseconds."""

_KNOWN: Final["WeakKeyDictionary[Tokenizer, SchemaVocabulary]"] = WeakKeyDictionary()


def require_tokenizer(value: object) -> None:
    """Raise OptionRangeError unless a tokenizer was given, and not the model that has it."""
    if not hasattr(value, "token_bytes"):
        raise OptionRangeError("tokenizer", briefly(value), "a tokenizer: model.tokenizer")


def split_continuation(tokenizer: Tokenizer, text: str) -> list[int]:
    """Return the tokenizer's own ids of text behind other text; none if it has no such ids."""
    try:
        return tokenizer.encode_continuation(text)
    except TextNotEncodableError:
        return []


def schema_vocabulary(
    tokenizer: Tokenizer, report: StageProgress = untold_stage
) -> SchemaVocabulary:
    """Return the content of a tokenizer's vocabulary, which is kept as long as the tokenizer is.

    The first call takes about 0.4 s for 49,152 tokens, and 1.5 s for 151,936. *report* is told how
    many were seen; what it raises ends it.
    """
    found = _KNOWN.get(tokenizer)
    if found is None:
        tokens = {token_id: text for token_id, text in _contents(tokenizer, report) if text}
        found = SchemaVocabulary(
            TokenTrie(tokens, tokenizer.vocab_size),
            Sha256(encode_vocabulary(tokenizer.vocabulary)).digest(),
        )
        _KNOWN[tokenizer] = found
    return found


def _contents(tokenizer: Tokenizer, report: StageProgress) -> Iterator[tuple[int, bytes]]:
    size, ends = tokenizer.vocab_size, tokenizer.end_token_ids
    for token_id in range(size):
        if token_id % _REPORT_TOKENS == 0:
            report(VOCABULARY_WORK, token_id, size)
        if token_id not in ends:
            yield token_id, tokenizer.token_bytes(token_id)
    report(VOCABULARY_WORK, size, size)
