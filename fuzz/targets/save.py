"""Bytes as a save with a hash that is right, up to a few steps on both backends."""

from functools import cache
from typing import Final

from fuzz.saved_models import CONTEXT_TOKENS, OPTIONS, SavedModel, saved_models
from fuzz.sealed_mutation import sealed, sealed_mutation
from fuzz.target import ByteMutator, Outcomes, Target, require
from sslm.errors.base import ArtifactError
from sslm.errors.runtime import ContextLengthError
from sslm.formats.saves.reader import read_save
from sslm.program.plan import Plan
from sslm.runtime.saves.saving import restore, save, save_size_bytes_max
from sslm.runtime.sequences.sequence import Sequence
from sslm.runtime.slices.stepper import advance, finished

_SIZE_BYTES_MAX: Final = 1 << 13
_MODEL_ID: Final = slice(64, 96)


def run(data: bytes, outcomes: Outcomes) -> None:
    """Read the save as it is and with its hash put right; go on with what can be restored."""
    blob = sealed(data)
    if blob != data:
        with outcomes.refusals(ArtifactError):
            read_save(data)
            outcomes.reached("read without its hash")
    models = saved_models()
    model = next((one for one in models if one.model_id == blob[_MODEL_ID]), models[0])
    found = [_ended(blob, model, backend, outcomes) for backend in ("native", "reference")]
    require(found[0] == found[1], "both backends go on to the same")


def _ended(blob: bytes, model: SavedModel, backend: str, outcomes: Outcomes) -> bytes | None:
    """Restore, run to the end, and return the save of that; None if it was refused."""
    pool = model.pool()
    with outcomes.refusals(ArtifactError, ContextLengthError):
        sequence = restore(blob, model.program, pool, model.model_id, OPTIONS)
        with sequence:
            kv = read_save(blob).memory is not None
            require(save(sequence, kv=kv) == blob, "what is restored is what the save says")
            size = save_size_bytes_max(model.program, sequence.state.token_count)
            require(len(blob) <= size, "no save is larger than the bound says")
            outcomes.reached("restored")
            ended = _end(sequence, _plan(model.model_id, backend))
            outcomes.reached(f"ran on {backend}")
        require(pool.held_page_count == 0, "no page is left")
        return ended
    require(pool.held_page_count == 0, "what is refused takes no page")
    return None


def _end(sequence: Sequence, plan: Plan) -> bytes:
    _run(sequence, plan)
    if sequence.selected is not None and sequence.selected >= 0:
        for _ in range(min(2, CONTEXT_TOKENS - sequence.position)):
            sequence.decode()
            _run(sequence, plan)
    return save(sequence)


def _run(sequence: Sequence, plan: Plan) -> None:
    while sequence.pending_count:
        finished(advance(plan, [sequence], budget_units=1, row_count_max=64))


@cache
def _plan(model_id: bytes, backend: str) -> Plan:
    (model,) = (one for one in saved_models() if one.model_id == model_id)
    return model.plan(backend)


def mutate(data: bytes, size_bytes_max: int, seed: int, mutated: ByteMutator) -> bytes:
    """Change a save and seal it again."""
    return sealed_mutation(TARGET.seeds, data, size_bytes_max, seed, mutated)


TARGET: Final = Target(
    name="save",
    subject="a sealed save to its reader, the checks of it, and steps on both backends",
    run=run,
    modules=(
        "sslm.formats.bounded_reader",
        "sslm.formats.saves.writer",
        "sslm.formats.saves.reader",
        "sslm.formats.saves.contents",
        "sslm.runtime.sequences.snapshot",
        "sslm.runtime.sequences.page_rows",
        "sslm.runtime.saves.checks",
        "sslm.runtime.saves.checks",
        "sslm.runtime.saves.snapshot_records",
        "sslm.runtime.saves.saving",
    ),
    size_bytes_max=_SIZE_BYTES_MAX,
    reaches=("ran on native", "ran on reference"),
    mutate=mutate,
)
