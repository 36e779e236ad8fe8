"""Static fraction bits of a model's int32 sites."""

from dataclasses import dataclass
from typing import Final

from sslm.errors.program import AccumulatorBoundError

FRACTION_BITS_MAX: Final = 30
"""Finer than this, an int32 could not hold the number 2."""

NORM_HEADROOM_BITS: Final = 6
"""A norm whose output is quantized has this many more fraction bits than its gains' exponent."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LayerFractionBits:
    """Fraction bits of one layer's projections, each 0 to 30."""

    q: int
    k: int
    v: int
    gate: int
    up: int

    def __post_init__(self) -> None:
        for site in ("q", "k", "v", "gate", "up"):
            _check(site, getattr(self, site))


@dataclass(frozen=True, slots=True, kw_only=True)
class FractionBits:
    """Fraction bits of the residual stream, 0 to 30, and of each layer's projections.

    Chosen at conversion from the largest values seen on the calibration text; see
    docs/arithmetic.md, "Conventions".
    """

    residual: int
    layers: tuple[LayerFractionBits, ...]

    def __post_init__(self) -> None:
        _check("residual", self.residual)


def _check(site: str, fraction_bits: int) -> None:
    if not 0 <= fraction_bits <= FRACTION_BITS_MAX:
        raise AccumulatorBoundError(
            "fraction bits", f"those of {site}", fraction_bits, 0, FRACTION_BITS_MAX
        )
