"""Everything that a sequence is, frozen: taken of one sequence, adopted by others."""

from array import array
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from typing import NoReturn, Self

from sslm.errors.base import SslmError
from sslm.errors.binding import SchemaBudgetTokensError
from sslm.errors.runtime import (
    NestedCallError,
    NotCopyableError,
    SequenceNotFreshError,
    SnapshotMismatchError,
)
from sslm.errors.status import Status
from sslm.program.choice import Choice
from sslm.program.choice_data import ChoiceData
from sslm.program.program import Program
from sslm.program.sequence_data import NOT_SCORED, SequenceStruct
from sslm.program.spans import DIGEST_SIZE_BYTES
from sslm.program.states import PAGE_TOKENS, StateLayout
from sslm.runtime.sequences.choice import forget_selected, require_choice
from sslm.runtime.sequences.kv_pool import PageHold, page_count_for
from sslm.runtime.sequences.page_rows import pack_rows, packed_size_bytes, unpack_rows
from sslm.runtime.sequences.schema_binding import Binding, Place
from sslm.runtime.sequences.schema_steps import new_binding
from sslm.runtime.sequences.state import SequenceState, begin_answer
from sslm.schema.tokens.bound_schema import BoundSchema

NO_ADAPTER = bytes(32)
"""The digest of no adapter."""


@dataclass(frozen=True, slots=True, kw_only=True)
class InFlight:
    """A chunk that has run through some segments.

    Args:
        token_ids: int32, its rows.
        next_segment: At least 1; within the head it is the head's first one, as scores are not kept
            and computed again.
        first_logits_row: Rows from here on get scores; the count of rows means none.
        is_prefill: As in :class:`sslm.program.spans.Span`.
        residual: int32 [rows, hidden_size], after segment ``next_segment - 1``.
        digests: 32 bytes per row, d[p, L], once the last layer has run; else none.
    """

    token_ids: "array[int]"
    next_segment: int
    first_logits_row: int
    is_prefill: bool
    residual: bytes
    digests: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class Counters:
    """What a sequence counts; rolled back with it.

    Args:
        saturations: int64 [6]: values that had to be clamped, by ``SaturationSite``.
        layers_run: Layers that its chunks ran.
        chunk_count: Chunks that were begun, each of which runs all layers in the end.
        forced_tokens: Tokens that were taken in as a schema's content without being chosen.
    """

    saturations: bytes
    layers_run: int = 0
    chunk_count: int = 0
    forced_tokens: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class SchemaPoint:
    """Where an answer stands in a schema.

    Args:
        digest: Of the schema, as :class:`BoundSchema` has it, 32 bytes.
        answer_tokens: Most tokens of the answer, or None for any number.
        place: Behind all admitted tokens.
    """

    digest: bytes
    answer_tokens: int | None
    place: Place


@dataclass(frozen=True, slots=True, kw_only=True)
class Snapshot:
    """A sequence at one moment. Whole pages are shared; everything else is a copy.

    A sequence writes only behind the positions that it has computed, so that a full page never
    changes: whoever holds it sees what it was.

    Args:
        model_id: 32 bytes.
        arithmetic_version: Of the program.
        adapter: 32 bytes, ``NO_ADAPTER`` for none.
        token_ids: int32, one for each computed position.
        pending: int32, admitted and not begun.
        selected: The token chosen after the last position, -1 or -3 if none was, or None: then a
            last position is to be scored, if nothing else is to be computed first.
        choice: How it was chosen, and those behind it are.
        answer_start: The position from which on tokens count as the answer's.
        schema: What the answer follows, and where it stands, or None.
        in_flight: The chunk in progress, or None.
        last_residual: int32 [hidden_size] after the last layer of the last position; empty if there
            is none, or a chunk is in flight.
        link: The chain of digests over the computed positions.
        counters: What was counted.
        fixed: The fixed states.
        hold: The full pages of the computed positions.
        tail: The rows behind them, as ``page_rows.pack_rows`` packs them.
    """

    model_id: bytes
    arithmetic_version: int
    adapter: bytes
    token_ids: "array[int]"
    pending: "array[int]"
    selected: int | None
    choice: Choice
    answer_start: int
    schema: SchemaPoint | None
    in_flight: InFlight | None
    last_residual: bytes
    link: bytes
    counters: Counters
    fixed: bytes
    hold: PageHold
    tail: bytes

    @property
    def token_count(self) -> int:
        """Tokens of all kinds: computed, in flight and pending."""
        in_flight = len(self.in_flight.token_ids) if self.in_flight else 0
        return len(self.token_ids) + in_flight + len(self.pending)

    @property
    def size_bytes(self) -> int:
        """Bytes that are copied; the pages are counted by the pool."""
        in_flight = self.in_flight
        chunk = len(in_flight.residual) + len(in_flight.digests) if in_flight else 0
        ids = self.token_ids.itemsize * self.token_count
        return ids + chunk + len(self.last_residual) + len(self.fixed) + len(self.tail)

    def stops(self, layout: StateLayout) -> tuple[int, ...]:
        """Return for each declared state how many positions of it there are."""
        return state_stops(layout, len(self.token_ids), self.in_flight)

    def __reduce__(self) -> NoReturn:
        raise NotCopyableError("snapshot", "save it, and restore it there")

    def release(self) -> None:
        """Give the pages back; the snapshot cannot be adopted afterwards."""
        self.hold.release()

    def share(self) -> Self:
        """Return the same snapshot with a hold of its own."""
        return replace(self, hold=self.hold.share(len(self.hold.pages)))

    def unbound(self) -> Self:
        """Return this snapshot without its schema, which takes its hold over.

        What was chosen as the schema allowed is forgotten with it.
        """
        return self if self.schema is None else replace(self, schema=None, selected=None)


