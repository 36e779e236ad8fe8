"""The native library takes no memory from the heap in a run, whoever runs its tasks."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from sslm.native_library import load_library
from tests.backends import hooks

COUNTER = r"""
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

void *__libc_malloc(size_t size);
void *__libc_calloc(size_t count, size_t size);
void *__libc_realloc(void *old, size_t size);
void *__libc_memalign(size_t alignment, size_t size);

static _Atomic int is_counting;
static _Atomic int64_t count;

static void note(void) { if (is_counting) count++; }

void *malloc(size_t size) { note(); return __libc_malloc(size); }
void *calloc(size_t number, size_t size) { note(); return __libc_calloc(number, size); }
void *realloc(void *old, size_t size) { note(); return __libc_realloc(old, size); }
void *aligned_alloc(size_t alignment, size_t size)
{
    note();
    return __libc_memalign(alignment, size);
}
int posix_memalign(void **out, size_t alignment, size_t size)
{
    note();
    *out = __libc_memalign(alignment, size);
    return *out == NULL ? 12 : 0;
}

/* Call run(plan, argument), and return how often any thread took memory meanwhile. */
int64_t count_of(int32_t (*run)(void *, void *), void *plan, void *argument, int32_t *status)
{
    count = 0;
    is_counting = 1;
    *status = run(plan, argument);
    is_counting = 0;
    return count;
}
"""

CHILD = r"""
import ctypes, sys
from sslm.native_library import load_library
from sslm.program.parallel_for import ParallelFor
from sslm.backends.native import NativeBackend
from sslm.runtime.sequences.kv_pool import KvPool
from sslm.runtime.sequences.sequence import Sequence
from sslm.runtime.sequences.options import SequenceOptions
from tests.backends import hooks
from tests.backends.single_op import Memory
from tests.backends.wide_program import wide_model

counter, c_hooks = ctypes.CDLL(sys.argv[1]), ctypes.CDLL(sys.argv[2])
counter.count_of.restype = ctypes.c_int64
count_of, lib, ffi = counter.count_of, load_library().lib, load_library().ffi
run_address = int(ffi.cast("uintptr_t", ffi.addressof(lib, "sslm_native_plan_run")))
numbers = (ctypes.c_int32 * 2)(0, 0)
advance_address = int(ffi.cast("uintptr_t", ffi.addressof(lib, "sslm_native_advance")))
in_c = ParallelFor(hooks.address_of(c_hooks, "run_threads"), 4, "all", ctypes.addressof(numbers))
wide = wide_model()
for threads, hook in ((1, None), (2, None), (1, in_c)):
    backend = NativeBackend(threads=threads, parallel_for=hook)
    plan = backend.compile(wide.program, wide.tensors, row_count_max=64, context_tokens=64)
    for rows in (1, 40):
        memory = Memory(wide.program, positions=64, rows=64)
        spans, alive = plan._spans.lower([memory.span([1] * rows)])
        run = ffi.new("sslm_run *")
        run.spans, run.span_count, run.last_segment = spans, 1, len(wide.program.segments)
        handle, status = int(ffi.cast("uintptr_t", plan._handle)), ctypes.c_int32(-1)
        argument = ctypes.c_void_p(int(ffi.cast("uintptr_t", run)))
        found = count_of(
            ctypes.c_void_p(run_address), ctypes.c_void_p(handle), argument, ctypes.byref(status)
        )
        assert status.value == lib.SSLM_OK, status
        assert any(memory.digests[rows - 1])
        print(threads, hook is not None, rows, found)
        alive.clear()
    pool = KvPool(wide.program.state_layout, 2)
    sequences = [
        Sequence(wide.program, pool, bytes(32), SequenceOptions(context_tokens=64))
        for _ in range(2)
    ]
    for sequence in sequences:
        sequence.push([1] * 40)
    call = ffi.new("sslm_advance *")
    datas = [sequence.state.data for sequence in sequences]
    pointers = ffi.new(
        "sslm_sequence *[]", [ffi.cast("sslm_sequence *", data.address) for data in datas]
    )
    room = ffi.new("sslm_span[]", 2)
    call.sequences, call.spans, call.sequence_count = pointers, room, 2
    call.budget_units, call.row_count_max = 1000, 64
    argument = ctypes.c_void_p(int(ffi.cast("uintptr_t", call)))
    found = count_of(
        ctypes.c_void_p(advance_address),
        ctypes.c_void_p(handle),
        argument,
        ctypes.byref(status),
    )
    assert status.value == lib.SSLM_OK, status
    assert all(sequence.selected is not None for sequence in sequences)
    print(threads, hook is not None, "advance", found)
    plan.close()
assert numbers[1] > 0
status = ctypes.c_int32(-1)
take = ctypes.cast(counter.malloc, ctypes.c_void_p)
print("control", count_of(take, ctypes.c_void_p(64), None, ctypes.byref(status)))
"""


def test_a_run_takes_no_memory_from_the_heap(tmp_path: Path) -> None:
    (tmp_path / "counter").mkdir()
    (tmp_path / "hooks").mkdir()
    counter = hooks.compile_c(tmp_path / "counter", COUNTER)
    c_hooks = hooks.compile_c(tmp_path / "hooks", hooks.C_HOOKS)
    environment = os.environ | {
        "LD_PRELOAD": str(counter),
        "PYTHONPATH": os.pathsep.join(sys.path),
        "OPENBLAS_NUM_THREADS": "1",
    }
    command = [sys.executable, "-c", CHILD, str(counter), str(c_hooks)]
    found = subprocess.run(
        command, env=environment, capture_output=True, text=True, timeout=240, check=False
    )
    assert found.returncode == 0, found.stderr
    *counts, control = [line.rsplit(maxsplit=1) for line in found.stdout.splitlines()]
    assert len(counts) == 9
    assert {number for _, number in counts} == {"0"}, found.stdout
    assert control == ["control", "1"], "nothing was counted at all"


def test_the_library_does_not_even_know_the_heap() -> None:
    if sys.platform != "linux" or shutil.which("readelf") is None:
        pytest.skip("needs Linux and readelf")
    command = ["readelf", "--dyn-syms", "--wide", str(load_library().path)]
    text = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    names = [line.partition(" UND ")[2] for line in text.splitlines() if " UND " in line]
    needed = {name.partition("@")[0].strip() for name in names}
    assert {"pthread_create", "syscall"} <= needed, needed
    taking = {"malloc", "calloc", "realloc", "free", "aligned_alloc", "posix_memalign"}
    assert not needed & (taking | {"mmap", "mmap64", "brk", "sbrk"})
