"""Everything that a sequence is, frozen."""

from array import array
from dataclasses import dataclass, replace
from typing import NoReturn, Self

from sslm.errors.runtime import NotCopyableError
from sslm.program.choice import Choice
from sslm.program.program import Program
from sslm.program.states import PAGE_TOKENS, StateLayout
from sslm.runtime.sequences.kv_pool import PageHold
from sslm.runtime.sequences.page_rows import packed_size_bytes
from sslm.runtime.sequences.schema_binding import Place

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
        is_prefill: As in :class:`sslm.program.plan.Span`.
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
