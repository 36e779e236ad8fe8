"""What native plans refuse, and how they stop."""

import gc
import itertools
import multiprocessing
import os
import threading
import time
import weakref
from array import array
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from sslm.backends.native import NativeBackend, NativePlan, OpTimings
from sslm.backends.native.op_timings import TIMED_KINDS
from sslm.errors.base import SslmError
from sslm.errors.native import (
    ForkedPlanError,
    PlanBusyError,
    PlanClosedError,
    PlanMemoryUnusableError,
    RunCancelledError,
    ThreadStartError,
)
from sslm.errors.program import (
    OpShapeError,
    SegmentRangeError,
    TensorMissingError,
    TensorShapeError,
    TierUnavailableError,
)
from sslm.native_library import NativeLibrary, load_library
from sslm.program.spans import Span
from sslm.program.tensors import Encoding, Tensor
from tests.backends.random_program import RandomProgram, Runner, Shape, run_together, token_ids
from tests.backends.single_op import Memory

SHAPE = Shape(num_hidden_layers=1, context_tokens=150)


@pytest.fixture(scope="module")
def model() -> RandomProgram:
    return RandomProgram(SHAPE)


def compile_plan(model: RandomProgram, *, threads: int = 1, rows: int = 64) -> NativePlan:
    return NativeBackend(threads=threads).compile(
        model.program, model.tensors, row_count_max=rows, context_tokens=SHAPE.context_tokens
    )


def span_of(model: RandomProgram, count: int = 3, first_position: int = 0) -> Span:
    memory = Memory(model.program, positions=130, rows=64)
    span = memory.span([1] * count, first_position=first_position, first_logits_row=count)
    span.trace = None
    return span


def test_unknown_tiers_are_refused() -> None:
    with pytest.raises(TierUnavailableError, match="sse9"):
        NativeBackend("sse9")


@pytest.mark.parametrize("threads", [0, 257])
def test_thread_counts_out_of_range_are_refused(threads: int) -> None:
    with pytest.raises(OpShapeError, match="threads"):
        NativeBackend(threads=threads)


@pytest.mark.parametrize("context_tokens", [0, 151])
def test_contexts_out_of_range_are_refused(model: RandomProgram, context_tokens: int) -> None:
    with pytest.raises(OpShapeError, match="context_tokens"):
        NativeBackend().compile(
            model.program, model.tensors, row_count_max=1, context_tokens=context_tokens
        )


def test_a_missing_tensor_is_named(model: RandomProgram) -> None:
    tensors = {name: tensor for name, tensor in model.tensors.items() if name != "0.q"}
    with pytest.raises(TensorMissingError, match=r"0\.q"):
        NativeBackend().compile(
            model.program, tensors, row_count_max=1, context_tokens=SHAPE.context_tokens
        )


def test_a_tensor_of_another_shape_is_named(model: RandomProgram) -> None:
    data = memoryview(bytes(4 * 7))
    short = Tensor(name="norm", encoding=Encoding.INT32, shape=(7,), exponent=0, data=data)
    with pytest.raises(TensorShapeError, match="norm"):
        NativeBackend().compile(
            model.program,
            model.tensors | {"norm": short},
            row_count_max=1,
            context_tokens=SHAPE.context_tokens,
        )


@pytest.mark.parametrize(("first", "last"), [(-1, 1), (2, 1), (0, 99)])
def test_segments_out_of_range_are_refused(model: RandomProgram, first: int, last: int) -> None:
    with pytest.raises(SegmentRangeError):
        compile_plan(model).run(first, last, [span_of(model)])


def test_rows_over_the_plan_are_refused(model: RandomProgram) -> None:
    plan = compile_plan(model, rows=4)
    with pytest.raises(OpShapeError, match="rows is 6"):
        plan.run(0, 1, [span_of(model), span_of(model)])


@pytest.mark.parametrize("count", [0, 65])
def test_spans_of_no_or_too_many_rows_are_refused(model: RandomProgram, count: int) -> None:
    span = span_of(model, count)
    span.memory.residual = np.zeros((65, SHAPE.hidden_size), np.int32).data
    span.memory.digests = memoryview(bytearray(32 * 65))
    with pytest.raises(OpShapeError, match=f"span 0: rows is {count}"):
        compile_plan(model, rows=100).run(0, 1, [span])


