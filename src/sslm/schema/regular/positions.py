"""The automaton of joined, alternative and repeated leaves, state by state.

A *frame* says what follows: the rest of a sequence or further repetitions, then another frame; a
*position* is a state of a leaf with the frame that follows the leaf. A state of the automaton is a
set of positions (Antimirov's partial derivatives, 1996, with the continuation kept apart). In the
texts of JSON nearly all sets have one position, whose row is that of the leaf with other targets;
so a state costs about as much as its row, and a thousand repetitions cost a thousand times one.
"""

from collections import Counter
from typing import Final

from sslm.schema.regular.budget import STATE_STEPS, WHOLE_SCHEMA, Meter
from sslm.schema.regular.byte_sets import Row, ShapeTable
from sslm.schema.regular.dfa import UNKNOWN, Dfa
from sslm.schema.regular.nodes import EITHER, LEAF, REPEAT, SEQUENCE, NodeTable

END: Final = 0
"""The frame after which nothing follows."""

ACCEPT: Final = -1
"""The position at the end of everything."""

_STATE_BITS: Final = 32
_STATE_MASK: Final = (1 << _STATE_BITS) - 1

_JOINT_STEPS: Final = 12
"""Steps that are counted for a state of several positions, besides looks at them."""

_BLAMED_STATES: Final = 512
"""Latest states among which the place that grows is looked for."""

_BLAMED_POSITIONS: Final = 8
"""Positions of each that are looked at: a refusal is to take no time."""


class _Arrivals(dict[int, int]):
    """What one arrives at in the states of a leaf, for one use of it: a state of the whole."""

    def __init__(self, whole: "PositionAutomaton", leaf: Dfa, use: int) -> None:
        self._whole = whole
        self._leaf = leaf
        self._base = use << _STATE_BITS

    def __missing__(self, leaf_state: int) -> int:
        position = self._base | leaf_state
        if self._leaf.accepting[leaf_state]:
            found = self._whole.state(self._whole.arrived(position))
        else:
            found = self._whole.add((position,))
        self[leaf_state] = found
        return found


