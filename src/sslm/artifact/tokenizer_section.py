"""The vocabulary of an artifact, to and from the records of its tokenizer section."""

from collections.abc import Iterable

from sslm.errors.text import TokenizerUnsupportedError
from sslm.formats.sslm.tokenizer import TokenizerRecord, encode_tokenizer, read_tokenizer
from sslm.text.vocabulary import PreTokenizer, TokenizerKind, Vocabulary


def encode_vocabulary(vocabulary: Vocabulary) -> bytes:
    """Return the section's bytes."""
    return encode_tokenizer(
        TokenizerRecord(
            kind=vocabulary.kind.value,
            pre_tokenizer=vocabulary.pre_tokenizer.value,
            tokens=vocabulary.tokens,
            token_types=vocabulary.token_types,
            scores=vocabulary.scores,
            merges=vocabulary.merges,
            ignore_merges=vocabulary.ignore_merges,
            bos_token_id=vocabulary.bos_token_id,
            eos_token_id=vocabulary.eos_token_id,
            unknown_token_id=vocabulary.unknown_token_id,
            padding_token_id=vocabulary.padding_token_id,
            end_token_ids=vocabulary.end_token_ids,
            add_bos=vocabulary.add_bos,
            add_eos=vocabulary.add_eos,
            add_space_prefix=vocabulary.add_space_prefix,
        )
    )


def decode_vocabulary(data: memoryview, *, base_offset_bytes: int) -> Vocabulary:
    """Read and check the section.

    Args:
        data: The section.
        base_offset_bytes: Where it lies in the file, for errors.

    Raises:
        ArtifactError: An error of ``sslm.errors.reading`` or ``sslm.errors.text``, or
            ContainerError.
    """
    record = read_tokenizer(data, base_offset_bytes=base_offset_bytes)
    _require_known("the tokenizer's kind", record.kind, TokenizerKind)
    _require_known("the pre-tokenizer", record.pre_tokenizer, PreTokenizer)
    return Vocabulary(
        kind=TokenizerKind(record.kind),
        pre_tokenizer=PreTokenizer(record.pre_tokenizer),
        tokens=record.tokens,
        token_types=record.token_types,
        scores=record.scores,
        merges=record.merges,
        ignore_merges=record.ignore_merges,
        bos_token_id=record.bos_token_id,
        eos_token_id=record.eos_token_id,
        unknown_token_id=record.unknown_token_id,
        padding_token_id=record.padding_token_id,
        end_token_ids=record.end_token_ids,
        add_bos=record.add_bos,
        add_eos=record.add_eos,
        add_space_prefix=record.add_space_prefix,
    )


def _require_known(what: str, found: str, known: Iterable[str]) -> None:
    names = list(known)
    if found not in names:
        raise TokenizerUnsupportedError(what, found, ", ".join(names))
