"""Sets of values at one place, by kind.

The kinds are told apart by their first byte, so every operation works kind by kind, and what a
schema does not speak of stays the universe itself, which costs nothing.

An object whose keys are free may be written with one key twice; the last value then counts. No
automaton over bytes can exclude that, so sets know what it does to them: see :class:`Part`.
"""

from dataclasses import dataclass, field
from functools import cached_property
from typing import Final

from sslm.schema.documents.refusals import Unsupported
from sslm.schema.regular.language import NOTHING, Language, either

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
        is_partial: Whether some values that belong to it are left out, so that its complement would
            have too many.
        shapes: Of objects, shapes that together have exactly these objects, if that is known.
    """

    language: Language
    is_exact: bool = True
    is_open: bool = False
    doubts: tuple[Unsupported, ...] = ()
    is_partial: bool = False
    shapes: tuple["Shape", ...] = field(default=(), compare=False, repr=False)


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
    def is_partial(self) -> bool:
        """Whether any part is."""
        return any(part.is_partial for part in self.parts)

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


@dataclass(frozen=True, slots=True)
class Entry:
    """A known key.

    Attributes:
        key: The key.
        value: What it may hold; nothing at all forbids the key.
        is_required: Whether it must be there.
    """

    key: str
    value: Value
    is_required: bool = False


@dataclass(frozen=True, slots=True)
class FreeKeys:
    """A class of free keys.

    Attributes:
        names: The keys as they are written, quotes included.
        value: What they may hold; nothing at all forbids them.
        is_any: Whether that is every value.
    """

    names: Language
    value: Value
    is_any: bool


@dataclass(frozen=True, slots=True, eq=False)
class Shape:
    """Objects that are what their keys make them, each on its own.

    Attributes:
        entries: Known keys, in their order.
        free: Classes of free keys.
        merged: Of the shape of a universe: parts of the same place that were found to be in two
            or more others, by those.
    """

    entries: tuple[Entry, ...]
    free: tuple[FreeKeys, ...]
    merged: dict[tuple[Part, ...], Part] = field(default_factory=dict, repr=False)
