"""Moving magnitude from weights to activations, so that rounding hurts less.

A column of a matrix may be multiplied by any factor if its input is divided by the same: by the
gain of the norm before it, or by the row scale of the matrix that produces it. The model computes
the same in exact arithmetic. Activations have 16 bits and columns of weights 8, so columns whose
inputs are large deserve finer steps (activation-aware scaling, arXiv:2306.00978, without search).
"""

from dataclasses import dataclass
from typing import Final

import numpy as np

from sslm.convert.families.registry import source_family
from sslm.convert.flips import Float64Array
from sslm.convert.inputs import Inputs, Site, site_of
from sslm.model.config import ModelConfig

_FLOOR: Final = 1e-8
"""Mean squares below this share of the largest count as this share: no column is blown up."""


@dataclass(frozen=True, slots=True)
class Balance:
    """Factors of the columns of every layer's inputs.

    ``mixed`` has one factor per value of a key/value head, since the query heads that read a head
    share its values; every other input one per element.
    """

    config: ModelConfig
    factors: dict[Site, Float64Array]

    def apply(self, name: str, weight: Float64Array) -> Float64Array:
        """Return a weight, by canonical name, as the balanced model has it."""
        if not name.startswith("layers."):
            return weight
        _, layer, local = name.split(".", 2)
        divided = source_family(self.config.architecture).divided
        if local in divided:
            factors = self.factors[int(layer), divided[local]]
            weight = weight / (factors[:, None] if weight.ndim == 2 else factors)
        site = site_of(self.config, name, head="")
        return weight if site is None else weight * self.of_input(site)

    def of_input(self, site: Site) -> Float64Array:
        """Return the factor of each element of an input; 1 for the head's, which has none."""
        if site not in self.factors:
            return np.ones(self.config.hidden_size)
        factors = self.factors[site]
        if site[1] != "mixed":
            return factors
        group_count = self.config.num_attention_heads // self.config.num_key_value_heads
        heads = factors.reshape(self.config.num_key_value_heads, self.config.head_dim)
        return np.repeat(heads, group_count, axis=0).reshape(-1)


def no_balance(config: ModelConfig) -> Balance:
    """Return factors of 1, which leave every weight as it is."""
    widths = {
        "attention": config.hidden_size,
        "mixed": config.num_key_value_heads * config.head_dim,
        "mlp": config.hidden_size,
        "gated": config.intermediate_size,
    }
    layers = range(config.num_hidden_layers)
    return Balance(
        config, {(layer, name): np.ones(widths[name]) for layer in layers for name in widths}
    )


def balance_for(config: ModelConfig, inputs: Inputs) -> Balance:
    """Choose factors from the size of each input on the calibration texts."""
    factors: dict[Site, Float64Array] = {}
    for site in inputs.sites():
        if site[1] == "head":
            continue
        rows = inputs.rows(site)
        # Summed row after row, in one order on every machine.
        squares = np.zeros(rows.shape[1])
        for row in rows:
            squares += row * row
        if site[1] == "mixed":
            heads = squares.reshape(config.num_key_value_heads, -1, config.head_dim)
            squares = _sum_over_group(heads)
        factors[site] = _eighth_root(squares)
    return Balance(config, factors)


def _sum_over_group(heads: Float64Array) -> Float64Array:
    """Add up what the query heads of one key/value head have: [heads, group, dim] to [heads * dim].

    Query heads lie in the order of the heads that they read.
    """
    total = np.zeros((heads.shape[0], heads.shape[2]))
    for member in range(heads.shape[1]):
        total += heads[:, member]
    return total.reshape(-1)


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
