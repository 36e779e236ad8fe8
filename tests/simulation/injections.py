"""Bugs made on purpose, which the simulator must find."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

from sslm.backends.reference import backend
from sslm.errors.base import SslmError
from sslm.program.choice import Choice
from sslm.program.choice_data import ChoiceData
from sslm.program.sequence_data import SequenceData
from sslm.program.states import PAGE_TOKENS
from sslm.runtime.sequences import sequence
from sslm.runtime.sequences import snapshot as freezing
from sslm.runtime.sequences import state as sequence_state
from sslm.runtime.sequences.kv_pool import PageHold
from sslm.runtime.sequences.snapshot import Snapshot
from sslm.runtime.sequences.state import SequenceState
from tests.simulation import plans
from tests.simulation.schema_injections import SCHEMA_INJECTIONS

Patch = tuple[Any, str, Callable[[Any], Any]]
"""Where a name is found, the name, and what makes its stand-in out of what it names."""


def _share_partial_pages(original: Callable[[SequenceState], Snapshot]) -> Any:
    def freeze(state: SequenceState) -> Snapshot:
        snapshot = original(state)
        full, rest = divmod(state.position, PAGE_TOKENS)
        if not rest:
            return snapshot
        snapshot.release()
        return replace(snapshot, hold=state.hold.share(full + 1))

    return freeze


def _move_stopped_chunks(original: Callable[..., None]) -> Any:
    def advance_by_runs(program: Any, run: Any, sequences: Any, **sizes: Any) -> None:
        try:
            original(program, run, sequences, **sizes)
        except SslmError:
            for data in sequences:
                struct = data.struct
                is_begun = struct.progress == 0 and struct.next_segment > 0
                if is_begun and struct.next_segment + 1 < struct.stop_segment:
                    struct.next_segment += 1
            raise

    return advance_by_runs


def _give_back_twice(original: Callable[[PageHold], None]) -> Any:
    def release(hold: PageHold) -> None:
        last = hold.pages[-1:]
        original(hold)
        hold.pool._free += [page for page in last if page in hold.pool._free]

    return release


def _keep_saturations(original: Callable[..., None]) -> Any:
    def adopt(state: SequenceState, *arguments: Any, **named: Any) -> None:
        original(state, *arguments, **named)
        state.memory.saturations[:] = bytes(state.memory.saturations.nbytes)

    return adopt


def _keep_fixed_states(original: Callable[[SequenceState], None]) -> Any:
    def reset(state: SequenceState) -> None:
        fixed = bytes(state.memory.fixed)
        original(state)
        state.memory.fixed[:] = fixed

    return reset


def _spoil_last_byte(original: Callable[..., bytes]) -> Any:
    def pack_rows(layout: Any, pool: Any, pages: Any, first: int, stops: Any) -> bytes:
        packed = bytearray(original(layout, pool, pages, first, stops))
        if packed and max(stops) % 2 and max(stops) - first > 1:
            packed[-1] ^= 1
        return bytes(packed)

    return pack_rows


def _keep_what_another_choice_took(original: Callable[..., None]) -> Any:
    del original
    return lambda state, struct: None


def _begin_answers_late(original: Callable[..., ChoiceData]) -> Any:
    def bound(data: SequenceData, choice: Choice, *, answer_start: int) -> ChoiceData:
        found = original(data, choice, answer_start=answer_start)
        found.struct.answer_start += 1
        return found

    return bound


_OWN_INJECTIONS: dict[str, list[Patch]] = {
    "shared-tail": [(sequence, "freeze", _share_partial_pages)],
    "moved-by-cancelled": [
        (plans, "advance_by_runs", _move_stopped_chunks),
        (backend, "advance_by_runs", _move_stopped_chunks),
    ],
    "given-back-twice": [(PageHold, "release", _give_back_twice)],
    "counters-not-restored": [(sequence, "adopt", _keep_saturations)],
    "states-survive-reset": [(sequence_state.SequenceState, "reset", _keep_fixed_states)],
    "chosen-by-another": [(freezing, "forget_selected", _keep_what_another_choice_took)],
    "answers-begin-late": [(SequenceData, "bound", _begin_answers_late)],
    "last-exponent": [(freezing, "pack_rows", _spoil_last_byte)],
}
INJECTIONS: dict[str, list[Patch]] = _OWN_INJECTIONS | SCHEMA_INJECTIONS
"""Patches by name.

- ``shared-tail``: whoever freezes a sequence shares its last page, though it is not full, so that
  two sequences write into it.
- ``moved-by-cancelled``: a chunk whose run was cancelled goes on behind the segment it did not run.
- ``given-back-twice``: the last page of a hold is listed as free twice.
- ``counters-not-restored``: who adopts a snapshot counts clamped values from zero.
- ``states-survive-reset``: a reset forgets tokens and pages, but not the fixed states.
- ``chosen-by-another``: who adopts a snapshot goes on with the token that it chose, though another
  choice would have taken another one.
- ``answers-begin-late``: kernels do not count the first token of an answer as the answer's.
- ``last-exponent``: freezing an odd number of rows gets the last byte of the last one wrong.
"""


@contextmanager
def injected(name: str) -> Iterator[None]:
    """Have a bug within the block."""
    before = [(place, known, getattr(place, known)) for place, known, _ in INJECTIONS[name]]
    try:
        for place, known, stand_in in INJECTIONS[name]:
            setattr(place, known, stand_in(getattr(place, known)))
        yield
    finally:
        for place, known, original in before:
            setattr(place, known, original)
