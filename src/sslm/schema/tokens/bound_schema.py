"""A schema as an answer follows it, token by token."""

from array import array
from collections.abc import Sequence
from typing import Any, Final

from sslm.hashes import Sha256
from sslm.native_library import borrow, load_library
from sslm.schema.tokens.spans import FREE
from sslm.schema.tokens.step_table import KIND_COUNT, MARK, NO_STATE, WHOLE_KINDS
from sslm.schema.tokens.tables import TokenTables
from sslm.schema.tokens.trie import TokenTrie

START: Final = 0
"""The state before the first token."""
ANY_COUNT: Final = NO_STATE
"""As many tokens as it takes."""
_DIGEST_MARK: Final = b"sslm bound schema\0"


class BoundSchema:
    """What each state of a schema's automaton allows an answer to go on with.

    Immutable; several threads and sequences share one.

    Args:
        tables: Of the schema and the vocabulary.
        trie: The vocabulary's content.
        digest: 32 bytes that name schema and vocabulary.
        end_ids: Tokens that end an answer, allowed exactly where a text may end; none if an answer
            that can go no further is a dead end.

    Attributes:
        digest: 32 bytes that name all of the arguments.
        schema_digest: Those that were given.
        end_ids: As given.
        struct: ``sslm_schema`` of sslm_native.h.
        mask_size_bytes: Of a mask: a bit for each id, in words of 32.
        scratch_size_bytes: What :meth:`mask_address` needs to work in.
    """

    def __init__(
        self, tables: TokenTables, trie: TokenTrie, *, digest: bytes, end_ids: Sequence[int]
    ) -> None:
        self.end_ids = tuple(end_ids)
        self.schema_digest = digest
        self.digest = Sha256(_DIGEST_MARK + digest + array("i", self.end_ids)).digest()
        self._table = tables.table
        self._tables = tables
        self._trie = trie
        library = load_library()
        self._ffi = library.ffi
        self._step = library.lib.sslm_native_schema_step
        self._mask = library.lib.sslm_native_schema_mask
        self._alive: list[memoryview] = []
        mask_words = (trie.vocab_size + 31) // 32
        self.mask_size_bytes = 4 * mask_words
        self.scratch_size_bytes = 4 * (mask_words + trie.depth_max + 1)
        masks, indices = _with_ends(tables, self.end_ids)
        struct = self._ffi.new("sslm_schema *")
        struct.automaton, struct.trie = self._table.struct, trie.struct
        struct.token_bytes, struct.token_offsets = trie.bytes_by_id()
        struct.only_tokens = self._pointer("int32_t *", tables.only.tokens)
        struct.distances = self._pointer("uint32_t *", tables.distances)
        farthest, nearest = _bounds(tables, trie.depth_max)
        for kind, bounds in enumerate(zip(farthest, nearest, strict=True)):
            struct.farthest[kind], struct.nearest[kind] = (
                self._pointer("uint32_t *", numbers) for numbers in bounds
            )
        struct.text_steps = self._pointer("uint32_t *", self._table.text_steps)
        struct.mask_indices = self._pointer("uint32_t *", indices)
        struct.masks = self._pointer("uint32_t *", masks)
        # Of each state: how many tokens have to be left for a mask of the schema's own, which one
        # that is, its distance, its only token. Side by side, as behind a step of a model what lies
        # in other places costs a miss each.
        self._lookups = array("I", bytes(16 * self.state_count))
        self._lookups[0::4] = array("I", map(_limit, tables.only.tokens, farthest[MARK]))
        self._lookups[1::4] = indices
        self._lookups[2::4] = tables.distances
        self._lookups[3::4] = array("I", (one & NO_STATE for one in tables.only.tokens))
        self._masks_address = int(self._ffi.cast("uintptr_t", struct.masks))
        struct.end_ids = self._pointer("int32_t *", array("i", self.end_ids))
        struct.end_count, struct.mask_words = len(self.end_ids), mask_words
        self.struct = struct

    def ending_with(self, end_ids: Sequence[int]) -> "BoundSchema":
        """Return the same schema with other tokens that end an answer."""
        return BoundSchema(self._tables, self._trie, digest=self.schema_digest, end_ids=end_ids)

    @property
    def shortest(self) -> int:
        """The fewest tokens of an answer, an end token not counted."""
        return int(self._tables.distances[START])

    @property
    def size_bytes(self) -> int:
        """Bytes of what it was given to read, and has made to be read faster; tokens left out."""
        return sum(view.nbytes for view in self._alive)

    @property
    def vocab_size(self) -> int:
        """Ids are below it."""
        return self._trie.vocab_size

    @property
    def state_count(self) -> int:
        """States are below it."""
        return self._table.state_count

    def distance(self, state: int) -> int:
        """Return the fewest tokens from a state to one where a text may end."""
        return self._lookups[4 * state + 2]

    def is_accepting(self, state: int) -> bool:
        """Whether a text may end in a state."""
        return bool(self._table.accepting[state])

    def is_final(self, state: int) -> bool:
        """Whether a text can only end in a state."""
        return self.is_accepting(state) and not self._table.takes_any(state)

    def only_token(self, state: int) -> int | None:
        """Return the one token that a state allows, or None if there is a choice."""
        token_id = self._lookups[4 * state + 3]
        return None if token_id == NO_STATE else token_id

    def step(self, state: int, token_id: int) -> int | None:
        """Return where a token leads from a state, or None if it is not taken."""
        target = self._step(self.struct, state, token_id)
        return None if target == NO_STATE else int(target)

    def mask_address(self, state: int, remaining: int, scratch: memoryview) -> int:
        """Return where the mask of a state lies: in the schema, or in *scratch*.

        Args:
            state: Where an answer stands.
            remaining: Tokens that may still be chosen, what ends the answer not counted: at least
                as many as complete the text, or ``ANY_COUNT``.
            scratch: ``scratch_size_bytes``, aligned to 4.
        """
        if remaining > self._lookups[4 * state]:
            # As the library does, without the cost of calling it: what most tokens need.
            return self._masks_address + self.mask_size_bytes * self._lookups[4 * state + 1]
        ffi = self._ffi
        # No name for what from_buffer returns: nothing may keep it; see native_library.borrow.
        mask = self._mask(self.struct, state, remaining, ffi.from_buffer("uint32_t *", scratch))
        return int(ffi.cast("uintptr_t", mask))

    def _pointer(self, kind: str, buffer: Any) -> Any:
        pointer, view = borrow(self._ffi, kind, buffer)
        self._alive.append(view)
        return pointer


