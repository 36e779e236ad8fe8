"""Tiny models, made from seeded random weights, with the loop that generates from any program."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sslm.convert.calibrate import calibrate
from sslm.convert.integer_weights import IntegerWeights, read_integer_weights
from sslm.convert.source import GgufModelSource
from sslm.convert.weight_formats import INT8_WEIGHTS, WeightFormats
from sslm.model.config import ModelConfig
from sslm.model.families import build_program
from sslm.model.fraction_bits import FractionBits
from sslm.program.plan import Plan
from sslm.program.program import Program
from sslm.program.spans import CHUNK_ROWS_MAX
from sslm.program.tensors import Tensor
from sslm.runtime.sequences.kv_pool import KvPool, page_count_for
from sslm.runtime.sequences.options import SequenceOptions
from sslm.runtime.sequences.sequence import Sequence as TokenSequence
from sslm.runtime.slices.stepper import advance, finished
from tests.gguf_files import random_llama_gguf

MODEL_ID = bytes(range(32))
ALL_UNITS = 1 << 30

_ODD_SHAPE = {
    "seed": 1,
    "hidden_size": 72,
    "num_hidden_layers": 2,
    "num_attention_heads": 6,
    "num_key_value_heads": 2,
    "head_dim": 24,
    "intermediate_size": 100,
    "vocab_size": 275,
    "tied": False,
    "biases": True,
}


@dataclass(frozen=True)
class TinyModel:
    """A model that was quantized in memory."""

    config: ModelConfig
    weights: IntegerWeights
    fraction_bits: FractionBits
    tensors: dict[str, Tensor]
    program: Program


def tiny_llama(folder: Path, **shape: Any) -> TinyModel:
    """Write a random model as GGUF into *folder* and quantize it.

    *shape* replaces arguments of ``random_llama_gguf``; without any the model is odd everywhere:
    untied, with biases, three query heads to a key/value head, no size a multiple of 16.
    """
    path = random_llama_gguf(folder / "tiny.gguf", **(_ODD_SHAPE | shape))
    ids = [(7 * index + 3) % shape.get("vocab_size", 275) for index in range(24)]
    return quantized(path, [ids])


def quantized(
    path: Path, calibration: Sequence[Sequence[int]], formats: WeightFormats = INT8_WEIGHTS
) -> TinyModel:
    """Quantize a GGUF model in memory."""
    with GgufModelSource.open(path) as source:
        weights = read_integer_weights(source, lambda done, total: None, formats=formats)
    bits = calibrate(weights, calibration, lambda done, total: None)
    tensors = weights.tensors(bits)
    program = build_program(weights.config, bits, tensors)
    return TinyModel(weights.config, weights, bits, tensors, program)


@dataclass(frozen=True)
class Outcome:
    """What a sequence came to."""

    token_ids: tuple[int, ...]
    digest: str
    saturations: dict[str, int]


def generate(
    plan: Plan,
    prompts: Sequence[Sequence[int]],
    *,
    max_tokens: int,
    chunk_tokens: int = CHUNK_ROWS_MAX,
    budget_units: int = ALL_UNITS,
    row_count_max: int = CHUNK_ROWS_MAX,
    pool: KvPool | None = None,
) -> list[Outcome]:
    """Answer every prompt greedily, all of them together."""
    runs = [_Run(plan.program, prompt, max_tokens, chunk_tokens, pool) for prompt in prompts]
    while waiting := [run.sequence for run in runs if not run.is_done]:
        finished(advance(plan, waiting, budget_units=budget_units, row_count_max=row_count_max))
        for run in runs:
            run.take_selected()
    return [run.finish() for run in runs]


class _Run:
    def __init__(
        self,
        program: Program,
        prompt: Sequence[int],
        max_tokens: int,
        chunk_tokens: int,
        pool: KvPool | None,
    ) -> None:
        context_tokens = len(prompt) + max_tokens
        options = SequenceOptions(context_tokens=context_tokens, chunk_tokens=chunk_tokens)
        pool = pool or KvPool(program.state_layout, page_count_for(context_tokens))
        self.sequence = TokenSequence(program, pool, MODEL_ID, options)
        self.sequence.push(prompt)
        self._answer: list[int] = []
        self._max_tokens = max_tokens

    @property
    def is_done(self) -> bool:
        return len(self._answer) == self._max_tokens

    def take_selected(self) -> None:
        """Take the token that was chosen, and go on behind it unless it is the last."""
        selected = self.sequence.selected
        if self.is_done or selected is None or self.sequence.has_work:
            return
        self._answer.append(selected)
        if not self.is_done:
            self.sequence.push([selected])

    def finish(self) -> Outcome:
        with self.sequence as sequence:
            digest = sequence.answer_digest(self._answer).hex()
            return Outcome(tuple(self._answer), digest, sequence.saturations)
