"""Masks of a compiled schema, kept small, as most differ little; see docs/format.md, 16."""

from enum import IntEnum

from sslm.errors.schema_files import SchemaMaskError
from sslm.formats.whole_numbers import encode_numbers

_BITS = {1 << bit: bit for bit in range(8)}


class MaskForm(IntEnum):
    """How a mask is spelled."""

    DENSE = 0
    """As it is: a bit for each token id."""
    IDS = 1
    """The ids that it allows."""
    DIFFERENCES = 2
    """The ids in which it differs from the mask before."""


def mask_size_bytes(vocab_size: int) -> int:
    """Return the bytes of a mask: 32-bit words with a bit for each id."""
    return (vocab_size + 31) // 32 * 4


def mask_order(mask: bytes) -> tuple[int, bytes]:
    """Return what masks are sorted by: those that allow most come first."""
    return -int.from_bytes(mask, "little").bit_count(), mask


def encode_masks(masks: tuple[bytes, ...]) -> bytes:
    """Return the one spelling of different masks in ascending order of :func:`mask_order`."""
    pieces = []
    before = bytes(len(masks[0])) if masks else b""
    for mask in masks:
        form, ids = _sparse(mask, before)
        run = _encode_ids(ids)
        pieces += [b"\0", mask] if len(run) >= len(mask) else [bytes([form]), run]
        before = mask
    return b"".join(pieces)


def read_masks(data: memoryview, *, count: int, vocab_size: int) -> tuple[bytes, ...]:
    """Return masks.

    Args:
        data: All of their bytes.
        count: Their number, which the caller has bounded.
        vocab_size: Ids are below it.

    Raises:
        SchemaMaskError: If one is not spelled as it has to be, allows ids beyond the vocabulary, or
            is not in its place in the order; or if bytes are left.
    """
    reader = _MaskReader(bytes(data), vocab_size)
    masks: list[bytes] = []
    before = bytes(reader.size_bytes)
    last = (-vocab_size - 1, b"")
    for index in range(count):
        mask = reader.mask(index, before)
        order = mask_order(mask)
        if order <= last:
            raise SchemaMaskError(index, "is not in its place in the order of masks")
        masks.append(mask)
        before, last = mask, order
    if reader.at != len(data):
        raise SchemaMaskError(count, f"is not there, but {len(data) - reader.at} more bytes are")
    return tuple(masks)


class _MaskReader:
    def __init__(self, data: bytes, vocab_size: int) -> None:
        self.at = 0
        self.size_bytes = mask_size_bytes(vocab_size)
        self._data = data
        self._vocab_size = vocab_size

    def mask(self, index: int, before: bytes) -> bytes:
        """Return the next mask, which is spelled as the writer spells it."""
        if self.at == len(self._data):
            raise SchemaMaskError(index, "is missing")
        start = self.at + 1
        form = self._data[self.at]
        if form not in MaskForm.__members__.values():
            raise SchemaMaskError(index, f"has the form {form}, which is unknown")
        self.at = start
        if form == MaskForm.DENSE:
            mask = self._dense(index)
        else:
            base = before if form == MaskForm.DIFFERENCES else bytes(self.size_bytes)
            mask = self._changed(index, base)
        shorter, ids = _sparse(mask, before)
        if form == MaskForm.DENSE:
            is_right = len(_encode_ids(ids)) >= self.size_bytes
        else:
            is_right = form == shorter and self.at - start < self.size_bytes
        if not is_right:
            raise SchemaMaskError(index, "is spelled longer than it need be")
        return mask

    def _dense(self, index: int) -> bytes:
        end = self.at + self.size_bytes
        mask = self._data[self.at : end]
        if end > len(self._data):
            raise SchemaMaskError(index, "is cut")
        if int.from_bytes(mask, "little") >> self._vocab_size:
            raise SchemaMaskError(index, "allows ids beyond the vocabulary")
        self.at = end
        return mask

    def _changed(self, index: int, base: bytes) -> bytes:
        mask = bytearray(base)
        next_id, most = 0, self._vocab_size
        for _ in range(self._number(index, most)):
            token_id = next_id + self._number(index, most)
            if token_id >= most:
                raise SchemaMaskError(index, "allows ids beyond the vocabulary")
            mask[token_id >> 3] ^= 1 << (token_id & 7)
            next_id = token_id + 1
        return bytes(mask)

    def _number(self, index: int, at_most: int) -> int:
        """Return a number as :func:`sslm.formats.whole_numbers.read_numbers` does."""
        data, number, shift = self._data, 0, 0
        while self.at < len(data):
            byte = data[self.at]
            self.at += 1
            number |= (byte & 127) << shift
            if byte < 128:
                if number > at_most or (shift and not byte):
                    break
                return number
            shift += 7
            if number > at_most:
                break
        raise SchemaMaskError(index, "is cut, or a number in it is not one that can be")


def _sparse(mask: bytes, before: bytes) -> tuple[MaskForm, bytes]:
    """Return the form with fewer ids, and a mask of these ids."""
    own = int.from_bytes(mask, "little")
    differences = own ^ int.from_bytes(before, "little")
    if own.bit_count() <= differences.bit_count():
        return MaskForm.IDS, mask
    return MaskForm.DIFFERENCES, differences.to_bytes(len(mask), "little")


def _encode_ids(ids: bytes) -> bytes:
    """Return how many ids a mask has, and for each how many are between it and the one before."""
    gaps = []
    next_id = 0
    for at, byte in enumerate(ids):
        rest = byte
        while rest:
            lowest = rest & -rest
            token_id = 8 * at + _BITS[lowest]
            gaps.append(token_id - next_id)
            next_id = token_id + 1
            rest ^= lowest
    return encode_numbers([len(gaps), *gaps])
