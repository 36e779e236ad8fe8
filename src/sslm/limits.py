"""Every hard bound, with its unit and the reason for its value."""

from typing import Final

CONTEXT_TOKENS_MAX: Final = 1 << 20
"""Positions of one sequence. Attention's sums are proven up to this many keys."""

VOCAB_SIZE_MAX: Final = 1 << 20
"""Token ids. Four times the largest vocabulary in use."""

HIDDEN_SIZE_MAX: Final = 1 << 16
"""Width of a row: RMSNorm's sum of squares stays below 2**46, and a linear sum in 64 bits."""

LAYER_COUNT_MAX: Final = 512
"""Transformer layers of one model."""

HEAD_COUNT_MAX: Final = 1024
"""Attention heads of one layer."""

HEAD_DIM_MAX: Final = 256
"""Width of one head: a query plane times a key stays in 32 bits."""