def _limit(only_token: int, farthest: int) -> int:
    """Return beyond how many tokens a state's mask is one of the schema's own."""
    return farthest if only_token == FREE else NO_STATE


def _bounds(tables: TokenTables, byte_count: int) -> tuple[list["array[int]"], list["array[int]"]]:
    """Return the largest and the least distance of what each state leads to.

    By no byte up to those of a token, of kinds up to each; by whole characters for ``WHOLE_KINDS``.
    """
    links, distances = tables.table.links, tables.distances
    finite = array("I", (0 if one == NO_STATE else one for one in distances))
    # Tokens of whole characters end in no state inside of one, which is farther from an end.
    whole_finite, whole_distances = array("I", finite), array("I", distances)
    for state, is_whole in enumerate(tables.table.whole_states()):
        if not is_whole:
            whole_finite[state], whole_distances[state] = 0, NO_STATE
    most, least = [], []
    for kind in range(KIND_COUNT):
        of_most, of_least = (finite, distances)
        if kind in WHOLE_KINDS:
            of_most, of_least = whole_finite, whole_distances
        most.append(links.most(of_most, byte_count, kind=kind))
        least.append(links.least(of_least, byte_count, kind=kind))
    return most, least


def _with_ends(tables: TokenTables, end_ids: Sequence[int]) -> tuple[bytes, "array[int]"]:
    """Return the masks, and which one each state has; where a text may end, with what ends it."""
    table = tables.table
    ends = sum(1 << token_id for token_id in end_ids)
    masks = list(tables.masks)
    with_ends: dict[int, int] = {}
    indices = array("I", tables.mask_indices)
    for state, index in enumerate(tables.mask_indices):
        if not (ends and table.accepting[state]) or index == NO_STATE:
            continue
        if index not in with_ends:
            bits = int.from_bytes(masks[index], "little") | ends
            with_ends[index] = len(masks)
            masks.append(bits.to_bytes(len(masks[index]), "little"))
        indices[state] = with_ends[index]
    return b"".join(masks), indices
