"""How fast a model runs here, and what bounds it; times are floats, outside the promise of bits."""

from sslm.bench.cases import LENGTHS, Case, FittedCases, Kind, all_cases, fit_cases
from sslm.bench.measuring import Measurement, measure

__all__ = [
    "LENGTHS",
    "Case",
    "FittedCases",
    "Kind",
    "Measurement",
    "all_cases",
    "fit_cases",
    "measure",
]
