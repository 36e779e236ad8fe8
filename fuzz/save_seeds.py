"""Saves of both models that the search begins with, and some that lie."""

from tests.saves import resize_save

from fuzz.saved_models import SavedModel, saved_models
from sslm.program.plan import Plan
from sslm.runtime.saves.saving import save
from sslm.runtime.sequences.sequence import Sequence
from sslm.runtime.slices.stepper import advance, finished

_ALL_UNITS = 1 << 30


def save_seeds() -> dict[str, bytes]:
    """Saves of empty sequences, at rest, in the middle of a token and of a chunk, and of ids."""
    found: dict[str, bytes] = {}
    for name, model in zip(("keys", "fixed"), saved_models(), strict=True):
        found |= {f"{name}_{place}": blob for place, blob in _saves(model).items()}
    sound = found["keys_rest"]
    return found | {
        "another_model": _with(sound, 64, bytes(32)),
        "newer": _with(sound, 12, b"\x03"),
        "most_tokens": _with(sound, 128, b"\0\0\x10\0"),
        "beyond_the_codes": _with(sound, len(sound) - 5, b"\xff\x7f"),
    }


def _saves(model: SavedModel) -> dict[str, bytes]:
    plan = model.plan("reference")
    with model.sequence() as sequence:
        empty = save(sequence)
        sequence.push([1, 2, 3])
        _step(sequence, plan, _ALL_UNITS)
        rest, ids = save(sequence), save(sequence, kv=False)
        sequence.decode()
        _step(sequence, plan, 1)
        token = save(sequence)
        _step(sequence, plan, _ALL_UNITS)
        sequence.push([3, 2, 1, 0])
        _step(sequence, plan, 1)
        sequence.push([1])
        chunk = save(sequence)
    return {"empty": empty, "rest": rest, "ids": ids, "token": token, "chunk": chunk}


def _step(sequence: Sequence, plan: Plan, units: int) -> None:
    finished(advance(plan, [sequence], budget_units=units, row_count_max=64))


def _with(blob: bytes, offset: int, patch: bytes) -> bytes:
    return resize_save(blob[:offset] + patch + blob[offset + len(patch) :])
