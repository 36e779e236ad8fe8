"""Choosing fraction bits: as many as the calibration text leaves room for."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Final

import numpy as np

from sslm.backends.reference.backend import ReferencePlan
from sslm.convert.integer_weights import IntegerWeights
from sslm.errors.convert import CalibrationError
from sslm.model.config import ModelConfig
from sslm.model.fraction_bits import FRACTION_BITS_MAX, FractionBits, LayerFractionBits
from sslm.model.llama import build_llama
from sslm.numerics.rounding import Int64Array
from sslm.program.buffers import Buffer
from sslm.program.ops import EPSILON_BITS_MAX
from sslm.runtime.kv_pool import KvPool, page_count_for
from sslm.runtime.sequence import Sequence as TokenSequence
from sslm.runtime.sequence import SequenceOptions
from sslm.runtime.stepper import advance

MAGNITUDE_BITS: Final = 29
"""The largest calibration value stays below 2**29: two bits of headroom under int32."""

_FIRST_BITS: Final = 14
_ROUND_COUNT_MAX: Final = 8
_SITES: Final = ("q", "k", "v", "gate", "up")

Largest = dict[tuple[int, str], int]
"""Largest magnitude by layer (or -1) and site, at the fraction bits of the run."""


def calibrate(
    weights: IntegerWeights,
    texts: Sequence[Sequence[int]],
    on_progress: Callable[[int], None],
) -> FractionBits:
    """Return fraction bits at which no calibration value comes near the ends of int32.

    The model runs on the reference backend, so the choice is exact on every machine, and runs again
    until the bits that a run suggests are those that it ran with.

    Args:
        weights: The model.
        texts: Token ids, at least one text of at least one id.
        on_progress: Called with the count of finished runs.

    Raises:
        CalibrationError: If the bits do not settle, or if values are too large for any.
        AccumulatorBoundError: If an op cannot prove its sums at bits that were tried.
    """
    layer = LayerFractionBits(**dict.fromkeys(_SITES, _FIRST_BITS))
    count = weights.config.num_hidden_layers
    bits = FractionBits(residual=_FIRST_BITS, layers=(layer,) * count)
    for round_index in range(_ROUND_COUNT_MAX):
        largest = _measure(weights, bits, texts)
        suggested = _suggest(bits, largest, residual_bits_max(weights.config))
        on_progress(round_index + 1)
        if suggested == bits:
            if max(largest.values()) >= 1 << MAGNITUDE_BITS:
                raise CalibrationError(round_index + 1)
            return bits
        bits = suggested
    raise CalibrationError(_ROUND_COUNT_MAX)


def _measure(
    weights: IntegerWeights, bits: FractionBits, texts: Sequence[Sequence[int]]
) -> Largest:
    """Run every text and return the largest magnitudes."""
    largest: Largest = {}

    def observe(segment_index: int, buffer: Buffer, values: Int64Array) -> None:
        layer = -1 if buffer.name == "residual" else segment_index - 1
        key = layer, buffer.name
        largest[key] = max(largest.get(key, 0), int(np.abs(values).max()))

    tensors = weights.tensors(bits)
    program = build_llama(weights.config, bits, tensors)
    plan = ReferencePlan(program, tensors, observe)
    for ids in texts:
        options = SequenceOptions(context_tokens=len(ids))
        pool = KvPool(program.state_layout, page_count_for(len(ids)))
        with TokenSequence(program, pool, bytes(32), options) as sequence:
            sequence.push(ids)
            # The head follows the last chunk, unobserved: logits are exact at any width.
            while sequence.pending_count:
                advance(plan, [sequence], budget_segments=1 << 30, row_count_max=1 << 30)
    return largest


def residual_bits_max(config: ModelConfig) -> int:
    """Return the finest fraction bits of the residual at which RMSNorm can add its epsilon.

    See docs/arithmetic.md, "rmsnorm": n * epsilon, at twice these bits, stays below 2**46.
    """
    eps = config.rms_norm_eps
    shift = eps.denominator.bit_length() - 1
    product_bits = (config.hidden_size * eps.numerator).bit_length()
    return min((EPSILON_BITS_MAX - product_bits + shift) // 2, FRACTION_BITS_MAX)


def _suggest(bits: FractionBits, largest: Largest, residual_max: int) -> FractionBits:
    residual = min(_fit(bits.residual, largest[-1, "residual"]), residual_max)
    layers = tuple(
        LayerFractionBits(
            **{site: _fit(getattr(layer, site), largest.get((index, site), 0)) for site in _SITES}
        )
        for index, layer in enumerate(bits.layers)
    )
    return replace(bits, residual=residual, layers=layers)


def _fit(fraction_bits: int, largest: int) -> int:
    """Return the fraction bits at which *largest*, seen at *fraction_bits*, takes 28 or 29 bits."""
    room = MAGNITUDE_BITS - largest.bit_length()
    if room == 1:
        # Finer bits move a maximum a little: without this play two runs could suggest in turns.
        return fraction_bits
    return min(max(fraction_bits + room, 0), FRACTION_BITS_MAX)
