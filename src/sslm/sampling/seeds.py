"""Seeds of one answer of many, with which a lone run gives the same one."""

import struct
from typing import Final

from sslm.hashes import Sha256

DEFAULT_SEED: Final = 0
"""The seed of a request that names none; it is reported like any other."""


def answer_seed(seed: int, index: int) -> int:
    """Return the seed of one of several answers to one prompt.

    Args:
        seed: Of the request, 0 … ``limits.SEED_MAX``.
        index: Of the answer, from 0; the first one has the request's own seed.

    Returns:
        A number of 64 bits.
    """
    if index == 0:
        return seed
    return _seed_of(b"sslm answer seed\0" + struct.pack("<QI", seed, index))


def row_seed(seed: int, row_id: str) -> int:
    """Return the seed of one row of many, which does not depend on where the row stands.

    Args:
        seed: Of all rows, 0 … ``limits.SEED_MAX``.
        row_id: Names the row; a text without lone surrogates.

    Returns:
        A number of 64 bits.
    """
    return _seed_of(b"sslm row seed\0" + struct.pack("<Q", seed) + row_id.encode("utf-8"))


def _seed_of(message: bytes) -> int:
    return int.from_bytes(Sha256(message).digest()[:8], "little")
