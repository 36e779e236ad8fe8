"""How much work Python does, which no other program and no clock can change."""

import sys
from collections.abc import Callable
from types import FrameType


class CallCount:
    """Counts the functions that a block calls in its thread, of Python and of C.

    A loop over input calls something in each round, so that this tells a bound of another kind from
    a linear one. What C does in one call is not seen; a test's time is bounded for that.

    Attributes:
        count: How many.
    """

    def __init__(self) -> None:
        self.count = 0

    def __enter__(self) -> "CallCount":
        self._before = sys.getprofile()
        sys.setprofile(self._note)
        return self

    def __exit__(self, *facts: object) -> None:
        sys.setprofile(self._before)

    def _note(self, frame: FrameType, event: str, argument: object) -> None:
        self.count += event in ("call", "c_call")


def calls_of(act: Callable[[], object]) -> int:
    """Return how many functions an act calls."""
    with CallCount() as calls:
        act()
    return calls.count
