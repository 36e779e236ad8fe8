"""What a conversation has come to, and what a request may use of it."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar

from sslm.program.program import Program
from sslm.runtime.guards import Cancellation
from sslm.runtime.sequences.kv_pool import KvPool
from sslm.runtime.sequences.sequence import Sequence
from sslm.runtime.transactions.checkpoints import Checkpoints

NoteT = TypeVar("NoteT")

Advance = Callable[[Sequence, Cancellation | None], object]
"""Runs a slice of a sequence that has tokens pending, and polls a flag meanwhile."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Committed(Generic[NoteT]):
    """What a conversation has come to; replaced as a whole, by one assignment.

    Args:
        token_ids: Prompt and answer of the last request that was committed.
        digest: Of that answer, 32 bytes, or none.
        checkpoints: What the next request may begin with.
        note: What the session's owner keeps beside it.
    """

    token_ids: tuple[int, ...] = ()
    digest: bytes = b""
    checkpoints: Checkpoints
    note: NoteT


class Ground(Protocol[NoteT]):
    """What a request stands on: the session that it belongs to, as far as it may use that.

    Attributes:
        program: What computes it.
        pool: Where its pages come from.
        model_id: 32 bytes.
        advance: Runs a slice of its sequence.
        context_tokens: Most tokens of a prompt and its answer.
        committed: What the request begins with, and what a commit replaces.
    """

    program: Program
    pool: KvPool
    model_id: bytes
    advance: Advance
    context_tokens: int
    committed: Committed[NoteT]

    def replace_committed(
        self, committed: Committed[NoteT], *, is_open: Callable[[], bool]
    ) -> None:
        """Make what a request has come to part of the conversation, if the request is open."""

    def doubt(self, reason: str) -> None:
        """Take no more requests until a reset."""
