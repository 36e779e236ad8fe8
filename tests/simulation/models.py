"""The models that schedules run: tiny, odd, with each kind of state, and saturating."""

import tempfile
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path

from sslm.model.llama import build_llama
from sslm.program import ops
from sslm.program.buffers import Buffer, BufferKind
from sslm.program.program import Program
from sslm.program.states import State, StateKind
from sslm.program.tensors import Tensors
from tests.tiny_models import tiny_llama
from tests.toy_programs import moving_average_model

MODELS = ("llama", "recurrent", "mixed", "loud")
"""Keys and values; fixed states alone; both; and one whose logits are larger than scores can be."""

MODEL_IDS = (bytes(range(32)), bytes(range(32, 64)))
"""A model's own identity, and another one's."""

LONGEST = 200
"""Positions that any program and plan here allows."""

TEXT_COUNT = 3
"""Few texts, so that the oracle mostly knows the answers: what differs is how they come about."""


@dataclass(frozen=True)
class SimulatedModel:
    """A program with its tensors, and texts to run."""

    name: str
    program: Program
    tensors: Tensors

    def text(self, index: int, start: int, count: int) -> list[int]:
        """Return *count* token ids of a text, from *start* on."""
        vocab_size = self.program.vocab_size
        return [
            (position * (7 + 2 * index) + index * 11 + position // 5) % vocab_size
            for position in range(start, start + count)
        ]


@cache
def model_named(name: str) -> SimulatedModel:
    """Build one of the models; the same in every process."""
    if name in {"recurrent", "loud"}:
        toy = moving_average_model(head_exponent=-20) if name == "loud" else moving_average_model()
        return SimulatedModel(name, _bounded(toy.program), toy.tensors)
    with tempfile.TemporaryDirectory() as folder:
        llama = tiny_llama(
            Path(folder),
            hidden_size=24,
            num_attention_heads=3,
            num_key_value_heads=1,
            head_dim=8,
            intermediate_size=20,
            vocab_size=260,
        )
    # Finer than conversion would choose, so that values saturate and the counters mean something.
    bits = llama.fraction_bits
    finer = replace(
        bits,
        residual=bits.residual + 3,
        layers=tuple(
            replace(layer, v=min(30, layer.v + 3), gate=min(30, layer.gate + 3))
            for layer in bits.layers
        ),
    )
    tensors = llama.weights.tensors(finer)
    program = build_llama(llama.config, finer, tensors)
    return SimulatedModel(name, _bounded(program if name == "llama" else _mixed(program)), tensors)


def _bounded(program: Program) -> Program:
    return replace(program, max_position_embeddings=LONGEST)


def _mixed(program: Program) -> Program:
    """Let the first layer add a moving average over the sequence."""
    residual = program.residual
    averaged = Buffer(
        name="averaged",
        kind=BufferKind.INT32,
        width=residual.width,
        fraction_bits=residual.fraction_bits,
    )
    state = State(
        name="layers.0.average",
        kind=StateKind.FIXED,
        segment_index=1,
        head_count=1,
        head_dim=residual.width,
        fraction_bits=residual.fraction_bits,
    )
    average = ops.MovingAverage(source=residual, out=averaged, state=state)
    add = ops.Add(source=averaged, target=residual)
    embed, first, *others = program.segments
    return replace(
        program,
        states=(program.states[0], state, *program.states[1:]),
        segments=(embed, replace(first, ops=(*first.ops, average, add)), *others),
    )
