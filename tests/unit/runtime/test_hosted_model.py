"""Calls that map a model and unmap it."""

from array import array
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from sslm.artifact import read_artifact
from sslm.errors.native import PlanBusyError
from sslm.errors.runtime import ModelHeldError, ObjectClosedError, OptionRangeError
from sslm.errors.status import Status
from sslm.opening.runner import build_program
from sslm.runtime.hosted_model import HostedModel
from sslm.runtime.saves.saving import save
from sslm.runtime.sequences.options import SequenceOptions
from sslm.runtime.sequences.sequence import Sequence
from tests.causes import raises
from tests.converted import stories_artifact
from tests.runtime_cases import Case, refused
from tests.sequences import LONGEST
from tests.tiny_models import MODEL_ID

PROMPT = [index * 5 % 37 for index in range(70)]
OPTIONS = SequenceOptions(context_tokens=LONGEST, reserved_tokens=0)


@pytest.fixture
def closings() -> list[str]:
    return []


@pytest.fixture
def model(case: Case, closings: list[str]) -> Iterator[HostedModel]:
    yield HostedModel(case.program, MODEL_ID, lambda: closings.append("closed"))
    assert len(closings) <= 1


@pytest.mark.published_call("sslm_model_map", here="read_artifact, build_program, HostedModel")
def test_a_model_is_mapped_and_unmapped() -> None:
    artifact = read_artifact(stories_artifact())
    model = HostedModel(build_program(artifact), artifact.model_id, artifact.close)
    assert model.program.vocab_size == artifact.config.vocab_size
    data = next(iter(artifact.tensors.values())).data
    assert data.nbytes
    model.close()
    with pytest.raises(ValueError, match="released"):
        _ = data.nbytes


@pytest.mark.published_call(
    "sslm_model_map",
    refusal="SSLM_ARTIFACT_REJECTED",
    here="ArtifactError: one class per defect, as `tests/hostile/test_sslm_files.py` shows",
)
@pytest.mark.parametrize("is_mapped", [True, False])
def test_a_file_that_was_changed(tmp_path: Path, is_mapped: bool) -> None:
    spoilt = bytearray(stories_artifact().read_bytes())
    spoilt[-1] ^= 1
    path = tmp_path / "spoilt.sslm"
    path.write_bytes(spoilt)
    with raises(Status.SSLM_INTEGRITY):
        read_artifact(path, mmap=is_mapped)


@pytest.mark.published_call("sslm_model_unmap", here="HostedModel.close")
def test_a_model_is_closed_once_nothing_lives(
    case: Case, model: HostedModel, closings: list[str]
) -> None:
    pool = case.pool()
    sequence = model.sequence(pool, OPTIONS)
    sequence.push(PROMPT)
    case.require_as_alone(sequence, PROMPT)
    blob = save(sequence)
    restored = model.restore(blob, pool, OPTIONS)
    assert save(restored) == blob
    sequence.close()
    restored.close()
    model.close()
    model.close()
    assert closings == ["closed"]
    calls: tuple[Callable[[], object], ...] = (
        lambda: model.sequence(pool, OPTIONS),
        lambda: model.restore(blob, pool, OPTIONS),
        lambda: model.prefix(sequence),
    )
    for call in calls:
        with pytest.raises(ObjectClosedError, match="model"):
            call()
    assert pool.held_page_count == 0


@pytest.mark.published_call(
    "sslm_model_unmap", refusal="SSLM_MODEL_HAS_LIVE_SEQUENCES", here="ModelHeldError"
)
def test_a_model_outlives_its_sequences_and_prefixes(
    case: Case, model: HostedModel, closings: list[str]
) -> None:
    pool = case.pool()
    prefix = model.prefix(model.sequence(pool, OPTIONS))
    sequence = model.sequence(pool, OPTIONS)

    def require_held(sequences: int, prefixes: int, *bystanders: Sequence) -> None:
        with refused(ModelHeldError, *bystanders) as caught:
            model.close()
        assert caught.value.facts() == {"sequences": sequences, "prefixes": prefixes}

    prefix.prefill(PROMPT)
    case.step(prefix.sequence)
    require_held(1, 1, sequence, prefix.sequence)
    case.run(prefix.sequence)
    prefix.freeze()
    prefix.adopt_into(sequence)
    require_held(1, 1, sequence)
    prefix.release()
    require_held(1, 0, sequence)
    case.require_as_alone(sequence, PROMPT)
    assert closings == []
    sequence.close()
    model.close()
    assert closings == ["closed"]


@pytest.mark.published_call(
    "sslm_model_unmap",
    refusal="SSLM_MODEL_HAS_LIVE_SEQUENCES",
    case="while a sequence that was released runs to the end of its slice",
    here="PlanBusyError",
)
def test_a_model_whose_plan_runs_stays_open(case: Case) -> None:
    def close() -> None:
        attempts.append(1)
        if len(attempts) == 1:
            raise PlanBusyError

    attempts = array("i")
    model = HostedModel(case.program, MODEL_ID, close)
    with pytest.raises(PlanBusyError):
        model.close()
    model.sequence(case.pool(), OPTIONS).close()
    model.close()
    assert len(attempts) == 2


def test_what_was_dropped_holds_no_model(case: Case, model: HostedModel) -> None:
    pool = case.pool()
    model.prefix(model.sequence(pool, OPTIONS))
    model.sequence(pool, OPTIONS)
    model.close()


def test_a_prefix_begins_on_a_sequence_of_the_same_model(case: Case, model: HostedModel) -> None:
    pool = case.pool()
    sequence = model.sequence(pool, OPTIONS)
    prefix = model.prefix(sequence)
    for other in (sequence, case.sequence(pool)):
        with refused(OptionRangeError, other):
            model.prefix(other)
    prefix.release()
    model.close()
