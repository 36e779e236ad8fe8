"""The published C interface: its calls, their causes of refusal, and those that come later.

``CALLS`` holds the functions that the interface declares, each with the causes for which it
refuses. Null handles are left out, since only a caller in C can pass one; so is the success that
all calls share. ``LATER`` says what each missing call or cause waits for.
"""

from typing import Final

CALLS: Final[dict[str, dict[str, tuple[str, ...]]]] = {
    "Model": {
        "sslm_model_map": ("SSLM_ARTIFACT_REJECTED", "SSLM_ALLOCATION_FAILED"),
        "sslm_model_unmap": ("SSLM_MODEL_HAS_LIVE_SEQUENCES",),
    },
    "Workspace": {
        "sslm_workspace_size": (),
        "sslm_workspace_create": (
            "SSLM_INVALID_ARGUMENT",
            "SSLM_BUFFER_TOO_SMALL",
            "SSLM_MISALIGNED_BUFFER",
            "SSLM_ALLOCATION_FAILED",
        ),
        "sslm_workspace_destroy": (),
        "sslm_workspace_set_parallel_for": ("SSLM_INVALID_ARGUMENT",),
    },
    "Pool of keys and values": {
        "sslm_kv_block_size": (),
        "sslm_kv_pool_overhead_size": (),
        "sslm_kv_pool_create": (
            "SSLM_INVALID_ARGUMENT",
            "SSLM_BUFFER_TOO_SMALL",
            "SSLM_MISALIGNED_BUFFER",
            "SSLM_ALLOCATION_FAILED",
        ),
        "sslm_kv_pool_destroy": ("SSLM_POOL_HAS_LIVE_HANDLES",),
    },
    "Prefix": {
        "sslm_prefix_begin": (
            "SSLM_INVALID_ARGUMENT",
            "SSLM_KV_POOL_EXHAUSTED",
            "SSLM_ALLOCATION_FAILED",
        ),
        "sslm_prefix_prefill": (
            "SSLM_PREFIX_FROZEN_REJECTED",
            "SSLM_TOKEN_ID_OUT_OF_RANGE",
            "SSLM_CONTEXT_CAP_EXCEEDED",
            "SSLM_KV_POOL_EXHAUSTED",
            "SSLM_SCHEMA_SPAN_UNBOUND",
            "SSLM_SCHEMA_SPAN_UNREACHABLE",
        ),
        "sslm_prefix_freeze": ("SSLM_INVALID_ARGUMENT",),
        "sslm_prefix_release": ("SSLM_INVALID_ARGUMENT",),
        "sslm_prefix_set_schema": ("SSLM_SCHEMA_BIND_REJECTED",),
    },
    "Sequence": {
        "sslm_seq_create": (
            "SSLM_INVALID_ARGUMENT",
            "SSLM_KV_POOL_EXHAUSTED",
            "SSLM_ALLOCATION_FAILED",
        ),
        "sslm_seq_release": ("SSLM_INVALID_ARGUMENT",),
        "sslm_seq_reset": ("SSLM_SEQ_RESET_MIDTOKEN_REJECTED",),
        "sslm_seq_adopt_prefix": (
            "SSLM_INVALID_ARGUMENT",
            "SSLM_CONTEXT_CAP_EXCEEDED",
            "SSLM_KV_POOL_EXHAUSTED",
            "SSLM_PREFIX_SCHEMA_MISMATCH",
        ),
        "sslm_seq_set_adapter": (
            "SSLM_ADAPTER_MODEL_MISMATCH",
            "SSLM_ADAPTER_SWAP_MIDTOKEN_REJECTED",
        ),
        "sslm_seq_set_schema": ("SSLM_SCHEMA_BIND_REJECTED",),
        "sslm_seq_schema_bound": (),
    },
    "Saving": {
        "sslm_seq_state_size": (),
        "sslm_seq_save": ("SSLM_BUFFER_TOO_SMALL",),
        "sslm_seq_restore": (
            "SSLM_INVALID_ARGUMENT",
            "SSLM_RESTORE_MODEL_MISMATCH",
            "SSLM_RESTORE_KV_MISMATCH",
            "SSLM_RESTORE_SCHEMA_MISMATCH",
            "SSLM_RESTORE_RESIDUAL_LOST",
            "SSLM_CONTEXT_CAP_EXCEEDED",
            "SSLM_KV_POOL_EXHAUSTED",
            "SSLM_ALLOCATION_FAILED",
        ),
    },
    "Computing": {
        "sslm_prefill": (
            "SSLM_INVALID_ARGUMENT",
            "SSLM_TOKEN_ID_OUT_OF_RANGE",
            "SSLM_CONTEXT_CAP_EXCEEDED",
            "SSLM_KV_POOL_EXHAUSTED",
            "SSLM_SCHEMA_SPAN_UNBOUND",
            "SSLM_SCHEMA_SPAN_UNREACHABLE",
        ),
        "sslm_decode_step": (
            "SSLM_INVALID_ARGUMENT",
            "SSLM_CONTEXT_CAP_EXCEEDED",
            "SSLM_KV_POOL_EXHAUSTED",
            "out_tokens -1",
            "out_tokens -2",
            "out_tokens -3",
        ),
        "sslm_decode_step_v2": ("SSLM_INVALID_ARGUMENT", "SSLM_NUMERIC_STEP_REFUSED"),
        "sslm_decode_params_init": ("SSLM_ARTIFACT_REJECTED",),
        "sslm_stats": (),
    },
    "Text": {
        "sslm_tokenize": ("SSLM_BUFFER_TOO_SMALL", "SSLM_ARTIFACT_REJECTED"),
        "sslm_detokenize_stream": ("SSLM_BUFFER_TOO_SMALL", "SSLM_TOKEN_ID_UNMAPPED"),
    },
    "Adapters": {
        "sslm_adapter_map": ("SSLM_ADAPTER_MODEL_MISMATCH", "SSLM_ARTIFACT_REJECTED"),
        "sslm_adapter_release": ("SSLM_ADAPTER_HAS_LIVE_SEQUENCES",),
        "sslm_adapter_residency": (),
    },
    "Schemas": {
        "sslm_schema_lookup": ("SSLM_SCHEMA_NOT_FOUND",),
        "sslm_schema_count": (),
        "sslm_schema_name": ("SSLM_BUFFER_TOO_SMALL",),
    },
    "Ahead of time": {"schema compiler": ("SSLM_SCHEMA_UNSATISFIABLE",)},
}
"""By subject: each call, and the causes for which it refuses.

What works ahead of time is no call of the interface, and has no ``sslm_`` in its name.
"""

