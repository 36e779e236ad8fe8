"""Writing a file in blocks as large as a huge page.

What is written stays in the system's memory in pieces as large as the writes, and whoever maps the
file soon afterwards gets those very pieces: huge pages, or one ordinary page for every 4 KiB.
"""

from types import TracebackType
from typing import BinaryIO, Self

from sslm.memory import HUGE_PAGE_SIZE_BYTES


class BlockWriter:
    """Gathers what is written into blocks that begin at multiples of their size in the file.

    A context manager, which hands on what is left at its end unless there was an error; the file
    stays open.

    Args:
        file: Where the blocks go, from its position on.
    """

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self._block = bytearray(HUGE_PAGE_SIZE_BYTES)
        self._first = self._next = file.tell() % HUGE_PAGE_SIZE_BYTES

    def write(self, data: bytes | bytearray | memoryview) -> None:
        """Take all of *data*, contiguous bytes."""
        rest = memoryview(data).cast("B")
        while rest.nbytes:
            count = min(rest.nbytes, HUGE_PAGE_SIZE_BYTES - self._next)
            self._block[self._next : self._next + count] = rest[:count]
            self._next += count
            rest = rest[count:]
            if self._next == HUGE_PAGE_SIZE_BYTES:
                self._hand_on()

    def seek(self, offset_bytes: int) -> None:
        """Go on at another place of the file, from its begin."""
        self._hand_on()
        self._file.seek(offset_bytes)
        self._first = self._next = offset_bytes % HUGE_PAGE_SIZE_BYTES

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if error is None:
            self._hand_on()

    def _hand_on(self) -> None:
        with memoryview(self._block) as block:
            self._file.write(block[self._first : self._next])
        self._first = self._next = self._next % HUGE_PAGE_SIZE_BYTES
