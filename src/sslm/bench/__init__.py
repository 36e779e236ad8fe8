"""How fast a model runs here, and what bounds it; times are floats, outside the promise of bits."""

from sslm.bench.cases import Case, Kind, all_cases
from sslm.bench.measuring import Measurement, measure

__all__ = ["Case", "Kind", "Measurement", "all_cases", "measure"]
