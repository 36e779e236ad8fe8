"""What each matrix of a model is multiplied with, on the calibration texts."""

from collections.abc import Sequence
from typing import Final

import numpy as np
import numpy.typing as npt

from sslm.convert.families.registry import source_family
from sslm.convert.flips import Float64Array
from sslm.convert.integer_weights import IntegerWeights
from sslm.convert.text_runs import Watcher, run_texts
from sslm.model.config import ModelConfig
from sslm.model.fraction_bits import FractionBits
from sslm.numerics.rounding import Int64Array
from sslm.program.ops import Linear, Logits

_TEXTS_TOGETHER: Final = 8

Site = tuple[int, str]
"""Layer and input, or -1 and ``head``."""


def site_of(config: ModelConfig, name: str, head: str) -> Site | None:
    """Return the input of a matrix, by canonical name; None if it multiplies nothing.

    Args:
        config: Of the model.
        name: Of any weight.
        head: The matrix that is the output projection.
    """
    if name == head:
        return -1, "head"
    prefix, _, local = name.rpartition(".")
    inputs = source_family(config.architecture).inputs
    return (int(prefix.split(".")[1]), inputs[local]) if local in inputs else None


class Inputs(Watcher):
    """Rows of every input, as they are multiplied: codes int16 and exponents."""

    def __init__(self, config: ModelConfig) -> None:
        self._config = config
        self._head = "embed" if config.tie_word_embeddings else "lm_head"
        # Of the matrices that share an input, the one named first shows it.
        self._shown_by: dict[str, str] = {}
        for matrix, shared in source_family(config.architecture).inputs.items():
            self._shown_by.setdefault(shared, matrix)
        self._codes: dict[Site, list[npt.NDArray[np.int16]]] = {}
        self._exponents: dict[Site, list[Int64Array]] = {}

    def multiplied(self, op: Linear | Logits, codes: Int64Array, exponents: Int64Array) -> None:
        """Keep the rows; inputs that are shared, or seen by several head blocks, count once."""
        if isinstance(op, Logits) and op.first_row > 0:
            return
        site = site_of(self._config, op.matrix.name, self._head)
        if site is None:
            raise AssertionError(f"{op.matrix.name} multiplies an input")
        if isinstance(op, Linear) and not op.matrix.name.endswith(f".{self._shown_by[site[1]]}"):
            return
        self._codes.setdefault(site, []).append(codes.astype(np.int16))
        self._exponents.setdefault(site, []).append(exponents)

    def sites(self) -> list[Site]:
        """Return every input that was seen."""
        return list(self._codes)

    def rows(self, site: Site) -> Float64Array:
        """Return the rows of an input, up to a common factor: float64 [tokens, in_features]."""
        codes = np.concatenate(self._codes[site]).astype(np.float64)
        exponents = np.concatenate(self._exponents[site])
        shifts = (exponents - exponents.max()).astype(np.int32)
        rows: Float64Array = np.ldexp(codes, shifts[:, None])
        return rows


def watch_inputs(
    weights: IntegerWeights, bits: FractionBits, texts: Sequence[Sequence[int]]
) -> Inputs:
    """Run the calibration texts and return what the matrices were multiplied with.

    Some texts run together, so that weights are unpacked once for them; not all, since each holds
    a block of logits.
    """
    inputs = Inputs(weights.config)
    for first in range(0, len(texts), _TEXTS_TOGETHER):
        together = texts[first : first + _TEXTS_TOGETHER]
        run_texts(weights, bits, together, inputs, has_all_logits=True)
    return inputs


def inputs_size_bytes(config: ModelConfig) -> int:
    """Return what the rows of one token take in :class:`Inputs`."""
    mixed = config.num_attention_heads * config.head_dim
    layer = 2 * config.hidden_size + mixed + config.intermediate_size
    return 2 * (config.num_hidden_layers * layer + config.hidden_size)
