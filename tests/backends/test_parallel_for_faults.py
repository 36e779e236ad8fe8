"""What becomes of runs whose hook breaks its contract, raises or gives up: nothing has changed."""

import ctypes
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest

from sslm.errors.native import (
    ParallelForBrokenError,
    ParallelForStoppedError,
    PlanBusyError,
    TaskCallError,
)
from sslm.errors.runtime import ObjectClosedError
from sslm.program.parallel_for import SCOPES, ParallelFor
from tests.backends import hooks
from tests.backends.random_program import RandomProgram
from tests.backends.wide_program import (
    LAYER_LOOPS,
    Stepper,
    compile_plan,
    everything_but_pages,
    next_result,
    step,
)

LOOPS_OF = {"finish": 1, "one_row": 2 * LAYER_LOOPS + 1, "all": 2 * LAYER_LOOPS + 1}


@pytest.mark.parametrize("lie", hooks.LIES)
@pytest.mark.parametrize("scope", SCOPES)
def test_a_lie_is_found_and_changes_nothing(wide: RandomProgram, scope: str, lie: str) -> None:
    function, fault, index_of = hooks.LIES[lie]
    stepper = Stepper(compile_plan(wide, None))
    stepper.plan = compile_plan(wide, ParallelFor(lambda task, count: None, 3, scope))
    before = everything_but_pages(stepper.memory)
    for loop in {0, 3, LOOPS_OF[scope] - 1}:
        if loop >= LOOPS_OF[scope]:
            continue
        hook = hooks.LyingOnce(function, loop)
        stepper.plan.set_parallel_for(ParallelFor(hook, max_tasks=3, scope=scope))
        with pytest.raises(ParallelForBrokenError) as caught:
            stepper.run(3)
        assert hook.loop_count == loop + 1, "nothing runs after the lie"
        error = caught.value
        assert (error.fault, error.index) == (fault, index_of(hook.task_count))
        assert error.task_count == hook.task_count
        assert everything_but_pages(stepper.memory) == before
    # The hook that lied is honest from now on.
    stepper.run(3)
    assert stepper.result() == next_result()


def test_tasks_repeated_side_by_side_run_once(wide: RandomProgram) -> None:
    stepper = Stepper(compile_plan(wide, None))
    hook = hooks.LyingOnce(hooks.repeat_side_by_side, 0)
    stepper.plan = compile_plan(wide, ParallelFor(hook, max_tasks=7, scope="one_row"))
    with pytest.raises(ParallelForBrokenError, match="repeated"):
        stepper.run(3)
    stepper.run(3)
    assert stepper.result() == next_result()


def test_a_task_of_an_earlier_loop_is_nobodys(wide: RandomProgram) -> None:
    """A call that was under way when its loop was given up is no fault of a later one."""
    earlier: list[Any] = []

    def run(task: Any, count: int) -> None:
        for late in earlier:
            # Past the wrapper, which would refuse it: as a thread does that was let in before.
            late._task(late._argument, 0)
            late._task(late._argument, count)
        earlier[:] = [*earlier[-5:], task]
        for index in range(count):
            task(index)

    stepper = Stepper(compile_plan(wide, ParallelFor(run, max_tasks=3, scope="all")))
    stepper.run(3)
    assert stepper.result() == next_result()
    assert len(earlier) == 6