@pytest.mark.parametrize("token_id", [-1, SHAPE.vocab_size])
def test_ids_out_of_range_are_refused(model: RandomProgram, token_id: int) -> None:
    span = span_of(model)
    span.token_ids = memoryview(array("i", [1, token_id, 1]))
    with pytest.raises(OpShapeError, match=f"token id is {token_id}"):
        compile_plan(model).run(0, 1, [span])


@pytest.mark.parametrize("first_position", [-1, 148])
def test_positions_out_of_range_are_refused(model: RandomProgram, first_position: int) -> None:
    with pytest.raises(OpShapeError, match=f"position is {first_position}"):
        compile_plan(model).run(0, 1, [span_of(model, 3, first_position)])


@pytest.mark.parametrize("pages", [[0], [0, 3], [-1, 0]])
def test_pages_out_of_range_are_refused(model: RandomProgram, pages: list[int]) -> None:
    span = span_of(model, 3, 64)
    span.memory.pages = memoryview(array("i", pages))
    with pytest.raises(OpShapeError, match="page"):
        compile_plan(model).run(0, 1, [span])


@pytest.mark.parametrize("name", ["residual", "digests", "saturations"])
def test_buffers_that_are_too_small_are_refused(model: RandomProgram, name: str) -> None:
    span = span_of(model)
    setattr(span.memory, name, memoryview(bytearray(40)))
    with pytest.raises(OpShapeError, match=name):
        compile_plan(model).run(0, 1, [span])


def test_adapters_are_refused(model: RandomProgram) -> None:
    span = span_of(model)
    span.adapter_slot = 1
    with pytest.raises(OpShapeError, match="adapter"):
        compile_plan(model).run(0, 1, [span])


def test_a_refused_run_changes_nothing(model: RandomProgram) -> None:
    good, bad = span_of(model), span_of(model)
    bad.token_ids = memoryview(array("i", [1, 999, 1]))
    plan = compile_plan(model)
    with pytest.raises(OpShapeError, match="span 1"):
        plan.run(0, 2, [good, bad])
    assert not any(bytes(good.memory.residual))
    assert not any(good.memory.saturations)


def test_a_closed_plan_does_not_run(model: RandomProgram) -> None:
    plan = compile_plan(model, threads=2)
    plan.close()
    plan.close()
    with pytest.raises(PlanClosedError):
        plan.run(0, 1, [span_of(model)])


def test_a_plan_that_is_closed_under_a_run_keeps_its_memory(model: RandomProgram) -> None:
    """Another thread closes it after the run has looked, and before it is in the library."""
    plan = compile_plan(model)
    lower, held = plan._spans.lower, weakref.ref(plan._memory)

    def lower_late(spans: Sequence[Span]) -> tuple[Any, list[Any]]:
        plan.close()
        gc.collect()
        assert held() is not None
        return lower(spans)

    plan._spans.lower = lower_late  # type: ignore[method-assign]
    span = span_of(model)
    with pytest.raises(PlanClosedError):
        plan.run(0, 1, [span])
    assert not any(bytes(span.memory.residual))
    gc.collect()
    assert held() is None


def test_a_plan_in_use_is_not_closed(model: RandomProgram) -> None:
    plan = compile_plan(model, threads=2)
    errors: list[PlanClosedError] = []

    def work() -> None:
        span = span_of(model, 64)
        while not errors:
            try:
                plan.run(0, 2, [span])
            except PlanClosedError as error:
                errors.append(error)
            except PlanBusyError:
                continue  # Closing has begun.

    running = threading.Thread(target=work)
    running.start()
    while True:
        try:
            plan.close()
        except PlanBusyError:
            continue
        break
    running.join(240)
    assert len(errors) == 1


def test_scratch_is_what_the_plan_says(model: RandomProgram) -> None:
    small, large = compile_plan(model, rows=1), compile_plan(model, rows=64)
    assert 0 < small.scratch_size_bytes < large.scratch_size_bytes < 1 << 20


def test_no_run_leaves_a_row_behind(model: RandomProgram) -> None:
    compile_plan(model).run(0, 1, [])


