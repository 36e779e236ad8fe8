"""Sets of bytes, as integers of 256 bits: bit *b* says whether byte *b* is in the set."""

from collections.abc import Iterable
from typing import Final

NO_BYTE: Final = 0
EVERY_BYTE: Final = (1 << 256) - 1


def byte_set(ranges: Iterable[tuple[int, int]]) -> int:
    """Return the set of all bytes in *ranges*: pairs of a first and a last byte."""
    found = NO_BYTE
    for low, high in ranges:
        found |= (1 << (high + 1)) - (1 << low)
    return found


def ranges_of(bytes_in: int) -> tuple[tuple[int, int], ...]:
    """Return the ranges of a set, ascending, as few as there can be."""
    found = []
    while bytes_in:
        low = (bytes_in & -bytes_in).bit_length() - 1
        shifted = bytes_in >> low
        count = (~shifted & -~shifted).bit_length() - 1
        found.append((low, low + count - 1))
        bytes_in = (shifted >> count) << (low + count)
    return tuple(found)


class ShapeTable:
    """All ways in which the bytes of a row are divided among its targets, each with a number.

    A row of an automaton is a *shape* and as many targets: the shape says which bytes lead to
    which target. Its sets are not empty and share no byte, and are ordered by their first byte.
    Few shapes serve many rows, and all that is done byte by byte is done once for a shape.
    """

    def __init__(self) -> None:
        self.sets: list[tuple[int, ...]] = []
        self._numbers: dict[tuple[int, ...], int] = {}
        self._crossings: dict[tuple[int, ...], list[tuple[int, tuple[int, ...]]]] = {}
        self.empty = self.shape(())

    def shape(self, sets: tuple[int, ...]) -> int:
        """Return the number of a shape, whose sets are in order."""
        number = self._numbers.setdefault(sets, len(self.sets))
        if number == len(self.sets):
            self.sets.append(sets)
        return number

    def row(self, pairs: Iterable[tuple[int, int]]) -> tuple[int, tuple[int, ...]]:
        """Return shape and targets of a row.

        Args:
            pairs: Sets of bytes that share none, and the targets they lead to, in any order.
        """
        merged: dict[int, int] = {}
        for bytes_in, target in pairs:
            merged[target] = merged.get(target, NO_BYTE) | bytes_in
        ordered = sorted((bytes_in & -bytes_in, target) for target, bytes_in in merged.items())
        targets = tuple([target for _, target in ordered])
        return self.shape(tuple([merged[target] for target in targets])), targets

    def ordered_row(self, sets: list[int], targets: list[int]) -> tuple[int, tuple[int, ...]]:
        """Return shape and targets of a row, whose sets are in order; targets may be equal."""
        if len(set(targets)) == len(targets):
            return self.shape(tuple(sets)), tuple(targets)
        return self.row(zip(sets, targets, strict=True))

    def crossing(self, shapes: tuple[int, ...]) -> list[tuple[int, tuple[int, ...]]]:
        """Return the bytes that all of *shapes* treat alike, in order, and where they lead in each.

        The index is -1 where a shape has no target for these bytes; sets of bytes for which no
        shape has one are left out.
        """
        found = self._crossings.get(shapes)
        if found is None:
            found = [(EVERY_BYTE, ())]
            for shape in shapes:
                found = [piece for old in found for piece in self._divided(old, shape)]
            found = [piece for piece in found if max(piece[1]) >= 0]
            found.sort(key=lambda piece: piece[0] & -piece[0])
            self._crossings[shapes] = found
        return found

    def _divided(
        self, piece: tuple[int, tuple[int, ...]], shape: int
    ) -> list[tuple[int, tuple[int, ...]]]:
        rest, indices = piece
        parts = []
        for index, bytes_in in enumerate(self.sets[shape]):
            if common := rest & bytes_in:
                parts.append((common, (*indices, index)))
                rest ^= common
        if rest:
            parts.append((rest, (*indices, -1)))
        return parts
