"""Which matrices get which width."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from sslm.errors.program import AccumulatorBoundError
from sslm.errors.runtime import OptionRangeError
from sslm.limits import INT4_COLUMNS_MAX
from sslm.model.config import ModelConfig
from sslm.model.families import weight_shapes
from sslm.program.tensors import Encoding

WEIGHT_FORMATS: Final = {"int8": Encoding.PANEL_INT8, "int4": Encoding.PANEL_INT4}
"""By the name that options give them."""


@dataclass(frozen=True, slots=True)
class WeightFormats:
    """Formats by name, for the layers and for the vocabulary.

    Args:
        layers: Of the matrices of all layers.
        head: Of the embedding and the output projection, which may be one tensor.

    Raises:
        OptionRangeError: If a name is not one of ``WEIGHT_FORMATS``.
    """

    layers: str = "int8"
    head: str = "int8"

    def __post_init__(self) -> None:
        for option, name in (("weights", self.layers), ("head_weights", self.head)):
            if name not in WEIGHT_FORMATS:
                raise OptionRangeError(option, repr(name), " or ".join(WEIGHT_FORMATS))

    def encoding(self, name: str) -> Encoding:
        """Return the encoding of a matrix, by canonical name."""
        return WEIGHT_FORMATS[self.head if name in ("embed", "lm_head") else self.layers]

    def is_int4(self, name: str) -> bool:
        """Tell whether a matrix, by canonical name, gets four bits."""
        return self.encoding(name) is Encoding.PANEL_INT4

    @property
    def is_any_int4(self) -> bool:
        """Whether some matrix has four bits."""
        return "int4" in (self.layers, self.head)

    def options(self) -> dict[str, str]:
        """Return what an artifact's provenance says of it; int8 throughout is the plain case."""
        if not self.is_any_int4:
            return {"weights": self.layers}
        return {"weights": self.layers, "head_weights": self.head}

    def check_columns(
        self, config: ModelConfig, name_in_file: Callable[[str], str] = lambda name: name
    ) -> None:
        """Raise before any work if a matrix is too wide for its format.

        Args:
            config: Of the model.
            name_in_file: Says what its file calls a matrix of a canonical name.

        Raises:
            AccumulatorBoundError: If an int4 matrix has more columns than sums are proven for.
        """
        for name, shape in weight_shapes(config).items():
            if len(shape) == 2 and self.is_int4(name) and shape[1] > INT4_COLUMNS_MAX:
                what = "the columns of int4 weights"
                raise AccumulatorBoundError(name_in_file(name), what, shape[1], 1, INT4_COLUMNS_MAX)


INT8_WEIGHTS: Final = WeightFormats()
