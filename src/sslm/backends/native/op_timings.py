"""How long the ops of a native plan take, by their kind."""

from array import array
from typing import Final

TIMED_KINDS: Final = (
    "embed",
    "rmsnorm",
    "quantize",
    "linear",
    "rope",
    "append",
    "attention",
    "gated_activation",
    "add",
    "logits",
    "choose",
    "moving_average",
    "digests",
)
"""What is told apart: the kinds of ops, in the order of their numbers, and the digests."""


class OpTimings:
    """Wall time by kind of op, added up over the runs that it was given to.

    With several threads it is the time until the last of them is done.
    """

    def __init__(self) -> None:
        self._ns = array("q", [0] * len(TIMED_KINDS))

    @property
    def memory(self) -> memoryview:
        """int64 by :data:`TIMED_KINDS`, in nanoseconds; plans add to it."""
        return memoryview(self._ns)

    def by_kind(self) -> dict[str, int]:
        """Return the nanoseconds of every kind, also of those that did not run."""
        return dict(zip(TIMED_KINDS, self._ns, strict=True))

    def clear(self) -> None:
        """Begin again at zero."""
        for index in range(len(self._ns)):
            self._ns[index] = 0
