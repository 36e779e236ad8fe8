"""SHA-256 whose lack of memory is a MemoryError."""

import hashlib

Bytes = bytes | bytearray | memoryview


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
