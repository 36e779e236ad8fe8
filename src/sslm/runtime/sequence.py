"""One sequence: its tokens, where it stands, and the memory that plans compute in."""

import operator
from array import array
from collections import deque
from collections.abc import Iterable
from collections.abc import Sequence as TokenIds
from dataclasses import dataclass
from types import TracebackType
from typing import NoReturn, Self, SupportsIndex, cast

from sslm.errors.runtime import (
    ContextLengthError,
    NotCopyableError,
    ObjectClosedError,
    OptionRangeError,
    SequenceBusyError,
    TokenIdRangeError,
    TokenIdTypeError,
)
from sslm.errors.showing import briefly, int_range
from sslm.numerics.digests import answer_digest, first_link, next_link
from sslm.program.ops import SaturationSite
from sslm.program.plan import CHUNK_ROWS_MAX, DIGEST_SIZE_BYTES, SequenceMemory, Span, Trace
from sslm.program.program import Program
from sslm.runtime.kv_pool import KvPool, page_count_for


@dataclass(frozen=True, slots=True, kw_only=True)
class SequenceOptions:
    """What a sequence is made for.

    Args:
        context_tokens: Positions that it may compute, at least 1 and at most the program's; their
            pages are taken when it is made.
        chunk_tokens: Most rows of one prefill chunk, 1 … 64.
        has_all_logits: Score every position, not only the last of what was pushed.
        is_traced: Keep the digests of every segment of the chunk in progress.

    Raises:
        OptionRangeError: If a number is out of its range.
    """

    context_tokens: int
    chunk_tokens: int = CHUNK_ROWS_MAX
    has_all_logits: bool = False
    is_traced: bool = False

    def __post_init__(self) -> None:
        if self.context_tokens < 1:
            raise OptionRangeError("context_tokens", str(self.context_tokens), int_range(1))
        if not 1 <= self.chunk_tokens <= CHUNK_ROWS_MAX:
            expected = int_range(1, CHUNK_ROWS_MAX)
            raise OptionRangeError("chunk_tokens", str(self.chunk_tokens), expected)


def checked_token_ids(token_ids: Iterable[object], vocab_size: int) -> list[int]:
    """Return token ids as a list of plain integers.

    Raises:
        TokenIdTypeError: If one is not an integer.
        TokenIdRangeError: If one is not in the vocabulary.
    """
    return [_checked_id(index, found, vocab_size) for index, found in enumerate(token_ids)]


def _checked_id(index: int, found: object, vocab_size: int) -> int:
    # Integers of other libraries are welcome; a truth value is no id, though Python counts it.
    # Asking whether there is an index takes far longer than taking it.
    if isinstance(found, bool):
        raise TokenIdTypeError(briefly(found), index, type(found).__name__)
    try:
        token_id = operator.index(cast(SupportsIndex, found))
    except TypeError as error:
        raise TokenIdTypeError(briefly(found), index, type(found).__name__) from error
    if not 0 <= token_id < vocab_size:
        raise TokenIdRangeError(token_id, index, vocab_size - 1)
    return token_id


def sequence_size_bytes(program: Program, options: SequenceOptions) -> int:
    """Return the bytes of a sequence's own buffers; its pages are the pool's."""
    return sum(_buffer_sizes(program, options).values())


def _buffer_sizes(program: Program, options: SequenceOptions) -> dict[str, int]:
    logits_rows = CHUNK_ROWS_MAX if options.has_all_logits else 1
    traced = CHUNK_ROWS_MAX * DIGEST_SIZE_BYTES * program.first_head_index
    return {
        "pages": 4 * page_count_for(options.context_tokens),
        "fixed": program.state_layout.fixed_size_bytes,
        "residual": 4 * CHUNK_ROWS_MAX * program.residual.width,
        "saturations": 8 * len(SaturationSite),
        "digests": CHUNK_ROWS_MAX * DIGEST_SIZE_BYTES,
        "logits": 8 * logits_rows * program.vocab_size,
        "selected": 4 * logits_rows,
        "trace": traced if options.is_traced else 0,
    }


