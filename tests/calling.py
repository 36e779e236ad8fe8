"""Calling something from deep inside other calls."""

from collections.abc import Callable
from typing import TypeVar

_T = TypeVar("_T")


def called_from(depth: int, call: Callable[[], _T]) -> _T:
    """Return what *call* returns, called from so many calls inside one another."""
    return call() if depth == 0 else called_from(depth - 1, call)
