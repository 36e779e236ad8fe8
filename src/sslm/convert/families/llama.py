"""The llama family in source files."""

from typing import Final

from sslm.convert.families.source_family import SourceFamily
from sslm.convert.float_reference import FloatReference
from sslm.model.config import RopePairing

LLAMA: Final = SourceFamily(
    name="llama",
    rope_pairing=RopePairing.INTERLEAVED,
    model={
        "embed": "token_embd",
        "rope_factors": "rope_freqs",
        "final_norm": "output_norm",
        "lm_head": "output",
    },
    layer={
        "input_layernorm": "attn_norm",
        "q_proj": "attn_q",
        "k_proj": "attn_k",
        "v_proj": "attn_v",
        "o_proj": "attn_output",
        "post_attention_layernorm": "ffn_norm",
        "gate_proj": "ffn_gate",
        "up_proj": "ffn_up",
        "down_proj": "ffn_down",
    },
    inputs={
        "q_proj": "attention",
        "k_proj": "attention",
        "v_proj": "attention",
        "o_proj": "mixed",
        "gate_proj": "mlp",
        "up_proj": "mlp",
        "down_proj": "gated",
    },
    divided={
        "input_layernorm": "attention",
        "post_attention_layernorm": "mlp",
        "v_proj": "mixed",
        "v_proj.bias": "mixed",
        "up_proj": "gated",
        "up_proj.bias": "gated",
    },
    float_pass=FloatReference,
)
