"""SHA-256 whose lack of memory is a MemoryError."""

import hashlib
from collections.abc import Iterable
from typing import Final

Bytes = bytes | bytearray | memoryview

_PIECE_SIZE_BYTES: Final = 1 << 16
_HASH_SIZE_BYTES: Final = 32


class Sha256:
    """The hash of :mod:`hashlib`, which says ValueError where OpenSSL finds no memory.

    Args:
        data: What is hashed first.
    """

    __slots__ = ("_hash",)

    def __init__(self, data: Bytes = b"") -> None:
        try:
            self._hash = hashlib.sha256(data)
        except ValueError as error:
            raise MemoryError(*error.args) from error

    def update(self, data: Bytes) -> None:
        """Hash more bytes, behind those before."""
        self._hash.update(data)

    def digest(self) -> bytes:
        """Return the 32 bytes of the hash so far."""
        try:
            return self._hash.digest()
        except ValueError as error:
            raise MemoryError(*error.args) from error

    def hexdigest(self) -> str:
        """Return the hash so far, as ``sha256sum`` prints it."""
        return self.digest().hex()

    def copy(self) -> "Sha256":
        """Return a hash that goes on from here by itself."""
        copy = Sha256()
        try:
            copy._hash = self._hash.copy()
        except ValueError as error:
            raise MemoryError(*error.args) from error
        return copy


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
