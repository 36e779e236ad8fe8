"""How many keys or items there are."""

from dataclasses import dataclass
from typing import Final

from sslm.schema.values.speakers import Member


@dataclass(frozen=True, slots=True)
class Bounds:
    """How many there are.

    Attributes:
        least: Fewest.
        most: Most, or None for no bound.
        label: Where a schema says so, for errors.
    """

    least: int = 0
    most: int | None = None
    label: str = ""


ANY_COUNT: Final = Bounds()
"""No bounds."""


def bounds_of(member: Member, least: str, most: str) -> Bounds:
    """Return the bounds that the keywords *least* and *most* of a schema set."""
    schema = member.node.value
    assert isinstance(schema, dict)
    found = [name for name in (most, least) if name in schema]
    if not found:
        return ANY_COUNT
    low, high = schema.get(least, 0), schema.get(most)
    assert isinstance(low, int)
    assert high is None or isinstance(high, int)
    return Bounds(low, high, f"{found[0]} at #{member.node.pointer}")
