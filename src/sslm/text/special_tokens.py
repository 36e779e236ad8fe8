"""Finding spellings of special tokens in a text."""

import re
from collections.abc import Iterator, Mapping


class SpecialTokenFinder:
    """Splits texts at the spellings of given tokens: the leftmost first, the longest of those.

    The time for one text is at most its length times the number of different spelling lengths.
    """

    def __init__(self, ids: Mapping[str, int]) -> None:
        self._ids = dict(ids)
        starts = sorted({re.escape(spelling[0]) for spelling in ids})
        self._start = re.compile(f"[{''.join(starts)}]") if starts else None
        by_prefix: dict[str, set[int]] = {}
        for spelling in ids:
            by_prefix.setdefault(spelling[:2], set()).add(len(spelling))
        self._lengths = {
            prefix: tuple(sorted(lengths, reverse=True)) for prefix, lengths in by_prefix.items()
        }

    def split(self, text: str) -> Iterator[str | int]:
        """Yield the ids of the tokens found, and between them the text that is left, in order."""
        plain_from = 0
        place = 0
        while (start := self._next_start(text, place)) is not None:
            spelling = self._spelling_at(text, start)
            if spelling is None:
                place = start + 1
                continue
            if plain_from < start:
                yield text[plain_from:start]
            yield self._ids[spelling]
            place = plain_from = start + len(spelling)
        if plain_from < len(text):
            yield text[plain_from:]

    def _next_start(self, text: str, place: int) -> int | None:
        match = None if self._start is None else self._start.search(text, place)
        return None if match is None else match.start()

    def _spelling_at(self, text: str, start: int) -> str | None:
        # A spelling of one character is its own prefix, and shorter than all others found here.
        for prefix_size in (2, 1):
            for length in self._lengths.get(text[start : start + prefix_size], ()):
                candidate = text[start : start + length]
                if candidate in self._ids:
                    return candidate
        return None