CAUSES: Final = (
    "SSLM_INVALID_ARGUMENT",
    "SSLM_BUFFER_TOO_SMALL",
    "SSLM_MISALIGNED_BUFFER",
    "SSLM_ARTIFACT_REJECTED",
    "SSLM_ADAPTER_MODEL_MISMATCH",
    "SSLM_RESTORE_MODEL_MISMATCH",
    "SSLM_RESTORE_KV_MISMATCH",
    "SSLM_MODEL_HAS_LIVE_SEQUENCES",
    "SSLM_POOL_HAS_LIVE_HANDLES",
    "SSLM_ADAPTER_HAS_LIVE_SEQUENCES",
    "SSLM_ADAPTER_SWAP_MIDTOKEN_REJECTED",
    "SSLM_SEQ_RESET_MIDTOKEN_REJECTED",
    "SSLM_PREFIX_FROZEN_REJECTED",
    "SSLM_KV_POOL_EXHAUSTED",
    "SSLM_TOKEN_ID_OUT_OF_RANGE",
    "SSLM_CONTEXT_CAP_EXCEEDED",
    "SSLM_TOKEN_ID_UNMAPPED",
    "SSLM_SCHEMA_NOT_FOUND",
    "SSLM_SCHEMA_BIND_REJECTED",
    "SSLM_SCHEMA_SPAN_UNBOUND",
    "SSLM_PREFIX_SCHEMA_MISMATCH",
    "SSLM_RESTORE_SCHEMA_MISMATCH",
    "SSLM_SCHEMA_SPAN_UNREACHABLE",
    "SSLM_SCHEMA_UNSATISFIABLE",
    "SSLM_ALLOCATION_FAILED",
    "SSLM_NUMERIC_STEP_REFUSED",
    "SSLM_RESTORE_RESIDUAL_LOST",
    "SSLM_GPU_SHADER_BINARY_STALE",
)
"""Every cause of refusal that has a number there."""

_ADAPTERS: Final = "comes with adapters"
_C_ABI: Final = "comes with the C ABI, which alone has buffers of the caller's to fill"
_TEXT: Final = "comes with the C ABI; in Python it is `sslm.text`"
_DAMPED: Final = "comes with the C ABI, which alone fills a struct; in Python it is `Choice`"

LATER: Final[dict[str, str]] = {
    "sslm_seq_set_adapter": _ADAPTERS,
    "sslm_adapter_map": _ADAPTERS,
    "sslm_adapter_release": _ADAPTERS,
    "sslm_adapter_residency": _ADAPTERS,
    "SSLM_ADAPTER_MODEL_MISMATCH": _ADAPTERS,
    "SSLM_ADAPTER_HAS_LIVE_SEQUENCES": _ADAPTERS,
    "SSLM_ADAPTER_SWAP_MIDTOKEN_REJECTED": _ADAPTERS,
    "sslm_tokenize": _TEXT,
    "sslm_detokenize_stream": _TEXT,
    "sslm_seq_save SSLM_BUFFER_TOO_SMALL": _C_ABI,
    "sslm_schema_name SSLM_BUFFER_TOO_SMALL": _C_ABI,
    "SSLM_TOKEN_ID_UNMAPPED": _TEXT,
    "sslm_decode_params_init": _DAMPED,
    "SSLM_GPU_SHADER_BINARY_STALE": "comes with the GPU",
}
"""What is not covered yet, and why: calls, causes, or one call's cause."""
