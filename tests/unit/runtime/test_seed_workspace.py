"""The seed's calls that size, make and destroy a workspace, which is a plan here."""

from typing import Any

import pytest

from sslm.backends.native import plan as native_plan
from sslm.errors.native import PlanClosedError, PlanMemoryError
from sslm.errors.program import OpShapeError
from tests.backends.backends import open_named
from tests.seed_cases import Case, refused
from tests.sequences import LONGEST

PROMPT = [index * 5 % 37 for index in range(70)]
SIZES = {"row_count_max": 64, "context_tokens": LONGEST}


@pytest.mark.seed_call("sslm_workspace_size", here="Backend.scratch_size_bytes")
@pytest.mark.seed_call("sslm_workspace_create", here="Backend.compile")
@pytest.mark.seed_call("sslm_workspace_destroy", here="Plan.close")
def test_a_workspace_for_each_caller(case: Case) -> None:
    backend = open_named("auto")
    size = backend.scratch_size_bytes(case.program, case.tensors, **SIZES)
    plans = [backend.compile(case.program, case.tensors, **SIZES) for _ in range(2)]
    assert {plan.scratch_size_bytes for plan in plans} == {size}
    with case.sequence() as sequence:
        sequence.push(PROMPT)
        # A sequence belongs to no workspace: any of them takes its next slice.
        for plan in plans:
            other = Case(plan, case.reference, case.tensors)
            other.step(sequence)
        other.run(sequence)
        other.require_as_alone(sequence, PROMPT)
        sequence.push([1])
        for plan in plans:
            plan.close()
            plan.close()
            with refused(PlanClosedError, sequence):
                Case(plan, case.reference, case.tensors).step(sequence)
        case.run(sequence)


@pytest.mark.seed_call(
    "sslm_workspace_create",
    refusal="SSLM_INVALID_ARGUMENT",
    case="sizes out of range",
    here="OpShapeError",
)
@pytest.mark.parametrize(
    "size", [{"row_count_max": 0}, {"row_count_max": -1}, {"context_tokens": 0}]
)
def test_sizes_that_make_no_workspace(case: Case, size: dict[str, Any]) -> None:
    backend = open_named("auto")
    longest = case.program.max_position_embeddings
    for wrong in (size, {"context_tokens": longest + 1}):
        for make in (backend.compile, backend.scratch_size_bytes):
            with pytest.raises(OpShapeError):
                make(case.program, case.tensors, **(SIZES | wrong))


@pytest.mark.seed_call(
    "sslm_workspace_create", refusal="SSLM_ALLOCATION_FAILED", here="PlanMemoryError"
)
def test_a_workspace_for_which_there_is_no_memory(
    case: Case, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(size: int) -> Any:
        raise OSError(size)

    backend = open_named("auto")
    size = backend.scratch_size_bytes(case.program, case.tensors, **SIZES)
    with monkeypatch.context() as patch:
        patch.setattr(native_plan, "anonymous_memory", refuse)
        with pytest.raises(PlanMemoryError) as caught:
            backend.compile(case.program, case.tensors, **SIZES)
        assert caught.value.facts() == {"size_bytes": size}
    backend.compile(case.program, case.tensors, **SIZES).close()
