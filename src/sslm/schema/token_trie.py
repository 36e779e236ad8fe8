"""The bytes of a vocabulary's tokens, each common beginning once."""

from array import array
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
        ids = sorted(tokens, key=lambda token_id: (tokens[token_id], token_id))
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
        self.struct = self._built(blob, len(ids))

    def _built(self, blob: bytes, count: int) -> Any:
        listed = self._ffi.new("sslm_token_list *")
        listed.bytes = self._pointer("uint8_t *", blob)
        listed.offsets = self._pointer("uint32_t *", self._offsets)
        listed.count = count
        prefixes = self._ffi.new("sslm_token_prefixes *")
        struct = self._ffi.new("sslm_token_trie *")
        for name, kind, code in _ARRAYS:
            room = array(code, bytes(array(code).itemsize * (len(blob) + 1)))
            pointer = self._pointer(kind, room, is_writable=True)
            setattr(prefixes, name, pointer)
            setattr(struct, name, pointer)
        path = array("I", bytes(4 * (self.depth_max + 1)))
        prefixes.path = self._pointer("uint32_t *", path, is_writable=True)
        struct.node_count = load_library().lib.sslm_native_token_prefixes(listed, prefixes)
        struct.token_ids = self._pointer("int32_t *", self._ids)
        struct.depth_max = self.depth_max
        return struct

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
