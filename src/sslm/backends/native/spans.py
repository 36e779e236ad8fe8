"""Spans turned into the structs of the C library."""

from collections.abc import Sequence
from typing import Any

from sslm.errors.program import OpShapeError
from sslm.native_library import NativeLibrary, borrow
from sslm.program.ops import SaturationSite
from sslm.program.program import Program
from sslm.program.spans import DIGEST_SIZE_BYTES, Span, allowed_size_bytes


class SpanLowering:
    """Checks spans against a program and writes their C structs.

    Args:
        library: The loaded library.
        program: The program that the spans run.
    """

    def __init__(self, library: NativeLibrary, program: Program) -> None:
        layout = program.state_layout
        self._ffi = library.ffi
        self._row_size_bytes = 4 * program.residual.width
        self._logits_size_bytes = 8 * program.vocab_size
        self._allowed_size_bytes = allowed_size_bytes(program.token_count)
        self._page_size_bytes = layout.page_size_bytes
        self._fixed_size_bytes = layout.fixed_size_bytes
        self._traced_count = program.first_head_index

    def lower(self, spans: Sequence[Span]) -> tuple[Any, list[Any]]:
        """Return the array of structs, and what must stay alive as long as it is used.

        Raises:
            OpShapeError: If a buffer of a span is too small.
        """
        array = self._ffi.new("sslm_span[]", max(len(spans), 1))
        alive: list[Any] = []
        for index, span in enumerate(spans):
            self._lower_span(span, array[index], alive)
        return array, alive

    def _view(
        self,
        alive: list[Any],
        what: str,
        kind: str,
        buffer: memoryview,
        at_least_bytes: int,
        *,
        is_writable: bool = True,
    ) -> Any:
        if buffer.nbytes < at_least_bytes:
            found, expected = f"{buffer.nbytes} bytes", f"at least {at_least_bytes} bytes"
            raise OpShapeError("Span", what, found, expected)
        pointer, view = borrow(self._ffi, kind, buffer, is_writable=is_writable)
        alive.append(view)
        return pointer

    def _lower_span(self, span: Span, record: Any, alive: list[Any]) -> None:
        if span.adapter_slot != 0:
            raise OpShapeError("Span", "the adapter slot", str(span.adapter_slot), "0")
        memory, rows = span.memory, span.row_count
        scored = rows - span.first_logits_row
        record.token_ids, token_ids = borrow(self._ffi, "int32_t *", span.token_ids)
        record.pages, pages = borrow(self._ffi, "int32_t *", memory.pages)
        alive += (token_ids, pages)
        record.table_page_count = pages.nbytes // 4
        record.pool = self._view(alive, "the pool", "uint8_t *", memory.pool, 0)
        record.pool_page_count = memory.pool.nbytes // max(self._page_size_bytes, 1)
        record.fixed = self._view(
            alive, "the fixed states", "uint8_t *", memory.fixed, self._fixed_size_bytes
        )
        record.residual = self._view(
            alive, "the residual", "int32_t *", memory.residual, rows * self._row_size_bytes
        )
        record.saturations = self._view(
            alive, "the saturations", "int64_t *", memory.saturations, 8 * len(SaturationSite)
        )
        record.digests = self._view(
            alive, "the digests", "uint8_t *", memory.digests, rows * DIGEST_SIZE_BYTES
        )
        if span.trace is not None:
            size_bytes = self._traced_count * rows * DIGEST_SIZE_BYTES
            record.trace = self._view(
                alive, "the trace", "uint8_t *", span.trace.segments, size_bytes
            )
        if span.logits is not None:
            size_bytes = scored * self._logits_size_bytes
            record.logits = self._view(alive, "the logits", "int64_t *", span.logits, size_bytes)
        if span.selected is not None:
            record.selected = self._view(
                alive, "the selection", "int32_t *", span.selected, 4 * scored
            )
        if span.logit_exponents is not None:
            record.logit_exponents = self._view(
                alive, "the logits' exponents", "int32_t *", span.logit_exponents, 4 * scored
            )
        if span.choice is not None:
            needs_exponents = span.logits is not None and not span.choice.choice.is_plain
            if needs_exponents and span.logit_exponents is None:
                raise OpShapeError("Span", "the logits' exponents", "no room", "some")
            record.choice = self._ffi.cast("sslm_choice *", span.choice.address)
            alive.append(span.choice)
        if span.allowed is not None:
            record.allowed = self._view(
                alive,
                "the allowed ids",
                "uint32_t *",
                span.allowed,
                self._allowed_size_bytes,
                is_writable=False,
            )
        record.first_position = span.first_position
        record.row_count = rows
        record.first_logits_row = span.first_logits_row
        record.is_prefill = span.is_prefill
