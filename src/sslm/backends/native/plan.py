"""A program compiled for the C kernels."""

import os
from collections.abc import Sequence
from typing import Any

from sslm.backends.native.hook import FAULTS, Hook
from sslm.backends.native.logprobs import tell_logprobs
from sslm.backends.native.lowering import Lowering
from sslm.backends.native.op_timings import OpTimings
from sslm.backends.native.spans import SpanLowering
from sslm.errors.base import SslmError
from sslm.errors.native import (
    ForkedPlanError,
    ParallelForBrokenError,
    ParallelForRefusedError,
    ParallelForStoppedError,
    PlanBusyError,
    PlanClosedError,
    PlanMemoryError,
    PlanMemoryUnusableError,
    RunCancelledError,
    ThreadStartError,
)
from sslm.errors.program import OpShapeError, SegmentRangeError, TierUnavailableError
from sslm.errors.runtime import ForkedProcessError
from sslm.memory import anonymous_memory
from sslm.native_library import TIERS, NativeLibrary, available_tiers, borrow
from sslm.program.lent_memory import LentMemory
from sslm.program.parallel_for import ParallelFor
from sslm.program.plan import LogProbs
from sslm.program.program import Program
from sslm.program.sequence_data import SequenceData
from sslm.program.slice_time import SliceTime
from sslm.program.spans import Span


def plan_size_bytes(library: NativeLibrary, lowering: Lowering) -> int:
    """Return the bytes that a plan of this lowering holds for itself."""
    return int(library.lib.sslm_native_plan_size(lowering.struct))


