"""What is closed at the end of a ``with`` block."""

from abc import ABC, abstractmethod
from types import TracebackType
from typing import Self


class Closing(ABC):
    """Something whose ``with`` block ends by closing it, however the block ends."""

    __slots__ = ()

    @abstractmethod
    def close(self) -> None:
        """Give back what is held; may be called again."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()
