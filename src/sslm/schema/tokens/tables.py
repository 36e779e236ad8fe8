"""What an automaton over bytes means for a vocabulary: masks, forced tokens and distances."""

from array import array
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

from sslm import limits
from sslm.errors.schema import SchemaBudgetError, UnspellableSchemaError
from sslm.native_library import borrow, load_library
from sslm.schema.regular.budget import Report
from sslm.schema.tokens.spans import FREE, OnlyTokens, Split, only_tokens, without_choice
from sslm.schema.tokens.step_table import NO_STATE, StepTable
from sslm.schema.tokens.trie import TokenTrie
from sslm.schema.tokens.value_places import value_pointer

_WHERE: Final = (
    "the number of places in its texts that differ in what may follow, lastly in the value at {}"
)

SPANS_WORK: Final = "schema spans"
"""What is reported while states without a choice get their tokens: how many states were seen."""
MASKS_WORK: Final = "schema masks"
"""What is reported while the other states get theirs."""

_SCRATCH: Final = ("queue", "candidates", "needs", "needs_in_text", "needs_behind")


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenTables:
    """Which tokens each state of an automaton allows, and how many complete a text.

    Args:
        table: The automaton.
        only: The tokens of states without a choice.
        distances: uint32, for each state: the fewest tokens after which the text may end, or
            ``NO_STATE`` if the vocabulary cannot complete it. No mask leads there.
        mask_indices: uint32, for each state: its mask, or ``NO_STATE`` where an only token is one.
        masks: Bit i % 32 of the uint32 i / 32 for token id i: each mask once.
    """

    table: StepTable
    only: OnlyTokens
    distances: "array[int]"
    mask_indices: "array[int]"
    masks: tuple[bytes, ...]

    def allowed_ids(self, state: int) -> list[int]:
        """Return the ids that a state allows, ascending."""
        if self.only.tokens[state] != FREE:
            return [self.only.tokens[state]]
        mask = int.from_bytes(self.masks[self.mask_indices[state]], "little")
        return [index for index in range(mask.bit_length()) if mask >> index & 1]


def build_token_tables(
    table: StepTable,
    trie: TokenTrie,
    split: Split | None,
    *,
    leaves_blank: bool = False,
    report: Report = lambda what, done, total: None,
) -> TokenTables:
    """Work out what an automaton allows of a vocabulary.

    Args:
        table: The automaton.
        trie: The vocabulary's content.
        split: The tokenizer's own, for spans without a choice; None leaves their spelling open.
        leaves_blank: Whether a blank at the end of a span is left to the choice behind it.
        report: Told how far it is; what it raises ends it.

    Raises:
        UnspellableSchemaError: If no text of the automaton can be spelled.
        SchemaBudgetError: If there is too much to do or to keep.
    """
    if split is None:
        only = without_choice(table)
    else:
        told = partial(report, SPANS_WORK)
        only = only_tokens(table, trie, split, leaves_blank=leaves_blank, report=told)
    work = _Work(table, trie)
    count = table.state_count
    report(MASKS_WORK, 0, count)
    distances = work.distances(only)
    if distances[0] == NO_STATE:
        raise UnspellableSchemaError
    report(MASKS_WORK, 0, count)
    groups = work.groups()
    indices = array("I", [NO_STATE]) * count
    masks: dict[bytes, int] = {}
    index_of_group: dict[int, int] = {}
    for state in range(count):
        if only.tokens[state] != FREE or distances[state] == NO_STATE:
            continue
        group = groups[state]
        if group not in index_of_group:
            report(MASKS_WORK, state, count)
            mask = work.mask(state, distances)
            index_of_group[group] = masks.setdefault(mask, len(masks))
            if len(masks) > limits.SCHEMA_MASK_COUNT_MAX:
                raise SchemaBudgetError(
                    what="different masks",
                    limit=limits.SCHEMA_MASK_COUNT_MAX,
                    where=_WHERE.format(value_pointer(table, state)),
                )
        indices[state] = index_of_group[group]
    report(MASKS_WORK, count, count)
    return TokenTables(
        table=table, only=only, distances=distances, mask_indices=indices, masks=tuple(masks)
    )


