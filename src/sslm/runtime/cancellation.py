"""A flag that stops a run from outside."""

from array import array


class Cancellation:
    """Set once, by any thread; a plan polls it while it runs.

    Attributes:
        flag: One int32, nonzero once the flag is set; its bytes stay where they are.
    """

    def __init__(self) -> None:
        self.flag = memoryview(array("i", [0]))

    @property
    def is_set(self) -> bool:
        """Whether runs are to stop."""
        return bool(self.flag[0])

    def set(self) -> None:
        """Stop the run in progress, and every later one that polls this flag."""
        self.flag[0] = 1
