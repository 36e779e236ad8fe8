"""Random texts of an automaton."""

import random
from collections import deque

from sslm.schema.regular.automaton import START, Automaton


class Walker:
    """Walks through an automaton at random and always arrives.

    Args:
        automaton: The automaton.
        seed: Equal seeds give equal texts.
    """

    def __init__(self, automaton: Automaton, seed: int) -> None:
        self._automaton = automaton
        self._random = random.Random(seed)
        self._left = _distances(automaton)

    def text(self, steps: int) -> bytes:
        """Return a text: after *steps* free choices, unless it ends before, the shortest way."""
        state, found = START, bytearray()
        for _ in range(steps):
            rows = self._automaton.row(state)
            if not rows or (self._automaton.is_accepting(state) and self._random.random() < 0.2):
                break
            low, high, state = self._random.choice(rows)
            found.append(self._random.randint(low, high))
        while self._left[state]:
            rows = self._automaton.row(state)
            nearer = [row for row in rows if self._left[row[2]] < self._left[state]]
            low, high, state = self._random.choice(nearer)
            found.append(self._random.randint(low, high))
        return bytes(found)


def _distances(automaton: Automaton) -> list[int]:
    """Return for each state the fewest bytes to one where a text may end."""
    states = range(automaton.state_count)
    before: list[list[int]] = [[] for _ in states]
    for state in states:
        for _, _, target in automaton.row(state):
            before[target].append(state)
    found = [-1] * automaton.state_count
    waiting = deque(state for state in states if automaton.is_accepting(state))
    for state in waiting:
        found[state] = 0
    while waiting:
        state = waiting.popleft()
        for source in before[state]:
            if found[source] < 0:
                found[source] = found[state] + 1
                waiting.append(source)
    return found
