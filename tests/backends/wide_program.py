"""A program wide enough to be shared, with the plans and steps that tests of hooks run."""

from functools import cache
from typing import Any

from sslm.backends.native import NativeBackend, NativePlan
from sslm.program.parallel_for import ParallelFor
from sslm.program.spans import Span
from tests.backends.random_program import RandomProgram, Runner, Shape, run_together, token_ids
from tests.backends.single_op import Memory

SHAPE = Shape(
    hidden_size=768,
    intermediate_size=1536,
    num_attention_heads=12,
    num_key_value_heads=6,
    head_dim=64,
    rotary_dim=64,
    vocab_size=1500,
    num_hidden_layers=2,
    has_average=True,
)
"""Wide enough that every projection is shared, but for k or v alone."""

PROMPT = token_ids(0, SHAPE.vocab_size, 9)
LAYER_LOOPS = 5
"""Loops of a decode step's layer: q; k and v; o; gate and up; down."""


@cache
def wide_model() -> RandomProgram:
    return RandomProgram(SHAPE)


def compile_plan(
    model: RandomProgram, parallel_for: ParallelFor | None, *, tier: str = "auto"
) -> NativePlan:
    return NativeBackend(tier, parallel_for=parallel_for).compile(
        model.program, model.tensors, row_count_max=64, context_tokens=SHAPE.context_tokens
    )


def outcome(plan: NativePlan) -> dict[str, object]:
    """Compute five tokens at once, then one after the other."""
    runner = Runner(plan.program, PROMPT[:5])
    run_together(plan, [runner], chunk_rows=5)
    runner.token_ids = PROMPT
    run_together(plan, [runner], chunk_rows=1)
    return runner.outcome()


def step(plan: NativePlan, *, is_prefill: bool = False) -> None:
    memory = Memory(plan.program, positions=1)
    span = memory.span([1])
    span.is_prefill = is_prefill
    plan.run(0, len(plan.program.segments), [span])


def everything_but_pages(memory: Memory) -> list[bytes]:
    parts = (memory.residual, memory.saturations, memory.fixed)
    return [bytes(part) for part in parts]


def decode_step(memory: Memory, position: int) -> Span:
    return memory.span([PROMPT[position]], first_position=position)


class Stepper:
    """A sequence with some positions computed, about to take the next step."""

    def __init__(self, plan: NativePlan) -> None:
        self.plan = plan
        self.memory = Memory(plan.program, positions=8)
        for position in range(3):
            self.run(position)

    def run(self, position: int) -> None:
        span = decode_step(self.memory, position)
        self.plan.run(0, len(self.plan.program.segments), [span])

    def result(self) -> list[Any]:
        memory = self.memory
        parts = (
            memory.residual,
            memory.saturations,
            memory.logits,
            memory.selected,
            memory.digests,
        )
        return [*(part.tolist() for part in parts), bytes(memory.fixed), bytes(memory.pool)]


@cache
def next_result() -> list[bytes]:
    stepper = Stepper(compile_plan(wide_model(), None))
    stepper.run(3)
    return stepper.result()
