"""Finding spellings of special tokens in a text."""

import re
from collections.abc import Iterator, Mapping


class SpecialTokenFinder:
    """Splits texts at the spellings of given tokens: the leftmost first, the longest of those.

    At each place, lengths are searched by halving: a beginning of a spelling that is not found
    there rules out all that are longer. So the time for one text is at most its length times the
    logarithm of the number of different spelling lengths.
    """

    def __init__(self, ids: Mapping[str, int]) -> None:
        self._ids = dict(ids)
        starts = sorted({re.escape(spelling[0]) for spelling in ids})
        self._start = re.compile(f"[{''.join(starts)}]") if starts else None
        by_prefix: dict[str, set[int]] = {}
        for spelling in ids:
            by_prefix.setdefault(spelling[:2], set()).add(len(spelling))
        self._lengths = {prefix: sorted(lengths) for prefix, lengths in by_prefix.items()}
        self._longest_in = self._longest_in_beginnings()

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
        lengths = self._lengths.get(text[start : start + 2], ())
        found = None
        low, high = 0, len(lengths)
        while low < high:
            middle = (low + high) // 2
            # At the end of the text this is shorter than asked for, and then all that there is.
            beginning = text[start : start + lengths[middle]]
            if beginning in self._longest_in:
                found = self._longest_in[beginning]
                low = middle + 1
            else:
                high = middle
        if found is None and text[start] in self._ids:
            return text[start]
        return found

    def _longest_in_beginnings(self) -> dict[str, str | None]:
        """Return, for each beginning that searches come by, the longest spelling it begins with."""
        beginnings = set()
        for spelling in self._ids:
            lengths = self._lengths[spelling[:2]]
            low, high = 0, len(lengths)
            while low < high:
                middle = (low + high) // 2
                if lengths[middle] <= len(spelling):
                    beginnings.add(spelling[: lengths[middle]])
                    low = middle + 1
                else:
                    high = middle
        longest_in: dict[str, str | None] = {}
        # In sorted order, whatever a text begins with comes before it: the last of those still
        # open is the longest.
        open_spellings: list[str] = []
        for beginning in sorted(beginnings):
            while open_spellings and not beginning.startswith(open_spellings[-1]):
                open_spellings.pop()
            if beginning in self._ids:
                open_spellings.append(beginning)
            longest_in[beginning] = open_spellings[-1] if open_spellings else None
        return longest_in