def test_timed_kinds_are_those_of_the_library() -> None:
    lib = load_library().lib
    numbers = [getattr(lib, f"SSLM_OP_{kind.upper()}") for kind in TIMED_KINDS[:-1]]
    assert numbers == list(range(lib.SSLM_OP_COUNT))
    assert TIMED_KINDS[-1] == "digests"


@pytest.mark.parametrize("threads", [1, 2])
def test_timings_tell_which_ops_ran(model: RandomProgram, threads: int) -> None:
    timings = OpTimings()
    plan = compile_plan(model, threads=threads)
    plan.timings = timings
    plan.run(0, 1, [span_of(model, 64)])
    assert {kind for kind, ns in timings.by_kind().items() if ns} == {"embed", "digests"}
    started_ns = time.monotonic_ns()
    plan.run(0, 2, [span_of(model, 64)])
    elapsed_ns = time.monotonic_ns() - started_ns
    first = timings.by_kind()
    assert 0 < first["linear"] < elapsed_ns
    assert first["choose"] == first["logits"] == 0
    # A second run is added, and one without timings is not.
    plan.run(0, 2, [span_of(model, 64)])
    second = timings.by_kind()
    assert all(second[kind] >= first[kind] for kind in TIMED_KINDS)
    assert second["linear"] > first["linear"]
    plan.timings = None
    plan.run(0, 2, [span_of(model, 64)])
    assert timings.by_kind() == second
    timings.clear()
    assert not any(timings.by_kind().values())


def test_timing_changes_nothing(model: RandomProgram) -> None:
    plan, plain, timed = compile_plan(model), span_of(model, 64), span_of(model, 64)
    plan.run(0, 2, [plain])
    plan.timings = OpTimings()
    plan.run(0, 2, [timed])
    assert bytes(plain.memory.residual) == bytes(timed.memory.residual)
    assert bytes(plain.memory.digests) == bytes(timed.memory.digests)


def test_a_set_flag_cancels_and_changes_nothing(model: RandomProgram) -> None:
    library = load_library()
    plan = compile_plan(model, threads=2)
    span = span_of(model, 64)
    array_of_spans, alive = plan._spans.lower([span])
    flag = library.ffi.new("int32_t *", 1)
    run = library.ffi.new("sslm_run *")
    run.spans, run.span_count, run.last_segment, run.cancel = array_of_spans, 1, 2, flag
    assert library.lib.sslm_native_plan_run(plan._handle, run) == library.lib.SSLM_CANCELLED
    assert not any(bytes(span.memory.residual))
    flag[0] = 0
    assert library.lib.sslm_native_plan_run(plan._handle, run) == library.lib.SSLM_OK
    assert any(bytes(span.memory.residual))
    alive.clear()


@pytest.mark.parametrize("threads", [1, 2])
def test_a_flag_that_is_set_and_cleared_cancels_too(model: RandomProgram, threads: int) -> None:
    """Whatever was skipped while the flag was set must not be taken for computed."""
    library = load_library()
    plan = compile_plan(model, threads=threads)
    expected = span_of(model, 64)
    plan.run(0, 2, [expected])
    flag = np.zeros(1, np.int32)
    is_over = threading.Event()
    # One place in memory as a long array: NumPy writes to it without holding Python's lock.
    everywhere = np.lib.stride_tricks.as_strided(flag, (1 << 22,), (0,))
    # Pulses far shorter than a run, so that most that are seen are over before the next look.
    pattern = (np.arange(1 << 22) % 2048 > 1900).astype(np.int32)
    pattern[-1] = 0

    def toggle() -> None:
        while not is_over.is_set():
            np.copyto(everywhere, pattern)

    toggling = threading.Thread(target=toggle)
    toggling.start()
    pointer = library.ffi.from_buffer("int32_t[]", flag)
    statuses: set[int] = set()
    # On a busy machine the other thread may not run at all for a while.
    given_up_at = time.monotonic() + 200
    try:
        for index in itertools.count():
            statuses.add(run_watched(plan, span_of(model, 64), pointer, expected))
            is_seen = library.lib.SSLM_CANCELLED in statuses
            if index >= 400 and (is_seen or time.monotonic() > given_up_at):
                break
    finally:
        is_over.set()
        toggling.join()
    assert library.lib.SSLM_CANCELLED in statuses


