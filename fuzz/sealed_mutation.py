"""Mutations of blobs that state their size and hash, as whoever spoils one would state them."""

import struct
from collections.abc import Callable, Sequence

from tests.saves import HASH_SLICE, resize_save

from fuzz.choices import Choices
from fuzz.patches import overwritten
from fuzz.target import ByteMutator


def sealed_mutation(
    seeds: Callable[[], Sequence[bytes]],
    data: bytes,
    size_bytes_max: int,
    seed: int,
    mutated: ByteMutator,
) -> bytes:
    """Overwrite bytes of a blob, mostly of a sound one, or change it in any way; then seal it.

    Args:
        seeds: Sound ones.
        data: The input that is to change.
        size_bytes_max: Of the result.
        seed: Of the mutation.
        mutated: libFuzzer's own mutation.
    """
    choices = Choices(struct.pack("<I", seed) * 16)
    if choices.below(4) == 0:
        data = choices.pick(seeds())
    is_kept = choices.below(4) > 0
    return sealed(overwritten(data, choices) if is_kept else mutated(data, size_bytes_max))


def sealed(data: bytes) -> bytes:
    """Return a blob with the size and hash that it has; one without a header stays as it is."""
    return resize_save(data) if len(data) >= HASH_SLICE.stop else data
