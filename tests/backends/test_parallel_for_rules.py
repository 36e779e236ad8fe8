"""Which hooks may be installed, and where."""

import gc
import weakref
from typing import Any

import numpy as np
import pytest

from sslm.backends.native import NativeBackend
from sslm.errors.native import (
    ParallelForRefusedError,
    ParallelForStoppedError,
    PlanClosedError,
)
from sslm.errors.program import OpShapeError
from sslm.errors.runtime import OptionRangeError
from sslm.native_library import load_library
from sslm.program.parallel_for import ParallelFor
from tests.backends import hooks
from tests.backends.random_program import RandomProgram
from tests.backends.wide_program import compile_plan, step


def raw_hook(**fields: Any) -> Any:
    hook = load_library().ffi.new("sslm_parallel_for *")
    for name, value in fields.items():
        setattr(hook, name, value)
    return hook


def some_run() -> Any:
    kind = "int32_t(void *, sslm_task, void *, int32_t)"
    return load_library().ffi.callback(kind, lambda user, task, argument, count: 1)


@pytest.mark.parametrize(
    ("has_run", "max_tasks", "scope", "is_allowed"),
    [
        (True, 0, 0, True),
        (True, 1, 2, True),
        (True, 8, 1, True),
        (True, 9, 1, False),
        (True, 257, 1, False),
        (True, -1, 1, False),
        (True, 8, 3, False),
        (True, 8, 1 << 31, False),
        (False, 0, 0, True),
        (False, 1, 2, True),
        (False, 2, 0, False),
        (False, 8, 0, False),
        (False, -1, 0, False),
        (False, 0, 3, False),
    ],
)
def test_what_may_be_installed(
    wide: RandomProgram, has_run: bool, max_tasks: int, scope: int, is_allowed: bool
) -> None:
    lib = load_library().lib
    before = hooks.Counting()
    plan = compile_plan(wide, ParallelFor(before, max_tasks=8))
    run = some_run()
    hook = raw_hook(max_tasks=max_tasks, scope=scope, **({"run": run} if has_run else {}))
    status = lib.sslm_native_plan_set_parallel_for(plan._handle, hook)
    assert status == (lib.SSLM_OK if is_allowed else lib.SSLM_BAD_HOOK)
    if has_run and is_allowed and max_tasks > 1:
        with pytest.raises(ParallelForStoppedError):
            step(plan)
        return
    step(plan)
    # A refused one leaves the one before; what has nothing to run takes it away.
    assert bool(before.counts) == (not is_allowed)


def test_null_takes_a_hook_away(wide: RandomProgram) -> None:
    hook = hooks.Counting()
    plan = compile_plan(wide, ParallelFor(hook, max_tasks=8))
    plan.set_parallel_for(None)
    step(plan)
    assert hook.counts == []


@pytest.mark.published_call(
    "sslm_workspace_set_parallel_for",
    refusal="SSLM_INVALID_ARGUMENT",
    case="more tasks than the plan was compiled for",
    here="ParallelForRefusedError",
)
def test_a_plan_has_room_for_the_tasks_that_it_was_compiled_for(wide: RandomProgram) -> None:
    plan = compile_plan(wide, ParallelFor(hooks.Counting(), max_tasks=2))
    with pytest.raises(ParallelForRefusedError) as caught:
        plan.set_parallel_for(ParallelFor(hooks.Counting(), max_tasks=3))
    assert (caught.value.max_tasks, caught.value.task_count_max) == (3, 2)
    small = compile_plan(wide, None).scratch_size_bytes
    sizes = [
        compile_plan(wide, ParallelFor(hooks.Counting(), max_tasks=count)).scratch_size_bytes
        for count in (1, 2, 256)
    ]
    assert small == sizes[0] < sizes[1] < sizes[2]
    # Besides, there is an entry of a table for each, and tables are rounded up to 64 bytes.
    each = sizes[1] - small
    assert 255 * (each - 64) <= sizes[2] - small < 256 * each


