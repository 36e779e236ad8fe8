"""Making the n-th allocation of a call fail.

What the runtime allocates in a size that depends on tokens or on the model is made by a handful of
names that its modules look up: those of Python's containers, and its own copying functions. While a
call is watched, the modules find stand-ins that count.
"""

import importlib
from array import array
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

_MODULES = (
    "memory",
    "runtime.saves.checks",
    "runtime.saves.saving",
    "runtime.saves.snapshot_records",
    "runtime.sequences.kv_pool",
    "runtime.sequences.page_rows",
    "runtime.sequences.schema_binding",
    "runtime.sequences.schema_steps",
    "runtime.sequences.sequence",
    "runtime.sequences.snapshot",
    "runtime.sequences.state",
    "runtime.sequences.token_ids",
    "runtime.slices.stepper",
)
_ALLOCATING: dict[str, Callable[..., Any]] = {
    "array": array,
    "bytearray": bytearray,
    "bytes": bytes,
    "deque": deque,
    "list": list,
}
"""Names of Python's that allocate what they return."""

_COPYING = ("encode_save", "pack_rows", "read_save")
"""Names of the runtime's that do, if a module has them."""

_MAPPING = "anonymous_memory"
"""The one that asks the system, whose refusal is another error."""


class Allocations:
    """Counts allocations, and refuses one.

    Args:
        fails_at: Which one, counted from 1.
    """

    def __init__(self, fails_at: int) -> None:
        self.fails_at = fails_at
        self.count = 0

    @property
    def has_failed(self) -> bool:
        """Whether there were so many allocations."""
        return self.count >= self.fails_at

    def stand_in(
        self, original: Callable[..., Any], error: type[Exception] = MemoryError
    ) -> Callable[..., Any]:
        """Return what allocates as *original* does, and counts."""

        def counted(*arguments: Any, **named: Any) -> Any:
            self.count += 1
            if self.count == self.fails_at:
                raise error
            return original(*arguments, **named)

        return counted


@contextmanager
def failing_allocation(fails_at: int) -> Iterator[Allocations]:
    """Let the given allocation of the runtime fail within the block."""
    allocations = Allocations(fails_at)
    changed: list[tuple[Any, str, Any]] = []
    for name in _MODULES:
        module = importlib.import_module(f"sslm.{name}")
        found = vars(module)
        for known, original in _ALLOCATING.items():
            changed.append((module, known, found.get(known)))
            setattr(module, known, allocations.stand_in(original))
        for known in (*_COPYING, _MAPPING):
            if known in found:
                error = OSError if known == _MAPPING else MemoryError
                changed.append((module, known, found[known]))
                setattr(module, known, allocations.stand_in(found[known], error))
    try:
        yield allocations
    finally:
        for module, known, before in changed:
            if before is None:
                delattr(module, known)
            else:
                setattr(module, known, before)
