"""Moving magnitude from weights to activations, so that rounding hurts less.

A column of a matrix may be multiplied by any factor if its input is divided by the same: by the
gain of the norm before it, or by the row scale of the matrix that produces it. The model computes
the same in exact arithmetic. Activations have 16 bits and columns of weights 8, so columns whose
inputs are large deserve finer steps (activation-aware scaling, arXiv:2306.00978, without search).
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from sslm.convert.integer_weights import IntegerWeights
from sslm.convert.quantize import Float64Array
from sslm.convert.text_runs import Watcher, run_texts
from sslm.model.config import ModelConfig
from sslm.model.fraction_bits import FractionBits
from sslm.numerics.rounding import Int64Array
from sslm.program.ops import Linear

_FLOOR: Final = 1e-8
"""Mean squares below this share of the largest count as this share: no column is blown up."""

_INPUT_OF: Final = {
    "q_proj": "attention",
    "k_proj": "attention",
    "v_proj": "attention",
    "o_proj": "mixed",
    "gate_proj": "mlp",
    "up_proj": "mlp",
    "down_proj": "gated",
}
"""Which input a projection multiplies; several share one."""

_DIVIDED: Final = {
    "input_layernorm": "attention",
    "post_attention_layernorm": "mlp",
    "v_proj": "mixed",
    "v_proj.bias": "mixed",
    "up_proj": "gated",
    "up_proj.bias": "gated",
}
"""What gives up the factor: gains by element, matrices by row."""


@dataclass(frozen=True, slots=True)
class Balance:
    """Factors of the columns of every input, by (layer, input).

    ``mixed`` has one factor per value of a key/value head, since the query heads that read a head
    share its values; every other input one per element.
    """

    config: ModelConfig
    factors: dict[tuple[int, str], Float64Array]

    def apply(self, name: str, weight: Float64Array) -> Float64Array:
        """Return a weight, by canonical name, as the balanced model has it."""
        if not name.startswith("layers."):
            return weight
        _, layer, local = name.split(".", 2)
        if local in _DIVIDED:
            factors = self.factors[int(layer), _DIVIDED[local]]
            weight = weight / (factors[:, None] if weight.ndim == 2 else factors)
        if local in _INPUT_OF:
            factors = self.factors[int(layer), _INPUT_OF[local]]
            weight = weight * (self._per_query_head(factors) if local == "o_proj" else factors)
        return weight

    def _per_query_head(self, factors: Float64Array) -> Float64Array:
        group_count = self.config.num_attention_heads // self.config.num_key_value_heads
        heads = factors.reshape(self.config.num_key_value_heads, self.config.head_dim)
        return np.repeat(heads, group_count, axis=0).reshape(-1)


def measure_balance(
    weights: IntegerWeights, bits: FractionBits, texts: Sequence[Sequence[int]]
) -> Balance:
    """Choose factors from the size of each input on the calibration texts.

    Args:
        weights: The model, not balanced yet.
        bits: Its fraction bits.
        texts: Token ids.
    """
    squares = _Squares()
    run_texts(weights, bits, texts, squares)
    config = weights.config
    factors: dict[tuple[int, str], Float64Array] = {}
    for (layer, local), by_element in squares.totals().items():
        sums = _per_key_value_head(config, by_element) if local == "o_proj" else by_element
        factors[layer, _INPUT_OF[local]] = _eighth_root(sums)
    return Balance(config, factors)


def _per_key_value_head(config: ModelConfig, by_query_head: Float64Array) -> Float64Array:
    """Add up, from [query_size] to [key_value_size], what query heads of the same head have."""
    heads = by_query_head.reshape(config.num_key_value_heads, -1, config.head_dim)
    return np.asarray(heads.sum(axis=1)).reshape(-1)


def _eighth_root(squares: Float64Array) -> Float64Array:
    """Return squares ** (1/8), that is magnitude ** (1/4), with roots that IEEE 754 rounds exactly.

    The fourth root is between nothing, which leaves the weights' error as it is, and the square
    root, which widens the rows so much that the error grows again.
    """
    largest = squares.max()
    if largest == 0.0:
        return np.ones_like(squares)
    floored = np.maximum(squares / largest, _FLOOR)
    root: Float64Array = np.sqrt(np.sqrt(np.sqrt(floored)))
    return root


class _Squares(Watcher):
    """Sums of squares of the inputs of each layer's projections, exact per exponent."""

    def __init__(self) -> None:
        self._sums: dict[tuple[int, str], dict[int, Int64Array]] = {}

    def multiplied(self, op: Linear, codes: Int64Array, exponents: Int64Array) -> None:
        """Add the squares of int64 [rows, in_features]; inputs that are shared count once."""
        _, layer, local = op.matrix.name.split(".")
        if local in ("k_proj", "v_proj", "up_proj"):
            return
        by_exponent = self._sums.setdefault((int(layer), local), {})
        for exponent in np.unique(exponents).tolist():
            rows = codes[exponents == exponent]
            known = by_exponent.get(exponent, np.zeros(codes.shape[1], dtype=np.int64))
            by_exponent[exponent] = known + (rows * rows).sum(axis=0)

    def totals(self) -> dict[tuple[int, str], Float64Array]:
        """Return the sums as float64, added in ascending order of exponents on every machine."""
        totals = {}
        for key, by_exponent in self._sums.items():
            ordered = sorted(by_exponent.items())
            total = np.zeros(len(ordered[0][1]))
            for exponent, sums in ordered:
                total = total + np.ldexp(sums.astype(np.float64), 2 * exponent)
            totals[key] = total
        return totals