def test_a_plan_with_threads_takes_no_hook(wide: RandomProgram) -> None:
    with pytest.raises(OpShapeError, match="1 beside a hook"):
        NativeBackend(threads=2, parallel_for=ParallelFor(hooks.Counting(), max_tasks=2))
    plan = NativeBackend(threads=2).compile(
        wide.program, wide.tensors, row_count_max=1, context_tokens=8
    )
    for hook in (None, ParallelFor(hooks.Counting(), max_tasks=1)):
        with pytest.raises(ParallelForRefusedError, match="2 threads of its own"):
            plan.set_parallel_for(hook)


def test_a_closed_plan_takes_no_hook(wide: RandomProgram) -> None:
    plan = compile_plan(wide, None)
    plan.close()
    with pytest.raises(PlanClosedError):
        plan.set_parallel_for(None)


@pytest.mark.parametrize("task_count_max", [-1, 257])
def test_room_out_of_range_opens_no_plan(wide: RandomProgram, task_count_max: int) -> None:
    library = load_library()
    plan = compile_plan(wide, None)
    plan._lowering.struct.task_count_max = task_count_max
    opened = library.ffi.new("sslm_plan **")
    status = library.lib.sslm_native_plan_open(
        plan._lowering.struct, plan._handle, plan.scratch_size_bytes, opened
    )
    plan._lowering.struct.task_count_max = 0
    assert status == library.lib.SSLM_BAD_HOOK


def test_a_dropped_plan_gives_its_memory_back(wide: RandomProgram) -> None:
    plan = compile_plan(wide, ParallelFor(hooks.Counting(), max_tasks=2))
    step(plan)
    held = weakref.ref(plan._memory)
    gc.disable()
    try:
        del plan
        assert held() is None
    finally:
        gc.enable()


@pytest.mark.published_call(
    "sslm_workspace_set_parallel_for",
    refusal="SSLM_INVALID_ARGUMENT",
    case="a hook with a field out of range",
    here="OptionRangeError",
)
@pytest.mark.parametrize(
    ("arguments", "option"),
    [
        (("no function", 2), "run"),
        ((0, 2), "run"),
        ((True, 2), "run"),
        ((1 << 64, 2), "run"),
        ((print, -1), "max_tasks"),
        ((print, 257), "max_tasks"),
        ((print, True), "max_tasks"),
        ((print, 2.0), "max_tasks"),
        ((print, 2, "some"), "scope"),
        ((print, 2, ["all"]), "scope"),
        ((print, 2, "all", 5), "user"),
        ((4096, 2, "all", -1), "user"),
    ],
)
def test_what_is_no_hook_is_refused(arguments: tuple[Any, ...], option: str) -> None:
    with pytest.raises(OptionRangeError, match=f"parallel_for.{option} is"):
        ParallelFor(*arguments)


async def _asynchronous(task: hooks.Task, task_count: int) -> None:
    del task, task_count


@pytest.mark.parametrize(
    ("run", "found"),
    [
        (lambda: None, r"called as \(\)"),
        (lambda task: None, r"called as \(task\)"),
        (lambda task, count, other: None, r"called as \(task, count, other\)"),
        (lambda task, *, task_count: None, r"called as \(task, \*, task_count\)"),
        (_asynchronous, "a coroutine function"),
    ],
)
def test_a_function_that_cannot_be_called_so_is_refused(run: Any, found: str) -> None:
    expected = f"parallel_for.run is {found}, expected a function of two arguments"
    with pytest.raises(OptionRangeError, match=expected):
        ParallelFor(run, 2)
    callables: tuple[Any, ...] = (lambda *arguments: None, lambda task, count, more=1: None, max)
    for callable_ in callables:
        assert ParallelFor(callable_, 2).run is callable_


def test_numbers_of_other_libraries_are_welcome() -> None:
    run: Any = np.int64(4096)
    max_tasks: Any = np.int32(2)
    user: Any = np.uint64(1 << 63)
    found = ParallelFor(run, max_tasks, "all", user)
    assert [type(value) for value in (found.run, found.max_tasks, found.user)] == [int] * 3