def run_watched(plan: NativePlan, span: Span, flag: Any, expected: Span) -> int:
    """Run under a flag; what is there afterwards is all of the result, or nothing."""
    library = load_library()
    spans, alive = plan._spans.lower([span])
    run = library.ffi.new("sslm_run *")
    run.spans, run.span_count, run.last_segment, run.cancel = spans, 1, 2, flag
    status = int(library.lib.sslm_native_plan_run(plan._handle, run))
    alive.clear()
    if status == library.lib.SSLM_OK:
        assert bytes(span.memory.residual) == bytes(expected.memory.residual)
    else:
        assert status == library.lib.SSLM_CANCELLED
        assert not any(bytes(span.memory.residual))
    return status


def test_one_thread_at_a_time_runs_a_plan(model: RandomProgram) -> None:
    plan = compile_plan(model, threads=2)
    expected = Runner(model.program, token_ids(0, SHAPE.vocab_size, 100))
    run_together(compile_plan(model), [expected], chunk_rows=50)
    outcomes = []

    def work() -> None:
        runner = Runner(model.program, token_ids(0, SHAPE.vocab_size, 100))
        refused = 0
        while True:
            try:
                run_together(plan, [runner], chunk_rows=50)
            except PlanBusyError:
                refused += 1
                continue
            outcomes.append(runner.outcome())
            return

    threads = [threading.Thread(target=work) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(outcomes) == 3
    assert all(found["digests"] == expected.digests for found in outcomes)


class RefusingLibrary:
    """The library, but for one function, which returns a status and does nothing."""

    def __init__(self, name: str, status: str) -> None:
        library = load_library()
        self._lib = library.lib
        setattr(self, name, lambda *_: getattr(library.lib, status))

    def __getattr__(self, name: str) -> Any:
        return getattr(self._lib, name)


def refusing(name: str, status: str) -> NativeLibrary:
    library = load_library()
    return NativeLibrary(library.ffi, RefusingLibrary(name, status), library.path)


@pytest.mark.parametrize(
    ("status", "error"),
    [
        ("SSLM_BAD_TIER", TierUnavailableError),
        ("SSLM_BAD_MEMORY", PlanMemoryUnusableError),
        ("SSLM_NO_THREAD", ThreadStartError),
    ],
)
def test_what_keeps_a_plan_from_opening_is_named(
    model: RandomProgram, status: str, error: type[SslmError]
) -> None:
    plan = compile_plan(model)
    with pytest.raises(error):
        NativePlan(refusing("sslm_native_plan_open", status), model.program, plan._lowering)


@pytest.mark.parametrize(
    ("status", "error"),
    [
        ("SSLM_CANCELLED", RunCancelledError),
        ("SSLM_BUSY", PlanBusyError),
        ("SSLM_BAD_SEGMENTS", SegmentRangeError),
        ("SSLM_BAD_ROWS", OpShapeError),
        ("SSLM_BAD_TOKEN", OpShapeError),
        ("SSLM_BAD_POSITION", OpShapeError),
        ("SSLM_BAD_PAGE", OpShapeError),
    ],
)
def test_what_stops_a_run_is_named(
    model: RandomProgram, status: str, error: type[SslmError]
) -> None:
    plan = compile_plan(model)
    plan._library = refusing("sslm_native_plan_run", status)
    with pytest.raises(error):
        plan.run(0, 1, [span_of(model)])


def child(plan: NativePlan, span: Span, results: Any) -> None:
    try:
        plan.run(0, 1, [span])
    except ForkedPlanError as error:
        results.put((error.owner, error.process))
    else:
        results.put("ran")
    plan.close()


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.parametrize("threads", [1, 2])
def test_threads_do_not_survive_a_fork(model: RandomProgram, threads: int) -> None:
    plan = compile_plan(model, threads=threads)
    context = multiprocessing.get_context("fork")
    results = context.SimpleQueue()
    process = context.Process(target=child, args=(plan, span_of(model), results))
    process.start()
    process.join(240)
    assert process.exitcode == 0
    assert results.get() == ("ran" if threads == 1 else (os.getpid(), process.pid))
    plan.run(0, 1, [span_of(model)])
