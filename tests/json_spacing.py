"""White space in JSON, judged by its tokens."""

import re
from collections.abc import Iterator
from itertools import pairwise
from typing import Final

_TOKEN: Final = re.compile(rb'"(?:[^"\\]|\\.)*"|[ \n]+|[][{}:,]|[^][{}:," \n]+', re.DOTALL)
_INDENTED: Final = re.compile(rb" |\n {0,16}")


def tokens(text: bytes) -> list[bytes]:
    """Return the tokens of a text, white space among them; nothing if a string has no end."""
    found = _TOKEN.findall(text)
    return found if b"".join(found) == text else []


def compact(text: bytes) -> bytes:
    """Return a text without the white space that stands outside of strings."""
    return b"".join(one for one in tokens(text) if one.strip(b" \n"))


def spaced(text: bytes) -> bytes:
    """Return a text without white space with a blank behind each comma and colon."""
    return b"".join(one + b" " * (one in b",:") for one in tokens(text))


def is_spaced(text: bytes) -> bool:
    """Tell whether white space is a blank behind each comma and colon, and nothing else."""
    return spaced(compact(text)) == text


def is_flexible(text: bytes) -> bool:
    """Tell whether white space stands only where printers have it, and is what they write."""
    found = tokens(text)
    if not found:
        return False
    is_inside = all(found[at].strip(b" \n") for at in (0, -1))
    return is_inside and all(_may_stand(*three) for three in _blanks(found))


def _blanks(found: list[bytes]) -> Iterator[tuple[bytes, bytes, bytes]]:
    for (before, blank), (_, after) in pairwise(pairwise(found)):
        if not blank.strip(b" \n"):
            yield before, blank, after


def _may_stand(before: bytes, blank: bytes, after: bytes) -> bool:
    if before == b":":
        return blank == b" "
    return (before in b"{[," or after in b"]}") and _INDENTED.fullmatch(blank) is not None