class PositionAutomaton:
    """A growing automaton over one node; see :class:`sslm.schema.regular.dfa.Growing`."""

    def __init__(self, node: int, nodes: NodeTable, table: ShapeTable, meter: Meter) -> None:
        self.shapes: list[int] = []
        self.targets: list[tuple[int, ...]] = []
        self.accepting = bytearray()
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
        self._arrivals: list[_Arrivals] = []
        # Of frames, the innermost choice before each.
        self._choices: dict[int, int] = {}
        self._moves: dict[int, tuple[tuple[int, tuple[int, ...]], ...]] = {}
        self._states: list[tuple[int, ...]] = []
        self._state_numbers: dict[tuple[int, ...], int] = {}
        self.state(self._entered(node, 0, END))

    def grow(self, state: int) -> None:
        """Find shape and targets of a state."""
        positions = self._states[state]
        if len(positions) > 1:
            self.shapes[state], self.targets[state] = self._joint(positions)
        elif positions[0] == ACCEPT:
            self.shapes[state] = self._table.empty
        else:
            position = positions[0]
            use, leaf_state = position >> _STATE_BITS, position & _STATE_MASK
            leaf = self._uses[use][0]
            row = leaf.targets[leaf_state]
            self._meter.spend(STATE_STEPS + len(row))
            found = tuple(map(self._arrivals[use].__getitem__, row))
            self.shapes[state], self.targets[state] = self._table.merged(
                leaf.shapes[leaf_state], found
            )

    def blame(self) -> str | None:
        """Return the label of the part, repeated if any, that most of the latest states are in."""
        uses = list(self._use_numbers)
        found: Counter[str] = Counter()
        for positions in self._states[-_BLAMED_STATES:]:
            latest = positions[-_BLAMED_POSITIONS:]
            used = [uses[one >> _STATE_BITS] for one in latest if one != ACCEPT]
            label = self._label(used) if used else ""
            # Values of which no schema speaks have no label that would help.
            if label not in ("", WHOLE_SCHEMA):
                found[label] += 1
        return found.most_common(1)[0][0] if found else None

    def _label(self, used: list[tuple[int, int]]) -> str:
        """Return the label of what a state is in the middle of: leaves, with what follows them.

        That is the innermost repetition; or else the choice whose alternatives are several of
        them; or else the innermost part.
        """
        labels, kinds = self._nodes.labels, self._nodes.kinds
        leaf, frame = used[-1]
        nodes = [self._frames[one][0] for one in self._following(frame)]
        nearest = [labels[node] for node in nodes if labels[node]]
        for node in nodes:
            if labels[node] and kinds[node] == REPEAT:
                return labels[node]
        if len(used) > 1:
            shared = set.intersection(*({*self._following(one), END} for _, one in used))
            common = next((one for one in self._following(frame) if one in shared), END)
            choice = labels[self._choices[common]] if common in self._choices else ""
            if choice not in ("", WHOLE_SCHEMA):
                return choice
        return nearest[0] if nearest else labels[leaf]

    def _following(self, frame: int) -> list[int]:
        """Return *frame* and those that follow it, but for the end."""
        found = []
        while frame != END:
            found.append(frame)
            frame = self._frames[frame][2]
        return found

    def _joint(self, positions: tuple[int, ...]) -> Row:
        """Return the row of a state with several positions."""
        pieces: dict[int, list[int]] = {}
        covered = looks = 0
        moves = self._moves
        for position in positions:
            known = moves.get(position)
            if known is None:
                known = moves[position] = self._moved(position)
            looks += len(known) + 1
            for bytes_in, following in known:
                if not bytes_in & covered:
                    pieces[bytes_in] = list(following)
                elif bytes_in in pieces:
                    pieces[bytes_in] += following
                else:
                    looks += len(pieces)
                    _overlay(pieces, bytes_in, following)
                covered |= bytes_in
        looks += sum(map(len, pieces.values()))
        self._meter.spend(_JOINT_STEPS + looks)
        return self._table.row(tuple(pieces), [self.state(tuple(p)) for p in pieces.values()])

    def _moved(self, position: int) -> tuple[tuple[int, tuple[int, ...]], ...]:
        """Return the sets of bytes that lead on from a position, with where they lead."""
        if position == ACCEPT:
            return ()
        self._meter.spend(STATE_STEPS)
        use, leaf_state = position >> _STATE_BITS, position & _STATE_MASK
        leaf, base = self._uses[use][0], use << _STATE_BITS
        sets = self._table.sets[leaf.shapes[leaf_state]]
        following = [self.arrived(base | target) for target in leaf.targets[leaf_state]]
        return tuple(zip(sets, following, strict=True))

    def state(self, positions: tuple[int, ...]) -> int:
        """Return the number of the state with *positions*, in any order, some perhaps twice."""
        if len(positions) > 1:
            positions = tuple(sorted(set(positions)))
        if len(positions) == 1 and positions[0] != ACCEPT:
            # A single position is one from which its leaf goes on, and where it does not end.
            return self._arrivals[positions[0] >> _STATE_BITS][positions[0] & _STATE_MASK]
        number = self._state_numbers.get(positions)
        if number is None:
            number = self._state_numbers[positions] = self.add(positions)
        return number

    def add(self, positions: tuple[int, ...]) -> int:
        """Give a state, which was not met before, its number."""
        self._states.append(positions)
        self.shapes.append(UNKNOWN)
        self.targets.append(())
        self.accepting.append(positions[0] == ACCEPT)
        return len(self._states) - 1

    def arrived(self, position: int) -> tuple[int, ...]:
        """Return the positions at which one is on arriving at a state of a leaf."""
        leaf, frame = self._uses[position >> _STATE_BITS]
        leaf_state = position & _STATE_MASK
        if not leaf.accepting[leaf_state]:
            return (position,)
        followed = self._followed(frame)
        return (position, *followed) if leaf.targets[leaf_state] else followed

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
        if not index:
            # What was compiled on its own is one leaf, whose alternatives were told apart.
            node = nodes.wholes.get(node, node)
        kind, parts = nodes.kinds[node], nodes.parts[node]
        if kind == LEAF:
            leaf = self._begun(node, frame, found)
            return [self._frames[frame]] if leaf.accepting[0] else []
        if kind == SEQUENCE:
            is_last = index + 1 == len(parts)
            return [(parts[index], 0, frame if is_last else self._frame(node, index + 1, frame))]
        if kind == EITHER:
            self._choices[frame] = node
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
            self._arrivals.append(_Arrivals(self, dfa, use))
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
