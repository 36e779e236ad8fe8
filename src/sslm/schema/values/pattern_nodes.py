"""What a regular expression is made of."""

from dataclasses import dataclass

from sslm.schema.values.code_points import CodePoints


@dataclass(frozen=True, slots=True)
class Characters:
    """One character of a set, which may be empty."""

    allowed: CodePoints


@dataclass(frozen=True, slots=True)
class TextStart:
    """The beginning of the text, ``^``."""


@dataclass(frozen=True, slots=True)
class TextEnd:
    """The end of the text, ``$``."""


@dataclass(frozen=True, slots=True)
class Joined:
    """All parts in their order."""

    parts: tuple["PatternNode", ...]


@dataclass(frozen=True, slots=True)
class Choice:
    """Any of the parts."""

    parts: tuple["PatternNode", ...]


@dataclass(frozen=True, slots=True)
class Times:
    """A part, repeated.

    Attributes:
        part: What is repeated.
        least: Fewest times.
        most: Most times, not below *least*, or None for no bound.
        position: Where in the pattern the repetition is said.
    """

    part: "PatternNode"
    least: int
    most: int | None
    position: int


@dataclass(frozen=True, slots=True)
class Ahead:
    """What has to follow, or must not, without being taken in.

    Attributes:
        part: What is looked for.
        is_negative: Whether it must not follow.
        position: Where in the pattern the look ahead begins.
    """

    part: "PatternNode"
    is_negative: bool
    position: int


PatternNode = Characters | TextStart | TextEnd | Joined | Choice | Times | Ahead
"""Any part of a regular expression."""
