"""Random bits that a seed gives for a position: Philox4x32-10 (docs/arithmetic.md, "Choosing").

Salmon, Moraes, Dror, Shaw: "Parallel random numbers: as easy as 1, 2, 3" (SC 2011).
"""

from typing import Final

_MULTIPLIERS: Final = (0xD2511F53, 0xCD9E8D57)
_KEY_STEPS: Final = (0x9E3779B9, 0xBB67AE85)
_ROUNDS: Final = 10
_MASK: Final = 0xFFFF_FFFF

Words = tuple[int, int, int, int]


def philox(counter: Words, key: tuple[int, int]) -> Words:
    """Return four words of 32 bits for a counter of four and a key of two."""
    for number in range(_ROUNDS):
        first, second = (key[i] + number * _KEY_STEPS[i] & _MASK for i in range(2))
        left, right = _MULTIPLIERS[0] * counter[0], _MULTIPLIERS[1] * counter[2]
        counter = (
            right >> 32 ^ counter[1] ^ first,
            right & _MASK,
            left >> 32 ^ counter[3] ^ second,
            left & _MASK,
        )
    return counter


def random_bits(seed: int, position: int) -> int:
    """Return the 64 bits that choose the token of a position.

    Args:
        seed: 0 … 2**64 - 1.
        position: 0 … 2**32 - 1.
    """
    low, high, _, _ = philox((position, 0, 0, 0), (seed & _MASK, seed >> 32))
    return low | high << 32
