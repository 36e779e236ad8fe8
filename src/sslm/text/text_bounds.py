"""What a text may take before it is tokenized.

The libraries behind tokenizers end the process where the system has no memory for them. So what
they need at most is known, and is asked for, before they are called.
"""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass

from sslm import limits
from sslm.errors.runtime import MemoryBudgetError
from sslm.errors.status import Status
from sslm.errors.text import TextBytesError, TokenizerMemoryError
from sslm.memory import free_address_space_bytes


def _admit_all(what: str, size_bytes: int) -> AbstractContextManager[object]:
    return nullcontext()


@dataclass(frozen=True, slots=True, kw_only=True)
class TextBounds:
    """What one text may take.

    Args:
        text_bytes: Most bytes of UTF-8, or None for no bound but that of all texts.
        admit: Admits bytes for something, until the block ends, or raises MemoryBudgetError.
    """

    text_bytes: int | None = None
    admit: Callable[[str, int], AbstractContextManager[object]] = _admit_all

    @contextmanager
    def admitted(self, what: str, text: str) -> Iterator[None]:
        """Let a text be tokenized within the block.

        Args:
            what: Names the text.
            text: Valid Unicode.

        Raises:
            TextBytesError: If it is larger than the bound.
            TokenizerMemoryError: If there may not be the memory to tokenize it.
        """
        size_bytes = len(text) if text.isascii() else len(text.encode())
        if self.text_bytes is not None and size_bytes > self.text_bytes:
            raise TextBytesError(what, size_bytes, self.text_bytes)
        task = f"tokenizing {size_bytes} bytes of text"
        needed_bytes = limits.TOKENIZING_MEMORY_PER_BYTE * size_bytes
        require_address_space(task, needed_bytes)
        counted_bytes = max(needed_bytes - limits.TOKENIZING_UNCOUNTED_BYTES, 0)
        if not counted_bytes:
            yield
            return
        try:
            lease = self.admit(task, counted_bytes)
        except MemoryBudgetError as error:
            free_bytes = error.limit_bytes - (error.needed_bytes - counted_bytes)
            raise TokenizerMemoryError(
                Status.TOKENIZER_MEMORY_BUDGET,
                task=task,
                needed_bytes=counted_bytes,
                what="memory_bytes",
                free_bytes=free_bytes,
            ) from error
        with lease:
            yield


def require_address_space(task: str, needed_bytes: int) -> None:
    """Raise TokenizerMemoryError if the system's limit for this process leaves fewer bytes."""
    free_bytes = free_address_space_bytes()
    if free_bytes is not None and needed_bytes > free_bytes:
        raise TokenizerMemoryError(
            Status.TOKENIZER_ADDRESS_SPACE,
            task=task,
            needed_bytes=needed_bytes,
            what="the address-space limit",
            free_bytes=free_bytes,
        )
