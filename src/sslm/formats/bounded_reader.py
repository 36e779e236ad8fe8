"""The one place that slices a foreign buffer."""

import struct
from typing import Final

from sslm.errors.reading import FieldError
from sslm.errors.status import Status

U8_MAX: Final = (1 << 8) - 1
U16_MAX: Final = (1 << 16) - 1
U32_MAX: Final = (1 << 32) - 1
U64_MAX: Final = (1 << 64) - 1

_ZERO_SCAN_BYTES: Final = 1 << 16


class BoundedReader:
    """A cursor over little-endian bytes that come from somebody else.

    Every read has a name, for the error, and a limit that is checked before the value is used.
    Nothing is copied unless the method says so, and nothing is allocated for a count or a length
    that the remaining bytes could not hold.

    Args:
        buffer: One-dimensional contiguous bytes.
        base_offset_bytes: Where *buffer* starts in its file; errors state positions in the file.
    """

    def __init__(self, buffer: memoryview, *, base_offset_bytes: int = 0) -> None:
        self._buffer = buffer.cast("B") if buffer.format != "B" else buffer
        self._size_bytes = buffer.nbytes
        self._base = base_offset_bytes
        self._position = 0
        self._claims: list[tuple[int, int, str]] = []

    @property
    def size_bytes(self) -> int:
        """Size of the whole buffer."""
        return self._size_bytes

    @property
    def position(self) -> int:
        """Offset in the buffer of the next byte to be read."""
        return self._position

    @property
    def remaining_bytes(self) -> int:
        """Bytes from the position to the end of the buffer."""
        return self._size_bytes - self._position

    # Numbers.

    def u8(self, name: str, *, at_most: int, at_least: int = 0) -> int:
        """Read one byte as an unsigned number from *at_least* to *at_most*."""
        return self._integer(name, "<B", at_least=at_least, at_most=at_most)

    def u16(self, name: str, *, at_most: int, at_least: int = 0) -> int:
        """Read two bytes as an unsigned number from *at_least* to *at_most*."""
        return self._integer(name, "<H", at_least=at_least, at_most=at_most)

    def u32(self, name: str, *, at_most: int, at_least: int = 0) -> int:
        """Read four bytes as an unsigned number from *at_least* to *at_most*."""
        return self._integer(name, "<I", at_least=at_least, at_most=at_most)

    def u64(self, name: str, *, at_most: int, at_least: int = 0) -> int:
        """Read eight bytes as an unsigned number from *at_least* to *at_most*."""
        return self._integer(name, "<Q", at_least=at_least, at_most=at_most)

    def i32(self, name: str, *, at_least: int, at_most: int) -> int:
        """Read four bytes as a signed number from *at_least* to *at_most*."""
        return self._integer(name, "<i", at_least=at_least, at_most=at_most)

    def i64(self, name: str, *, at_least: int, at_most: int) -> int:
        """Read eight bytes as a signed number from *at_least* to *at_most*."""
        return self._integer(name, "<q", at_least=at_least, at_most=at_most)

    def number(self, name: str, code: str) -> int | float:
        """Read any number of the type that *code* stands for in :mod:`struct`, as ``"i"``."""
        layout = f"<{code}"
        data = self.take(name, size_bytes=struct.calcsize(layout))
        value: int | float = struct.unpack(layout, data)[0]
        return value

    def count_u64(self, name: str, *, at_most: int, item_size_bytes: int) -> int:
        """Read a 64-bit count of items that follow, of at least *item_size_bytes* each.

        Raises:
            FieldError: If the count is above *at_most*.
            FieldError: If the remaining bytes cannot hold so many items.
        """
        count = self.u64(name, at_most=at_most)
        self._require(name, self._position, count * item_size_bytes)
        return count

    # Runs of bytes.

    def take(self, name: str, *, size_bytes: int) -> memoryview:
        """Return a view of the next *size_bytes* bytes; step over them."""
        start = self._position
        self._require(name, start, size_bytes)
        self._position = start + size_bytes
        return self._buffer[start : self._position]

    def span(self, name: str, *, offset_bytes: int, size_bytes: int) -> memoryview:
        """Return a view of *size_bytes* bytes at *offset_bytes*; the position stays."""
        self._require(name, offset_bytes, size_bytes)
        return self._buffer[offset_bytes : offset_bytes + size_bytes]

    def sub_reader(self, name: str, *, offset_bytes: int, size_bytes: int) -> "BoundedReader":
        """Return a reader over a span alone, whose errors still state positions in the file."""
        view = self.span(name, offset_bytes=offset_bytes, size_bytes=size_bytes)
        return BoundedReader(view, base_offset_bytes=self._base + offset_bytes)

    # Text.

    def utf8(self, name: str, *, at_most: int) -> str:
        """Read a 64-bit length of at most *at_most* bytes, then so many bytes of UTF-8."""
        size_bytes = self.u64(f"length of {name}", at_most=at_most)
        return self.utf8_of(name, size_bytes=size_bytes)

    def utf8_of(self, name: str, *, size_bytes: int) -> str:
        """Decode the next *size_bytes* bytes, a length that is already checked, as UTF-8."""
        start = self._position
        try:
            return str(self.take(name, size_bytes=size_bytes), "utf-8")
        except UnicodeDecodeError as error:
            raise FieldError(
                Status.BAD_UTF8,
                field=name,
                offset_bytes=self._base + start + error.start,
                reason=error.reason,
            ) from error

    def utf8_array(
        self, name: str, *, count: int, at_most: int, total_at_most: int
    ) -> tuple[str, ...]:
        """Read *count* strings, each as :meth:`utf8` does.

        Args:
            name: Of the array; errors add the index.
            count: Number of strings.
            at_most: Bytes of one string.
            total_at_most: Bytes of all of them, lengths included.
        """
        self._require(name, self._position, 8 * count)
        buffer, end = self._buffer, self._size_bytes
        length_at = struct.Struct("<Q").unpack_from
        start, stop = self._position, min(end, self._position + total_at_most)
        found: list[str] = []
        for index in range(count):
            text_start = start + 8
            if text_start <= stop:
                text_end = text_start + length_at(buffer, start)[0]
                if text_end <= stop and text_end - text_start <= at_most:
                    try:
                        found.append(str(buffer[text_start:text_end], "utf-8"))
                    except UnicodeDecodeError as error:
                        where = self._base + text_start + error.start
                        raise FieldError(
                            Status.BAD_UTF8,
                            field=f"{name}[{index}]",
                            offset_bytes=where,
                            reason=error.reason,
                        ) from error
                    start = text_end
                    continue
            # The ordinary read names what is wrong, except for the sum, which only this loop knows.
            item = f"{name}[{index}]"
            array_start, self._position = self._position, start
            self.utf8(item, at_most=at_most)
            size_bytes = self._position - array_start
            raise FieldError(
                Status.FIELD_TOO_LARGE,
                field=f"size of {name}",
                offset_bytes=self._base + array_start,
                found=size_bytes,
                at_most=total_at_most,
            )
        self._position = start
        return tuple(found)

    # Positions.

    def seek(self, name: str, *, offset_bytes: int) -> None:
        """Go on reading at *offset_bytes*."""
        self._require(name, offset_bytes, 0)
        self._position = offset_bytes

    def zero_padding(self, name: str, *, alignment_bytes: int) -> None:
        """Step to the next multiple of *alignment_bytes* over bytes that must be zero."""
        size_bytes = -self._position % alignment_bytes
        offset = self._position
        self.take(name, size_bytes=size_bytes)
        self._require_zeros(name, offset, offset + size_bytes)

    def require_zeros(self, name: str, *, offset_bytes: int, size_bytes: int) -> None:
        """Raise FieldError if a byte of the span is not zero; the position stays."""
        self._require(name, offset_bytes, size_bytes)
        self._require_zeros(name, offset_bytes, offset_bytes + size_bytes)

    def require_aligned(self, name: str, *, offset_bytes: int, alignment_bytes: int) -> None:
        """Raise FieldError unless the offset is a multiple of *alignment_bytes*."""
        if offset_bytes % alignment_bytes:
            raise FieldError(
                Status.MISALIGNED_OFFSET,
                field=name,
                offset_bytes=self._base + offset_bytes,
                alignment_bytes=alignment_bytes,
            )

    def require_end(self, name: str) -> None:
        """Raise FieldError if bytes follow the position."""
        if self.remaining_bytes:
            raise FieldError(
                Status.TRAILING_BYTES,
                field=name,
                offset_bytes=self._base + self._position,
                extra_bytes=self.remaining_bytes,
            )

    # Claims.

    def claim(self, name: str, *, offset_bytes: int, size_bytes: int) -> memoryview:
        """Return a span as :meth:`span` does, and note that it belongs to *name* alone."""
        view = self.span(name, offset_bytes=offset_bytes, size_bytes=size_bytes)
        self._claims.append((offset_bytes, offset_bytes + size_bytes, name))
        return view

    def require_disjoint_claims(self) -> None:
        """Raise FieldError if two claims share a byte."""
        reach, owner = 0, ""
        for start, end, name in sorted(claim for claim in self._claims if claim[0] < claim[1]):
            if start < reach:
                raise FieldError(
                    Status.OVERLAPPING_BYTES,
                    first=owner,
                    second=name,
                    offset_bytes=self._base + start,
                )
            reach, owner = end, name

    def require_zero_unclaimed(self, name: str) -> None:
        """Raise FieldError if a byte that nobody claimed is not zero."""
        reach = 0
        for start, end, _ in sorted(self._claims):
            self._require_zeros(name, reach, start)
            reach = max(reach, end)
        self._require_zeros(name, reach, self._size_bytes)

    def _integer(self, name: str, layout: str, *, at_least: int, at_most: int) -> int:
        start = self._position
        data = self.take(name, size_bytes=struct.calcsize(layout))
        value: int = struct.unpack(layout, data)[0]
        if value > at_most:
            raise FieldError(
                Status.FIELD_TOO_LARGE,
                field=name,
                offset_bytes=self._base + start,
                found=value,
                at_most=at_most,
            )
        if value < at_least:
            raise FieldError(
                Status.FIELD_TOO_SMALL,
                field=name,
                offset_bytes=self._base + start,
                found=value,
                at_least=at_least,
            )
        return value

    def _require(self, name: str, offset_bytes: int, size_bytes: int) -> None:
        """Raise FieldError unless the buffer holds the given bytes."""
        assert offset_bytes >= 0
        assert size_bytes >= 0
        if offset_bytes + size_bytes > self._size_bytes:
            available = max(0, self._size_bytes - offset_bytes)
            raise FieldError(
                Status.TRUNCATED_FILE,
                field=name,
                offset_bytes=self._base + offset_bytes,
                wanted_bytes=size_bytes,
                available_bytes=available,
            )

    def _require_zeros(self, name: str, start: int, end: int) -> None:
        """Raise FieldError at the first byte of ``[start, end)`` that is not zero."""
        for at in range(start, end, _ZERO_SCAN_BYTES):
            part = bytes(self._buffer[at : min(end, at + _ZERO_SCAN_BYTES)])
            rest = part.lstrip(b"\0")
            if rest:
                where = self._base + at + len(part) - len(rest)
                raise FieldError(
                    Status.NON_ZERO_PADDING, field=name, offset_bytes=where, found=rest[0]
                )
