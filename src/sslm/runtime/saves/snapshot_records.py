"""Snapshots as the records that saves are made of, both ways."""

from array import array
from typing import Final

from sslm.formats.choice import SavedChoice
from sslm.formats.saves.contents import (
    SATURATION_COUNT,
    SavedChunk,
    SavedMemory,
    SavedSchema,
    SavedSequence,
    SavedState,
    SavedStateKind,
)
from sslm.numerics.digests import first_link
from sslm.program.choice import Choice, Decoder
from sslm.program.states import State, StateKind, StateLayout
from sslm.runtime.sequences.kv_pool import PageHold
from sslm.runtime.sequences.schema_binding import Place
from sslm.runtime.sequences.snapshot import Counters, InFlight, SchemaPoint, Snapshot

_KINDS: Final = {
    StateKind.PAGED_KEYS: SavedStateKind.KEYS,
    StateKind.PAGED_VALUES: SavedStateKind.VALUES,
    StateKind.FIXED: SavedStateKind.FIXED,
}


def saved_choice(choice: Choice) -> SavedChoice:
    """Return a choice as it is written."""
    names = SavedChoice.__slots__
    return SavedChoice(**{name: getattr(choice, name) for name in names})


def choice_of(saved: SavedChoice) -> Choice:
    """Return a choice that was read, whose every number is in its range."""
    fields = {name: getattr(saved, name) for name in SavedChoice.__slots__}
    return Choice(**fields | {"decoder": Decoder(saved.decoder)})


def saved_states(layout: StateLayout) -> tuple[SavedState, ...]:
    """Return what a save says of a program's states."""
    return tuple(
        SavedState(_KINDS[state.kind], state.segment_index, state.head_count, state.head_dim)
        for state in layout.states
    )


def fixed_states(layout: StateLayout) -> list[State]:
    """Return the states of which a sequence has one."""
    return [state for state in layout.states if not state.is_paged]


def record_of(snapshot: Snapshot, *, kv: bool) -> SavedSequence:
    """Describe a snapshot; its full pages are views of the pool, and are not copied.

    Args:
        snapshot: Not released, and not to be before the record is of no use any more.
        kv: Whether to keep what was computed, and not only which tokens there are.
    """
    pending = snapshot.pending
    if not kv:
        begun = snapshot.in_flight.token_ids if snapshot.in_flight else array("i")
        pending = snapshot.token_ids + begun + pending
    return SavedSequence(
        model_id=snapshot.model_id,
        arithmetic_version=snapshot.arithmetic_version,
        adapter=snapshot.adapter,
        pending=pending,
        forced_tokens=snapshot.counters.forced_tokens,
        choice=None if _is_as_made(snapshot) else saved_choice(snapshot.choice),
        answer_start=snapshot.answer_start,
        schema=_saved_schema(snapshot.schema),
        memory=_memory(snapshot) if kv else None,
    )


def _is_as_made(snapshot: Snapshot) -> bool:
    """Return whether the sequence was never told how to choose."""
    return snapshot.choice == Choice() and snapshot.answer_start == 0


def _choice_of(saved: SavedSequence) -> Choice:
    return Choice() if saved.choice is None else choice_of(saved.choice)


def _saved_schema(point: SchemaPoint | None) -> SavedSchema | None:
    if point is None:
        return None
    return SavedSchema(
        digest=point.digest,
        answer_tokens=point.answer_tokens,
        state=point.place.state,
        token_count=point.place.token_count,
    )


def schema_point(saved: SavedSchema | None) -> SchemaPoint | None:
    """Return where an answer stands, as snapshots have it."""
    if saved is None:
        return None
    return SchemaPoint(
        digest=saved.digest,
        answer_tokens=saved.answer_tokens,
        place=Place(saved.state, saved.token_count),
    )


