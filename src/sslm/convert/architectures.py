"""How GGUF spells each architecture.

Keys and names are those of its specification (ggml, docs/gguf.md).
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from sslm.model.config import RopePairing


@dataclass(frozen=True, slots=True, kw_only=True)
class ArchitectureNames:
    """How GGUF spells one architecture.

    Args:
        architecture: Value of ``general.architecture``, and prefix of its keys.
        rope_pairing: The order of a head's rows in its files.
        model: Canonical name of a tensor outside the layers -> its GGUF name without the ending.
        layer: Canonical name after ``layers.N.`` -> GGUF name after ``blk.N.``, likewise.
    """

    architecture: str
    rope_pairing: RopePairing
    model: Mapping[str, str]
    layer: Mapping[str, str]

    def gguf_name(self, name: str) -> str:
        """Return what GGUF calls the weight of this canonical name."""
        ending = ".bias" if name.endswith(".bias") else ".weight"
        stem = name.removesuffix(".bias")
        if not stem.startswith("layers."):
            return self.model[stem] + ending
        _, layer, stem = stem.split(".", 2)
        return f"blk.{layer}.{self.layer[stem]}{ending}"


_MODEL_NAMES: Final = {
    "embed": "token_embd",
    "rope_factors": "rope_freqs",
    "final_norm": "output_norm",
    "lm_head": "output",
}
_LAYER_NAMES: Final = {
    "input_layernorm": "attn_norm",
    "q_proj": "attn_q",
    "k_proj": "attn_k",
    "v_proj": "attn_v",
    "o_proj": "attn_output",
    "post_attention_layernorm": "ffn_norm",
    "gate_proj": "ffn_gate",
    "up_proj": "ffn_up",
    "down_proj": "ffn_down",
}

ARCHITECTURES: Final = {
    "llama": ArchitectureNames(
        architecture="llama",
        rope_pairing=RopePairing.INTERLEAVED,
        model=_MODEL_NAMES,
        layer=_LAYER_NAMES,
    ),
}
"""Every architecture that can be read, by its GGUF name."""
