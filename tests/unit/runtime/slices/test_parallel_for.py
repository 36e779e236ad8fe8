"""The call that lets a host share the work on its own threads."""

from concurrent.futures import ThreadPoolExecutor
from functools import cache

import pytest

from sslm.backends.native import NativePlan
from sslm.backends.reference.backend import ReferencePlan
from sslm.errors.native import ParallelForBrokenError, PlanBusyError
from sslm.program.parallel_for import SCOPES, ParallelFor
from tests.backends import hooks
from tests.backends.wide_program import compile_plan, wide_model
from tests.runtime_cases import Case, refused

PROMPT = [7, 300, 11, 1499, 0, 7]
TASKS = 3
ALL = 1 << 30

each_scope = pytest.mark.parametrize("scope", SCOPES)


@cache
def wide_case() -> Case:
    model = wide_model()
    plan = compile_plan(model, ParallelFor(hooks.Counting(), TASKS, "all"))
    return Case(plan, ReferencePlan(model.program, model.tensors), model.tensors)


@pytest.fixture
def plan() -> NativePlan:
    found = wide_case().plan
    assert isinstance(found, NativePlan)
    return found


@pytest.mark.published_call("sslm_workspace_set_parallel_for", here="NativePlan.set_parallel_for")
@each_scope
def test_a_hook_changes_no_bit(plan: NativePlan, scope: str) -> None:
    case = wide_case()
    counting = hooks.Counting(is_reversed=True)
    with ThreadPoolExecutor(TASKS) as executor:
        for hook in (counting, hooks.Pooled(executor)):
            plan.set_parallel_for(ParallelFor(hook, TASKS, scope))
            with case.filled(PROMPT) as sequence:
                case.require_as_alone(sequence, PROMPT)
    # One loop for each of three heads: the prompt's and two tokens'.
    assert len(counting.counts) == 3 if scope == "finish" else len(counting.counts) > 3


@pytest.mark.published_call(
    "sslm_workspace_set_parallel_for",
    case="NULL clears the hook",
    here="NativePlan.set_parallel_for(None)",
)
def test_a_hook_is_taken_away(plan: NativePlan) -> None:
    case, counting = wide_case(), hooks.Counting()
    plan.set_parallel_for(ParallelFor(counting, TASKS, "all"))
    plan.set_parallel_for(None)
    with case.filled(PROMPT) as sequence:
        case.require_as_alone(sequence, PROMPT)
    assert counting.counts == []


@pytest.mark.published_call(
    "sslm_prefill",
    refusal="SSLM_INVALID_ARGUMENT",
    case="a hook omits, repeats or invents a task",
    here="ParallelForBrokenError",
)
@pytest.mark.published_call(
    "sslm_decode_step",
    refusal="SSLM_INVALID_ARGUMENT",
    case="a hook omits, repeats or invents a task",
    here="ParallelForBrokenError",
)
@pytest.mark.parametrize("lie", ["omit the first", "repeat", "invent task_count"])
@each_scope
def test_a_hook_that_lies(plan: NativePlan, scope: str, lie: str) -> None:
    """With a prompt, in a layer, and in the head: the same goes on with an honest one."""
    case, (function, fault, _) = wide_case(), hooks.LIES[lie]

    def require_found(units: int) -> None:
        plan.set_parallel_for(ParallelFor(hooks.LyingOnce(function, at_loop=0), TASKS, scope))
        with refused(ParallelForBrokenError, sequence) as caught:
            case.step(sequence, units)
        assert caught.value.facts()["fault"] == fault

    with case.sequence() as sequence:
        sequence.push(PROMPT)
        require_found(ALL)
        case.run(sequence)
        sequence.decode()
        if scope != "finish":
            require_found(1)
        case.step(sequence)
        require_found(ALL)
        case.require_as_alone(sequence, PROMPT)


@pytest.mark.published_call(
    "sslm_decode_step",
    refusal="SSLM_INVALID_ARGUMENT",
    case="a hook omits, repeats or invents a task behind layers of its slice that it ran",
    here="ParallelForBrokenError: the whole slice is put back; C keeps the layers before it",
)
@pytest.mark.parametrize("lie", ["omit the first", "repeat", "invent task_count"])
def test_a_lie_in_a_later_layer_puts_the_whole_slice_back(plan: NativePlan, lie: str) -> None:
    case, (function, _, _) = wide_case(), hooks.LIES[lie]
    with case.filled(PROMPT) as sequence:
        counting = hooks.Counting()
        plan.set_parallel_for(ParallelFor(counting, TASKS, "one_row"))
        sequence.decode()
        case.step(sequence, 1)
        loops_of_a_layer = len(counting.counts)
        assert loops_of_a_layer > 0
        liar = hooks.LyingOnce(function, at_loop=loops_of_a_layer)
        plan.set_parallel_for(ParallelFor(liar, TASKS, "one_row"))
        # The first layer of the slice, segment 2, is computed without a fault.
        with refused(ParallelForBrokenError, sequence) as caught:
            case.step(sequence, ALL)
        assert caught.value.facts()["segment"] == 3
        case.require_as_alone(sequence, PROMPT)


@pytest.mark.published_call(
    "sslm_decode_step",
    refusal="SSLM_INVALID_ARGUMENT",
    case="one workspace in two calls at once",
    here="PlanBusyError",
)
def test_a_workspace_takes_one_call_at_a_time(plan: NativePlan) -> None:
    """The second call comes from a task of the first, so that they surely meet."""

    def run(task: hooks.Task, task_count: int) -> None:
        if not refusals:
            refusals.append(1)
            with refused(PlanBusyError, other):
                case.step(other, ALL)
        for index in range(task_count):
            task(index)

    case, refusals = wide_case(), list[int]()
    with case.filled(PROMPT) as sequence, case.filled(PROMPT[:2]) as other:
        token_id = other.decode()
        plan.set_parallel_for(ParallelFor(run, TASKS, "all"))
        case.require_as_alone(sequence, PROMPT)
        assert refusals == [1]
        case.require_as_alone(other, [*PROMPT[:2], token_id], more=1)
