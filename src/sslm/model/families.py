"""The families of models, each with its weights and its program.

``convert/families`` says under the same names how source files spell them.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, Protocol

from sslm.errors.model import UnsupportedArchitectureError
from sslm.model.config import ModelConfig
from sslm.model.fraction_bits import FractionBits
from sslm.model.llama import build_llama, llama_weight_shapes
from sslm.program.program import Program
from sslm.program.tensors import Tensors

WeightShapes = dict[str, tuple[int, ...]]


class Builder(Protocol):
    """Builds the program of a model."""

    def __call__(
        self,
        config: ModelConfig,
        fraction_bits: FractionBits,
        tensors: Tensors,
        *,
        padding_count: int = 0,
    ) -> Program:
        """Build it; see :func:`sslm.model.llama.build_llama`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Family:
    """Models that are computed alike.

    Args:
        name: As configurations have it: the architecture's name in GGUF.
        weight_shapes: Returns every weight by canonical name, with its shape, in a fixed order.
            A linear weight is [outputs, inputs]; the bias of ``NAME`` is ``NAME.bias``.
        build: Builds the program.
    """

    name: str
    weight_shapes: Callable[[ModelConfig], WeightShapes]
    build: Builder


FAMILIES: Final = {
    family.name: family
    for family in (Family(name="llama", weight_shapes=llama_weight_shapes, build=build_llama),)
}
"""Every family that has a program, by name."""


def family_named(name: str) -> Family:
    """Return the family of this name.

    Raises:
        UnsupportedArchitectureError: If there is none.
    """
    if name not in FAMILIES:
        raise UnsupportedArchitectureError(name, ", ".join(FAMILIES))
    return FAMILIES[name]


def weight_shapes(config: ModelConfig) -> WeightShapes:
    """Return the weights of a model; see :class:`Family`."""
    return family_named(config.architecture).weight_shapes(config)


def build_program(
    config: ModelConfig, fraction_bits: FractionBits, tensors: Tensors, *, padding_count: int = 0
) -> Program:
    """Build the program of a model, whatever its family; see :class:`Builder`."""
    family = family_named(config.architecture)
    return family.build(config, fraction_bits, tensors, padding_count=padding_count)
