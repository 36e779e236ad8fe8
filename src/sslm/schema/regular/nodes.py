"""Expressions in the form in which they are compiled: numbered, equal ones once.

A node is *nothing*, or a leaf (an automaton of its own), a sequence, alternatives, or a repeated
leaf. What only an automaton can say (intersections, differences) has become a leaf by then, so
that every node but *nothing* has a string.
"""

from typing import Final

from sslm.schema.regular.dfa import Dfa, shortest_length

NOTHING: Final = -1
"""The node of the empty language."""

EMPTY: Final = 0
"""The node of the empty string alone."""

LEAF: Final = 0
SEQUENCE: Final = 1
EITHER: Final = 2
REPEAT: Final = 3

Key = tuple[object, ...]


class NodeTable:
    """All nodes of a compiler.

    Attributes:
        kinds: What each node is.
        parts: Of a sequence its nodes in order, of alternatives theirs; of a repetition its leaf,
            the fewest and the most times (-1 for no bound); of a leaf nothing.
        leaves: Of a leaf its automaton, which has a string; of other nodes None.
        is_nullable: Whether a node has the empty string.
        shortest: Length of the shortest string of a node.
        depths: A length of a path through different states that an automaton built state by state
            from a node takes at least; 0 where nothing simple can be said.
        labels: The place in the schema a node was first met at.
        wholes: Of nodes that were compiled on their own, the leaf that means the same.
    """

    def __init__(self, empty: Dfa) -> None:
        self.kinds: list[int] = []
        self.parts: list[tuple[int, ...]] = []
        self.leaves: list[Dfa | None] = []
        self.is_nullable: list[bool] = []
        self.shortest: list[int] = []
        self.depths: list[int] = []
        self.labels: list[str] = []
        self.wholes: dict[int, int] = {}
        self._numbers: dict[Key, int] = {}
        self.leaf(("bytes", b""), empty, "")

    def find(self, key: Key) -> int | None:
        """Return the leaf that was made for *key*, if one was."""
        return self._numbers.get(key)

    def leaf(self, key: Key, dfa: Dfa, label: str) -> int:
        """Return the leaf of a smallest automaton, or *nothing* if the automaton has no string.

        Automata that are equal have one leaf, so that the empty string alone is always *EMPTY*.
        """
        if not dfa.shapes:
            self._numbers[key] = NOTHING
            return NOTHING
        content = ("automaton", tuple(dfa.shapes), tuple(dfa.targets), bytes(dfa.accepting))
        if (found := self._numbers.get(content)) is not None:
            self._numbers[key] = found
            return found
        number = self._node(content, LEAF, (), label)
        self._numbers[key] = number
        self.leaves[number] = dfa
        self.is_nullable[number] = bool(dfa.accepting[0])
        self.shortest[number] = shortest_length(dfa)
        return number

    def sequence(self, parts: tuple[int, ...], label: str) -> int:
        """Return the node of *parts* joined."""
        if NOTHING in parts:
            return NOTHING
        kept = tuple(part for part in parts if part != EMPTY)
        if len(kept) < 2:
            return kept[0] if kept else EMPTY
        key = (SEQUENCE, *kept)
        if (found := self._numbers.get(key)) is not None:
            return found
        number = self._node(key, SEQUENCE, kept, label)
        self.is_nullable[number] = all(self.is_nullable[part] for part in kept)
        self.shortest[number] = sum(self.shortest[part] for part in kept)
        self.depths[number] = max(self.depths[part] for part in kept)
        return number

    def either(self, parts: tuple[int, ...], label: str) -> int:
        """Return the node of any of *parts*."""
        kept = tuple(dict.fromkeys(part for part in parts if part != NOTHING))
        if len(kept) < 2:
            return kept[0] if kept else NOTHING
        key = (EITHER, *sorted(kept))
        if (found := self._numbers.get(key)) is not None:
            return found
        number = self._node(key, EITHER, kept, label)
        self.is_nullable[number] = any(self.is_nullable[part] for part in kept)
        self.shortest[number] = min(self.shortest[part] for part in kept)
        self.depths[number] = max(self.depths[part] for part in kept)
        return number

    def repeat(self, leaf: int, least: int, most: int | None, label: str) -> int:
        """Return the node of a repeated leaf, which has another string than the empty one.

        It is repeated at most *most* times, which is positive and not below *least*, or without a
        bound if that is None; *least* is 0 if the leaf has the empty string, as no repetition is
        empty.
        """
        bound = -1 if most is None else most
        key = (REPEAT, leaf, least, bound)
        if (found := self._numbers.get(key)) is not None:
            return found
        number = self._node(key, REPEAT, (leaf, least, bound), label)
        self.is_nullable[number] = not least
        self.shortest[number] = least * self.shortest[leaf]
        self.depths[number] = max(least, bound) * max(1, self.shortest[leaf])
        return number

    def _node(self, key: Key, kind: int, parts: tuple[int, ...], label: str) -> int:
        number = len(self.kinds)
        self._numbers[key] = number
        self.kinds.append(kind)
        self.parts.append(parts)
        self.leaves.append(None)
        self.is_nullable.append(False)
        self.shortest.append(0)
        self.depths.append(0)
        self.labels.append(label)
        return number
