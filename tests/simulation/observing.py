"""Everything that can be seen of sequences and snapshots, in values that can be compared."""

from dataclasses import fields
from typing import Any

from sslm.runtime.sequences.page_rows import pack_rows
from sslm.runtime.sequences.sequence import Sequence
from sslm.runtime.sequences.snapshot import Snapshot, first_unsealed
from tests.simulation import expected
from tests.simulation.answers import Bound, Place
from tests.simulation.choices import WAYS
from tests.simulation.schemas import PIECES, compiled


def all_of_sequence(sequence: Sequence) -> object:
    """Return what a sequence is, with the rows of all its pages; nothing of a closed one."""
    if sequence.is_closed:
        return sequence.token_ids, sequence.digest, sequence.selected
    layout, pages = sequence.program.state_layout, list(sequence.state.hold.pages)
    snapshot = sequence.snapshot()
    rows = pack_rows(layout, sequence.memory.pool, pages, 0, snapshot.stops(layout))
    seen = _fields(snapshot)
    snapshot.release()
    return seen, rows, pages, sequence.memory.pages.tolist(), sequence.pending_count


def all_of_snapshot(snapshot: Snapshot) -> object:
    """Return what a snapshot is, with the rows of its pages."""
    pages, pool = snapshot.hold.pages, snapshot.hold.pool
    stops = (first_unsealed(len(snapshot.token_ids)) if pages else 0,) * len(pool.layout.states)
    return _fields(snapshot), pack_rows(pool.layout, pool.memory, pages, 0, stops), list(pages)


def _fields(snapshot: Snapshot) -> dict[str, Any]:
    return {one.name: getattr(snapshot, one.name) for one in fields(snapshot) if one.name != "hold"}


def difference(sequence: Sequence, model: expected.Sequence, *, has_stats: bool) -> str | None:
    """Tell in what a sequence differs from what the simulator's model says of it.

    Args:
        sequence: The runtime's.
        model: The simulator's.
        has_stats: Whether to ask for statistics too, and what each token would end.
    """
    progress, chunk = model.progress, sequence.chunk
    found: dict[str, object] = {
        "is_closed": sequence.is_closed,
        "token_ids": tuple(sequence.token_ids),
        "position": sequence.position,
        "pending_count": sequence.pending_count,
        "selected": sequence.selected,
        "has_work": sequence.has_work,
        "choice": (sequence.choice, sequence.answer_start),
        "chunk": chunk and (tuple(chunk.span.token_ids), chunk.next_segment),
    }
    wanted: dict[str, object] = {
        "is_closed": model.is_closed,
        "token_ids": progress.ids,
        "position": len(progress.ids),
        "pending_count": progress.pending_count,
        "selected": progress.selected,
        "has_work": progress.has_work,
        "choice": (WAYS[model.rule.way].choice, model.rule.answer_start),
        "chunk": progress.begun(model.program),
    }
    if has_stats and not model.is_closed:
        stats, known = sequence.stats(), model.stats()
        found |= {name: getattr(stats, name) for name in known}
        wanted |= known
    if not model.is_closed:
        found |= _answer(sequence)
        wanted |= _known_answer(model)
        if has_stats and model.bound is not None:
            found["endings"] = [sequence.ending_after(i) for i in range(len(PIECES))]
            wanted["endings"] = _known_endings(model.bound, progress.place)
        end = len(progress.ids) + progress.pending_count
        found["tokens"] = tuple(sequence.state.data.token_ids[len(progress.ids) : end])
        wanted["tokens"] = (progress.chunk.ids if progress.chunk else ()) + progress.pending
    for name, value in wanted.items():
        if found[name] != value:
            return f"{name} is {found[name]!r}, expected {value!r}"
    return None


def _answer(sequence: Sequence) -> dict[str, object]:
    """Return what there is to see of a schema, and the ids of its mask."""
    schema, binding, struct = sequence.schema, sequence.state.binding, sequence.state.data.struct
    mask = sequence.state.data.span().allowed
    bits = None if mask is None else int.from_bytes(mask, "little")
    return {
        "schema": schema and schema.digest,
        "answer_tokens": binding and binding.answer_tokens,
        "content_count": struct.content_count,
        "is_answer_complete": sequence.is_answer_complete,
        "allowed": None
        if bits is None
        else tuple(i for i in range(bits.bit_length()) if bits >> i & 1),
    }


def _known_answer(model: expected.Sequence) -> dict[str, object]:
    bound, place = model.bound, model.progress.place
    if bound is None:
        none = dict.fromkeys(("schema", "answer_tokens", "allowed"))
        return none | {"content_count": 0, "is_answer_complete": False}
    return {
        "schema": compiled(bound.schema, model.program.vocab_size).digest,
        "answer_tokens": bound.answer_tokens,
        "content_count": place.count,
        "is_answer_complete": bound.is_complete(place),
        "allowed": bound.allowed(place),
    }


def _known_endings(bound: Bound, place: Place) -> list[str | None]:
    """Return of each piece why nothing could follow it."""
    afters = [bound.after_content(place, i) for i in range(len(PIECES))]
    return [None if one is None else bound.ending(one) for one in afters]
