"""States of one span, read and written where the sequence keeps them."""

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt

from sslm.backends.reference.attention import Codes
from sslm.numerics.rounding import Int64Array
from sslm.program.spans import Span
from sslm.program.states import PAGE_TOKENS, State, StateKind, StateLayout


class SpanStates:
    """Paged and fixed states of the sequence that a span belongs to."""

    def __init__(self, layout: StateLayout, span: Span) -> None:
        self.first_position = span.first_position
        self._layout = layout
        names = (state.name for state in layout.states)
        self._offsets_bytes = dict(zip(names, layout.offsets_bytes, strict=True))
        self._span = span
        self._staged: dict[str, Int64Array] = {}

    def append(self, state: State, codes: Int64Array, exponents: Int64Array) -> None:
        """Store codes [rows, heads, head_dim] and exponents [rows, heads] of the span's rows."""
        for row in range(len(codes)):
            slot, page_codes, page_exponents = self._slot(state, self.first_position + row)
            page_exponents[:, slot] = exponents[row]
            if state.kind is StateKind.PAGED_KEYS:
                page_codes[:, slot] = codes[row]
            else:
                page_codes[:, slot // 2, :, slot % 2] = codes[row]

    def read(self, state: State, row_count: int) -> Codes:
        """Return every page up to the span's last row, as whole pages."""
        page_count = (self.first_position + row_count - 1) // PAGE_TOKENS + 1
        pages = [self._page(state, index) for index in range(page_count)]
        codes = np.stack([page_codes for page_codes, _ in pages], axis=1).astype(np.int64)
        if state.kind is StateKind.PAGED_VALUES:
            codes = codes.transpose(0, 1, 2, 4, 3)
        exponents = np.stack([page_exponents for _, page_exponents in pages], axis=1)
        return Codes(
            codes.reshape(state.head_count, -1, state.head_dim),
            exponents.reshape(state.head_count, -1).astype(np.int64),
        )

    def fixed(self, state: State) -> Int64Array:
        """Return a fixed state as int64 [width], with what this run has staged."""
        staged = self._staged.get(state.name)
        return self._fixed_values(state).astype(np.int64) if staged is None else staged[-1]

    def stage(self, state: State, rows: Int64Array) -> None:
        """Remember a fixed state after each row; :meth:`commit` makes the last one true."""
        self._staged[state.name] = rows

    def commit(self) -> None:
        """Write the staged fixed states."""
        for state in self._layout.states:
            if state.name in self._staged:
                self._fixed_values(state)[:] = self._staged[state.name][-1]

    def appended(self, segment_index: int, position: int, row: int) -> Iterator[bytes]:
        """Yield the bytes that a segment's states contribute to the digest of a position."""
        for state in self._layout.states:
            if state.segment_index != segment_index:
                continue
            if not state.is_paged:
                yield self._staged[state.name][row].astype("<i4").tobytes()
                continue
            slot, codes, exponents = self._slot(state, position)
            is_keys = state.kind is StateKind.PAGED_KEYS
            stored = codes[:, slot] if is_keys else codes[:, slot // 2, :, slot % 2]
            yield stored.astype("<i2").tobytes()
            yield exponents[:, slot].tobytes()

    def _slot(
        self, state: State, position: int
    ) -> tuple[int, npt.NDArray[np.int16], npt.NDArray[np.uint8]]:
        return position % PAGE_TOKENS, *self._page(state, position // PAGE_TOKENS)

    def _page(
        self, state: State, index: int
    ) -> tuple[npt.NDArray[np.int16], npt.NDArray[np.uint8]]:
        memory = self._span.memory
        page = np.frombuffer(memory.pages, dtype=np.int32)[index]
        offset = int(page) * self._layout.page_size_bytes + self._offset(state)
        codes = np.frombuffer(
            memory.pool, dtype=np.int16, count=state.codes_size_bytes // 2, offset=offset
        )
        exponents = np.frombuffer(
            memory.pool,
            dtype=np.uint8,
            count=state.head_count * PAGE_TOKENS,
            offset=offset + state.codes_size_bytes,
        ).reshape(state.head_count, PAGE_TOKENS)
        if state.kind is StateKind.PAGED_KEYS:
            return codes.reshape(state.head_count, PAGE_TOKENS, state.head_dim), exponents
        return codes.reshape(state.head_count, PAGE_TOKENS // 2, state.head_dim, 2), exponents

    def _fixed_values(self, state: State) -> npt.NDArray[np.int32]:
        return np.frombuffer(
            self._span.memory.fixed,
            dtype=np.int32,
            count=state.head_dim,
            offset=self._offset(state),
        )

    def _offset(self, state: State) -> int:
        return self._offsets_bytes[state.name]