def test_a_hook_that_does_not_wait_is_waited_for(wide: RandomProgram) -> None:
    """It returns while its tasks begin, run or are over; never is a bit of the next try wrong."""
    stepper = Stepper(compile_plan(wide, None))
    threads: list[threading.Thread] = []

    def begin(task: hooks.Task, task_count: int) -> None:
        def run(index: int) -> None:
            try:
                task(index)
            except ObjectClosedError:
                return

        for index in range(task_count):
            threads.append(threading.Thread(target=run, args=(index,)))
            threads[-1].start()

    stepper.plan = compile_plan(wide, ParallelFor(begin, max_tasks=7, scope="one_row"))
    faults = set()
    for _ in range(20):
        try:
            stepper.run(3)
        except ParallelForBrokenError as error:
            faults.add(error.fault)
        else:
            # All were in time, by luck: then it counts.
            stepper = Stepper(compile_plan(wide, None))
            stepper.plan = compile_plan(wide, ParallelFor(begin, max_tasks=7, scope="one_row"))
    # Late tasks of one loop are taken for the next one's, where they are too many, or unknown.
    assert faults <= {"omitted", "abandoned", "repeated", "invented"}
    for thread in threads:
        thread.join()
    stepper.plan.set_parallel_for(None)
    stepper.run(3)
    assert stepper.result() == next_result()


@pytest.mark.parametrize(
    ("arguments", "named", "found"),
    [
        (("x",), {}, "with 'x', expected one integer"),
        ((1.0,), {}, "with 1.0, expected one integer"),
        ((True,), {}, "with True, expected one integer"),
        ((None,), {}, "with None, expected one integer"),
        (([1, 2],), {}, r"with \[1, 2\], expected one integer"),
        (("x" * 5000,), {}, "with 'xxx.*xxx', expected"),
        ((), {}, "with 0 arguments, expected one integer"),
        ((0, 1), {}, "with 2 arguments, expected one integer"),
        ((0,), {"index": 0}, "with the keyword index, expected one integer"),
    ],
)
def test_what_is_no_index_is_refused_by_name(
    wide: RandomProgram, arguments: tuple[Any, ...], named: dict[str, Any], found: str
) -> None:
    def misuse(task: hooks.Task, task_count: int) -> None:
        task(0)
        task(*arguments, **named)

    stepper = Stepper(compile_plan(wide, None))
    hook = hooks.LyingOnce(misuse, 3)
    stepper.plan = compile_plan(wide, ParallelFor(hook, max_tasks=3, scope="one_row"))
    before = everything_but_pages(stepper.memory)
    with pytest.raises(TaskCallError, match=found) as caught:
        stepper.run(3)
    assert isinstance(caught.value, TypeError)
    assert len(str(caught.value)) < 300
    assert everything_but_pages(stepper.memory) == before
    stepper.run(3)
    assert stepper.result() == next_result()


def test_indices_of_other_libraries_are_welcome(wide: RandomProgram) -> None:
    def call(task: hooks.Task, task_count: int) -> None:
        for index in range(task_count):
            task(np.int8(index))  # type: ignore[arg-type]

    stepper = Stepper(compile_plan(wide, None))
    stepper.plan = compile_plan(wide, ParallelFor(call, max_tasks=3, scope="all"))
    stepper.run(3)
    assert stepper.result() == next_result()


@pytest.mark.parametrize("index", [-5, 10**9])
def test_the_message_tells_what_was_found_and_expected(wide: RandomProgram, index: int) -> None:
    def invent(task: hooks.Task, task_count: int) -> None:
        for one in (*range(task_count), index):
            task(one)

    stepper = Stepper(compile_plan(wide, None))
    stepper.plan = compile_plan(wide, ParallelFor(invent, max_tasks=3))
    with pytest.raises(ParallelForBrokenError) as caught:
        stepper.run(3)
    assert str(caught.value) == (
        f"the parallel-for hook has invented task {index} of 3 in segment 3, expected is each "
        "from 0 on exactly once, before the hook returns; nothing has changed, and the hook has to "
        "be mended"
    )


class OwnError(Exception):
    """What a host's function raises."""