def _memory(snapshot: Snapshot) -> SavedMemory:
    pool, counters = snapshot.hold.pool, snapshot.counters
    layout, size = pool.layout, pool.layout.page_size_bytes
    return SavedMemory(
        token_ids=snapshot.token_ids,
        chunk=_chunk(snapshot.in_flight) if snapshot.in_flight else None,
        selected=snapshot.selected,
        last_residual=snapshot.last_residual,
        link=snapshot.link,
        saturations=tuple(memoryview(counters.saturations).cast("q")),
        layers_run=counters.layers_run,
        chunk_count=counters.chunk_count,
        states=saved_states(layout),
        fixed=_without_padding(layout, snapshot.fixed),
        page_size_bytes=size,
        pages=tuple(pool.memory[size * page : size * (page + 1)] for page in snapshot.hold.pages),
        tail=snapshot.tail,
    )


def _chunk(in_flight: InFlight) -> SavedChunk:
    return SavedChunk(
        token_ids=in_flight.token_ids,
        next_segment=in_flight.next_segment,
        first_logits_row=in_flight.first_logits_row,
        residual=in_flight.residual,
        digests=in_flight.digests,
    )


def _without_padding(layout: StateLayout, fixed: bytes) -> bytes:
    pairs = zip(layout.states, layout.offsets_bytes, strict=True)
    return b"".join(
        fixed[offset : offset + state.codes_size_bytes]
        for state, offset in pairs
        if not state.is_paged
    )


def snapshot_of(saved: SavedSequence, hold: PageHold) -> Snapshot:
    """Return the snapshot that a record describes, its full pages left out.

    Args:
        saved: Of a program whose states are those of the pool.
        hold: Of no page.
    """
    memory = saved.memory
    if memory is None:
        return _uncomputed(saved, hold)
    return Snapshot(
        model_id=saved.model_id,
        arithmetic_version=saved.arithmetic_version,
        adapter=saved.adapter,
        token_ids=memory.token_ids,
        pending=saved.pending,
        selected=memory.selected,
        choice=_choice_of(saved),
        answer_start=saved.answer_start,
        schema=schema_point(saved.schema),
        in_flight=in_flight_of(memory.chunk) if memory.chunk else None,
        last_residual=bytes(memory.last_residual),
        link=memory.link,
        counters=Counters(
            saturations=array("q", memory.saturations).tobytes(),
            layers_run=memory.layers_run,
            chunk_count=memory.chunk_count,
            forced_tokens=saved.forced_tokens,
        ),
        fixed=_with_padding(hold.pool.layout, memory.fixed),
        hold=hold,
        tail=bytes(memory.tail),
    )


def in_flight_of(chunk: SavedChunk) -> InFlight:
    """Return a saved chunk as snapshots have it."""
    return InFlight(
        token_ids=chunk.token_ids,
        next_segment=chunk.next_segment,
        first_logits_row=chunk.first_logits_row,
        # A hint about how work is shared, which no result depends on.
        is_prefill=len(chunk.token_ids) > 1,
        residual=bytes(chunk.residual),
        digests=bytes(chunk.digests),
    )


def _uncomputed(saved: SavedSequence, hold: PageHold) -> Snapshot:
    """Return the snapshot of a sequence that has all tokens before it."""
    return Snapshot(
        model_id=saved.model_id,
        arithmetic_version=saved.arithmetic_version,
        adapter=saved.adapter,
        token_ids=array("i"),
        pending=saved.pending,
        selected=None,
        choice=_choice_of(saved),
        answer_start=saved.answer_start,
        schema=schema_point(saved.schema),
        in_flight=None,
        last_residual=b"",
        link=first_link(saved.arithmetic_version, saved.model_id),
        counters=Counters(
            saturations=bytes(8 * SATURATION_COUNT), forced_tokens=saved.forced_tokens
        ),
        fixed=bytes(hold.pool.layout.fixed_size_bytes),
        hold=hold,
        tail=b"",
    )


def _with_padding(layout: StateLayout, fixed: bytes | memoryview) -> bytes:
    pieces, at = [], 0
    for state in fixed_states(layout):
        end = at + state.codes_size_bytes
        pieces += [bytes(fixed[at:end]), bytes(state.size_bytes - state.codes_size_bytes)]
        at = end
    return b"".join(pieces)
