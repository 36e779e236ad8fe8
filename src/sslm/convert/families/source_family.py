"""What conversion knows of a family of models.

Keys and names of GGUF files are those of its specification (ggml, docs/gguf.md).
"""

from collections.abc import Mapping
from dataclasses import dataclass

from sslm.convert.float_reference import FloatReference
from sslm.model.config import RopePairing


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceFamily:
    """How source files spell a family, and how its weights go together.

    Args:
        name: Of the family in ``sslm.model.families``: in GGUF files the value of
            ``general.architecture`` and the prefix of keys.
        rope_pairing: The order of a head's rows in its files.
        model: Canonical name of a tensor outside the layers -> its GGUF name without the ending.
        layer: Canonical name after ``layers.N.`` -> GGUF name after ``blk.N.``, likewise.
        inputs: Matrix of a layer -> the input that it multiplies, which several may share.
        divided: Weight of a layer -> the input whose factors it gives up when a model is
            balanced: gains by element, matrices by row.
        float_pass: The same model in float32, which artifacts are scored against.
    """

    name: str
    rope_pairing: RopePairing
    model: Mapping[str, str]
    layer: Mapping[str, str]
    inputs: Mapping[str, str]
    divided: Mapping[str, str]
    float_pass: type[FloatReference]

    def gguf_name(self, name: str) -> str:
        """Return what GGUF calls the weight of this canonical name."""
        ending = ".bias" if name.endswith(".bias") else ".weight"
        stem = name.removesuffix(".bias")
        if not stem.startswith("layers."):
            return self.model[stem] + ending
        _, layer, stem = stem.split(".", 2)
        return f"blk.{layer}.{self.layer[stem]}{ending}"
