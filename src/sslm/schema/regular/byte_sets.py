"""Sets of bytes, as integers of 256 bits: bit *b* says whether byte *b* is in the set."""

from collections.abc import Iterable
from typing import Final

from sslm.schema.regular.budget import Meter

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


Row = tuple[int, tuple[int, ...]]
"""The shape of a state, and its targets."""

Crossing = tuple[int, tuple[tuple[int, ...], ...]]
"""A shape, and for each of its sets the index of its target in some other shapes."""

NO_TARGET: Final = -1
"""Stands among targets where no string goes on."""


class ShapeTable:
    """All ways in which the bytes of a row are divided among its targets, each with a number.

    A row of an automaton is a *shape* and as many targets: the shape says which bytes lead to
    which target. Its sets are not empty and share no byte, and are ordered by their first byte.
    Few shapes serve many rows, and all that is done byte by byte is done once for a shape.

    Attributes:
        sets: Of each shape its sets of bytes.
        unions: Of each shape all bytes of its sets.
        empty: The shape without any.
    """

    def __init__(self, meter: Meter) -> None:
        self._meter = meter
        self.sets: list[tuple[int, ...]] = []
        self.unions: list[int] = []
        self._numbers: dict[tuple[int, ...], int] = {}
        # Of sets in any order, their shape and where in that order each of its sets is.
        self._orders: dict[tuple[int, ...], Row] = {}
        # Of a shape and which of its targets are equal, what is left of it and which it keeps.
        self._merged: dict[Row, Row] = {}
        self._within: dict[tuple[int, int], tuple[int, ...] | None] = {}
        self._crossings: dict[tuple[int, tuple[int, ...]], Crossing] = {}
        self.empty = self.shape(())

    def shape(self, sets: tuple[int, ...]) -> int:
        """Return the number of a shape, whose sets are in order."""
        number = self._numbers.setdefault(sets, len(self.sets))
        if number == len(self.sets):
            self.sets.append(sets)
            self.unions.append(sum(sets))
        return number

    def within(self, shape: int, other: int) -> tuple[int, ...] | None:
        """Return for each set of a shape the index of the set of another one that it lies in.

        None if one lies in none, or if the other shape has more bytes.
        """
        if shape == other:
            return tuple(range(len(self.sets[shape])))
        key = (shape, other)
        if key not in self._within:
            outer = self.sets[other]
            found = [
                next((i for i, o in enumerate(outer) if o & s == s), -1) for s in self.sets[shape]
            ]
            is_inside = NO_TARGET not in found and self.unions[shape] == self.unions[other]
            self._within[key] = tuple(found) if is_inside else None
        return self._within[key]

    def row(self, sets: tuple[int, ...], targets: list[int]) -> Row:
        """Return shape and targets of a row.

        Args:
            sets: Sets of bytes that share none, in any order.
            targets: What they lead to, perhaps several to one.
        """
        known = self._orders.get(sets)
        if known is None:
            order = sorted(range(len(sets)), key=lambda at: sets[at] & -sets[at])
            shape = self.shape(tuple([sets[at] for at in order]))
            known = self._orders[sets] = shape, tuple(order)
        shape, order_of_sets = known
        return self.merged(shape, tuple([targets[at] for at in order_of_sets]))

    def merged(self, shape: int, targets: tuple[int, ...]) -> Row:
        """Return shape and targets of a row, of which several may lead to one, or to *NO_TARGET*.

        Args:
            shape: Which bytes lead to which of *targets*.
            targets: As many as the shape has sets.
        """
        if len(set(targets)) == len(targets) and NO_TARGET not in targets:
            return shape, targets
        # Of each target where the first one equal to it is.
        alike = tuple(map({NO_TARGET: NO_TARGET}.setdefault, targets, range(len(targets))))
        known = self._merged.get((shape, alike))
        if known is None:
            known = self._merged[shape, alike] = self._new_merged(shape, alike)
        left, kept = known
        return left, tuple([targets[at] for at in kept])

    def _new_merged(self, shape: int, alike: tuple[int, ...]) -> Row:
        """Return the shape without sets for *NO_TARGET*, those alike as one; and which it keeps."""
        sets: dict[int, int] = {}
        for at, bytes_in in zip(alike, self.sets[shape], strict=True):
            if at >= 0:
                sets[at] = sets.get(at, NO_BYTE) | bytes_in
        return self.shape(tuple(sets.values())), tuple(sets)

    def crossing(self, shapes: tuple[int, ...], needed: int) -> Crossing:
        """Return the bytes that all of *shapes* treat alike, and where they lead in each.

        Args:
            shapes: Of states that are gone through together.
            needed: How many of the first of them must have a target; else a byte is left out. If
                it is 0, any of them must.
        """
        key = (needed, shapes)
        found = self._crossings.get(key)
        if found is None:
            pieces: list[tuple[int, tuple[int, ...]]] = [(EVERY_BYTE, ())]
            for at, shape in enumerate(shapes):
                self._meter.spend((len(pieces) + 1) * (len(self.sets[shape]) + 1))
                pieces = [piece for old in pieces for piece in self._divided(old, shape)]
                if at < needed:
                    pieces = [piece for piece in pieces if piece[1][at] >= 0]
            pieces = [piece for piece in pieces if max(piece[1]) >= 0]
            pieces.sort(key=lambda piece: piece[0] & -piece[0])
            shape = self.shape(tuple([bytes_in for bytes_in, _ in pieces]))
            found = self._crossings[key] = shape, tuple([indices for _, indices in pieces])
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
            parts.append((rest, (*indices, NO_TARGET)))
        return parts