class Sequence:
    """Tokens pushed in, positions computed, a token chosen after the last one.

    A sequence is advanced by :func:`sslm.runtime.stepper.advance`. One thread at a time may use it.

    Args:
        program: What computes it.
        pool: Where its pages come from.
        model_id: 32 bytes; where its chain of digests begins.
        options: What it is made for.

    Raises:
        OptionRangeError: If ``context_tokens`` is beyond the program's positions.
        KvPoolExhaustedError: If the pool cannot hold ``context_tokens``; nothing was taken.
    """

    def __init__(
        self, program: Program, pool: KvPool, model_id: bytes, options: SequenceOptions
    ) -> None:
        longest = program.max_position_embeddings
        if options.context_tokens > longest:
            found = str(options.context_tokens)
            raise OptionRangeError("context_tokens", found, int_range(1, longest))
        self.program = program
        self.options = options
        self.token_ids: list[int] = []
        self.selected: int | None = None
        self.chunk: Chunk | None = None
        self._pending: deque[int] = deque()
        self._is_decoding = False
        self._link = first_link(program.arithmetic_version, model_id)
        buffers = {
            name: memoryview(bytearray(size))
            for name, size in _buffer_sizes(program, options).items()
        }
        # After the buffers, so that a lack of memory for them leaves no pages taken.
        self._pool = pool
        self._pages = pool.take(page_count_for(options.context_tokens))
        buffers["pages"] = memoryview(array("i", self._pages))
        self._buffers = buffers
        self.memory = SequenceMemory(
            pool=pool.memory,
            pages=buffers["pages"],
            fixed=buffers["fixed"],
            residual=buffers["residual"],
            saturations=buffers["saturations"],
            digests=buffers["digests"],
        )

    @property
    def position(self) -> int:
        """How many positions are computed."""
        return len(self.token_ids)

    @property
    def pending_count(self) -> int:
        """How many pushed tokens are not computed yet."""
        return len(self._pending) + (self.chunk.span.row_count if self.chunk else 0)

    @property
    def digest(self) -> bytes:
        """The chain over all computed positions, 32 bytes."""
        return self._link

    def answer_digest(self, token_ids: TokenIds[int]) -> bytes:
        """Close the chain with an answer's token ids; 32 bytes."""
        return answer_digest(self._link, token_ids)

    @property
    def saturations(self) -> dict[str, int]:
        """How many values had to be clamped so far, by site."""
        counts = self.memory.saturations.cast("q")
        return {site.name.lower(): counts[site] for site in SaturationSite}

    def push(self, token_ids: TokenIds[int]) -> None:
        """Queue tokens to compute. The token chosen before is forgotten, unless there are none.

        Raises:
            TokenIdTypeError: If one is not an integer; nothing was queued.
            TokenIdRangeError: If one is not in the vocabulary; nothing was queued.
            ContextLengthError: If they do not fit; nothing was queued.
            ObjectClosedError: If the sequence is closed.
        """
        if not self._buffers:
            raise ObjectClosedError("sequence")
        ids = checked_token_ids(token_ids, self.program.vocab_size)
        needed = self.position + self.pending_count + len(ids)
        if needed > self.options.context_tokens:
            raise ContextLengthError(needed, self.options.context_tokens)
        if ids:
            self._is_decoding = self.selected is not None and len(ids) == 1
            self._pending.extend(ids)
            self.selected = None

    def begin_chunk(self) -> "Chunk":
        """Return the chunk in progress, or start the next one.

        Raises:
            SequenceBusyError: If nothing is pending.
            ObjectClosedError: If the sequence is closed.
        """
        if not self._buffers:
            raise ObjectClosedError("sequence")
        if self.chunk is not None:
            return self.chunk
        if not self._pending:
            raise SequenceBusyError(0, "at least 1: push some first")
        count = min(len(self._pending), self.options.chunk_tokens)
        ids = array("i", [self._pending.popleft() for _ in range(count)])
        is_last = not self._pending
        first_logits_row = 0 if self.options.has_all_logits else count - int(is_last)
        trace_size = count * DIGEST_SIZE_BYTES * self.program.first_head_index
        span = Span(
            memory=self.memory,
            first_position=self.position,
            token_ids=memoryview(ids),
            first_logits_row=first_logits_row,
            logits=self._buffers["logits"],
            selected=self._buffers["selected"],
            trace=Trace(segments=self._buffers["trace"][:trace_size])
            if self.options.is_traced
            else None,
            is_prefill=not self._is_decoding,
        )
        self.chunk = Chunk(span=span, next_segment=0, stop_segment=self._stop_segment(span))
        return self.chunk

    def _stop_segment(self, span: Span) -> int:
        has_head = span.first_logits_row < span.row_count
        return len(self.program.segments) if has_head else self.program.first_head_index

    def end_chunk(self) -> "Chunk":
        """Make the finished chunk's positions part of the sequence and return it."""
        if self.chunk is None or self.chunk.next_segment != self.chunk.stop_segment:
            raise SequenceBusyError(self.pending_count, "a chunk that ran to its end")
        chunk, self.chunk = self.chunk, None
        for row, token_id in enumerate(chunk.span.token_ids):
            digest = self.memory.digests[row * DIGEST_SIZE_BYTES : (row + 1) * DIGEST_SIZE_BYTES]
            self._link = next_link(self._link, token_id, digest)
            self.token_ids.append(token_id)
        if chunk.has_logits and not self._pending:
            last = chunk.span.row_count - chunk.span.first_logits_row - 1
            self.selected = self._buffers["selected"].cast("i")[last]
        return chunk

    def close(self) -> None:
        """Give the pages back and drop what is pending; may be called again."""
        if self._pages:
            self._pool.give_back(self._pages)
            self._pages = []
        self._buffers = {}
        self._pending.clear()
        self.chunk = None

    def __reduce__(self) -> NoReturn:
        raise NotCopyableError("sequence", "push its token_ids to another one")

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()


@dataclass(slots=True, kw_only=True)
class Chunk:
    """Rows that go through the segments together, and how far they are.

    The span's logits, selected ids and trace are valid until the sequence begins another chunk.
    """

    span: Span
    next_segment: int
    stop_segment: int

    @property
    def has_logits(self) -> bool:
        """Whether any row is scored."""
        return self.span.first_logits_row < self.span.row_count
