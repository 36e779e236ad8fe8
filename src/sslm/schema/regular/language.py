"""Expressions for languages of byte strings.

An expression is a value: it is built once, never changes, and may be shared by any number of
others. It means a set of byte strings; what an automaton of it costs is said where it is compiled
(``compiler.py``). Expressions compare by identity; the compiler finds equal ones.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from sslm.schema.regular.spacing import Spacing


@dataclass(frozen=True, slots=True, eq=False)
class Nothing:
    """No string at all."""


@dataclass(frozen=True, slots=True, eq=False)
class Bytes:
    """One string.

    Attributes:
        value: The string; empty is allowed.
    """

    value: bytes


@dataclass(frozen=True, slots=True, eq=False)
class OneOf:
    """Every string of one byte that lies in one of some ranges.

    Attributes:
        ranges: Pairs of the first and last byte of a range, in any order; they may overlap.
    """

    ranges: tuple[tuple[int, int], ...]

    def __post_init__(self) -> None:
        if not all(0 <= low <= high <= 255 for low, high in self.ranges):
            raise ValueError(f"byte ranges go up, from 0 to 255; found {self.ranges}")


@dataclass(frozen=True, slots=True, eq=False)
class Sequence:
    """A string of each part, joined in their order; the empty string if there are no parts."""

    parts: tuple["Language", ...]


@dataclass(frozen=True, slots=True, eq=False)
class Either:
    """Every string of any part; nothing if there are no parts."""

    parts: tuple["Language", ...]


@dataclass(frozen=True, slots=True, eq=False)
class Repeat:
    """Strings of a part, joined.

    Attributes:
        part: What is repeated.
        least: Fewest repetitions, not negative.
        most: Most repetitions, or None for no bound; fewer than *least* means nothing.
    """

    part: "Language"
    least: int
    most: int | None

    def __post_init__(self) -> None:
        if self.least < 0:
            raise ValueError(f"a repetition happens at least 0 times, found {self.least}")


@dataclass(frozen=True, slots=True, eq=False)
class Both:
    """Every string that is in all parts, of which there is at least one."""

    parts: tuple["Language", ...]

    def __post_init__(self) -> None:
        if not self.parts:
            raise ValueError("an intersection of no languages would hold every string")


@dataclass(frozen=True, slots=True, eq=False)
class Without:
    """Every string of a language that another one does not have."""

    base: "Language"
    removed: "Language"


@dataclass(frozen=True, slots=True, eq=False)
class ExactlyOne:
    """Every string that is in one part and in no second one, equal parts counted apart."""

    parts: tuple["Language", ...]


@dataclass(frozen=True, slots=True, eq=False)
class Machine:
    """Every string that a given automaton accepts.

    Attributes:
        rows: Of each state its ranges: first byte, last byte and the state they lead to; no two
            share a byte. The start is state 0.
        accepting: The states in which a string may end.
    """

    rows: tuple[tuple[tuple[int, int, int], ...], ...]
    accepting: frozenset[int]


@dataclass(frozen=True, slots=True, eq=False)
class Shortest:
    """Every string of a part that does not begin with another string of the part.

    Followed by every possible continuation, it means what the part means so followed; and it is
    clear where it ends, which keeps automata small.
    """

    part: "Language"


@dataclass(frozen=True, slots=True, eq=False)
class Whole:
    """A part that is compiled on its own, once, wherever it is used.

    It means what the part means. Worth it for parts that are used in several places and whose
    alternatives overlap, such as the spellings of a date.
    """

    part: "Language"


@dataclass(frozen=True, slots=True, eq=False)
class Spaced:
    """Every text of JSON that a part has but for its white space; the part's texts have none.

    Attributes:
        part: Texts without white space.
        spacing: Where white space stands.
    """

    part: "Language"
    spacing: Spacing


@dataclass(frozen=True, slots=True, eq=False)
class Named:
    """A part with the place in a schema it comes from; it means what the part means.

    Attributes:
        part: The part.
        label: What an error says that grew, as ``maxItems at #/properties/names``.
    """

    part: "Language"
    label: str


Language = (
    Nothing
    | Bytes
    | OneOf
    | Sequence
    | Either
    | Repeat
    | Both
    | Without
    | ExactlyOne
    | Machine
    | Shortest
    | Whole
    | Spaced
    | Named
)
"""Any expression."""

EMPTY: Final = Bytes(b"")
"""The empty string alone."""

NOTHING: Final = Nothing()
"""No string at all."""

ANY_BYTE: Final = OneOf(((0, 255),))
"""Every string of one byte."""


def sequence(*parts: Language) -> Language:
    """Return the strings of *parts* joined in their order."""
    return parts[0] if len(parts) == 1 else Sequence(parts)


def either(parts: Iterable[Language]) -> Language:
    """Return the strings of any of *parts*."""
    found = tuple(parts)
    return found[0] if len(found) == 1 else Either(found)


def optional(part: Language) -> Language:
    """Return the strings of *part*, with the empty one."""
    return Either((EMPTY, part))
