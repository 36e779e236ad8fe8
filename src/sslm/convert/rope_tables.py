"""Rotary tables from integers of 128 fraction bits."""

from collections.abc import Sequence
from fractions import Fraction
from typing import Final

import mpmath
import numpy as np
import numpy.typing as npt

from sslm.model.config import ModelConfig, RopeScalingKind
from sslm.progress import Progress, untold

_WORK_BITS: Final = 128
_TABLE_BITS: Final = 30
_MPMATH_BITS: Final = 192

Int32Array = npt.NDArray[np.int32]


def rope_tables(
    config: ModelConfig,
    factors: Sequence[float] | None,
    on_progress: Progress = untold,
) -> tuple[Int32Array, Int32Array]:
    """Return cos and sin of every position and pair, int32 [positions, rotary_dim / 2].

    Args:
        config: Gives base, width, scaling and the number of positions.
        factors: Divisor of each frequency for ``llama3`` scaling, else None.
        on_progress: Called with pairs done and pairs in all.

    Entries have 30 fraction bits and are correctly rounded: each angle is reached by repeated
    rotation in integers, whose error stays below 2**-100.
    """
    pairs = config.rotary_dim // 2
    cos = np.empty((config.max_position_embeddings, pairs), dtype=np.int32)
    sin = np.empty_like(cos)
    for pair in range(pairs):
        cos[:, pair], sin[:, pair] = _rotations(*_first_rotation(config, factors, pair), len(cos))
        on_progress(pair + 1, pairs)
    return cos, sin


def _first_rotation(
    config: ModelConfig, factors: Sequence[float] | None, pair: int
) -> tuple[int, int]:
    """Return cos and sin of one frequency with 128 fraction bits."""
    divisor = Fraction(1)
    if config.rope_scaling is not None:
        is_linear = config.rope_scaling.kind is RopeScalingKind.LINEAR
        factor = config.rope_scaling.factor if is_linear else None
        divisor = factor if factor is not None else Fraction((factors or ())[pair])
    with mpmath.workprec(_MPMATH_BITS):
        base = mpmath.mpf(config.rope_theta.numerator) / config.rope_theta.denominator
        exponent = -mpmath.mpf(2 * pair) / config.rotary_dim
        angle = base**exponent * divisor.denominator / divisor.numerator
        unit = mpmath.mpf(2) ** _WORK_BITS
        return int(mpmath.nint(mpmath.cos(angle) * unit)), int(
            mpmath.nint(mpmath.sin(angle) * unit)
        )


def _rotations(cos_step: int, sin_step: int, count: int) -> tuple[list[int], list[int]]:
    cos, sin = 1 << _WORK_BITS, 0
    drop = _WORK_BITS - _TABLE_BITS
    half = 1 << (drop - 1)
    all_cos, all_sin = [], []
    for _ in range(count):
        all_cos.append((cos + half) >> drop)
        all_sin.append((sin + half) >> drop)
        cos, sin = (
            (cos * cos_step - sin * sin_step) >> _WORK_BITS,
            (sin * cos_step + cos * sin_step) >> _WORK_BITS,
        )
    return all_cos, all_sin
