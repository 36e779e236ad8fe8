"""The process that may use an object."""

import os

from sslm.errors.runtime import ForkedProcessError


class OwningProcess:
    """Remembers who made an object, which a fork may bring into another process.

    A fork copies every lock and turn as it is, but no thread: if another one held it, nobody is
    there to give it back.

    Args:
        kind: What the object is, for the error.
    """

    __slots__ = ("_kind", "_process")

    def __init__(self, kind: str) -> None:
        self._kind = kind
        self._process = os.getpid()

    @property
    def is_here(self) -> bool:
        """Whether this is the process."""
        return os.getpid() == self._process

    def require(self) -> None:
        """Raise in any other process.

        Raises:
            ForkedProcessError: If this is another one.
        """
        process = os.getpid()
        if process != self._process:
            raise ForkedProcessError(self._kind, self._process, process)
