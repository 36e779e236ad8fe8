"""How deep JSON nests, counted before anything reads it by calling itself.

Python's own reader stops where the caller's stack ends. What is refused must not depend on that.
"""

import re
from typing import Final, NamedTuple

# A text that is not closed goes on to the end: a search that began anew behind each quote would
# take time that grows with the square of the text.
_STRING: Final = re.compile(rb'"[^"\\]*+(?:\\.[^"\\]*+)*+(?:"|\\?\Z)', re.DOTALL)
_BRACKETS: Final = b"[]{}"
_OTHERS: Final = bytes(set(range(256)).difference(_BRACKETS))
_OPENING: Final = frozenset(b"[{")


class Nesting(NamedTuple):
    """The containers of a JSON text.

    Attributes:
        depth: Objects and lists in one another at the deepest place.
        containers: Objects and lists in all.
    """

    depth: int
    containers: int


def nesting_of(data: bytes) -> Nesting:
    """Count the containers of JSON in UTF-8, in time linear in its size.

    Of bytes that are no JSON it says how deep a reader could get.
    """
    depth = deepest = count = 0
    for bracket in _STRING.sub(b"", data).translate(None, _OTHERS):
        if bracket in _OPENING:
            depth, count = depth + 1, count + 1
            # Not max(): a call for each bracket would be most of the time.
            deepest = depth if depth > deepest else deepest
        else:
            depth -= 1
    return Nesting(deepest, count)


def is_within(value: object, *, levels: int, values: int) -> bool:
    """Return whether a value made of dicts, lists and tuples is within bounds, cycles refused.

    Args:
        value: Any object; those of other types hold nothing.
        levels: Most containers in one another.
        values: Most values in all, those in several places counted at each.
    """
    level = [value]
    for _ in range(levels + 1):
        containers = [one for one in level if isinstance(one, dict | list | tuple)]
        if not containers:
            return True
        level = []
        for one in containers:
            level += one.values() if isinstance(one, dict) else one
            if len(level) > values:
                return False
    return False
