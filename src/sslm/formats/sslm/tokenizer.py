"""The tokenizer of an artifact as bytes; see docs/format.md, 8."""

import struct
from dataclasses import dataclass
from itertools import accumulate, pairwise
from typing import Final

from sslm import limits
from sslm.errors.artifact import ContainerError
from sslm.errors.status import Status
from sslm.formats.bounded_reader import U32_MAX, BoundedReader

_NONE: Final = U32_MAX
"""Stands for a named token that the model does not have."""

_NAME_SIZE_BYTES_MAX: Final = 32

_IGNORE_MERGES: Final = 1
_ADD_BOS: Final = 2
_ADD_EOS: Final = 4
_ADD_SPACE_PREFIX: Final = 8
_ALL_FLAGS: Final = 15


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenizerRecord:
    """The fields of ``sslm.text.vocabulary.Vocabulary``, in plain types and unchecked."""

    kind: str
    pre_tokenizer: str
    tokens: tuple[str, ...]
    token_types: bytes
    scores: tuple[float, ...]
    merges: tuple[tuple[int, int], ...]
    ignore_merges: bool
    bos_token_id: int | None
    eos_token_id: int | None
    unknown_token_id: int | None
    padding_token_id: int | None
    end_token_ids: tuple[int, ...]
    add_bos: bool
    add_eos: bool
    add_space_prefix: bool


def encode_tokenizer(record: TokenizerRecord) -> bytes:
    """Return the section's bytes."""
    flags = (
        _IGNORE_MERGES * record.ignore_merges
        + _ADD_BOS * record.add_bos
        + _ADD_EOS * record.add_eos
        + _ADD_SPACE_PREFIX * record.add_space_prefix
    )
    named = (
        record.bos_token_id,
        record.eos_token_id,
        record.unknown_token_id,
        record.padding_token_id,
    )
    parts = [
        _numbers([len(record.kind)]),
        record.kind.encode("ascii"),
        _numbers([len(record.pre_tokenizer)]),
        record.pre_tokenizer.encode("ascii"),
        _numbers([flags, *(_NONE if one is None else one for one in named)]),
        _numbers([len(record.end_token_ids), *record.end_token_ids]),
        _numbers([len(record.tokens), len(record.scores), len(record.merges)]),
        struct.pack(f"<{len(record.scores)}f", *record.scores),
        _numbers([part for pair in record.merges for part in pair]),
        record.token_types,
        _numbers([len(spelling) for spelling in record.tokens]),
        "".join(record.tokens).encode("utf-8"),
    ]
    return b"".join(parts)


def read_tokenizer(data: memoryview, *, base_offset_bytes: int) -> TokenizerRecord:
    """Read the section, checking its structure alone.

    Args:
        data: The section.
        base_offset_bytes: Where it lies in the file, for errors.

    Raises:
        ContainerError: If a flag is set that has no meaning.
        ArtifactError: If a count, a size or a spelling is not sound; see ``errors.reading``.
    """
    reader = BoundedReader(data, base_offset_bytes=base_offset_bytes)
    kind = _name(reader, "tokenizer kind")
    pre_tokenizer = _name(reader, "pre-tokenizer")
    flags = reader.u32("tokenizer flags", at_most=U32_MAX)
    if flags & ~_ALL_FLAGS:
        raise ContainerError(Status.SSLM_TOKENIZER_FLAGS, found=flags, known=_ALL_FLAGS)
    bos, eos, unknown, padding = (_optional_id(reader) for _ in range(4))
    end_count = reader.u32("count of end tokens", at_most=limits.VOCAB_SIZE_MAX)
    end_token_ids = _take_numbers(reader, "end tokens", end_count)
    token_count = reader.u32("token count", at_most=limits.VOCAB_SIZE_MAX, at_least=1)
    score_count = reader.u32("score count", at_most=token_count)
    merge_count = reader.u32("merge count", at_most=limits.MERGE_COUNT_MAX)
    scores = struct.unpack(
        f"<{score_count}f", reader.take("token scores", size_bytes=4 * score_count)
    )
    parts = iter(_take_numbers(reader, "merges", 2 * merge_count))
    return TokenizerRecord(
        kind=kind,
        pre_tokenizer=pre_tokenizer,
        scores=scores,
        merges=tuple(zip(parts, parts, strict=True)),
        token_types=bytes(reader.take("token types", size_bytes=token_count)),
        tokens=_take_spellings(reader, token_count),
        ignore_merges=bool(flags & _IGNORE_MERGES),
        bos_token_id=bos,
        eos_token_id=eos,
        unknown_token_id=unknown,
        padding_token_id=padding,
        end_token_ids=end_token_ids,
        add_bos=bool(flags & _ADD_BOS),
        add_eos=bool(flags & _ADD_EOS),
        add_space_prefix=bool(flags & _ADD_SPACE_PREFIX),
    )


def _numbers(values: list[int]) -> bytes:
    return struct.pack(f"<{len(values)}I", *values)


def _name(reader: BoundedReader, what: str) -> str:
    size = reader.u32(f"size of the {what}", at_most=_NAME_SIZE_BYTES_MAX)
    return reader.utf8_of(what, size_bytes=size)


def _optional_id(reader: BoundedReader) -> int | None:
    value = reader.u32("named token", at_most=U32_MAX)
    return None if value == _NONE else value


def _take_numbers(reader: BoundedReader, name: str, count: int) -> tuple[int, ...]:
    return struct.unpack(f"<{count}I", reader.take(name, size_bytes=4 * count))


def _take_spellings(reader: BoundedReader, token_count: int) -> tuple[str, ...]:
    sizes = _take_numbers(reader, "sizes of the tokens", token_count)
    text = reader.utf8_of("tokens", size_bytes=reader.remaining_bytes)
    if sum(sizes) != len(text):
        raise ContainerError(Status.SSLM_TOKEN_SIZES, stated=sum(sizes), found=len(text))
    ends = pairwise(accumulate(sizes, initial=0))
    return tuple([text[first:last] for first, last in ends])
