"""A host's hook shares the work: what is shared, and the same bits from each hook."""

import ctypes
import multiprocessing
import os
from concurrent.futures import ThreadPoolExecutor
from fractions import Fraction
from functools import cache
from typing import Any

import numpy as np
import pytest

from sslm.backends.native import NativeBackend, NativePlan
from sslm.model.config import ModelConfig, RopePairing
from sslm.model.fraction_bits import FractionBits, LayerFractionBits
from sslm.model.llama import build_llama
from sslm.model.tensor_shapes import tensor_shapes
from sslm.native_library import load_library
from sslm.program.parallel_for import SCOPES, ParallelFor
from sslm.program.tensors import Tensor, size_bytes
from tests.backends import hooks
from tests.backends.random_program import RandomProgram
from tests.backends.single_op import Memory
from tests.backends.wide_program import (
    Stepper,
    compile_plan,
    decode_step,
    next_result,
    outcome,
    step,
    wide_model,
)

MAX_TASKS = (0, 1, 2, 3, 7, 256)


@cache
def plain(tier: str) -> dict[str, object]:
    return outcome(compile_plan(wide_model(), None, tier=tier))


@pytest.mark.parametrize("scope", SCOPES)
def test_no_hook_changes_a_bit(native_name: str, scope: str, c_hooks: ctypes.CDLL) -> None:
    numbers = (ctypes.c_int32 * 2)(2, 0)
    in_c = ParallelFor(
        hooks.address_of(c_hooks, "run_threads"),
        max_tasks=7,
        scope=scope,
        user=ctypes.addressof(numbers),
    )
    in_python = ParallelFor(hooks.Counting(is_reversed=True), max_tasks=3, scope=scope)
    for hook in (in_c, in_python):
        assert outcome(compile_plan(wide_model(), hook, tier=native_name)) == plain(native_name)
    assert numbers[1] > 0


@pytest.mark.parametrize("max_tasks", MAX_TASKS)
@pytest.mark.parametrize("scope", SCOPES)
def test_no_number_of_tasks_changes_a_bit(wide: RandomProgram, scope: str, max_tasks: int) -> None:
    forward = hooks.Counting()
    plan = compile_plan(wide, ParallelFor(forward, max_tasks=max_tasks, scope=scope))
    assert outcome(plan) == plain("auto")
    assert bool(forward.counts) == (max_tasks > 1)
    assert all(2 <= count <= max_tasks for count in forward.counts)
    with ThreadPoolExecutor(4) as executor:
        pooled = ParallelFor(hooks.Pooled(executor), max_tasks=max_tasks, scope=scope)
        plan.set_parallel_for(pooled)
        assert outcome(plan) == plain("auto")


def test_a_scope_is_what_is_shared(wide: RandomProgram) -> None:
    """At 7 tasks: q 2, k and v together 2, o 2, gate and up 7, down 4, the head 4."""
    counts = {}
    for scope in SCOPES:
        hook = hooks.Counting()
        step(compile_plan(wide, ParallelFor(hook, max_tasks=7, scope=scope)))
        counts[scope] = hook.counts
    assert counts["finish"] == [4]
    assert counts["one_row"] == [2, 2, 2, 7, 4] * 2 + [4]
    assert counts["all"] == counts["one_row"]


def test_a_prefill_of_one_token_shares_each_projection_alone(wide: RandomProgram) -> None:
    hook = hooks.Counting()
    step(compile_plan(wide, ParallelFor(hook, max_tasks=7, scope="one_row")), is_prefill=True)
    # q, no k and no v, o, gate, up, down; then the head.
    assert hook.counts == [2, 2, 4, 4, 4] * 2 + [4]


@pytest.mark.parametrize(
    ("rows", "columns", "max_tasks", "expected"),
    [
        (896, 896, 4, 320),
        (896, 896, 2, 448),
        (896, 896, 1, 896),
        (896, 896, 0, 896),
        (256, 896, 4, 256),
        (128, 4096, 256, 64),
        (127, 1 << 20, 256, 64),
        (9728, 896, 4, 2432),
        (896, 4864, 4, 256),
        (151936, 896, 4, 37_984 + 32),
        (151936, 896, 256, 640),
        (64, 1 << 20, 256, 64),
        (320, 1 << 20, 4, 128),
    ],
)
def test_rows_are_cut_by_shape_alone(
    rows: int, columns: int, max_tasks: int, expected: int
) -> None:
    """The formula of the documentation: 64 rows, and 262,144 bytes for each task."""
    found = load_library().lib.sslm_native_task_rows(rows, rows * columns, max_tasks)
    assert found == expected
    count = max(1, min(max_tasks, -(-rows // 64), rows * columns // 262144))
    assert found == (rows if count == 1 else (-(-rows // count) + 63) // 64 * 64)


def zero_model() -> tuple[Any, dict[str, Tensor]]:
    """Build the program of Qwen2.5-0.5B's shape; all its weights are one block of zeros."""
    config = ModelConfig(
        architecture="llama",
        vocab_size=151936,
        hidden_size=896,
        intermediate_size=4864,
        num_hidden_layers=24,
        num_attention_heads=14,
        num_key_value_heads=2,
        head_dim=64,
        rotary_dim=64,
        rope_theta=Fraction(10000),
        rope_scaling=None,
        rope_pairing=RopePairing.HALF,
        rms_norm_eps=Fraction(1, 1 << 17),
        max_position_embeddings=64,
        tie_word_embeddings=True,
    )
    zeros = np.zeros(config.vocab_size * config.hidden_size, np.int8).data.cast("B")
    tensors = {
        name: Tensor(
            name=name,
            encoding=encoding,
            shape=shape,
            exponent=40 if name.endswith(".mantissas") else 18,
            data=zeros[: size_bytes(encoding, shape)],
        )
        for name, (encoding, shape) in tensor_shapes(config).items()
    }
    layer = LayerFractionBits(q=16, k=16, v=16, gate=16, up=16)
    return build_llama(config, FractionBits(residual=16, layers=(layer,) * 24), tensors), tensors


def test_a_token_of_24_layers_takes_97_loops() -> None:
    program, tensors = zero_model()
    hook = hooks.Counting()
    plan = NativeBackend(parallel_for=ParallelFor(hook, max_tasks=4, scope="one_row")).compile(
        program, tensors, row_count_max=1, context_tokens=64
    )
    step(plan)
    # q, o, gate and up, down; k and v have too few bytes. The head is one loop over all its blocks.
    assert hook.counts == [3, 3, 4, 4] * 24 + [4]
    assert len(hook.counts) == 97


def child(plan: NativePlan, memory: Memory, results: Any) -> None:
    plan.run(0, len(plan.program.segments), [decode_step(memory, 3)])
    results.put(bytes(memory.digests[0]))
    plan.close()


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_a_hook_without_threads_survives_a_fork(wide: RandomProgram) -> None:
    stepper = Stepper(compile_plan(wide, ParallelFor(hooks.Counting(), 7, "one_row")))
    context = multiprocessing.get_context("fork")
    results = context.SimpleQueue()
    process = context.Process(target=child, args=(stepper.plan, stepper.memory, results))
    process.start()
    process.join(240)
    assert process.exitcode == 0
    stepper.run(3)
    assert results.get() == bytes(stepper.memory.digests[0])
    assert stepper.result() == next_result()
