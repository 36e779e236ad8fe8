"""Memory is admitted before it is taken, and a fork is told from its parent."""

import multiprocessing
import os
import threading
from contextlib import closing
from typing import Any

import pytest

from sslm.artifact import read_artifact
from sslm.backends.native import NativeBackend
from sslm.backends.reference import ReferenceBackend
from sslm.errors.native import RunCancelledError
from sslm.errors.runtime import ForkedProcessError, MemoryBudgetError
from sslm.opening.runner import Runner
from sslm.program.plan import Backend
from sslm.runtime.guards import Cancellation
from sslm.runtime.sequences.options import SequenceOptions
from sslm.runtime.sequences.sequence import Sequence
from tests.converted import stories_artifact


class CountingBackend(NativeBackend):
    """Counts the plans that it compiles."""

    compiled_count = 0

    def compile(self, *arguments: Any, **options: Any) -> Any:
        """Count, and compile."""
        self.compiled_count += 1
        return super().compile(*arguments, **options)


def test_a_model_beyond_the_bound_is_refused_before_a_plan_is_opened() -> None:
    backend = CountingBackend(threads=2)
    with read_artifact(stories_artifact()) as artifact:
        with closing(Runner(artifact, backend, context_tokens=64)) as runner:
            needed = artifact.file_size_bytes + runner.scratch_size_bytes
        backend.compiled_count = 0
        with pytest.raises(MemoryBudgetError) as caught:
            Runner(artifact, backend, context_tokens=64, memory_bytes=needed - 1)
        assert caught.value.needed_bytes == needed
        assert backend.compiled_count == 0
        Runner(artifact, backend, context_tokens=64, memory_bytes=needed).close()


@pytest.mark.parametrize(
    "backend", [ReferenceBackend(), NativeBackend("scalar"), NativeBackend(threads=3)]
)
@pytest.mark.parametrize("row_count_max", [1, 64, 200])
def test_the_size_said_beforehand_is_what_the_plan_holds(
    backend: Backend, row_count_max: int
) -> None:
    with read_artifact(stories_artifact()) as artifact:
        options = {"row_count_max": row_count_max, "context_tokens": 100}
        runner = Runner(artifact, backend, **options)
        with closing(backend.compile(runner.program, artifact.tensors, **options)) as plan:
            assert runner.scratch_size_bytes == plan.scratch_size_bytes
        runner.close()


OPTIONS = SequenceOptions(context_tokens=8)


def use_in_child(runner: Runner, sequence: Sequence, results: Any) -> None:
    """Try what takes the lock; say what came of it."""
    for use in (
        lambda: runner.advance([sequence]),
        lambda: runner.sequence(OPTIONS).__enter__(),
    ):
        try:
            use()
        except ForkedProcessError as error:
            results.put((error.owner, error.process))
    runner.close()
    results.put("closed")


def chain_after(runner: Runner, *, cancelled_ms: list[int]) -> bytes:
    """Compute 200 tokens, cancelling the slices that are listed after so many milliseconds."""
    with runner.sequence(SequenceOptions(context_tokens=200)) as sequence:
        sequence.push([1 + n % 300 for n in range(200)])
        for delay_ms in cancelled_ms:
            cancellation = Cancellation()
            timer = threading.Timer(delay_ms / 1000, cancellation.set)
            timer.start()
            try:
                if delay_ms == 0:
                    timer.join()
                while sequence.pending_count:
                    runner.advance([sequence], cancellation=cancellation)
            except RunCancelledError:
                pass
            timer.join()
        while sequence.pending_count:
            runner.advance([sequence])
        return sequence.digest


@pytest.mark.parametrize(
    "backend", [ReferenceBackend(), NativeBackend("scalar"), NativeBackend(threads=2)]
)
def test_a_cancelled_slice_can_be_run_again(backend: Backend) -> None:
    with (
        read_artifact(stories_artifact()) as artifact,
        closing(Runner(artifact, backend, context_tokens=200)) as runner,
    ):
        expected = chain_after(runner, cancelled_ms=[])
        assert chain_after(runner, cancelled_ms=[0, 1, 2, 4, 7]) == expected
        with runner.sequence(OPTIONS) as sequence:
            sequence.push([1])
            cancellation = Cancellation()
            cancellation.set()
            with pytest.raises(RunCancelledError):
                runner.advance([sequence], cancellation=cancellation)
            assert sequence.pending_count == 1


def test_memory_of_a_sequence_that_an_interrupt_lost_is_free_again() -> None:
    with read_artifact(stories_artifact()) as artifact:
        with closing(Runner(artifact, NativeBackend(), context_tokens=64)) as runner:
            needed = artifact.file_size_bytes + runner.scratch_size_bytes
            needed += sum(runner.sequence_sizes_bytes(OPTIONS))
        with closing(
            Runner(artifact, NativeBackend(), context_tokens=64, memory_bytes=needed)
        ) as runner:
            for _ in range(3):
                # Never left, only dropped.
                runner.sequence(OPTIONS).__enter__()


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.parametrize("backend", [ReferenceBackend(), NativeBackend(), NativeBackend(threads=2)])
def test_a_fork_is_refused_even_where_the_lock_is_held(backend: Backend) -> None:
    context = multiprocessing.get_context("fork")
    results = context.SimpleQueue()
    with (
        read_artifact(stories_artifact()) as artifact,
        closing(Runner(artifact, backend, context_tokens=64)) as runner,
        runner.sequence(OPTIONS) as sequence,
    ):
        sequence.push([1])
        process = context.Process(target=use_in_child, args=(runner, sequence, results))
        # As if another thread were computing a slice.
        # As if another thread were computing a slice.
        with runner._turns.turn():
            process.start()
        process.join(240)
        if process.is_alive():
            process.kill()
        assert process.exitcode == 0
        refused = (os.getpid(), process.pid)
        assert [results.get() for _ in range(3)] == [refused, refused, "closed"]
        assert len(runner.advance([sequence])) == 1
