"""The memory of a session: its sizes, known before it is taken, and its pages."""

from dataclasses import dataclass
from typing import Final

from sslm import limits
from sslm.errors.runtime import MemoryRefusedError, PoolInUseError
from sslm.errors.sessions import StateBudgetError
from sslm.opening.runner import Runner
from sslm.runtime.sequences.kv_pool import KvPool, page_count_for
from sslm.runtime.sequences.options import SequenceOptions
from sslm.runtime.transactions.checkpoints import CheckpointBudget, private_bytes_max

_DEFAULT_PRIVATE_COUNT: Final = 32
"""Private copies that the default budget has room for, beside the pages of one whole context."""
_HELD_BY_REQUEST: Final = limits.CHECKPOINT_MARK_COUNT_MAX + 3
"""Checkpoints of a request in progress: inside its prompt, behind it, behind the answer, and behind
what closes that."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionSizes:
    """What a session takes, in bytes.

    Args:
        context_tokens: Most tokens of a prompt and its answer.
        page_count: Pages of its pool.
        states: What the request in progress may hold.
        checkpoints: The budget of what is kept between requests.
        checkpoint_count: Most checkpoints.
    """

    context_tokens: int
    page_count: int
    states: int
    checkpoints: int
    checkpoint_count: int = limits.CHECKPOINT_COUNT_MAX


def session_sizes(
    runner: Runner, context_tokens: int, *, state_bytes: int | None, checkpoint_bytes: int | None
) -> SessionSizes:
    """Return what a session will take.

    Args:
        runner: Of the model.
        context_tokens: Most tokens of a prompt and its answer.
        state_bytes: Most bytes of states, or None for no bound.
        checkpoint_bytes: The budget of the checkpoints, or None for as much as a whole context and
            32 private copies take, if the bound on memory leaves that much.

    Raises:
        StateBudgetError: If the states of the context exceed *state_bytes*.
    """
    private = private_bytes_max(runner.program, context_tokens)
    options = SequenceOptions(context_tokens=context_tokens, chooses=True)
    kv, buffers = runner.sequence_sizes_bytes(options)
    states = kv + buffers + _HELD_BY_REQUEST * private
    if state_bytes is not None and states > state_bytes:
        raise StateBudgetError(context_tokens, states, state_bytes)
    if checkpoint_bytes is None:
        checkpoint_bytes = kv + _DEFAULT_PRIVATE_COUNT * private
        free = runner.free_bytes
        if free is not None:
            checkpoint_bytes = min(checkpoint_bytes, max(0, free - states))
    # A layout may have no paged state, and a checkpoint then no pages.
    page_size = runner.program.state_layout.page_size_bytes
    saved_pages = checkpoint_bytes // page_size if page_size else 0
    return SessionSizes(
        context_tokens=context_tokens,
        page_count=page_count_for(context_tokens) + saved_pages,
        states=states,
        checkpoints=checkpoint_bytes,
    )


class SessionMemory:
    """What was admitted for one session, and the pool that lies in it.

    Args:
        runner: Of the model.
        sizes: Of the session.

    Raises:
        MemoryBudgetError: If they do not fit the bound beside what others hold.
        MemoryRefusedError: If the system has no memory for the pages.
    """

    def __init__(self, runner: Runner, sizes: SessionSizes) -> None:
        self.sizes = sizes
        what = "a session's states and checkpoints"
        self._lease = runner.admit(what, sizes.states + sizes.checkpoints)
        try:
            self.pool = KvPool(runner.program.state_layout, sizes.page_count)
        except MemoryRefusedError as error:
            less = f"a checkpoint_bytes below {sizes.checkpoints}"
            remedy = less if sizes.checkpoints > sizes.states else f"a smaller context, or {less}"
            raise MemoryRefusedError(what, error.size_bytes, remedy) from error

    @property
    def budget(self) -> CheckpointBudget:
        """Of the checkpoints."""
        return CheckpointBudget(
            size_bytes=self.sizes.checkpoints, count=self.sizes.checkpoint_count
        )

    def close(self) -> None:
        """Give everything back; may be called again."""
        try:
            self.pool.close()
        except PoolInUseError:
            # Another thread computes and will notice in a moment; then its pages are gone as well.
            return
        self._lease.end()
