"""Saved states of one conversation, within a budget."""

from array import array
from collections.abc import Iterable
from collections.abc import Sequence as Sequences
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Final, Self

from sslm import limits
from sslm.errors.runtime import OptionRangeError, SequenceBusyError
from sslm.errors.sessions import CheckpointBudgetError
from sslm.errors.showing import int_range
from sslm.program.program import Program
from sslm.program.states import PAGE_TOKENS
from sslm.runtime.sequences.snapshot import Snapshot

_FACTS_SIZE_BYTES: Final = 3 * 32 + 48
"""Model, adapter, link and counters of a snapshot."""
_PAGE_NUMBER_SIZE_BYTES: Final = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckpointBudget:
    """How much may be saved.

    Args:
        size_bytes: Most bytes, as :func:`charged_bytes` counts them; 0 saves nothing.
        count: Most checkpoints, 0 … ``limits.CHECKPOINT_COUNT_MAX``.

    Raises:
        OptionRangeError: If a number is out of its range.
    """

    size_bytes: int
    count: int = limits.CHECKPOINT_COUNT_MAX

    def __post_init__(self) -> None:
        bounds = {"size_bytes": limits.MEMORY_BYTES_MAX, "count": limits.CHECKPOINT_COUNT_MAX}
        for name, most in bounds.items():
            found = getattr(self, name)
            if not 0 <= found <= most:
                raise OptionRangeError(f"checkpoint {name}", str(found), int_range(0, most))


@dataclass(frozen=True, slots=True, kw_only=True)
class Checkpoints:
    """Snapshots at rest, at most one for each beginning of a conversation.

    A set never changes: adding to one returns another. Whoever puts that in the place of the first
    has everything or nothing, whatever interrupts it, and who does not has lost nothing.

    Args:
        budget: What all of them together may take.
        saved: In the order of their last use, the oldest first.
    """

    budget: CheckpointBudget
    saved: tuple[Snapshot, ...] = ()

    @property
    def size_bytes(self) -> int:
        """What they take; see :func:`charged_bytes`."""
        return charged_bytes(self.saved)

    def longest_prefix(
        self, model_id: bytes, adapter: bytes, token_ids: "array[int]"
    ) -> Snapshot | None:
        """Return the checkpoint of most tokens with which *token_ids* begin, or None.

        It is found by what was computed with what, never by a name.

        Args:
            model_id: 32 bytes.
            adapter: 32 bytes.
            token_ids: int32, at least one.
        """
        fitting = (
            one
            for one in self.saved
            if (one.model_id, one.adapter) == (model_id, adapter)
            and one.token_ids == token_ids[: len(one.token_ids)]
        )
        return max(fitting, key=lambda one: len(one.token_ids), default=None)

    def used(self, snapshot: Snapshot) -> Self:
        """Return the set after a use of one of its checkpoints, which is now the last to go."""
        others = tuple(one for one in self.saved if one is not snapshot)
        return replace(self, saved=(*others, snapshot))

    def adding(self, snapshot: Snapshot) -> Self:
        """Return the set with a snapshot in it, and without the least used that have no room.

        If there is a checkpoint of the same tokens, from which everything goes on to the same bits,
        that one stays and the snapshot is not taken.

        Raises:
            SequenceBusyError: If the snapshot is not at rest.
            CheckpointBudgetError: If it alone exceeds the budget.
        """
        unfinished = snapshot.token_count - len(snapshot.token_ids)
        if unfinished:
            raise SequenceBusyError(unfinished, "none: advance it first")
        same = next((one for one in self.saved if _key(one) == _key(snapshot)), None)
        if same is not None:
            return self.used(same)
        alone = charged_bytes([snapshot])
        if alone > self.budget.size_bytes or self.budget.count == 0:
            count, size = self.budget.count, self.budget.size_bytes
            raise CheckpointBudgetError(len(snapshot.token_ids), alone, size, count)
        saved = (*self.saved, snapshot)[-self.budget.count :]
        while charged_bytes(saved) > self.budget.size_bytes:
            saved = saved[1:]
        return replace(self, saved=saved)

    def adding_what_fits(self, snapshots: Sequences[Snapshot]) -> Self:
        """Return the set with those snapshots in it that do not exceed the budget alone.

        Raises:
            SequenceBusyError: If one is not at rest.
        """
        found = self
        for snapshot in snapshots:
            with suppress(CheckpointBudgetError):
                found = found.adding(snapshot)
        return found

    def holds(self, snapshot: Snapshot) -> bool:
        """Return whether this very snapshot is one of the checkpoints."""
        return any(one is snapshot for one in self.saved)

    def release_others(self, snapshots: Iterable[Snapshot]) -> None:
        """Give back the pages of those snapshots that are no checkpoints of this set."""
        for one in snapshots:
            if not self.holds(one):
                one.release()


def charged_bytes(snapshots: Sequences[Snapshot]) -> int:
    """Return what snapshots of one pool take together.

    Each page is charged once, however many of them share it. What is private to a snapshot is
    charged to each: its ids (4 bytes), the rows behind its last full page as they are packed, its
    fixed states, the residual of its last row, the numbers of its pages (8 bytes), and 144 bytes
    of identities, link and counters. Headers of Python's objects are not counted.
    """
    pages = {page for one in snapshots for page in one.hold.pages}
    page_size = snapshots[0].hold.pool.layout.page_size_bytes if snapshots else 0
    return page_size * len(pages) + sum(map(_private_bytes, snapshots))


def private_bytes_max(program: Program, context_tokens: int) -> int:
    """Return the most bytes that are private to one snapshot at rest of a program's sequence."""
    ids = array("i").itemsize * context_tokens
    pages = _PAGE_NUMBER_SIZE_BYTES * (context_tokens // PAGE_TOKENS)
    layout, residual = program.state_layout, 4 * program.residual.width
    states = layout.page_size_bytes + layout.fixed_size_bytes
    return ids + pages + residual + states + _FACTS_SIZE_BYTES


def _private_bytes(snapshot: Snapshot) -> int:
    pages = _PAGE_NUMBER_SIZE_BYTES * len(snapshot.hold.pages)
    return snapshot.size_bytes + pages + _FACTS_SIZE_BYTES


def _key(snapshot: Snapshot) -> tuple[bytes, bytes, bytes]:
    return snapshot.model_id, snapshot.adapter, snapshot.token_ids.tobytes()
