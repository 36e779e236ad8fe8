"""Ending an answer at a string, which may begin in one token and end in another."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

_NOWHERE: Final = (0, 0, None)


@dataclass(frozen=True, slots=True)
class StopResult:
    """What a piece of text led to.

    Attributes:
        text: What is certain to belong to the answer, up to the stop.
        stop: The string that ended it, or None.
    """

    text: str
    stop: str | None


class StopStrings:
    """Holds text back as long as it may be the beginning of a stop string.

    Of several stops in the same text the one that begins first counts, and of those that begin
    together the shortest, which is complete first: so it does not matter in which pieces the text
    comes. Text from the stop on never comes out.

    Args:
        stops: Strings of at least one character; none means that nothing is held back.
    """

    def __init__(self, stops: Sequence[str]) -> None:
        self._stops = tuple(stops)
        self._held = ""

    def push(self, text: str) -> StopResult:
        """Take the next piece of text."""
        self._held += text
        return self._released(self._possible_start())

    def finish(self) -> StopResult:
        """Return what was held back, up to a stop that was complete but not the first to begin.

        No text can come any more, so what had only begun is no stop.
        """
        return self._released(len(self._held))

    def _released(self, certain_chars: int) -> StopResult:
        """Let go of the held text up to the first stop, or the certain part of it.

        A stop that begins after *certain_chars* has to wait: one that begins there comes first.
        """
        found = [(self._held.find(stop), len(stop), stop) for stop in self._stops]
        start, _, ended_by = min((hit for hit in found if hit[0] >= 0), default=_NOWHERE)
        if ended_by is not None and start <= certain_chars:
            text, self._held = self._held[:start], ""
            return StopResult(text, ended_by)
        text, self._held = self._held[:certain_chars], self._held[certain_chars:]
        return StopResult(text, None)

    def _possible_start(self) -> int:
        """Return where the first unfinished stop could begin; the length of the text if nowhere."""
        longest = max((len(stop) for stop in self._stops), default=1)
        for start in range(max(len(self._held) - longest + 1, 0), len(self._held)):
            tail = self._held[start:]
            if any(stop.startswith(tail) and stop != tail for stop in self._stops):
                return start
        return len(self._held)