def size_at_rest_bytes(program: Program, token_count: int) -> int:
    """Return ``size_bytes`` of a snapshot of so many computed positions, and nothing pending."""
    layout = program.state_layout
    stops = (token_count,) * len(layout.states)
    tail = packed_size_bytes(layout, first_unsealed(token_count), stops)
    residual = 4 * program.residual.width if token_count else 0
    return array("i").itemsize * token_count + residual + layout.fixed_size_bytes + tail


def state_stops(
    layout: StateLayout, token_count: int, in_flight: InFlight | None
) -> tuple[int, ...]:
    """Return for each state how many positions it holds: layers ahead hold the chunk's rows too."""
    if in_flight is None:
        return (token_count,) * len(layout.states)
    ahead = token_count + len(in_flight.token_ids)
    return tuple(
        ahead if state.segment_index < in_flight.next_segment else token_count
        for state in layout.states
    )


def first_unsealed(token_count: int) -> int:
    """Return the first position that is not on a full page."""
    return token_count // PAGE_TOKENS * PAGE_TOKENS


def freeze(state: SequenceState) -> Snapshot:
    """Return what a sequence is now; it goes on as if nothing had happened."""
    struct, position = state.data.struct, state.position
    in_flight = _in_flight(state)
    begun = position + (len(in_flight.token_ids) if in_flight else 0)
    stops, first = state_stops(state.layout, position, in_flight), first_unsealed(position)
    has_last = position and in_flight is None
    return Snapshot(
        model_id=state.model_id,
        arithmetic_version=state.program.arithmetic_version,
        adapter=NO_ADAPTER,
        token_ids=array("i", state.data.token_ids[:position]),
        pending=array("i", state.data.token_ids[begun : state.token_count]),
        selected=state.selected,
        choice=state.data.choice.choice,
        answer_start=state.data.choice.answer_start,
        schema=_schema_point(state),
        in_flight=in_flight,
        last_residual=_residual_rows(state, struct.last_row, 1) if has_last else b"",
        link=bytes(struct.link),
        counters=Counters(
            saturations=bytes(state.memory.saturations),
            layers_run=struct.layers_run,
            chunk_count=struct.chunk_count,
            forced_tokens=struct.forced_count,
        ),
        fixed=bytes(state.memory.fixed),
        tail=pack_rows(state.layout, state.memory.pool, state.hold.pages, first, stops),
        hold=state.hold.share(first // PAGE_TOKENS),
    )


def _schema_point(state: SequenceState) -> SchemaPoint | None:
    binding = state.binding
    if binding is None:
        return None
    return SchemaPoint(
        digest=binding.schema.digest, answer_tokens=binding.answer_tokens, place=state.place
    )


def _in_flight(state: SequenceState) -> InFlight | None:
    struct = state.data.struct
    if not struct.is_in_flight or struct.is_rescoring:
        return None
    span = state.data.span()
    rows = span.row_count
    is_past_layers = struct.next_segment >= state.program.first_head_index
    return InFlight(
        token_ids=array("i", span.token_ids),
        next_segment=min(struct.next_segment, state.program.first_head_index),
        first_logits_row=span.first_logits_row,
        is_prefill=span.is_prefill,
        residual=_residual_rows(state, 0, rows),
        # Before the last layer they are those of an earlier chunk.
        digests=bytes(state.memory.digests[: rows * DIGEST_SIZE_BYTES * int(is_past_layers)]),
    )


def _residual_rows(state: SequenceState, first: int, count: int) -> bytes:
    size = 4 * state.program.residual.width
    return bytes(state.memory.residual[first * size : (first + count) * size])


def adopt(state: SequenceState, snapshot: Snapshot, *, reserved_tokens: int = 0) -> None:
    """Become what a snapshot froze; its pages are shared, and only its tail is copied.

    The state goes on choosing as it was told to, and by the masks of its own schema: what was
    chosen otherwise is forgotten. A snapshot without a schema is what comes before an answer.

    Raises:
        SequenceNotFreshError: If there are tokens already.
        SnapshotMismatchError: If it is of another model or pool, or follows another schema.
        SchemaBudgetTokensError: If the state's answer could not be completed any more.
        ContextLengthError: If its tokens are more than the context.
        ObjectClosedError: If it was released.
        KvPoolExhaustedError: If the pool has too few pages for the rest; nothing has changed.
    """
    _require_fit(state, snapshot)
    _require_same_schema(state.binding, snapshot.schema)
    ids = _all_tokens(snapshot)
    page_count = max(
        page_count_for(max(snapshot.token_count, reserved_tokens)),
        state.options.reserved_page_count,
    )
    with _whole_or_nothing(state):
        state.hold.put_first(snapshot.hold, page_count)
        state.list_pages()
        _become(state, snapshot, ids, state.data.choice, state.binding)


def load(
    state: SequenceState,
    snapshot: Snapshot,
    pages: Sequence[bytes | memoryview],
    schema: BoundSchema | None,
) -> None:
    """Become what a snapshot says whose full pages are given as bytes, and choose as it does.

    Args:
        state: Of a fresh sequence.
        snapshot: Without pages.
        pages: The full pages of its computed positions, each of the pool's size.
        schema: What the snapshot follows, or None if it follows none.

    Raises:
        SequenceNotFreshError, SnapshotMismatchError, ContextLengthError, KvPoolExhaustedError: As
            :func:`adopt` does; nothing has changed.
    """
    _require_fit(state, snapshot)
    ids = _all_tokens(snapshot)
    size = state.layout.page_size_bytes
    require_choice(state, snapshot.choice, snapshot.answer_start)
    choice = state.data.bound(snapshot.choice, answer_start=snapshot.answer_start)
    point, binding = snapshot.schema, None
    if schema is not None and point is not None:
        binding = new_binding(state, schema, point.answer_tokens)
        _require_same_schema(binding, point)
    with _whole_or_nothing(state):
        state.require_room(snapshot.token_count)
        for index, content in zip(state.hold.pages, pages, strict=False):
            state.memory.pool[size * index : size * (index + 1)] = content
        _become(state, snapshot, ids, choice, binding)


@contextmanager
def _whole_or_nothing(state: SequenceState) -> Iterator[None]:
    """Leave a fresh sequence without pages where an interrupt cuts a change short.

    One that looks fresh must not have a half of another's counters, or write into shared pages.
    """
    state.is_emptying = True
    choice, binding = state.data.choice, state.binding
    try:
        yield
    except SslmError:
        # A refusal, which changes nothing.
        state.is_emptying = False
        raise
    except BaseException:
        # The interrupt may have come where the pool's turn was to be given back; then whoever uses
        # the sequence next does this.
        with suppress(NestedCallError):
            state.forget()
            struct = state.data.staged()
            begin_answer(struct, None if binding is None else binding.first_address)
            state.data.become_bound(struct, choice, binding)
        raise
    state.is_emptying = False


def _become(
    state: SequenceState,
    snapshot: Snapshot,
    ids: "array[int]",
    choice: ChoiceData,
    binding: Binding | None,
) -> None:
    """Take everything from a snapshot but its full pages, its choice and its schema.

    *ids* are all its tokens.

    From here on no memory is asked for that could be refused.
    """
    position = len(snapshot.token_ids)
    if snapshot.tail:
        stops, first = snapshot.stops(state.layout), first_unsealed(position)
        unpack_rows(state.layout, state.memory.pool, state.hold.pages, first, stops, snapshot.tail)
    memory, counters = state.memory, snapshot.counters
    memory.saturations[:] = counters.saturations
    memory.fixed[:] = snapshot.fixed
    memory.residual[: len(snapshot.last_residual)] = snapshot.last_residual
    state.data.token_ids[: len(ids)] = ids
    struct = state.data.staged()
    struct.layers_run, struct.chunk_count = counters.layers_run, counters.chunk_count
    struct.forced_count, struct.is_used = counters.forced_tokens, True
    struct.link[:] = snapshot.link
    struct.last_row = 0
    struct.computed_count, struct.pending_count = position, len(snapshot.pending)
    struct.selected = NOT_SCORED if snapshot.selected is None else snapshot.selected
    if snapshot.in_flight is not None:
        _resume(state, struct, snapshot.in_flight)
    struct.is_rescoring = bool(position) and position == len(ids) and snapshot.selected is None
    has_same_masks = _stand(struct, binding, snapshot.schema)
    if not (has_same_masks and choice.decides_as(snapshot.choice, snapshot.answer_start)):
        forget_selected(state, struct)
    state.data.become_bound(struct, choice, binding)


def _stand(struct: SequenceStruct, binding: Binding | None, point: SchemaPoint | None) -> bool:
    """Let an answer stand where a snapshot does; return whether the same tokens may follow."""
    begin_answer(struct, None if binding is None else binding.first_address)
    if binding is None or point is None:
        return binding is None and point is None
    struct.schema_state, struct.content_count = point.place.state, point.place.token_count
    struct.span.allowed = binding.mask_address(point.place, None)
    return binding.answer_tokens == point.answer_tokens


def _require_same_schema(binding: Binding | None, point: SchemaPoint | None) -> None:
    if point is None:
        return
    expected = None if binding is None else binding.schema.digest
    if binding is None or point.digest != expected:
        raise SnapshotMismatchError(
            Status.SNAPSHOT_SCHEMA,
            what="the schema",
            found=point.digest.hex(),
            expected=expected.hex() if expected else "none",
        )
    if not binding.fits(point.place):
        needed = point.place.token_count + binding.schema.distance(point.place.state)
        raise SchemaBudgetTokensError(binding.answer_tokens or 0, needed)


def _all_tokens(snapshot: Snapshot) -> "array[int]":
    ids = array("i", snapshot.token_ids)
    if snapshot.in_flight is not None:
        ids.extend(snapshot.in_flight.token_ids)
    ids.extend(snapshot.pending)
    return ids


def _require_fit(state: SequenceState, snapshot: Snapshot) -> None:
    if state.token_count:
        raise SequenceNotFreshError(state.token_count)
    if snapshot.model_id != state.model_id:
        raise SnapshotMismatchError(
            Status.SNAPSHOT_MODEL,
            what="the model",
            found=snapshot.model_id.hex(),
            expected=state.model_id.hex(),
        )
    if snapshot.hold.pool is not state.hold.pool:
        raise SnapshotMismatchError(
            Status.SNAPSHOT_POOL,
            what="the KV pool",
            found="another one",
            expected="the sequence's own",
        )
    if snapshot.token_count > state.options.context_tokens:
        raise state.program.too_long(snapshot.token_count, state.options.context_tokens)
    if snapshot.in_flight is not None:
        _require_chunk_fit(state, snapshot.in_flight)


def _require_chunk_fit(state: SequenceState, in_flight: InFlight) -> None:
    """Refuse a chunk of more rows, or of more rows to score, than the sequence has room for."""
    rows, longest = len(in_flight.token_ids), state.options.chunk_tokens
    if rows > longest:
        raise SnapshotMismatchError(
            Status.SNAPSHOT_CHUNK_ROWS,
            what="the rows of a chunk",
            found=str(rows),
            expected=f"at most {longest}",
        )
    scored = rows - in_flight.first_logits_row
    if scored > 1 and not state.options.has_all_logits:
        raise SnapshotMismatchError(
            Status.SNAPSHOT_SCORED_ROWS,
            what="the rows that are scored",
            found=str(scored),
            expected="at most 1",
        )


def _resume(state: SequenceState, struct: SequenceStruct, in_flight: InFlight) -> None:
    state.memory.residual[: len(in_flight.residual)] = in_flight.residual
    state.memory.digests[: len(in_flight.digests)] = in_flight.digests
    position, rows = struct.computed_count, len(in_flight.token_ids)
    struct.span.token_ids = state.data.token_address(position)
    struct.span.first_position = position
    struct.span.row_count = rows
    struct.span.first_logits_row = in_flight.first_logits_row
    struct.span.is_prefill = in_flight.is_prefill
    struct.next_segment = in_flight.next_segment
    has_head = in_flight.first_logits_row < rows
    head = state.program.first_head_index
    struct.stop_segment = len(state.program.segments) if has_head else head
    struct.is_in_flight = True
