"""Bugs made on purpose in how sequences follow schemas."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from sslm.runtime.sequences import sequence
from sslm.runtime.sequences import snapshot as freezing
from sslm.runtime.sequences import state as sequence_state
from sslm.runtime.sequences.schema_binding import Binding, Place
from sslm.runtime.sequences.snapshot import SchemaPoint, Snapshot
from sslm.runtime.sequences.state import SequenceState
from sslm.schema.tokens.bound_schema import ANY_COUNT, START


def _stand_behind_the_chosen_one(original: Callable[..., None]) -> Any:
    def admit(
        state: SequenceState, ids: Any, *, place: Place | None = None, forced_count: int = 0
    ) -> None:
        is_jump = 0 < forced_count < len(ids)
        if is_jump and place is not None and state.binding is not None:
            place = state.binding.after(state.place, ids[0])
        original(state, ids, place=place, forced_count=forced_count)

    return admit


def _keep_place(original: Callable[..., None]) -> Any:
    del original

    def begin_answer(struct: Any, first_allowed: int | None) -> None:
        struct.span.allowed = first_allowed

    return begin_answer


def _stand_at_start(original: Callable[..., bool]) -> Any:
    def stand(struct: Any, binding: Binding | None, point: SchemaPoint | None) -> bool:
        is_same = original(struct, binding, point)
        if binding is not None:
            struct.schema_state = START
            struct.span.allowed = binding.first_address
        return is_same

    return stand


def _keep_what_was_chosen(original: Callable[..., bool]) -> Any:
    def stand(struct: Any, binding: Binding | None, point: SchemaPoint | None) -> bool:
        original(struct, binding, point)
        return True

    return stand


def _one_more(original: Callable[[Binding, Place], int]) -> Any:
    def remaining(binding: Binding, place: Place) -> int:
        return min(ANY_COUNT, original(binding, place) + 1)

    return remaining


def _count_anew(original: Callable[[SequenceState], SchemaPoint | None]) -> Any:
    def schema_point(state: SequenceState) -> SchemaPoint | None:
        point = original(state)
        return point and replace(point, place=Place(point.place.state, 0))

    return schema_point


def _forget_forced(original: Callable[[SequenceState], Snapshot]) -> Any:
    def freeze(state: SequenceState) -> Snapshot:
        snapshot = original(state)
        return replace(snapshot, counters=replace(snapshot.counters, forced_tokens=0))

    return freeze


def _bind_at_any_time(original: Callable[..., None]) -> Any:
    def bind(state: SequenceState, *arguments: Any) -> None:
        state.data.struct.is_used = False
        original(state, *arguments)

    return bind


SCHEMA_INJECTIONS: dict[str, list[tuple[Any, str, Callable[[Any], Any]]]] = {
    "jump-stands-behind": [(SequenceState, "admit", _stand_behind_the_chosen_one)],
    "place-survives-reset": [(sequence_state, "begin_answer", _keep_place)],
    "adopted-at-start": [(freezing, "_stand", _stand_at_start)],
    "chosen-by-another-mask": [(freezing, "_stand", _keep_what_was_chosen)],
    "one-token-too-many": [(Binding, "remaining", _one_more)],
    "answer-counted-anew": [(freezing, "_schema_point", _count_anew)],
    "forced-not-rolled-back": [(sequence, "freeze", _forget_forced)],
    "bound-after-use": [(sequence, "bind", _bind_at_any_time)],
}
"""Patches by name.

- ``jump-stands-behind``: tokens that are taken along do not lead the answer on.
- ``place-survives-reset``: a reset allows what may come first, and goes on where the answer stood.
- ``adopted-at-start``: who adopts or restores begins its answer anew, its tokens still counted.
- ``chosen-by-another-mask``: who adopts goes on with the token that another mask allowed.
- ``one-token-too-many``: what needs one token more than there may be is allowed.
- ``answer-counted-anew``: a snapshot forgets how many tokens the answer has.
- ``forced-not-rolled-back``: a snapshot forgets how many tokens were not chosen.
- ``bound-after-use``: a call that changed nothing does not keep a sequence from being bound.
"""
