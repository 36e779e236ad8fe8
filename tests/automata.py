"""What two automata say of each other."""

from collections import deque

from sslm.schema.regular.automaton import START, Automaton


def only_in_first(first: Automaton, second: Automaton) -> bytes | None:
    """Return a shortest text that *first* has and *second* has not; None if there is none."""
    start: tuple[int, int | None] = (START, START)
    before: dict[tuple[int, int | None], bytes] = {start: b""}
    waiting = deque([start])
    while waiting:
        one, other = pair = waiting.popleft()
        if first.is_accepting(one) and (other is None or not second.is_accepting(other)):
            return before[pair]
        for low, high, target in first.row(one):
            for byte in range(low, high + 1):
                reached = (target, None if other is None else second.step(other, byte))
                if reached not in before:
                    before[reached] = before[pair] + bytes([byte])
                    waiting.append(reached)
    return None
