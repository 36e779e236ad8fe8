"""Choosing fraction bits: as many as the calibration text leaves room for."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Final

import numpy as np

from sslm.convert.integer_weights import IntegerWeights
from sslm.convert.text_runs import Watcher, run_texts
from sslm.errors.convert import CalibrationError
from sslm.model.config import ModelConfig
from sslm.model.fraction_bits import FRACTION_BITS_MAX, FractionBits, LayerFractionBits
from sslm.numerics.rounding import Int64Array
from sslm.program.buffers import Buffer
from sslm.program.ops import EPSILON_BITS_MAX
from sslm.progress import Progress

MAGNITUDE_BITS: Final = 29
"""The largest calibration value stays below 2**29: two bits of headroom under int32."""

_FIRST_BITS: Final = 14
_ROUND_COUNT_MAX: Final = 8
_ROUND_COUNT_USUAL: Final = 2
_SITES: Final = ("q", "k", "v", "gate", "up")


def calibrate(
    weights: IntegerWeights,
    texts: Sequence[Sequence[int]],
    on_progress: Progress,
    first: FractionBits | None = None,
) -> FractionBits:
    """Return fraction bits at which no calibration value comes near the ends of int32.

    The model runs on the reference backend, so the choice is exact on every machine, and runs again
    until the bits that a run suggests are those that it ran with.

    Args:
        weights: The model.
        texts: Token ids, at least one text of at least one id.
        on_progress: Called with the count of finished runs, and of all as far as it is known.
        first: Bits to begin with, or None.

    Raises:
        CalibrationError: If the bits do not settle, or if values are too large for any.
        AccumulatorBoundError: If an op cannot prove its sums at bits that were tried.
    """
    bits = first or _first_bits(weights)
    for round_index in range(_ROUND_COUNT_MAX):
        suggested, largest = _round(weights, bits, texts)
        done = round_index + 1
        on_progress(done, done if suggested == bits else max(done + 1, _ROUND_COUNT_USUAL))
        if suggested == bits:
            if largest >= 1 << MAGNITUDE_BITS:
                raise CalibrationError(round_index + 1)
            return bits
        bits = suggested
    raise CalibrationError(_ROUND_COUNT_MAX)


def rough_bits(weights: IntegerWeights, texts: Sequence[Sequence[int]]) -> FractionBits:
    """Return what one run suggests: enough to look at a model, and a start for :func:`calibrate`.

    Raises:
        AccumulatorBoundError: If an op cannot prove its sums at the bits that are tried.
    """
    return _round(weights, _first_bits(weights), texts)[0]


def _first_bits(weights: IntegerWeights) -> FractionBits:
    layer = LayerFractionBits(**dict.fromkeys(_SITES, _FIRST_BITS))
    return FractionBits(residual=_FIRST_BITS, layers=(layer,) * weights.config.num_hidden_layers)


def _round(
    weights: IntegerWeights, bits: FractionBits, texts: Sequence[Sequence[int]]
) -> tuple[FractionBits, int]:
    """Run the texts once; return what suits them, and the largest magnitude at *bits*."""
    largest = _Largest()
    run_texts(weights, bits, texts, largest)
    suggested = _suggest(bits, largest.values, residual_bits_max(weights.config))
    return suggested, max(largest.values.values())


class _Largest(Watcher):
    """The largest magnitudes, by layer (or -1) and site, at the fraction bits of the run."""

    def __init__(self) -> None:
        self.values: dict[tuple[int, str], int] = {}

    def stored(self, segment_index: int, buffer: Buffer, values: Int64Array) -> None:
        """Keep the largest magnitude of a site."""
        key = -1 if buffer.name == "residual" else segment_index - 1, buffer.name
        self.values[key] = max(self.values.get(key, 0), int(np.abs(values).max()))


def residual_bits_max(config: ModelConfig) -> int:
    """Return the finest fraction bits of the residual at which RMSNorm can add its epsilon.

    See docs/arithmetic.md, "rmsnorm": n * epsilon, at twice these bits, stays below 2**46.
    """
    eps = config.rms_norm_eps
    shift = eps.denominator.bit_length() - 1
    product_bits = (config.hidden_size * eps.numerator).bit_length()
    return min((EPSILON_BITS_MAX - product_bits + shift) // 2, FRACTION_BITS_MAX)


def _suggest(
    bits: FractionBits, largest: Mapping[tuple[int, str], int], residual_max: int
) -> FractionBits:
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
