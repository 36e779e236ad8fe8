"""Saved conversations: bytes <-> records; see docs/format.md, 13."""

import struct
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from sslm import limits
from sslm.errors.runtime import OptionRangeError
from sslm.errors.saves import (
    NotASavedSessionError,
    SaveFeatureError,
    SaveIntegrityError,
    SaveSizeError,
    SaveVersionError,
)
from sslm.formats.bounded_reader import U32_MAX, U64_MAX, BoundedReader
from sslm.formats.sslm.canonical_json import JsonFields, JsonValue, decode_json, encode_json
from sslm.hashes import hash_without, sha256_of

MAGIC: Final = b"SSLMCHAT"
FORMAT_VERSION: Final = 1
HEADER_SIZE_BYTES: Final = 64
HASH_SIZE_BYTES: Final = 32

_HEADER: Final = struct.Struct("<8sIIQQ32s")
_HASH_OFFSET_BYTES: Final = HEADER_SIZE_BYTES - HASH_SIZE_BYTES
_ALIGNMENT_BYTES: Final = 64
_DATE_SIZE_CHARS: Final = 10
_ROLE_SIZE_CHARS_MAX: Final = 16


@dataclass(frozen=True, slots=True)
class SavedMessage:
    """What somebody said."""

    role: str
    content: str


@dataclass(frozen=True, slots=True, kw_only=True)
class SavedSession:
    """A conversation.

    Args:
        messages: What was said.
        date: ``YYYY-MM-DD``, or None.
        states: A saved sequence, as :mod:`sslm.formats.saves.writer` writes one, or no bytes.
    """

    messages: tuple[SavedMessage, ...]
    date: str | None
    states: bytes | memoryview


def encode_session(saved: SavedSession) -> bytes:
    """Return the one spelling of a saved conversation."""
    messages = [{"role": one.role, "content": one.content} for one in saved.messages]
    facts: Mapping[str, JsonValue] = {"messages": messages, "date": saved.date}
    text = encode_json(facts)
    content = b"".join([text, bytes(-len(text) % _ALIGNMENT_BYTES), saved.states])
    size = HEADER_SIZE_BYTES + len(content)
    head = _HEADER.pack(MAGIC, FORMAT_VERSION, 0, size, len(text), bytes(HASH_SIZE_BYTES))
    return head[:_HASH_OFFSET_BYTES] + sha256_of([head, content]) + content


def read_saved_session(blob: bytes | bytearray | memoryview) -> SavedSession:
    """Check the form of a saved conversation and return what it holds.

    What its states are is not looked at; they are a view of *blob*.

    Raises:
        OptionRangeError: If they are no bytes.
        NotASavedSessionError: If the bytes begin as something else.
        SaveVersionError, SaveFeatureError, SaveSizeError, SaveIntegrityError: If the header is not
            one that is read here.
        ArtifactError: If a field is out of its bounds; see ``sslm.errors.reading`` and
            ``sslm.errors.canonical_json``.
    """
    try:
        view = memoryview(blob).cast("B")
    except TypeError as error:
        kind = type(blob).__name__
        raise OptionRangeError("blob", f"a {kind} that is not bytes", "bytes in a row") from error
    reader = BoundedReader(view)
    magic = bytes(reader.take("magic", size_bytes=min(len(MAGIC), reader.size_bytes)))
    if magic != MAGIC:
        raise NotASavedSessionError(magic)
    version = reader.u32("format version", at_most=U32_MAX)
    if version != FORMAT_VERSION:
        raise SaveVersionError(version, FORMAT_VERSION)
    features = reader.u32("features", at_most=U32_MAX)
    if features:
        raise SaveFeatureError(f"features {features:#x}")
    stated_size = reader.u64("size of the save", at_most=U64_MAX)
    if stated_size != reader.size_bytes:
        raise SaveSizeError(stated_size, reader.size_bytes)
    most = limits.SESSION_TEXT_SIZE_BYTES_MAX
    text_size = reader.u64("size of the messages", at_most=most)
    stated = bytes(reader.take("hash", size_bytes=HASH_SIZE_BYTES))
    found = hash_without(view, _HASH_OFFSET_BYTES)
    if found != stated:
        raise SaveIntegrityError(found.hex(), stated.hex())
    text = reader.take("messages", size_bytes=text_size)
    reader.zero_padding("after the messages", alignment_bytes=_ALIGNMENT_BYTES)
    states = reader.take("states", size_bytes=reader.remaining_bytes)
    fields = JsonFields("session", decode_json(text, "session"))
    messages = fields.items("messages", _read_message, at_most=limits.CHAT_MESSAGE_COUNT_MAX)
    date = fields.text_or_none("date", at_most=_DATE_SIZE_CHARS)
    fields.finish()
    return SavedSession(messages=messages, date=date, states=states)


def _read_message(place: str, value: JsonValue) -> SavedMessage:
    fields = JsonFields(place, value)
    role = fields.text("role", at_most=_ROLE_SIZE_CHARS_MAX)
    content = fields.text("content", at_most=limits.TEXT_SIZE_CHARS_MAX)
    fields.finish()
    return SavedMessage(role, content)
