"""Calls that size, make and destroy a workspace, which is a plan here."""

from dataclasses import replace
from typing import Any

import pytest

from sslm.backends.native import plan as native_plan
from sslm.errors.native import PlanClosedError, PlanMemoryError
from sslm.errors.program import OpShapeError, ProgramArithmeticError
from sslm.errors.runtime import (
    MemoryInUseError,
    MemoryTooSmallError,
    MisalignedMemoryError,
    OptionRangeError,
)
from sslm.program.plan import Plan
from sslm.runtime.sequences.kv_pool import KvPool, kv_pool_size_bytes
from tests.backends.backends import open_named
from tests.runtime_cases import CANARY, Case, is_marked_around, marked_memory, refused
from tests.sequences import LONGEST

PROMPT = [index * 5 % 37 for index in range(70)]
SIZES = {"row_count_max": 64, "context_tokens": LONGEST}


@pytest.mark.published_call("sslm_workspace_size", here="Backend.scratch_size_bytes")
@pytest.mark.published_call("sslm_workspace_create", here="Backend.compile")
@pytest.mark.published_call("sslm_workspace_destroy", here="Plan.close")
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


@pytest.mark.published_call(
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


@pytest.mark.published_call(
    "sslm_workspace_create",
    refusal="SSLM_INVALID_ARGUMENT",
    case="a program for another arithmetic",
    here="ProgramArithmeticError",
)
@pytest.mark.parametrize("name", ["reference", "auto"])
@pytest.mark.parametrize(
    ("change", "found"),
    [({"profile": "float/1"}, "float/1 version 1"), ({"arithmetic_version": 2}, "int/1 version 2")],
)
def test_a_program_for_another_arithmetic(
    case: Case, name: str, change: dict[str, Any], found: str
) -> None:
    backend, other = open_named(name), replace(case.program, **change)
    for make in (backend.compile, backend.scratch_size_bytes):
        with pytest.raises(ProgramArithmeticError) as caught:
            make(other, case.tensors, **SIZES)
        assert caught.value.facts() == {"found": found, "expected": "int/1 version 1"}


@pytest.mark.published_call(
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


# In memory of the caller's.


def size_of(case: Case) -> int:
    return open_named("auto").scratch_size_bytes(case.program, case.tensors, **SIZES)


def compiled_in(case: Case, memory: object) -> Plan:
    backend = open_named("auto")
    return backend.compile(case.program, case.tensors, memory=memory, **SIZES)


@pytest.mark.published_call(
    "sslm_workspace_create",
    case="in memory of the caller's",
    here="Backend.compile(memory=…), load(workspace=…)",
)
@pytest.mark.published_call(
    "sslm_workspace_destroy", case="the memory is the caller's again", here="Plan.close"
)
def test_a_workspace_in_the_callers_memory(case: Case) -> None:
    memory, block = marked_memory(size_of(case))
    for _ in range(2):
        plan = compiled_in(case, memory)
        inside = Case(plan, case.reference, case.tensors)
        with inside.filled(PROMPT) as sequence:
            inside.require_as_alone(sequence, PROMPT)
        plan.close()
        assert is_marked_around(block, memory)
        assert bytes(memory).count(CANARY) < len(memory)
        left = bytes(memory)
        with case.sequence() as sequence:
            sequence.push(PROMPT)
            with refused(PlanClosedError, sequence):
                inside.step(sequence)
            case.require_as_alone(sequence, PROMPT)
        assert bytes(memory) == left


@pytest.mark.published_call(
    "sslm_workspace_create", refusal="SSLM_BUFFER_TOO_SMALL", here="MemoryTooSmallError"
)
def test_memory_that_is_too_small(case: Case) -> None:
    size = size_of(case)
    memory, block = marked_memory(size)
    with pytest.raises(MemoryTooSmallError) as caught:
        compiled_in(case, memory[: size - 1])
    assert (caught.value.found_bytes, caught.value.needed_bytes) == (size - 1, size)
    assert bytes(block).count(CANARY) == len(block)
    compiled_in(case, memory).close()


@pytest.mark.published_call(
    "sslm_workspace_create", refusal="SSLM_MISALIGNED_BUFFER", here="MisalignedMemoryError"
)
@pytest.mark.parametrize("offset", [1, 8, 32, 63])
def test_memory_that_begins_between_multiples_of_64(case: Case, offset: int) -> None:
    memory, block = marked_memory(size_of(case) + 64)
    with pytest.raises(MisalignedMemoryError) as caught:
        compiled_in(case, memory[offset:])
    assert (caught.value.address % 64, caught.value.alignment_bytes) == (offset, 64)
    assert bytes(block).count(CANARY) == len(block)


@pytest.mark.published_call(
    "sslm_workspace_create",
    refusal="SSLM_INVALID_ARGUMENT",
    case="read-only memory, memory in pieces",
    here="OptionRangeError",
)
def test_memory_that_cannot_be_written(case: Case) -> None:
    memory, block = marked_memory(2 * size_of(case))
    for unusable in (memory.toreadonly(), memory[::2], "text"):
        with pytest.raises(OptionRangeError, match="writable bytes in one piece"):
            compiled_in(case, unusable)
    assert bytes(block).count(CANARY) == len(block)


@pytest.mark.published_call(
    "sslm_workspace_create",
    refusal="SSLM_INVALID_ARGUMENT",
    case="memory that another workspace or pool uses",
    here="MemoryInUseError",
)
@pytest.mark.published_call(
    "sslm_kv_pool_create",
    refusal="SSLM_INVALID_ARGUMENT",
    case="memory that a workspace or another pool uses",
    here="MemoryInUseError",
)
def test_memory_is_lent_once(paged_case: Case) -> None:
    case, layout = paged_case, paged_case.program.state_layout
    size = max(size_of(case), kv_pool_size_bytes(layout, 2))
    memory, _ = marked_memory(size)
    plan = compiled_in(case, memory)
    inside = Case(plan, case.reference, case.tensors)
    with inside.filled(PROMPT) as sequence:
        token_id = sequence.decode()
        inside.step(sequence)
        with refused(MemoryInUseError, sequence):
            KvPool(layout, 1, memory)
        with refused(MemoryInUseError, sequence):
            compiled_in(case, memory)
        inside.require_as_alone(sequence, [*PROMPT, token_id], more=1)
    plan.close()
    with KvPool(layout, 2, memory), pytest.raises(MemoryInUseError):
        compiled_in(case, memory)
    compiled_in(case, memory).close()
