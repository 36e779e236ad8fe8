"""Memory for the states of several sequences, fixed in advance."""

from contextlib import suppress
from types import TracebackType
from typing import NoReturn

from sslm import limits
from sslm.arguments import checked_int
from sslm.closing import Closing
from sslm.errors.runtime import NestedCallError, NotCopyableError, PoolInUseError
from sslm.memory import touch
from sslm.opening.runner import Runner
from sslm.program.states import PAGE_TOKENS
from sslm.runtime.sequences.kv_pool import KvPool, kv_pool_size_bytes, page_count_for


class SharedPool(Closing):
    """Pages of 64 tokens, which sequences and prefixes take and give back; a context manager.

    Made by ``model.kv_pool``. Any thread may use it.

    Args:
        runner: Of the model.
        tokens: For how many there is room, at least 1; rounded up to whole pages.
        memory: Writable bytes of the caller's, at least :func:`pool_size_bytes` of them, that begin
            at a multiple of 64 and stay until the pool is closed; None takes memory of its own.

    Raises:
        OptionRangeError: If *tokens* is out of range, or *memory* no such bytes.
        MemoryTooSmallError, MisalignedMemoryError, MemoryInUseError: If *memory* cannot be used.
        MemoryBudgetError: If own memory does not fit ``memory_bytes`` beside others.
        MemoryRefusedError: If the system has none.
    """

    def __init__(self, runner: Runner, tokens: int, memory: object = None) -> None:
        page_count = page_count_for(_checked_tokens(tokens))
        layout = runner.program.state_layout
        self.runner = runner
        self.size_bytes = kv_pool_size_bytes(layout, page_count)
        """Bytes of all pages."""
        # What the caller brings is the caller's to count.
        self._lease = runner.admit("a KV pool", self.size_bytes if memory is None else 0)
        self.pages = KvPool(layout, page_count, memory)
        if memory is None:
            # Asked for in advance, so that no slice has to wait until the system finds room for it.
            touch(self.pages.memory)

    @property
    def tokens(self) -> int:
        """For how many there is room."""
        return self.pages.page_count * PAGE_TOKENS

    @property
    def free_tokens(self) -> int:
        """For how many there is room left, in whole pages."""
        return self.pages.free_page_count * PAGE_TOKENS

    def close(self) -> None:
        """Give the memory back; may be called again.

        Raises:
            PoolInUseError: If sequences or prefixes hold pages of it; nothing has changed.
        """
        self.pages.close()
        self._lease.end()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if error is None:
            self.close()
            return
        # The error on its way is what counts, and it may hold who has pages.
        with suppress(PoolInUseError, NestedCallError):
            self.close()

    def __repr__(self) -> str:
        return f"<sslm.SharedPool of {self.tokens} tokens, {self.size_bytes} bytes>"

    def __reduce__(self) -> NoReturn:
        raise NotCopyableError("pool", "make one for the model that is opened elsewhere")


def pool_size_bytes(runner: Runner, tokens: int) -> int:
    """Return the bytes of a pool, which is what a caller who owns the memory must supply."""
    layout = runner.program.state_layout
    return kv_pool_size_bytes(layout, page_count_for(_checked_tokens(tokens)))


def _checked_tokens(tokens: object) -> int:
    return checked_int("tokens", tokens, lowest=1, highest=limits.POOL_TOKENS_MAX)