@pytest.mark.parametrize("tasks_before", [0, 1, 7])
@pytest.mark.parametrize("kind", [OwnError, KeyboardInterrupt])
def test_what_a_hook_raises_is_raised(
    wide: RandomProgram, tasks_before: int, kind: type[BaseException]
) -> None:
    def fail(task: hooks.Task, task_count: int) -> None:
        for index in range(min(task_count, tasks_before)):
            task(index)
        raise kind("no")

    stepper = Stepper(compile_plan(wide, None))
    stepper.plan = compile_plan(
        wide, ParallelFor(hooks.LyingOnce(fail, 4), max_tasks=3, scope="one_row")
    )
    before = everything_but_pages(stepper.memory)
    with pytest.raises(kind, match="no") as caught:
        stepper.run(3)
    assert any(entry.name == "fail" for entry in caught.traceback)
    assert everything_but_pages(stepper.memory) == before
    stepper.run(3)
    assert stepper.result() == next_result()


def test_a_c_hook_that_gives_up_stops_the_run(wide: RandomProgram, c_hooks: ctypes.CDLL) -> None:
    stepper = Stepper(compile_plan(wide, None))
    stepper.plan = compile_plan(wide, ParallelFor(hooks.address_of(c_hooks, "give_up"), 3))
    with pytest.raises(ParallelForStoppedError, match="returned 7 in segment 3, expected 0"):
        stepper.run(3)
    stepper.plan.set_parallel_for(None)
    stepper.run(3)
    assert stepper.result() == next_result()


def test_a_c_hook_that_calls_late_does_no_harm(wide: RandomProgram, c_hooks: ctypes.CDLL) -> None:
    stepper = Stepper(compile_plan(wide, None))
    keeping = ParallelFor(hooks.address_of(c_hooks, "keep"), 3, "one_row")
    stepper.plan = compile_plan(wide, keeping)
    stepper.run(3)
    for index in (-1, 0, 1, 2, 3, hooks.INT32_MAX):
        c_hooks.call_late(index)
    assert stepper.result() == next_result()

    def call_late(task: hooks.Task, task_count: int) -> None:
        c_hooks.call_late(0)
        for index in range(task_count):
            task(index)

    # In the next loops it is no task of theirs.
    plan = stepper.plan
    stepper = Stepper(compile_plan(wide, None))
    stepper.plan = plan
    plan.set_parallel_for(ParallelFor(call_late, 3, "one_row"))
    stepper.run(3)
    assert stepper.result() == next_result()


def test_a_task_is_over_when_its_hook_has_returned(wide: RandomProgram) -> None:
    kept: list[hooks.Task] = []

    def keep(task: hooks.Task, task_count: int) -> None:
        kept.append(task)
        for index in range(task_count):
            task(index)

    step(compile_plan(wide, ParallelFor(keep, max_tasks=2)))
    with pytest.raises(ObjectClosedError, match="task"):
        kept[0](0)


def test_a_hook_cannot_run_its_own_plan(wide: RandomProgram) -> None:
    errors: list[type[Exception]] = []

    def enter_again(task: hooks.Task, task_count: int) -> None:
        calls: tuple[Callable[[], object], ...] = (
            lambda: step(plan),
            lambda: plan.set_parallel_for(None),
            plan.close,
        )
        for call in calls:
            try:
                call()
            except PlanBusyError as error:
                errors.append(type(error))
        for index in range(task_count):
            task(index)

    stepper = Stepper(compile_plan(wide, None))
    plan = stepper.plan = compile_plan(wide, ParallelFor(enter_again, max_tasks=2))
    stepper.run(3)
    assert errors == [PlanBusyError] * 3
    assert stepper.result() == next_result()


def test_other_threads_compute_while_a_task_does(wide: RandomProgram) -> None:
    """The tasks of a Python hook hold no lock: two of them are in the library at once."""
    inside = threading.Barrier(2, timeout=240)

    def meet(task: hooks.Task, task_count: int) -> None:
        def run(index: int) -> None:
            inside.wait()
            task(index)

        with ThreadPoolExecutor(task_count) as executor:
            list(executor.map(run, range(task_count)))

    step(compile_plan(wide, ParallelFor(meet, max_tasks=2)))