class _Work:
    """Calls of the native library over one automaton and one vocabulary."""

    def __init__(self, table: StepTable, trie: TokenTrie) -> None:
        library = load_library()
        self._ffi, self._lib = library.ffi, library.lib
        self._table = table
        self._trie = trie
        self._path = array("I", bytes(4 * (trie.depth_max + 1)))
        self._mask = bytearray((trie.vocab_size + 31) // 32 * 4)
        self._rooms = bytearray(table.state_count)
        steps, steps_view = borrow(self._ffi, "uint32_t *", table.text_steps)
        rooms, rooms_view = borrow(self._ffi, "uint8_t *", self._rooms, is_writable=True)
        self._lib.sslm_native_text_rooms(steps, table.state_count, rooms)
        steps_view.release()
        rooms_view.release()
        self._is_spellable = False

    def distances(self, only: OnlyTokens) -> "array[int]":
        """Return the fewest tokens from each state to an accepting one."""
        count = self._table.state_count
        distances = array("I", bytes(4 * count))
        scratch = [array("I", bytes(4 * count)) for _ in _SCRATCH]
        job = self._ffi.new("sslm_token_distances *")
        alive = [
            self._lend(job, "only_targets", only.targets),
            self._lend(job, "distances", distances),
            *map(self._lend, [job] * len(_SCRATCH), _SCRATCH, scratch),
            self._lend(job, "path", self._path),
        ]
        job.automaton, job.trie = self._table.struct, self._trie.struct
        job.links = self._table.links.struct
        job.check_count_max = limits.SCHEMA_LOOK_COUNT_MAX
        status = self._lib.sslm_native_token_distances(job)
        del alive
        if status != self._lib.SSLM_OK:
            raise SchemaBudgetError(
                what="looks at the vocabulary",
                limit=limits.SCHEMA_LOOK_COUNT_MAX,
                where=_WHERE.format(value_pointer(self._table, job.last_state)),
            )
        self._is_spellable = NO_STATE not in distances
        return distances

    def groups(self) -> "array[int]":
        """Number the states so that those with one number have one mask."""
        count = self._table.state_count
        slot_count = 1 << (2 * count).bit_length()
        groups = array("I", bytes(4 * count))
        memory = array("I", bytes(4 * (6 * count + 2 * slot_count)))
        pointer, view = borrow(self._ffi, "uint32_t *", groups, is_writable=True)
        scratch, scratch_view = borrow(self._ffi, "uint32_t *", memory, is_writable=True)
        depth = self._trie.depth_max
        self._lib.sslm_native_alike_states(
            self._table.struct, self._table.links.struct, depth, pointer, scratch, slot_count
        )
        view.release()
        scratch_view.release()
        if not self._is_spellable:
            # What cannot be completed differs from state to state.
            return array("I", range(count))
        return groups

    def mask(self, state: int, distances: "array[int]") -> bytes:
        """Return the mask of the tokens that a state allows."""
        self._mask[:] = bytes(len(self._mask))
        path, path_view = borrow(self._ffi, "uint32_t *", self._path, is_writable=True)
        mask, mask_view = borrow(self._ffi, "uint32_t *", self._mask, is_writable=True)
        lengths, lengths_view = borrow(self._ffi, "uint32_t *", distances)
        steps, steps_view = borrow(self._ffi, "uint32_t *", self._table.text_steps)
        rooms, rooms_view = borrow(self._ffi, "uint8_t *", self._rooms)
        if not self._is_spellable:
            steps = rooms = self._ffi.NULL
        self._lib.sslm_native_token_mask(
            self._table.struct, self._trie.struct, state, lengths, steps, rooms, path, mask
        )
        for view in (path_view, mask_view, lengths_view, steps_view, rooms_view):
            view.release()
        return bytes(self._mask)

    def _lend(self, job: Any, name: str, buffer: "array[int]") -> memoryview:
        pointer, view = borrow(self._ffi, "uint32_t *", buffer, is_writable=True)
        setattr(job, name, pointer)
        return view
