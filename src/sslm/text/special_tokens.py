"""Finding spellings of special tokens in a text."""

import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from functools import cached_property
from typing import Final

_RUN_SIZE_CHARS_MAX: Final = 1 << 16
"""Places of a run, so that what is found in one is a short list, and time is asked for often."""

_BEGINNING_COUNT_MAX: Final = 32
"""Characters that spellings may begin with for a pattern to look for them: it tries each in turn.
"""

_FOLLOWING_COUNT_MAX: Final = 32
"""Characters that may come second for a pattern to look at that one too."""

_CODE_POINT_BITS: Final = 21


class SpecialTokenFinder:
    """Splits texts at the spellings of given tokens: the leftmost first, the longest of those.

    Where spellings may begin, the text is read once, from its end (Aho and Corasick,
    doi:10.1145/360825.360855, on spellings that are turned round). So the time grows with the text,
    however many spellings there are, however many begin alike, and wherever they end.
    """

    def __init__(self, ids: Mapping[str, int]) -> None:
        self._ids = dict(ids)
        self._longest = max(map(len, self._ids), default=0)
        self._start = _start_pattern(self._ids)

    def split(
        self, text: str, require_time: Callable[[], None] = lambda: None
    ) -> Iterator[str | int]:
        """Yield the ids of the tokens found, and between them the text that is left, in order.

        *require_time* is called every now and then, and raises to stop.
        """
        place = 0
        for start, size in self._longest_matches(text, require_time):
            if start < place:
                continue
            if place < start:
                yield text[place:start]
            place = start + size
            yield self._ids[text[start:place]]
        if place < len(text):
            yield text[place:]

    @property
    def spellings(self) -> Collection[str]:
        """What is looked for."""
        return self._ids.keys()

    def finds_any(self, text: str) -> bool:
        """Return whether one of the spellings is in *text*."""
        return any(True for _ in self._longest_matches(text, lambda: None))

    def _longest_matches(
        self, text: str, require_time: Callable[[], None]
    ) -> Iterator[tuple[int, int]]:
        """Yield where spellings begin, ascending, with the size of the longest at each place."""
        for first, last in self._runs(text):
            require_time()
            matches = []
            state = 0
            step, behind, longest = self._automaton
            for place in range(min(last + self._longest, len(text)) - 1, first - 1, -1):
                code = ord(text[place])
                following = step.get(state << _CODE_POINT_BITS | code)
                while following is None and state:
                    state = behind[state]
                    following = step.get(state << _CODE_POINT_BITS | code)
                state = following or 0
                # Behind the last place where one may begin, one can be cut off at its end.
                if longest[state] and place <= last:
                    matches.append((place, longest[state]))
            yield from reversed(matches)

    def _runs(self, text: str) -> Iterator[tuple[int, int]]:
        """Yield first and last places where spellings may begin and reach one another."""
        if self._start is None:
            if self._ids:
                for first in range(0, len(text), _RUN_SIZE_CHARS_MAX):
                    yield first, min(first + _RUN_SIZE_CHARS_MAX, len(text)) - 1
            return
        first = last = -1
        for match in self._start.finditer(text):
            place = match.start()
            if first < 0:
                first = place
            elif place >= last + self._longest or place >= first + _RUN_SIZE_CHARS_MAX:
                yield first, last
                first = place
            last = place
        if first >= 0:
            yield first, last

    @cached_property
    def _automaton(self) -> tuple[dict[int, int], list[int], list[int]]:
        """The states of reading from the end, of which 0 is the beginning.

        Returns:
            The next state by (state, code point); the state to go on from where there is none; and
            the size of the longest spelling that begins where a state has come to.
        """
        step: dict[int, int] = {}
        longest = [0]
        for spelling in self._ids:
            state = 0
            for character in reversed(spelling):
                state = step.setdefault(state << _CODE_POINT_BITS | ord(character), len(longest))
                if state == len(longest):
                    longest.append(0)
            longest[state] = len(spelling)
        return step, _link_back(step, longest), longest


def _link_back(step: Mapping[int, int], longest: list[int]) -> list[int]:
    """Return for each state that of its longest proper ending, and complete *longest* by it."""
    # States were numbered as *step* grew, each after the one that it is reached from.
    keys = [0, *step]
    depths = [0] * len(longest)
    for state, key in enumerate(step, start=1):
        depths[state] = depths[key >> _CODE_POINT_BITS] + 1
    behind = [0] * len(longest)
    # A state's ending is shorter than it is, so that the shorter ones have theirs already.
    for state in sorted(range(1, len(longest)), key=depths.__getitem__):
        if depths[state] > 1:
            code = keys[state] & (1 << _CODE_POINT_BITS) - 1
            shorter = behind[keys[state] >> _CODE_POINT_BITS]
            while (following := step.get(shorter << _CODE_POINT_BITS | code)) is None and shorter:
                shorter = behind[shorter]
            behind[state] = following or 0
        longest[state] = longest[state] or longest[behind[state]]
    return behind


def _start_pattern(spellings: Iterable[str]) -> re.Pattern[str] | None:
    """Return a pattern of one character that begins a spelling, if the next one does so too.

    It spares looking at most texts character by character. Where it would have to try too many for
    each, or there are no spellings, there is none.
    """
    seconds: dict[str, set[str]] = {}
    for spelling in spellings:
        seconds.setdefault(spelling[0], set()).add(spelling[1:2])
    if not 1 <= len(seconds) <= _BEGINNING_COUNT_MAX:
        return None
    parts = []
    for first, following in sorted(seconds.items()):
        known = "".join(map(re.escape, sorted(following)))
        is_told = "" not in following and len(following) <= _FOLLOWING_COUNT_MAX
        parts.append(re.escape(first) + (f"(?=[{known}])" if is_told else ""))
    return re.compile("|".join(parts))
