"""A model in a GGUF file, as a configuration with float32 weights under canonical names.

What llama.cpp computes for a file is what the file means.
"""

import os
from typing import Final, Self

import numpy as np
import numpy.typing as npt

from sslm import limits
from sslm.closing import Closing
from sslm.convert.families.registry import source_family
from sslm.convert.families.source_family import SourceFamily
from sslm.convert.source_config import config_from_gguf
from sslm.errors.gguf import GgufError
from sslm.errors.model import (
    ModelNumberError,
    SourceTensorMissingError,
    SourceTensorShapeError,
    SourceTensorUnexpectedError,
)
from sslm.errors.status import Status
from sslm.formats.bounded_reader import U16_MAX
from sslm.formats.gguf.file import GgufFile, GgufTensor, read_gguf
from sslm.formats.gguf.metadata import GgufMetadata
from sslm.formats.gguf.tensors import dequantize, dequantize_rows
from sslm.model.config import ModelConfig
from sslm.model.families import weight_shapes

Float32Array = npt.NDArray[np.float32]

_ARCHITECTURE_KEY: Final = "general.architecture"
_SPLIT_COUNT_KEY: Final = "split.count"


class GgufModelSource(Closing):
    """An open GGUF file whose model is known to be complete; a context manager.

    Args:
        file: A file of one of ``SOURCE_FAMILIES``. Closing the source closes it.

    Attributes:
        file: The records, for what is not a weight: tokenizer, chat template, provenance.
        family: What conversion knows of models like it.
        config: The model's configuration.

    Raises:
        GgufError: If the file is one of several that hold the model together.
        UnsupportedArchitectureError: If the architecture is not known.
        MixtureOfExpertsError: If the model has experts.
        UnsupportedHyperparameterError: If a key asks for a variant that is not computed.
        UnsupportedRopeScalingError: If positions are stretched in a way that is not computed.
        SourceTensorMissingError: If a tensor is missing.
        SourceTensorShapeError: If a tensor has another shape than the configuration implies.
        SourceTensorUnexpectedError: If a tensor is left over.
        ArtifactError: Of another class, if a key is missing, mistyped or out of bounds.
    """

    def __init__(self, file: GgufFile) -> None:
        _refuse_split_file(file.metadata)
        architecture = file.metadata.string(_ARCHITECTURE_KEY, at_most=64)
        self.family = source_family(architecture)
        self.file = file
        self.config = config_from_gguf(file, self.family)
        self._shapes = weight_shapes(self.config)
        self._tensors = _checked_tensors(file, self.family, self.config)
        if "rope_factors" in self._tensors:
            _check_rope_factors(self.tensor("rope_factors"))

    @classmethod
    def open(cls, path: str | os.PathLike[str]) -> Self:
        """Open a file by path; raises what ``read_gguf`` and the constructor raise."""
        file = read_gguf(path)
        try:
            return cls(file)
        except BaseException:
            file.close()
            raise

    def tensor(self, name: str) -> Float32Array:
        """Return a new array with a whole weight, float32, in the shape of ``weight_shapes``.

        A bias that the file leaves out is zero, which adds nothing, where another projection has
        one: llama.cpp asks for each bias on its own.

        Raises:
            GgufError: If its type cannot be dequantized, or an element is infinite or not a number.
        """
        if name not in self._tensors:
            return np.zeros(self._shapes[name], np.float32)
        return dequantize(self._tensors[name])

    def name_in_file(self, name: str) -> str:
        """Return what the file calls a weight of this canonical name."""
        return self.family.gguf_name(name)

    def largest_weight(self) -> tuple[str, tuple[int, ...], float]:
        """Return the weight of the largest magnitude: its tensor's name in the file, index, value.

        Raises as :meth:`tensor` does. All weights are read for it.
        """
        best: tuple[str, tuple[int, ...], float] = ("", (), 0.0)
        for tensor in self._tensors.values():
            weights = dequantize(tensor)
            index = tuple(int(i) for i in np.unravel_index(np.abs(weights).argmax(), weights.shape))
            found = float(weights[index])
            if abs(found) > abs(best[2]):
                best = (tensor.name, index, found)
        return best

    def rows(self, name: str, *, first_row: int, row_count: int) -> Float32Array:
        """Return rows of a weight, float32 [row_count, columns]; raises as :meth:`tensor` does."""
        return dequantize_rows(self._tensors[name], first_row=first_row, row_count=row_count)

    def close(self) -> None:
        """Give the file back; may be called again."""
        self.file.close()


def _refuse_split_file(metadata: GgufMetadata) -> None:
    """Raise GgufError for a part of a model; parts but the first name no architecture."""
    count = metadata.u16_or(_SPLIT_COUNT_KEY, 1, at_most=U16_MAX)
    if count > 1:
        raise GgufError(Status.GGUF_SPLIT_FILE, count=count)


def _checked_tensors(
    file: GgufFile, family: SourceFamily, config: ModelConfig
) -> dict[str, GgufTensor]:
    """Return the file's tensors by canonical name: all of the model's but biases, and no other."""
    found: dict[str, GgufTensor] = {}
    for name, shape in weight_shapes(config).items():
        gguf_name = family.gguf_name(name)
        if gguf_name not in file.tensors:
            if name.endswith(".bias"):
                continue
            raise SourceTensorMissingError(gguf_name, shape)
        tensor = file.tensors[gguf_name]
        if tensor.shape != shape:
            raise SourceTensorShapeError(gguf_name, tensor.shape, shape)
        found[name] = tensor
    left_over = set(file.tensors) - {tensor.name for tensor in found.values()}
    if left_over:
        raise SourceTensorUnexpectedError(min(left_over), family.name)
    return found


def _check_rope_factors(factors: Float32Array) -> None:
    for index, factor in enumerate(factors.tolist()):
        if not 0 < factor <= limits.ROPE_FACTOR_MAX:
            expected = f"above 0, at most {limits.ROPE_FACTOR_MAX}"
            raise ModelNumberError(f"rope_freqs.weight[{index}]", str(factor), expected)