class NativePlan:
    """Runs a program; one run at a time.

    Args:
        library: The loaded library.
        program: What the lowering was made from.
        lowering: The program's structs, bound to a tier, to threads and to sizes.
        parallel_for: The hook to begin with, or None.
        memory: A buffer of the caller's to lie in, as :class:`LentMemory` takes it, or None. It is
            the caller's again once the plan is closed, and no other thread still calls it.

    Raises:
        OptionRangeError, MemoryTooSmallError, MisalignedMemoryError, MemoryInUseError: If *memory*
            cannot be used.
        PlanMemoryError: If there is no memory for it.
        PlanMemoryUnusableError: If the library refuses the memory.
        TierUnavailableError: If this machine does not run the lowering's tier.
        ThreadStartError: If the system does not start its threads.
        ParallelForRefusedError: If the lowering has no room for the hook.
    """

    def __init__(
        self,
        library: NativeLibrary,
        program: Program,
        lowering: Lowering,
        parallel_for: ParallelFor | None = None,
        memory: object = None,
    ) -> None:
        self._library = library
        self._program = program
        self._lowering = lowering
        self._spans = SpanLowering(library, program)
        self._process = os.getpid()
        self._threads = int(lowering.struct.thread_count)
        self._size_bytes = plan_size_bytes(library, lowering)
        self._lent = None if memory is None else LentMemory(memory, self._size_bytes, "a plan")
        self._memory: memoryview | None = self._lent.view if self._lent else self._allocate()
        self._handle = self._open()
        self._hook: Hook | None = None
        self.timings: OpTimings | None = None
        """While set, every run adds the time of each kind of op to it; else no clock is read."""
        if parallel_for is not None:
            self.set_parallel_for(parallel_for)

    @property
    def program(self) -> Program:
        """The program that was compiled."""
        return self._program

    @property
    def scratch_size_bytes(self) -> int:
        """Memory that the plan holds for itself, weights not included."""
        return self._size_bytes

    def run(
        self,
        first: int,
        last: int,
        spans: Sequence[Span],
        *,
        cancel: memoryview | None = None,
    ) -> None:
        """Run segments first … last - 1 over the rows of all spans, in one foreign call.

        Raises:
            RunCancelledError: If *cancel* was set, which is seen within about a millisecond.
            SegmentRangeError: If first … last is not a range of segments.
            OpShapeError: If a span's buffers, rows, ids, positions or pages do not fit the plan.
            PlanBusyError: If another thread is running this plan, or is just closing it.
            PlanClosedError: If the plan is closed.
            ForkedPlanError: If the plan's threads are in another process.
            ParallelForBrokenError: If the hook did not run every task once; nothing has changed.
            ParallelForStoppedError: If a hook in C gave up; nothing has changed.
            BaseException: What a hook in Python raised; nothing has changed.
        """
        count = len(self._program.segments)
        if not 0 <= first <= last <= count:
            raise SegmentRangeError(first, last, count)
        # Held until the call returns: a close in another thread must not free what it looks at. The
        # closed plan stays marked as running, so a run that comes too late is refused as busy.
        memory, hook, handle = self._memory, self._hook, self._usable_handle()
        array, alive = self._spans.lower(spans)
        alive.append(memory)
        run = self._library.ffi.new("sslm_run *")
        run.spans, run.span_count = array, len(spans)
        run.first_segment, run.last_segment = first, last
        self._lend(run, cancel, alive)
        status = self._library.lib.sslm_native_plan_run(handle, run)
        alive.clear()
        self._require_ok(status, run, hook)

    def advance(
        self,
        sequences: Sequence[SequenceData],
        *,
        budget_units: int,
        row_count_max: int,
        time: SliceTime | None = None,
        cancel: memoryview | None = None,
    ) -> None:
        """Run a slice of every sequence's next chunk, in one foreign call; see ``Plan.advance``.

        Raises:
            SslmError, BaseException: As :meth:`run`.
        """
        memory, hook, handle = self._memory, self._hook, self._usable_handle()
        ffi, count = self._library.ffi, len(sequences)
        alive: list[Any] = [memory]
        call = ffi.new("sslm_advance *")
        pointers = [ffi.cast("sslm_sequence *", data.address) for data in sequences]
        array, spans = ffi.new("sslm_sequence *[]", pointers), ffi.new("sslm_span[]", count)
        call.sequences, call.spans, call.sequence_count = array, spans, count
        call.budget_units = min(budget_units, len(self._program.segments))
        call.row_count_max = min(row_count_max, self._lowering.struct.row_count_max)
        self._lend(call.run, cancel, alive)
        if time is not None:
            call.run.max_ns, call.run.unit_ns = time.left_ns, time.unit_ns
        status = self._library.lib.sslm_native_advance(handle, call)
        alive.clear()
        if time is not None:
            time.layer_ns, time.block_ns = int(call.run.layer_ns), int(call.run.block_ns)
        self._require_ok(status, call.run, hook)

    def logprobs(
        self, logits: memoryview, exponent: int, token_ids: Sequence[int], *, top_count: int = 0
    ) -> LogProbs:
        """Return the log-probabilities of some ids; see ``Plan.logprobs``.

        Raises:
            LogitRangeError, OpShapeError, PlanClosedError, ForkedPlanError: If they cannot be told.
        """
        memory, handle = self._memory, self._usable_handle()
        told = tell_logprobs(
            self._library,
            handle,
            logits,
            exponent,
            token_ids,
            vocab_size=self._program.vocab_size,
            top_count=top_count,
        )
        del memory
        return told

    def _lend(self, run: Any, cancel: memoryview | None, alive: list[Any]) -> None:
        """Let a run poll a flag and add to timings, which *alive* holds meanwhile."""
        ffi, timings = self._library.ffi, self.timings
        if cancel is not None:
            run.cancel, view = borrow(ffi, "int32_t *", cancel)
            alive.append(view)
        if timings is not None:
            run.op_ns, view = borrow(ffi, "int64_t *", timings.memory, is_writable=True)
            alive.append(view)

    def _require_ok(self, status: int, run: Any, hook: Hook | None) -> None:
        if status != self._library.lib.SSLM_OK:
            is_stopped = status == self._library.lib.SSLM_STOPPED_HOOK
            raised = hook.take_raised() if is_stopped and hook is not None else None
            raise raised or self._run_error(status, run)

    def set_parallel_for(self, parallel_for: ParallelFor | None) -> None:
        """Install another hook, or none.

        Args:
            parallel_for: With at most the tasks that the plan was compiled for; None computes in
                the calling thread alone.

        Raises:
            PlanBusyError: If a run is going on; nothing was installed.
            PlanClosedError: If the plan is closed.
            ParallelForRefusedError: If the plan has no room for it, or threads of its own.
        """
        memory, handle = self._memory, self._usable_handle()
        hook = Hook(self._library, parallel_for, memory) if parallel_for is not None else None
        struct = self._library.ffi.NULL if hook is None else hook.struct
        lib, lowered = self._library.lib, self._lowering.struct
        status = lib.sslm_native_plan_set_parallel_for(handle, struct)
        if status == lib.SSLM_BUSY:
            raise PlanClosedError if self._handle is None else PlanBusyError
        if status != lib.SSLM_OK:
            max_tasks = 0 if parallel_for is None else parallel_for.max_tasks
            raise ParallelForRefusedError(max_tasks, int(lowered.task_count_max), self._threads)
        self._hook = hook

    def close(self) -> None:
        """Join the threads and release the memory. Closing twice is no error.

        Raises:
            PlanBusyError: If another thread is running this plan; nothing was closed.
        """
        # The memory is held as in run: two threads may close at once.
        memory, handle = self._memory, self._handle
        if handle is None or memory is None:
            return
        # After a fork the threads are not here to be joined, and a run of the parent's is marked as
        # going on for ever; the memory is this process's own copy.
        is_owner = os.getpid() == self._process
        lib = self._library.lib
        if is_owner and lib.sslm_native_plan_close(handle) != lib.SSLM_OK:
            raise PlanBusyError
        self._handle = self._memory = self._hook = None
        if self._lent is not None:
            self._lent.give_back()

    def __del__(self) -> None:
        if getattr(self, "_handle", None) is not None:
            self.close()

    def _allocate(self) -> memoryview:
        try:
            return anonymous_memory(self._size_bytes)
        except (OSError, OverflowError, ValueError) as error:
            raise PlanMemoryError(self._size_bytes) from error

    def _open(self) -> Any:
        ffi, lib = self._library.ffi, self._library.lib
        memory, _view = borrow(ffi, "uint8_t *", self._memory, is_writable=True)
        opened = ffi.new("sslm_plan **")
        status = lib.sslm_native_plan_open(self._lowering.struct, memory, self._size_bytes, opened)
        if status != lib.SSLM_OK:
            raise self._open_error(status, int(ffi.cast("uintptr_t", memory)))
        return opened[0]

    def _open_error(self, status: int, address: int) -> SslmError:
        lib = self._library.lib
        if status == lib.SSLM_BAD_TIER:
            tier = TIERS[self._lowering.struct.tier]
            return TierUnavailableError(tier, "on this machine", ", ".join(available_tiers()))
        if status == lib.SSLM_BAD_MEMORY:
            return PlanMemoryUnusableError(self._size_bytes, address)
        return ThreadStartError(self._threads)

    def _usable_handle(self) -> Any:
        if self._handle is None:
            raise PlanClosedError
        if self._threads > 1 and os.getpid() != self._process:
            raise ForkedPlanError(self._threads - 1, self._process, os.getpid())
        if self._lent is not None and os.getpid() != self._process:
            # It may be shared with the process that runs there.
            raise ForkedProcessError("plan", self._process, os.getpid())
        return self._handle

    def _run_error(self, status: int, run: Any) -> SslmError:
        lib, value = self._library.lib, int(run.bad_value)
        if status == lib.SSLM_BUSY:
            return PlanClosedError() if self._handle is None else PlanBusyError()
        if status == lib.SSLM_CANCELLED:
            return RunCancelledError()
        if status == lib.SSLM_BROKEN_HOOK:
            fault, index = FAULTS[run.fault], int(run.fault_index)
            task_count, segment = int(run.fault_task_count), int(run.fault_segment)
            return ParallelForBrokenError(fault, index, task_count, segment)
        if status == lib.SSLM_STOPPED_HOOK:
            return ParallelForStoppedError(int(run.fault_index), int(run.fault_segment))
        if status == lib.SSLM_BAD_SEGMENTS:
            count = len(self._program.segments)
            return SegmentRangeError(int(run.first_segment), int(run.last_segment), count)
        where = "the run" if run.bad_span < 0 else f"span {run.bad_span}"
        struct = self._lowering.struct
        reasons = {
            lib.SSLM_BAD_ROWS: ("rows", f"1 to 64, together {struct.row_count_max}"),
            lib.SSLM_BAD_TOKEN: ("a token id", f"below {struct.vocab_size}"),
            lib.SSLM_BAD_POSITION: ("its first position", f"rows below {struct.context_tokens}"),
            lib.SSLM_BAD_PAGE: ("page", "an entry of the page table within the pool"),
        }
        what, expected = reasons[status]
        return OpShapeError(where, what, str(value), expected)
