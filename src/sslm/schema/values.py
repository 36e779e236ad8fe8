"""Sets of values at one place, by kind.

The kinds are told apart by their first byte, so every operation works kind by kind, and what a
schema does not speak of stays the universe itself, which costs nothing.

An object whose keys are free may be written with one key twice; the last value then counts. No
automaton over bytes can exclude that, so sets know what it does to them: see :class:`Part`.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import Final

from sslm.schema.language import NOTHING, Both, Either, ExactlyOne, Language, Without, either
from sslm.schema.refusals import Unsupported

KINDS: Final = ("null", "boolean", "number", "string", "array", "object")


@dataclass(frozen=True, slots=True)
class Part:
    """The values of one kind that a set holds.

    Attributes:
        language: Their spellings.
        is_exact: Whether a text with a repeated free key is a spelling exactly if the value that
            it stands for is in the set. If not, it may be missing, but the complement is wrong.
        is_open: Whether free keys occur anywhere in them.
        doubts: What would let a text through whose value is not in the set.
    """

    language: Language
    is_exact: bool = True
    is_open: bool = False
    doubts: tuple[Unsupported, ...] = ()


NO_PART: Final = Part(NOTHING)
"""No value of a kind."""


@dataclass(frozen=True)
class Value:
    """A set of values.

    Attributes:
        parts: One for each of ``KINDS``.
    """

    parts: tuple[Part, ...]

    def __getitem__(self, kind: str) -> Part:
        """Return the values of one kind."""
        return self.parts[KINDS.index(kind)]

    def with_part(self, kind: str, part: Part) -> "Value":
        """Return this set with other values of one kind."""
        at = KINDS.index(kind)
        return Value((*self.parts[:at], part, *self.parts[at + 1 :]))

    @cached_property
    def language(self) -> Language:
        """All spellings."""
        found = [part.language for part in self.parts if part.language is not NOTHING]
        return either(found) if found else NOTHING

    @property
    def is_exact(self) -> bool:
        """Whether all parts are."""
        return all(part.is_exact for part in self.parts)

    @property
    def is_open(self) -> bool:
        """Whether any part is."""
        return any(part.is_open for part in self.parts)

    @property
    def doubts(self) -> tuple[Unsupported, ...]:
        """The doubts of all parts."""
        return tuple(dict.fromkeys(doubt for part in self.parts for doubt in part.doubts))

    @property
    def is_nothing(self) -> bool:
        """Whether it plainly has no value; False does not mean that it has one."""
        return all(part.language is NOTHING for part in self.parts)


NO_VALUE: Final = Value((NO_PART,) * len(KINDS))
"""No value at all."""


def both(universe: Value, values: Iterable[Value]) -> Value:
    """Return what is in all of *values*; the universe if there are none."""
    return _by_kind(universe, values, both_parts)


def any_of(universe: Value, values: Iterable[Value]) -> Value:
    """Return what is in any of *values*."""
    return _by_kind(universe, values, any_part)


def exactly_one(universe: Value, values: Iterable[Value], doubt: Unsupported) -> Value:
    """Return what is in exactly one of *values*; *doubt* is noted where that may be wrong."""

    def of_kind(_: Part, parts: list[Part]) -> Part:
        parts = [part for part in parts if part.language is not NOTHING]
        if len(parts) < 2:
            return parts[0] if parts else NO_PART
        found = _joined(ExactlyOne(tuple(part.language for part in parts)), parts)
        is_open = any(part.is_open for part in parts)
        return _doubted(found, doubt, is_open=is_open, is_wrong=not found.is_exact)

    return _by_kind(universe, values, of_kind)


def outside(universe: Value, value: Value, doubt: Unsupported) -> Value:
    """Return what is not in *value*; *doubt* is noted where that may be wrong."""

    def of_kind(whole: Part, parts: list[Part]) -> Part:
        return outside_part(whole, parts[0], doubt)

    return _by_kind(universe, [value], of_kind)


def both_parts(whole: Part, parts: Iterable[Part]) -> Part:
    """Return what is in all of *parts*, of one kind; *whole* if there are none."""
    kept = _different(part for part in parts if part is not whole)
    if any(part.language is NOTHING for part in kept):
        return NO_PART
    if len(kept) < 2:
        return kept[0] if kept else whole
    is_open = all(part.is_open for part in kept)
    found = _joined(Both(tuple(part.language for part in kept)), kept)
    return Part(found.language, found.is_exact, is_open, found.doubts if is_open else ())


def any_part(whole: Part, parts: Iterable[Part]) -> Part:
    """Return what is in any of *parts*, of one kind."""
    kept = _different(part for part in parts if part.language is not NOTHING)
    if any(part is whole for part in kept):
        return whole
    if len(kept) < 2:
        return kept[0] if kept else NO_PART
    return _joined(Either(tuple(part.language for part in kept)), kept)


def outside_part(whole: Part, part: Part, doubt: Unsupported) -> Part:
    """Return what of one kind is not in *part*; *doubt* is noted where that may be wrong."""
    if part is whole:
        return NO_PART
    if part.language is NOTHING or whole.language is NOTHING:
        return whole
    found = Part(
        Without(whole.language, part.language), whole.is_exact and part.is_exact, whole.is_open
    )
    return _doubted(found, doubt, is_open=whole.is_open, is_wrong=not part.is_exact)


def _joined(language: Language, parts: list[Part]) -> Part:
    doubts = tuple(dict.fromkeys(doubt for part in parts for doubt in part.doubts))
    is_exact = all(part.is_exact for part in parts)
    return Part(language, is_exact, any(part.is_open for part in parts), doubts)


def _doubted(part: Part, doubt: Unsupported, *, is_open: bool, is_wrong: bool) -> Part:
    if not (is_open and is_wrong):
        return part
    return Part(part.language, False, True, (*part.doubts, doubt))


def _different(parts: Iterable[Part]) -> list[Part]:
    return list({id(part): part for part in parts}.values())


def _by_kind(
    universe: Value, values: Iterable[Value], of_kind: Callable[[Part, list[Part]], Part]
) -> Value:
    listed = list(values)
    return Value(
        tuple(
            of_kind(whole, [value.parts[at] for value in listed])
            for at, whole in enumerate(universe.parts)
        )
    )
