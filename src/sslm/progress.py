"""How far work is, for whoever waits for it."""

from collections.abc import Callable

Progress = Callable[[int, int], None]
"""Called with how much is done, and of how much."""
StageProgress = Callable[[str, int, int], None]
"""Called with the stage that is under way, how much of it is done, and of how much."""


def untold(done: int, total: int) -> None:
    """Tell nobody."""


def untold_stage(stage: str, done: int, total: int) -> None:
    """Tell nobody."""
