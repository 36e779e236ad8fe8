"""The automaton of joined, alternative and repeated leaves, state by state.

A *frame* says what follows: the rest of a sequence or further repetitions, then another frame; a
*position* is a state of a leaf with the frame that follows the leaf. A state of the automaton is a
set of positions (Antimirov's partial derivatives, 1996, with the continuation kept apart). In the
texts of JSON nearly all sets have one position, whose row is that of the leaf with other targets;
so a state costs about as much as its row, and a thousand repetitions cost a thousand times one.
"""

from collections import Counter
from typing import Final

from sslm.schema.budget import Meter
from sslm.schema.byte_sets import ShapeTable
from sslm.schema.dfa import Dfa
from sslm.schema.nodes import EITHER, LEAF, REPEAT, SEQUENCE, NodeTable

END: Final = 0
"""The frame after which nothing follows."""

ACCEPT: Final = -1
"""The position at the end of everything."""

_STATE_BITS: Final = 32
_STATE_MASK: Final = (1 << _STATE_BITS) - 1

_BLAMED_STATES: Final = 512
"""Latest states among which the place that grows is looked for."""


class PositionAutomaton:
    """A growing automaton over one node; see :class:`sslm.schema.dfa.Growing`."""

    def __init__(self, node: int, nodes: NodeTable, table: ShapeTable, meter: Meter) -> None:
        self._nodes = nodes
        self._table = table
        self._meter = meter
        # A frame: a node, where in it to go on, and the next frame.
        self._frames: list[tuple[int, int, int]] = [(-1, 0, END)]
        self._frame_numbers: dict[tuple[int, int, int], int] = {}
        self._after_frame: dict[int, tuple[int, ...]] = {END: (ACCEPT,)}
        # A use of a leaf with what follows it: its positions are this number and a state.
        self._uses: list[tuple[Dfa, int]] = []
        self._use_numbers: dict[tuple[int, int], int] = {}
        self._after: dict[int, tuple[int, ...]] = {}
        self._state_after: dict[int, int] = {}
        self._states: list[tuple[int, ...]] = []
        self._state_numbers: dict[tuple[int, ...], int] = {}
        self._rows: dict[int, tuple[int, tuple[int, ...]]] = {}
        self._state(self._entered(node, 0, END))

    def row(self, state: int) -> tuple[int, tuple[int, ...]]:
        """Return shape and targets of *state*, finding them when first asked."""
        found = self._rows.get(state)
        if found is None:
            positions = self._states[state]
            found = self._single(positions[0]) if len(positions) == 1 else self._joint(positions)
            self._rows[state] = found
        return found

    def accepts(self, state: int) -> bool:
        """Tell whether a string may end in *state*."""
        return self._states[state][0] == ACCEPT

    def blame(self) -> str | None:
        """Return the label of the part, repeated if any, that most of the latest states are in."""
        found: Counter[str] = Counter()
        for positions in self._states[-_BLAMED_STATES:]:
            if (position := positions[-1]) != ACCEPT:
                found[self._label(self._uses[position >> _STATE_BITS][1])] += 1
        return found.most_common(1)[0][0] or None if found else None

    def _label(self, frame: int) -> str:
        """Return the label of the innermost repetition, or else part, that goes on with *frame*."""
        nearest = ""
        while frame != END:
            node, _, frame = self._frames[frame]
            label = self._nodes.labels[node]
            if label and self._nodes.kinds[node] == REPEAT:
                return label
            nearest = nearest or label
        return nearest

    def _single(self, position: int) -> tuple[int, tuple[int, ...]]:
        """Return the row of a state with one position."""
        if position == ACCEPT:
            return self._table.empty, ()
        use, leaf_state = position >> _STATE_BITS, position & _STATE_MASK
        leaf = self._uses[use][0]
        shape, base = leaf.shapes[leaf_state], use << _STATE_BITS
        after = self._state_after
        targets = []
        for leaf_target in leaf.targets[leaf_state]:
            following = base | leaf_target
            target = after.get(following)
            if target is None:
                target = after[following] = self._state(self._arrived(following))
            targets.append(target)
        if len(set(targets)) != len(targets):
            return self._table.row(zip(self._table.sets[shape], targets, strict=True))
        return shape, tuple(targets)

    def _joint(self, positions: tuple[int, ...]) -> tuple[int, tuple[int, ...]]:
        """Return the row of a state with several positions."""
        pieces: dict[int, list[int]] = {}
        covered = 0
        self._meter.spend(len(positions))
        for position in positions:
            if position == ACCEPT:
                continue
            use, leaf_state = position >> _STATE_BITS, position & _STATE_MASK
            leaf = self._uses[use][0]
            base = use << _STATE_BITS
            sets = self._table.sets[leaf.shapes[leaf_state]]
            for bytes_in, target in zip(sets, leaf.targets[leaf_state], strict=True):
                following = self._arrived(base | target)
                if not bytes_in & covered:
                    pieces[bytes_in] = list(following)
                elif bytes_in in pieces:
                    pieces[bytes_in] += following
                else:
                    _overlay(pieces, bytes_in, following)
                covered |= bytes_in
        self._meter.spend(sum(map(len, pieces.values())))
        return self._table.row((piece, self._state(tuple(p))) for piece, p in pieces.items())

    def _state(self, positions: tuple[int, ...]) -> int:
        """Return the number of the state with *positions*, in any order, some perhaps twice."""
        if len(positions) > 1:
            positions = tuple(sorted(set(positions)))
        number = self._state_numbers.get(positions)
        if number is None:
            number = self._state_numbers[positions] = len(self._states)
            self._states.append(positions)
        return number

    def _arrived(self, position: int) -> tuple[int, ...]:
        """Return the positions at which one is on arriving at a state of a leaf."""
        found = self._after.get(position)
        if found is None:
            leaf, frame = self._uses[position >> _STATE_BITS]
            leaf_state = position & _STATE_MASK
            found = (position,) if leaf.targets[leaf_state] else ()
            if leaf.accepting[leaf_state]:
                found += self._followed(frame)
            self._after[position] = found
        return found

    def _followed(self, frame: int) -> tuple[int, ...]:
        """Return the positions at which one is where *frame* begins."""
        found = self._after_frame.get(frame)
        if found is None:
            found = self._after_frame[frame] = self._entered(*self._frames[frame])
        return found

    def _entered(self, node: int, index: int, frame: int) -> tuple[int, ...]:
        """Return the positions at the beginning of part *index* of a node, before *frame*."""
        found: dict[int, None] = {}
        start = (node, index, frame)
        waiting, seen = [start], {start}
        while waiting:
            for entry in self._beginnings(*waiting.pop(), found):
                if entry not in seen:
                    seen.add(entry)
                    waiting.append(entry)
        self._meter.spend(len(seen))
        return tuple(found)

    def _beginnings(
        self, node: int, index: int, frame: int, found: dict[int, None]
    ) -> list[tuple[int, int, int]]:
        """Add the positions with which a node begins to *found*; return the entries to go on at."""
        if node < 0:
            found[ACCEPT] = None
            return []
        nodes = self._nodes
        kind, parts = nodes.kinds[node], nodes.parts[node]
        if kind == LEAF:
            leaf = self._begun(node, frame, found)
            return [self._frames[frame]] if leaf.accepting[0] else []
        if kind == SEQUENCE:
            is_last = index + 1 == len(parts)
            return [(parts[index], 0, frame if is_last else self._frame(node, index + 1, frame))]
        if kind == EITHER:
            return [(part, 0, frame) for part in parts]
        body, least, most = parts
        if index != most:
            # Without a bound, all repetitions beyond the fewest are alike.
            done = index + 1 if most >= 0 else min(index + 1, least)
            self._begun(body, self._frame(node, done, frame), found)
        return [self._frames[frame]] if index >= least else []

    def _begun(self, node: int, frame: int, found: dict[int, None]) -> Dfa:
        """Add the position with which a leaf before *frame* begins; return the leaf.

        Where the leaf has the empty string, what *frame* begins with is for the caller to add.
        """
        use = self._use_numbers.get((node, frame))
        if use is None:
            use = self._use_numbers[node, frame] = len(self._uses)
            dfa = self._nodes.leaves[node]
            assert dfa is not None
            self._uses.append((dfa, frame))
        leaf = self._uses[use][0]
        if leaf.targets[0]:
            found[use << _STATE_BITS] = None
        return leaf

    def _frame(self, node: int, index: int, following: int) -> int:
        key = (node, index, following)
        number = self._frame_numbers.get(key)
        if number is None:
            number = self._frame_numbers[key] = len(self._frames)
            self._frames.append(key)
        return number


def _overlay(pieces: dict[int, list[int]], bytes_in: int, following: tuple[int, ...]) -> None:
    """Add *following* to what *bytes_in* lead to, dividing the pieces that it divides."""
    for piece in list(pieces):
        common = piece & bytes_in
        if not common:
            continue
        if common == piece:
            pieces[piece] += following
        else:
            positions = pieces.pop(piece)
            pieces[common] = [*positions, *following]
            pieces[piece ^ common] = positions
        bytes_in ^= common
        if not bytes_in:
            return
    pieces[bytes_in] = list(following)
