"""SHA-256 of large blocks of memory."""

from collections.abc import Iterable
from typing import Final

from sslm.hashes import Sha256

_PIECE_SIZE_BYTES: Final = 1 << 16
_HASH_SIZE_BYTES: Final = 32

Bytes = bytes | bytearray | memoryview


def sha256_of(blocks: Iterable[Bytes]) -> bytes:
    """Hash blocks that come straight from memory, one after the other.

    The copies of a few pages stay in the processor's cache. The hash waits for each line of memory
    where a copy fetches ahead: hashing the copies takes two thirds of the time.
    """
    digest = Sha256()
    for block in blocks:
        view = memoryview(block)
        for start in range(0, view.nbytes, _PIECE_SIZE_BYTES):
            digest.update(bytes(view[start : start + _PIECE_SIZE_BYTES]))
    return digest.digest()


def hash_without(view: memoryview, hash_offset_bytes: int) -> bytes:
    """Hash a blob that holds its own hash, as if that were zeros."""
    end = hash_offset_bytes + _HASH_SIZE_BYTES
    return sha256_of([view[:hash_offset_bytes], bytes(_HASH_SIZE_BYTES), view[end:]])
