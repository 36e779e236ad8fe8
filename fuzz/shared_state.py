"""What a worker is doing, in a file that is there even after it was killed."""

import mmap
import struct
from pathlib import Path
from typing import Final

_HEAD: Final = struct.Struct("<QI")
_DATA_SIZE_BYTES_MAX: Final = 1 << 20


class SharedState:
    """A count of executions and the input of the one in progress, mapped into two processes.

    Args:
        path: Of the file; made if it is not there.
    """

    def __init__(self, path: Path) -> None:
        if not path.exists():
            path.write_bytes(bytes(_HEAD.size + _DATA_SIZE_BYTES_MAX))
        with path.open("r+b") as file:
            self._memory = mmap.mmap(file.fileno(), 0)

    def begin(self, data: bytes) -> None:
        """Note that an execution begins."""
        count, _ = _HEAD.unpack_from(self._memory)
        size = min(len(data), _DATA_SIZE_BYTES_MAX)
        self._memory[_HEAD.size : _HEAD.size + size] = data[:size]
        _HEAD.pack_into(self._memory, 0, count + 1, size)

    @property
    def execution_count(self) -> int:
        """Executions that have begun."""
        count: int = _HEAD.unpack_from(self._memory)[0]
        return count

    @property
    def current(self) -> bytes:
        """The input of the last execution that has begun."""
        size = _HEAD.unpack_from(self._memory)[1]
        return bytes(self._memory[_HEAD.size : _HEAD.size + size])

    def close(self) -> None:
        """Unmap the file."""
        self._memory.close()
