"""Records of requests: bytes <-> records; see docs/format.md, 15."""

import struct
from array import array
from dataclasses import dataclass
from enum import IntEnum, IntFlag
from typing import Final

from sslm import limits
from sslm.errors.records import RecordValueError
from sslm.formats.choice import CHOICE_SIZE_BYTES, SavedChoice, encode_choice
from sslm.formats.names import is_schema_name
from sslm.formats.saves.contents import HASH_SIZE_BYTES, Bytes
from sslm.hashes import sha256_of

MAGIC: Final = b"SSLMRCRD"
FORMAT_VERSION: Final = 1
HEADER_SIZE_BYTES: Final = 128
HASH_OFFSET_BYTES: Final = 32
SHORT_DIGEST_SIZE_BYTES: Final = 4
"""Of a segment: the first bytes of its digest. Four tell two apart but once in 2**32."""

HEADER: Final = struct.Struct("<8sIIQII32s32s32s")
FACTS: Final = struct.Struct("<10I")
SCHEMA: Final = struct.Struct("<32sIIQ")
"""Of a schema, what comes before its name."""


class RecordFeature(IntFlag):
    """What a record holds beside the rest; a reader refuses what it does not know. Append only."""

    SEGMENTS = 1
    """Short digests of every segment at every token."""
    SCHEMA = 2
    """What the answer follows."""
    ADAPTER = 4
    """Kept for a later release."""


