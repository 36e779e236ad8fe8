"""What a sequence holds between runs: its tokens, where it stands, and the memory of its states."""

from array import array
from collections import deque
from collections.abc import Sequence as TokenIds

from sslm.errors.runtime import (
    ContextLengthError,
    KvPoolExhaustedError,
    NothingChosenError,
    OptionRangeError,
    SequenceBusyError,
    SequenceNotFreshError,
    SnapshotMismatchError,
)
from sslm.errors.showing import int_range
from sslm.numerics.digests import first_link, next_link
from sslm.program.plan import DIGEST_SIZE_BYTES, SequenceMemory, Span, Trace
from sslm.program.program import Program
from sslm.program.states import PAGE_TOKENS
from sslm.runtime.chunk import Chunk, layers_between
from sslm.runtime.kv_pool import KvPool, page_count_for
from sslm.runtime.own_memory import zeroed_memory
from sslm.runtime.page_rows import pack_rows, unpack_rows
from sslm.runtime.sequence_options import SequenceOptions, buffer_sizes_bytes
from sslm.runtime.snapshot import (
    NO_ADAPTER,
    Counters,
    InFlight,
    Snapshot,
    first_unsealed,
    state_stops,
)

_NO_PAGE = b"\xff\xff\xff\xff"


class SequenceState:
    """The state of one sequence. Nothing here minds threads; :class:`Sequence` does.

    Args:
        program: What computes it.
        pool: Where its pages come from.
        model_id: 32 bytes; where its chain of digests begins.
        options: What it is made for.

    Raises:
        OptionRangeError: If ``context_tokens`` is beyond the program's positions, or the pool was
            made for other states.
        KvPoolExhaustedError: If the pool cannot hold what is reserved; nothing was taken.
        MemoryRefusedError: If the system has no memory for the buffers; nothing was taken.
    """

    def __init__(
        self, program: Program, pool: KvPool, model_id: bytes, options: SequenceOptions
    ) -> None:
        longest = program.max_position_embeddings
        if options.context_tokens > longest:
            found = str(options.context_tokens)
            raise OptionRangeError("context_tokens", found, int_range(1, longest))
        layout = program.state_layout
        if pool.layout != layout:
            found = f"for pages of {pool.layout.page_size_bytes} bytes of another model's states"
            raise OptionRangeError("pool", found, f"{layout.page_size_bytes} bytes of this model's")
        self.program = program
        self.options = options
        self.model_id = model_id
        self.layout = layout
        sizes = buffer_sizes_bytes(program, options)
        self._buffers = {name: zeroed_memory(size, "a sequence") for name, size in sizes.items()}
        self.memory = SequenceMemory(
            pool=pool.memory,
            pages=self._buffers["pages"].cast("i"),
            fixed=self._buffers["fixed"],
            residual=self._buffers["residual"],
            saturations=self._buffers["saturations"],
            digests=self._buffers["digests"],
        )
        self._empty()
        # After the buffers, so that a lack of memory for them leaves no pages taken.
        self.hold = pool.hold()
        self.hold.take(options.reserved_page_count)
        self._list_pages()

    def _empty(self) -> None:
        """Become what a fresh sequence is, pages left aside."""
        self.token_ids: list[int] = []
        self.pending: deque[int] = deque()
        self.chunk: Chunk | None = None
        self.selected: int | None = None
        self.link = first_link(self.program.arithmetic_version, self.model_id)
        self.layers_run = self.chunk_count = self.forced_tokens = 0
        self._is_decoding = False
        self._last_row = 0
        for name in ("fixed", "saturations"):
            self._buffers[name][:] = bytes(self._buffers[name].nbytes)

    def _list_pages(self) -> None:
        pages = array("i", self.hold.pages)
        table = self._buffers["pages"]
        absent = table.nbytes // 4 - len(pages)
        table[:] = pages.tobytes() + _NO_PAGE * absent

    @property
    def pending_count(self) -> int:
        """How many admitted tokens are not computed yet."""
        return len(self.pending) + (self.chunk.span.row_count if self.chunk else 0)

    @property
    def token_count(self) -> int:
        """Tokens of all kinds: computed, in flight and pending."""
        return len(self.token_ids) + self.pending_count

    # Admission.

    def room(self, count: int) -> tuple[int, ContextLengthError | KvPoolExhaustedError | None]:
        """Take the pages of *count* more tokens, or of as many as there is room for.

        Returns:
            How many fit, and why no more do, or None.
        """
        needed = self.token_count + count
        longest = self.options.context_tokens
        refusal: ContextLengthError | KvPoolExhaustedError | None = None
        if needed > longest:
            refusal = ContextLengthError(needed, longest)
        missing = page_count_for(min(needed, longest)) - len(self.hold.pages)
        if missing > 0:
            taken = self.hold.take_free(missing)
            if taken < missing:
                refusal = KvPoolExhaustedError(missing, taken)
            self._list_pages()
        held = min(longest, len(self.hold.pages) * PAGE_TOKENS)
        return min(count, held - self.token_count), refusal

    def require_room(self, count: int) -> None:
        """Take the pages of *count* more tokens.

        Raises:
            ContextLengthError, KvPoolExhaustedError: If they do not fit; nothing was taken.
        """
        needed = self.token_count + count
        if needed > self.options.context_tokens:
            raise ContextLengthError(needed, self.options.context_tokens)
        missing = page_count_for(needed) - len(self.hold.pages)
        if missing > 0:
            self.hold.take(missing)
            self._list_pages()

    def admit(self, ids: TokenIds[int]) -> None:
        """Queue tokens for which there is room. The token chosen before is forgotten."""
        if ids:
            self._is_decoding = self.selected is not None and len(ids) == 1
            self.pending.extend(ids)
            self.selected = None

    def chosen(self) -> int:
        """Return the token that was chosen.

        Raises:
            SequenceBusyError: If tokens are pending.
            NothingChosenError: If there is none.
        """
        if self.pending_count:
            raise SequenceBusyError(self.pending_count, "none: advance it first")
        if self.selected is None or self.selected < 0:
            raise NothingChosenError(len(self.token_ids))
        return self.selected

    # Chunks.

    def begin_chunk(self) -> Chunk:
        """Return the chunk in progress, or start the next one.

        Raises:
            SequenceBusyError: If nothing is pending.
        """
        if self.chunk is not None:
            return self.chunk
        if not self.pending:
            raise SequenceBusyError(0, "at least 1: push some first")
        count = min(len(self.pending), self.options.chunk_tokens)
        ids = array("i", [self.pending.popleft() for _ in range(count)])
        is_last = not self.pending
        first_logits_row = 0 if self.options.has_all_logits else count - int(is_last)
        self.chunk_count += 1
        self.chunk = self._chunk(ids, first_logits_row, is_prefill=not self._is_decoding)
        return self.chunk

    def _chunk(
        self, ids: "array[int]", first_logits_row: int, *, is_prefill: bool, next_segment: int = 0
    ) -> Chunk:
        trace_size = len(ids) * DIGEST_SIZE_BYTES * self.program.first_head_index
        trace = Trace(segments=self._buffers["trace"][:trace_size])
        span = Span(
            memory=self.memory,
            first_position=len(self.token_ids),
            token_ids=memoryview(ids),
            first_logits_row=first_logits_row,
            logits=self._buffers["logits"],
            selected=self._buffers["selected"],
            trace=trace if self.options.is_traced else None,
            is_prefill=is_prefill,
        )
        has_head = first_logits_row < len(ids)
        stop = len(self.program.segments) if has_head else self.program.first_head_index
        return Chunk(span=span, next_segment=next_segment, stop_segment=stop)

    def move_chunk(self, last: int) -> Chunk | None:
        """Note that the chunk ran up to segment *last*; return it if that was its end.

        Its positions are then part of the sequence.
        """
        chunk = self.chunk
        if chunk is None:
            raise AssertionError("only a chunk in progress can move")
        self.layers_run += layers_between(self.program, chunk.next_segment, last)
        chunk.next_segment = last
        if last < chunk.stop_segment:
            return None
        self.chunk = None
        for row, token_id in enumerate(chunk.span.token_ids):
            digest = self.memory.digests[row * DIGEST_SIZE_BYTES : (row + 1) * DIGEST_SIZE_BYTES]
            self.link = next_link(self.link, token_id, digest)
            self.token_ids.append(token_id)
        self._last_row = chunk.span.row_count - 1
        if chunk.has_logits and not self.pending:
            scored = chunk.span.row_count - chunk.span.first_logits_row
            self.selected = self._buffers["selected"].cast("i")[scored - 1]
        return chunk

    # Freezing.

    def snapshot(self) -> Snapshot:
        """Freeze what the sequence is now; it goes on as if nothing had happened."""
        pending, in_flight = array("i", self.pending), None
        chunk_count = self.chunk_count
        if self.chunk is not None and self.chunk.next_segment == 0:
            pending = array("i", self.chunk.span.token_ids) + pending
            chunk_count -= 1
        elif self.chunk is not None:
            in_flight = self._in_flight(self.chunk)
        position = len(self.token_ids)
        stops = state_stops(self.layout, position, in_flight)
        first = first_unsealed(position)
        return Snapshot(
            model_id=self.model_id,
            arithmetic_version=self.program.arithmetic_version,
            adapter=NO_ADAPTER,
            token_ids=array("i", self.token_ids),
            pending=pending,
            selected=self.selected,
            in_flight=in_flight,
            last_residual=self._row(self._last_row) if position and in_flight is None else b"",
            link=self.link,
            counters=Counters(
                saturations=bytes(self.memory.saturations),
                layers_run=self.layers_run,
                chunk_count=chunk_count,
                forced_tokens=self.forced_tokens,
            ),
            fixed=bytes(self.memory.fixed),
            tail=pack_rows(self.layout, self.memory.pool, self.hold.pages, first, stops),
            hold=self.hold.share(first // PAGE_TOKENS),
        )

    def _row(self, index: int, count: int = 1) -> bytes:
        size = 4 * self.program.residual.width
        return bytes(self.memory.residual[index * size : (index + count) * size])

    def _in_flight(self, chunk: Chunk) -> InFlight:
        rows = chunk.span.row_count
        is_past_layers = chunk.next_segment >= self.program.first_head_index
        return InFlight(
            token_ids=array("i", chunk.span.token_ids),
            next_segment=min(chunk.next_segment, self.program.first_head_index),
            first_logits_row=chunk.span.first_logits_row,
            is_prefill=chunk.span.is_prefill,
            residual=self._row(0, rows),
            # Before the last layer they are those of an earlier chunk.
            digests=bytes(self.memory.digests[: rows * DIGEST_SIZE_BYTES * int(is_past_layers)]),
        )

    def adopt(self, snapshot: Snapshot) -> None:
        """Become what a snapshot froze; its pages are shared, and only its tail is copied.

        Raises:
            SequenceNotFreshError: If there are tokens already.
            SnapshotMismatchError: If it is of another model or pool.
            ContextLengthError: If its tokens are more than the context.
            KvPoolExhaustedError: If the pool has too few pages for the rest; nothing has changed.
        """
        self._require_fit(snapshot)
        page_count = max(page_count_for(snapshot.token_count), self.options.reserved_page_count)
        self.hold.put_first(snapshot.hold, page_count)
        self._list_pages()
        self._become(snapshot)

    def load(self, snapshot: Snapshot, pages: TokenIds[bytes | memoryview]) -> None:
        """Become what a snapshot says whose full pages are given as bytes.

        Args:
            snapshot: Without pages.
            pages: The full pages of its computed positions, each of the pool's size.

        Raises:
            SequenceNotFreshError, SnapshotMismatchError, ContextLengthError, KvPoolExhaustedError:
                As :meth:`adopt` does; nothing has changed.
        """
        self._require_fit(snapshot)
        self.require_room(snapshot.token_count)
        size = self.layout.page_size_bytes
        for index, content in zip(self.hold.pages, pages, strict=False):
            self.memory.pool[size * index : size * (index + 1)] = content
        self._become(snapshot)

    def _become(self, snapshot: Snapshot) -> None:
        """Take everything from a snapshot but its full pages."""
        position = len(snapshot.token_ids)
        if snapshot.tail:
            stops, first = snapshot.stops(self.layout), first_unsealed(position)
            unpack_rows(self.layout, self.memory.pool, self.hold.pages, first, stops, snapshot.tail)
        self.token_ids = list(snapshot.token_ids)
        self.pending = deque(snapshot.pending)
        self.selected, self.link = snapshot.selected, snapshot.link
        counters = snapshot.counters
        self.layers_run, self.chunk_count = counters.layers_run, counters.chunk_count
        self.forced_tokens = counters.forced_tokens
        self.memory.saturations[:] = counters.saturations
        self.memory.fixed[:] = snapshot.fixed
        self.memory.residual[: len(snapshot.last_residual)] = snapshot.last_residual
        self._last_row = 0
        if snapshot.in_flight is not None:
            self._resume(snapshot.in_flight)

    def _require_fit(self, snapshot: Snapshot) -> None:
        if self.token_count:
            raise SequenceNotFreshError(self.token_count)
        if snapshot.model_id != self.model_id:
            found, expected = snapshot.model_id.hex(), self.model_id.hex()
            raise SnapshotMismatchError("the model", found, expected)
        if snapshot.hold.pool is not self.hold.pool:
            raise SnapshotMismatchError("the KV pool", "another one", "the sequence's own")
        if snapshot.token_count > self.options.context_tokens:
            raise ContextLengthError(snapshot.token_count, self.options.context_tokens)

    def _resume(self, in_flight: InFlight) -> None:
        self.memory.residual[: len(in_flight.residual)] = in_flight.residual
        self.memory.digests[: len(in_flight.digests)] = in_flight.digests
        self.chunk = self._chunk(
            array("i", in_flight.token_ids),
            in_flight.first_logits_row,
            is_prefill=in_flight.is_prefill,
            next_segment=in_flight.next_segment,
        )

    def reset(self) -> None:
        """Become a fresh sequence.

        Raises:
            KvPoolExhaustedError: If shared pages were among those reserved and there are too few
                free ones in their place; nothing has changed.
        """
        self.hold.keep_own(self.options.reserved_page_count)
        self._empty()
        self._list_pages()

    def release(self) -> None:
        """Give the pages and buffers back."""
        self.hold.release()
        self.pending.clear()
        self.chunk = None
        self._buffers = {}
