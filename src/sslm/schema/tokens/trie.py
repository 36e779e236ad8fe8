"""The bytes of a vocabulary's tokens, each common beginning once."""

import re
from array import array
from bisect import bisect_left
from collections.abc import Mapping
from itertools import accumulate
from typing import Any, Final

from sslm.errors.runtime import OptionRangeError
from sslm.errors.showing import int_range
from sslm.native_library import borrow, load_library

_ARRAYS: Final = (
    ("bytes", "uint8_t *", "B"),
    ("depths", "uint16_t *", "H"),
    ("heights", "uint16_t *", "H"),
    ("ends", "uint32_t *", "I"),
    ("first_ids", "uint32_t *", "I"),
    ("tails", "uint16_t *", "H"),
    ("kinds", "uint8_t *", "B"),
)

_ALNUM, _PLAIN, _WHOLE, _OTHER = range(4)
_LONGER_MASKS: Final = 16
_SPECIAL: Final = re.compile(rb'[\x00-\x1f"\\]')


def _section(token: bytes) -> int:
    """Return which section of a vocabulary a token is in; see sslm_native.h."""
    if token.isalnum():
        return _ALNUM
    if _SPECIAL.search(token):
        return _OTHER
    if token.isascii():
        return _PLAIN
    try:
        token.decode()
    except UnicodeDecodeError:
        return _OTHER
    return _WHOLE


class TokenTrie:
    """What goes through all tokens that an automaton may take, without looking at the others.

    Immutable; several threads may share one.

    Args:
        tokens: The bytes of each token that may be content, at least one each, by id. Control
            tokens are none.
        vocab_size: Ids are below it.

    Attributes:
        tokens: As given.
        vocab_size: As given.
        struct: ``sslm_token_trie`` of sslm_native.h.
        depth_max: Bytes of the longest token.

    Raises:
        OptionRangeError: If an id is not below the size of the vocabulary, or a token is empty.
    """

    def __init__(self, tokens: Mapping[int, bytes], vocab_size: int) -> None:
        outside = next((i for i in tokens if not 0 <= i < vocab_size or not tokens[i]), None)
        if outside is not None:
            expected = f"tokens of at least one byte, ids in {int_range(0, vocab_size - 1)}"
            raise OptionRangeError("tokens", f"{outside}: {tokens[outside]!r}", expected)
        self.tokens = tokens
        self.vocab_size = vocab_size
        sections = {token_id: _section(token) for token_id, token in tokens.items()}
        ids = sorted(tokens, key=lambda one: (sections[one], tokens[one], one))
        sizes = [len(tokens[token_id]) for token_id in ids]
        self.depth_max = max(sizes, default=0)
        # Of several tokens with the same bytes the lowest comes last, and stays.
        self._lowest_ids = {tokens[token_id]: token_id for token_id in reversed(ids)}
        self._alive: list[memoryview] = []
        self._by_id: tuple[Any, Any] | None = None
        self._ffi = load_library().ffi
        blob = b"".join([tokens[token_id] for token_id in ids])
        self._ids = array("i", ids)
        self._offsets = array("I", accumulate(sizes, initial=0))
        self.struct = self._built(blob, [sections[one] for one in ids])

    def _built(self, blob: bytes, sections: list[int]) -> Any:
        listed = self._ffi.new("sslm_token_list *")
        listed.bytes = self._pointer("uint8_t *", blob)
        listed.offsets = self._pointer("uint32_t *", self._offsets)
        listed.count = len(sections)
        listed.section_tokens = [bisect_left(sections, one) for one in range(_OTHER + 2)]
        prefixes = self._ffi.new("sslm_token_prefixes *")
        struct = self._ffi.new("sslm_token_trie *")
        for name, kind, code in _ARRAYS:
            room = array(code, bytes(array(code).itemsize * (len(blob) + 1)))
            pointer = self._pointer(kind, room, is_writable=True)
            setattr(prefixes, name, pointer)
            setattr(struct, name, pointer)
        section_nodes = self._pointer(
            "uint32_t *", array("I", bytes(4 * (_OTHER + 2))), is_writable=True
        )
        prefixes.section_nodes = struct.section_nodes = section_nodes
        path = array("I", bytes(4 * (self.depth_max + 1)))
        prefixes.path = self._pointer("uint32_t *", path, is_writable=True)
        struct.node_count = load_library().lib.sslm_native_token_prefixes(listed, prefixes)
        struct.token_ids = self._pointer("int32_t *", self._ids)
        struct.depth_max = self.depth_max
        self._add_masks(listed, struct)
        return struct

    def _add_masks(self, listed: Any, struct: Any) -> None:
        words = (self.vocab_size + 31) // 32
        found = self._ffi.new("sslm_token_masks *")
        long_max = listed.section_tokens[_OTHER]
        for name, kind, code, count in (
            ("section_masks", "uint32_t *", "I", words * (_OTHER + 1)),
            ("longer_masks", "uint32_t *", "I", words * _LONGER_MASKS),
            ("long_tokens", "uint32_t *", "I", long_max),
            ("long_lengths", "uint16_t *", "H", long_max),
        ):
            room = array(code, bytes(array(code).itemsize * max(count, 1)))
            pointer = self._pointer(kind, room, is_writable=True)
            setattr(found, name, pointer)
            setattr(struct, name, pointer)
        struct.mask_words = words
        struct.long_count = load_library().lib.sslm_native_token_masks(
            listed, struct.token_ids, words, found
        )

    def _pointer(self, kind: str, buffer: Any, *, is_writable: bool = False) -> Any:
        pointer, view = borrow(self._ffi, kind, buffer, is_writable=is_writable)
        self._alive.append(view)
        return pointer

    def bytes_by_id(self) -> tuple[Any, Any]:
        """Return C pointers to all content by id, and to where each one's begins: [vocab_size + 1].

        They are valid as long as this object lives. What is no content has no bytes.
        """
        if self._by_id is None:
            texts = [self.tokens.get(token_id, b"") for token_id in range(self.vocab_size)]
            offsets = array("I", accumulate(map(len, texts), initial=0))
            content = self._pointer("uint8_t *", b"".join(texts))
            self._by_id = content, self._pointer("uint32_t *", offsets)
        return self._by_id

    def longest_beginning(self, text: bytes) -> int:
        """Return the lowest id of the longest token that begins a text, or -1."""
        for size in range(min(len(text), self.depth_max), 0, -1):
            token_id = self._lowest_ids.get(text[:size])
            if token_id is not None:
                return token_id
        return -1