class RecordFinish(IntEnum):
    """What ended an answer; append only."""

    LENGTH = 0
    """As many tokens as were asked for, or as the context holds."""
    STOP_TOKEN = 1
    """The last token, which is among those that end an answer."""
    STOP_STRING = 2
    SCHEMA = 3
    """The schema lets nothing follow."""
    DEAD_END = 4
    """The schema lets nothing follow that could be completed, and no token may end the text."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordedSchema:
    """What a recorded answer follows.

    Args:
        digest: Of the compiled schema, 32 bytes.
        name: Of the schema, by which it may be found in a model's file.
        is_fitted: Whether the answer is completed within its tokens, and not cut off.
        allows_ends: Whether tokens that end answers may be chosen wherever the text may end.

    Raises:
        RecordValueError: If the parts cannot be.
    """

    digest: bytes
    name: str
    is_fitted: bool
    allows_ends: bool

    def __post_init__(self) -> None:
        _require("the schema's digest", len(self.digest), HASH_SIZE_BYTES)
        if not is_schema_name(self.name):
            raise RecordValueError("the schema's name", "no schema can have it")

    @property
    def size_bytes(self) -> int:
        """Bytes of it in a record."""
        return SCHEMA.size + len(self.name.encode())


@dataclass(frozen=True, slots=True, kw_only=True)
class SavedRecord:
    """A request and what it came to.

    Args:
        model_id: 32 bytes.
        arithmetic_version: Of the program that computed it.
        context_tokens: Most tokens of prompt and answer.
        max_tokens: Most tokens of the answer that were asked for.
        is_continuation: Whether the answer's text goes on in the prompt's.
        choice: How tokens were chosen.
        stop: Strings that end the answer.
        stop_token_ids: Ids that end the answer, ascending.
        finish: What ended it.
        stop_index: Of the string that ended it; 0 if none did.
        prompt_ids: int32, at least one.
        token_ids: int32: the answer, at least one.
        digest: Of the answer, 32 bytes.
        links: 32 bytes a token: the chain of digests over all positions before it.
        segments: Short digests a token of embed, each layer and the head, or no bytes.
        segment_count: How many a token; 0 for none.
        schema: What the answer follows, or None.

    Raises:
        RecordValueError: If the parts do not belong together.
    """

    model_id: bytes
    arithmetic_version: int
    context_tokens: int
    max_tokens: int
    is_continuation: bool
    choice: SavedChoice
    stop: tuple[str, ...]
    stop_token_ids: tuple[int, ...]
    finish: RecordFinish
    stop_index: int
    prompt_ids: "array[int]"
    token_ids: "array[int]"
    digest: bytes
    links: bytes
    segments: bytes = b""
    segment_count: int = 0
    schema: RecordedSchema | None = None

    def __post_init__(self) -> None:
        count = len(self.token_ids)
        _require("model_id", len(self.model_id), HASH_SIZE_BYTES)
        _require("the digest", len(self.digest), HASH_SIZE_BYTES)
        _require("the chain", len(self.links), HASH_SIZE_BYTES * count)
        size = SHORT_DIGEST_SIZE_BYTES * self.segment_count * count
        _require("the digests of segments", len(self.segments), size)
        room = self.context_tokens - len(self.prompt_ids)
        if not 1 <= count <= min(self.max_tokens, room):
            what = f"{len(self.prompt_ids)} and {count} tokens of prompt and answer"
            most = f"{self.max_tokens} of the answer, {self.context_tokens} of both"
            raise RecordValueError(what, f"at least 1 of each, and at most {most}, are possible")
        strings = len(self.stop) if self.finish is RecordFinish.STOP_STRING else 1
        if self.stop_index >= strings:
            raise RecordValueError(f"stop string {self.stop_index}", f"there are {strings}")
        self._require_schema_end()

    def _require_schema_end(self) -> None:
        """Check that an answer that a schema has ended follows one, by which it can end so."""
        if self.finish in (RecordFinish.SCHEMA, RecordFinish.DEAD_END) and self.schema is None:
            raise RecordValueError("an end by its schema", "the answer follows none")
        if self.finish is RecordFinish.DEAD_END and self.schema and self.schema.allows_ends:
            raise RecordValueError("a dead end", "the text may be ended wherever it may end")

    def link(self, index: int) -> bytes:
        """Return the chain of digests when a token was chosen."""
        return self.links[HASH_SIZE_BYTES * index : HASH_SIZE_BYTES * (index + 1)]

    def segment_digests(self, index: int) -> list[bytes]:
        """Return the short digests of the position before a token: embed, layers, head."""
        size, count = SHORT_DIGEST_SIZE_BYTES, self.segment_count
        start = size * count * index
        return [self.segments[start + size * at : start + size * (at + 1)] for at in range(count)]


def record_size_bytes(
    prompt_tokens: int, answer_tokens: int, segment_count: int, options_bytes: int
) -> int:
    """Return the bytes of a record.

    Args:
        prompt_tokens: Of the prompt.
        answer_tokens: Of the answer.
        segment_count: Segments of which each token has a digest, or 0.
        options_bytes: Of biases, stop strings, stop ids and what the answer follows.
    """
    token_bytes = 4 + HASH_SIZE_BYTES + SHORT_DIGEST_SIZE_BYTES * segment_count
    fixed = HEADER_SIZE_BYTES + FACTS.size + CHOICE_SIZE_BYTES
    return fixed + options_bytes + 4 * prompt_tokens + token_bytes * answer_tokens


def encode_record(saved: SavedRecord) -> bytes:
    """Return the one spelling of a record.

    Raises:
        RecordValueError: If it is larger than records that are read.
    """
    texts = [text.encode("utf-8") for text in saved.stop]
    pieces: list[Bytes] = [
        FACTS.pack(
            len(saved.prompt_ids),
            len(saved.token_ids),
            saved.context_tokens,
            saved.max_tokens,
            int(saved.is_continuation),
            saved.finish,
            saved.stop_index,
            len(saved.stop_token_ids),
            len(texts),
            saved.segment_count,
        ),
        *encode_choice(saved.choice),
        array("i", saved.stop_token_ids).tobytes(),
        saved.prompt_ids.tobytes(),
        saved.token_ids.tobytes(),
        saved.links,
        saved.segments,
        *(struct.pack("<Q", len(text)) + text for text in texts),
        *_encoded_schema(saved.schema),
    ]
    features = RecordFeature.SEGMENTS if saved.segment_count else RecordFeature(0)
    if saved.schema is not None:
        features |= RecordFeature.SCHEMA
    size = HEADER_SIZE_BYTES + sum(len(piece) for piece in pieces)
    if size > limits.RECORD_SIZE_BYTES_MAX:
        raise RecordValueError(f"{size} bytes", f"at most {limits.RECORD_SIZE_BYTES_MAX} are read")
    blank = _header(saved, features, size, bytes(HASH_SIZE_BYTES))
    return b"".join([_header(saved, features, size, sha256_of([blank, *pieces])), *pieces])


def _encoded_schema(schema: RecordedSchema | None) -> list[bytes]:
    if schema is None:
        return []
    name = schema.name.encode()
    numbers = int(not schema.is_fitted), int(not schema.allows_ends), len(name)
    return [SCHEMA.pack(schema.digest, *numbers), name]


def _header(
    saved: SavedRecord, features: RecordFeature, size_bytes: int, content_hash: bytes
) -> bytes:
    return HEADER.pack(
        MAGIC,
        FORMAT_VERSION,
        features,
        size_bytes,
        saved.arithmetic_version,
        0,
        content_hash,
        saved.model_id,
        saved.digest,
    )


def _require(part: str, found: int, expected: int) -> None:
    if found != expected:
        raise RecordValueError(f"{found} bytes of {part}", f"expected {expected}")
