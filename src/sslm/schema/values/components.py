"""Strongly connected parts of a graph that is found while it is walked."""

from collections.abc import Callable, Hashable, Iterable
from typing import TypeVar

Node = TypeVar("Node", bound=Hashable)


def components(start: Node, following: Callable[[Node], Iterable[Node]]) -> dict[Node, int]:
    """Return for every node that *start* reaches the number of its component.

    Nodes have the same number if each reaches the other (Tarjan 1972). A node alone in its
    component may still follow itself.

    Args:
        start: Where the walk begins.
        following: The nodes that directly follow a node; asked once for each.
    """
    found: dict[Node, int] = {}
    order: dict[Node, int] = {start: 0}
    lowest: dict[Node, int] = {start: 0}
    path, waiting = [start], [(start, iter(following(start)))]
    while waiting:
        node, rest = waiting[-1]
        inner = next(rest, None)
        if inner is None:
            waiting.pop()
            if waiting:
                outer = waiting[-1][0]
                lowest[outer] = min(lowest[outer], lowest[node])
            if lowest[node] == order[node]:
                _close(node, path, found)
        elif inner not in order:
            order[inner] = lowest[inner] = len(order)
            path.append(inner)
            waiting.append((inner, iter(following(inner))))
        elif inner not in found:
            lowest[node] = min(lowest[node], order[inner])
    return found


def _close(node: Node, path: list[Node], found: dict[Node, int]) -> None:
    """Give everything on *path* down to *node* one number."""
    number = len(found)
    while True:
        member = path.pop()
        found[member] = number
        if member == node:
            return
