"""What an automaton over bytes means for a vocabulary: masks, forced tokens and distances."""

import json
from array import array
from collections.abc import Iterable
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

from sslm import limits
from sslm.errors.schema import SchemaBudgetError, UnspellableSchemaError
from sslm.native_library import borrow, load_library
from sslm.progress import StageProgress, untold_stage
from sslm.schema.tokens.spans import FREE, OnlyTokens, Split, only_tokens, without_choice
from sslm.schema.tokens.step_table import NO_STATE, StepTable
from sslm.schema.tokens.trie import TokenTrie

_LENGTH_SHOWN_MAX: Final = 120
_WHERE: Final = (
    "the number of places in its texts that differ in what may follow, lastly in the value at {}"
)
SPANS_WORK: Final = "schema spans"
"""What is reported while states without a choice get their tokens: how many states were seen."""
MASKS_WORK: Final = "schema masks"
"""What is reported while the other states get theirs."""
_SCRATCH: Final = ("queue", "candidates", "needs", "needs_in_text", "needs_behind")


def value_pointer(table: StepTable, state: int) -> str:
    """Return the JSON pointer of the value that the shortest text to a state is in.

    Args:
        table: The automaton, of spellings of JSON values.
        state: One that can be reached.

    Returns:
        ``#`` and the pointer; its beginning, if that is long.
    """
    return ("#" + _pointer(_shortest_text(table, state)))[:_LENGTH_SHOWN_MAX]


def _shortest_text(table: StepTable, state: int) -> bytes:
    """Return the first of the shortest texts that lead to a state."""
    firsts = [table.byte_classes.index(column) for column in range(table.class_count)]
    came_from: dict[int, tuple[int, int]] = {0: (0, 0)}
    queue = [0]
    for at in queue:
        if at == state:
            break
        row = table.steps[at * table.class_count : (at + 1) * table.class_count]
        for column, target in enumerate(row):
            if target != NO_STATE and target not in came_from:
                came_from[target] = at, firsts[column]
                queue.append(target)
    found = bytearray()
    while state:
        state, byte = came_from[state]
        found.append(byte)
    return bytes(found[::-1])


def _pointer(text: bytes) -> str:
    """Return where the beginning of a JSON text breaks off."""
    # Of each container that is open: its key or index, or None before the first key.
    path: list[str | int | None] = []
    at = 0
    while at < len(text):
        byte = text[at : at + 1]
        if byte == b'"':
            end = _end_of_string(text, at)
            if text[end : end + 1] == b":" and path and not isinstance(path[-1], int):
                path[-1] = str(json.loads(text[at:end]))
            at = end
            continue
        if byte in (b"{", b"["):
            path.append(None if byte == b"{" else 0)
        elif byte in (b"}", b"]"):
            path.pop()
        elif byte == b"," and path:
            last = path[-1]
            path[-1] = last + 1 if isinstance(last, int) else None
        at += 1
    parts = (str(part) for part in path if part is not None)
    return "".join("/" + part.replace("~", "~0").replace("/", "~1") for part in parts)


def _end_of_string(text: bytes, at: int) -> int:
    """Return the place behind a string's closing quotation mark, or behind the text."""
    at += 1
    while at < len(text) and text[at : at + 1] != b'"':
        at += 2 if text[at : at + 1] == b"\\" else 1
    return at + 1


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
    report: StageProgress = untold_stage,
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


def first_difference(
    tables: TokenTables,
    trie: TokenTrie,
    split: Split | None,
    *,
    leaves_blank: bool = False,
    report: StageProgress = untold_stage,
) -> tuple[str, int] | None:
    """Work tables out again, and return what differs first, and in which state; or None.

    Takes as long as building them.

    Args:
        tables: Of an automaton that was checked; what is asked is whether the rest belongs to it.
        trie: The vocabulary's content.
        split: The tokenizer's own, or None if spans without a choice are spelled anyhow.
        leaves_blank: Whether a blank at the end of a span is left to the choice behind it.
        report: Told how far it is; what it raises ends it.

    Raises:
        SchemaError: What building them raises.
    """
    expected = build_token_tables(
        tables.table, trie, split, leaves_blank=leaves_blank, report=report
    )
    pairs: tuple[tuple[str, Iterable[object], Iterable[object]], ...] = (
        ("the only token", tables.only.tokens, expected.only.tokens),
        ("what the only token leads to", tables.only.targets, expected.only.targets),
        ("the distance to an end", tables.distances, expected.distances),
        ("the mask", _masks_by_state(tables), _masks_by_state(expected)),
    )
    for what, found, right in pairs:
        for state, (one, other) in enumerate(zip(found, right, strict=True)):
            if one != other:
                return what, state
    return None


def _masks_by_state(tables: TokenTables) -> Iterable[bytes | None]:
    for state, index in enumerate(tables.mask_indices):
        has_mask = index != NO_STATE and tables.only.tokens[state] == FREE
        yield tables.masks[index] if has_mask else None
