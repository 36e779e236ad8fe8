"""What one backend saved, another one goes on with; and saves stay what they are."""

import hashlib
from collections.abc import Iterator
from pathlib import Path

import pytest

from sslm.artifact import Artifact, read_artifact
from sslm.artifact.saved_files import read_saved_file, write_saved_file
from sslm.backends.native import NativeBackend
from sslm.backends.reference import ReferenceBackend
from sslm.native_library import TIERS, is_available
from sslm.opening.runner import build_program
from sslm.program.plan import Backend, Plan
from sslm.runtime.saves.saving import restore, save
from sslm.runtime.sequences.options import SequenceOptions
from tests.converted import stories_artifact
from tests.sequences import end, new_pool, new_sequence, run, step
from tests.tiny_models import MODEL_ID
from tests.toy_programs import moving_average_model

OPTIONS = SequenceOptions(context_tokens=120, reserved_tokens=0)
PROMPT = [1, *(index * 31 % 512 for index in range(70))]


@pytest.fixture(scope="module")
def artifact() -> Iterator[Artifact]:
    with read_artifact(stories_artifact()) as opened:
        yield opened


def plan_of(artifact: Artifact, backend: Backend) -> Plan:
    return backend.compile(
        build_program(artifact), artifact.tensors, row_count_max=64, context_tokens=120
    )


@pytest.mark.parametrize("tier", TIERS)
def test_a_conversation_moves_from_one_backend_to_another_and_back(
    artifact: Artifact, tier: str, tmp_path: Path
) -> None:
    if not is_available(tier):
        pytest.skip(f"this machine has no {tier}")
    native, reference = (
        plan_of(artifact, NativeBackend(tier)),
        plan_of(artifact, ReferenceBackend()),
    )
    path = tmp_path / "moving.sslmsave"
    with new_sequence(reference, new_pool(reference)) as lone:
        lone.push(PROMPT)
        expected = end(reference, lone, 76)
    sequence = new_sequence(native, new_pool(native))
    sequence.push(PROMPT)
    plans = [native, reference]
    for move in range(12):
        # Three layers at a time: in the middle of a chunk, then of tokens.
        here, there = plans[move % 2], plans[(move + 1) % 2]
        if not sequence.pending_count:
            sequence.decode()
        step(here, sequence, units=3)
        write_saved_file(path, save(sequence))
        sequence.close()
        blob = read_saved_file(path)
        sequence = restore(blob, there.program, new_pool(there), MODEL_ID, OPTIONS)
    assert end(native, sequence, 76) == expected
    sequence.close()
    native.close()


def test_saves_stay_what_they_are() -> None:
    """The bytes of version 1: a release that writes others has another version."""
    toy = moving_average_model()
    plan = NativeBackend().compile(toy.program, toy.tensors, row_count_max=64, context_tokens=120)
    with new_sequence(plan, new_pool(plan)) as sequence:
        sequence.push([1, 2, 3])
        run(plan, sequence)
        found = [save(sequence), save(sequence, kv=False)]
        sequence.push([4, 5])
        step(plan, sequence, units=1)
        found.append(save(sequence))
    plan.close()
    assert [hashlib.sha256(blob).hexdigest()[:16] for blob in found] == [
        "6b0f80eb4fe2b96e",
        "08f77c2ff85d67dd",
        "9e1b4fac2d0a520c",
    ]
