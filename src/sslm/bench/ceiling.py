"""How fast this machine reads memory at all."""

import threading
import time
from collections.abc import Sequence
from typing import Final

from sslm.memory import HUGE_PAGE_SIZE_BYTES, anonymous_memory
from sslm.native_library import read_through

_SIZE_BYTES_MAX: Final = 256 << 20
"""Of the buffer: beyond it no cache helps, and reading takes its time."""


class ReadCeiling:
    """Reads weights where they lie, and as many bytes in huge pages.

    Small pages cost a good part of the speed on some machines, so both are told.

    Args:
        weights: Views of the weights.
        threads: How many read, each a part of its own.
    """

    def __init__(self, weights: Sequence[memoryview], *, threads: int) -> None:
        self._threads = threads
        self._weights = weights
        size_bytes = sum(view.nbytes for view in weights)
        self._buffer = _huge_buffer(min(max(size_bytes, HUGE_PAGE_SIZE_BYTES), _SIZE_BYTES_MAX))

    def sample(self) -> tuple[float, float]:
        """Return bytes per second of the weights and of the huge pages, one pass of each."""
        return self._speed(self._weights), self._speed([self._buffer])

    def _speed(self, views: Sequence[memoryview]) -> float:
        size_bytes = sum(view.nbytes for view in views)
        parts = [_part(views, index, self._threads) for index in range(self._threads)]
        if self._threads == 1:
            started_ns = time.perf_counter_ns()
            _read(parts[0])
            return size_bytes * 1e9 / (time.perf_counter_ns() - started_ns)
        spans: list[tuple[int, int]] = []
        together = threading.Barrier(self._threads)
        readers = [
            threading.Thread(target=_read_together, args=(part, together, spans)) for part in parts
        ]
        for reader in readers:
            reader.start()
        for reader in readers:
            reader.join()
        elapsed_ns = max(end for _, end in spans) - min(start for start, _ in spans)
        return size_bytes * 1e9 / elapsed_ns


def _part(views: Sequence[memoryview], index: int, count: int) -> list[memoryview]:
    """Return one of *count* parts of every view."""
    flat = [view.cast("B") for view in views]
    return [
        view[view.nbytes * index // count : view.nbytes * (index + 1) // count] for view in flat
    ]


def _read(views: Sequence[memoryview]) -> None:
    for view in views:
        read_through(view)


def _read_together(
    views: Sequence[memoryview], together: threading.Barrier, spans: list[tuple[int, int]]
) -> None:
    # Once in vain: the system begins threads on one core, and needs its time to spread them.
    _read(views)
    together.wait()
    started_ns = time.perf_counter_ns()
    _read(views)
    spans.append((started_ns, time.perf_counter_ns()))


def _huge_buffer(size_bytes: int) -> memoryview:
    """Map memory, in huge pages where the system has them, and touch all of it."""
    view = anonymous_memory(size_bytes)
    block = bytes(range(1, 251)) * (HUGE_PAGE_SIZE_BYTES // 250)
    for start in range(0, size_bytes, len(block)):
        view[start : start + len(block)] = block[: size_bytes - start]
    return view
