"""White space in texts: how an automaton that reads none becomes one that does.

All that a schema says is worked out for the spelling without white space. What reads another
spacing is that automaton beside a small machine that knows what the text is in the middle of: it
passes on what the automaton is to read, and keeps blanks and line ends to itself.
"""

from dataclasses import dataclass
from typing import Final, Literal

from sslm.schema.regular.budget import STATE_STEPS, Meter
from sslm.schema.regular.byte_sets import EVERY_BYTE, NO_BYTE, ShapeTable
from sslm.schema.regular.dfa import UNKNOWN, Dfa

Spacing = Literal["compact", "spaced", "flexible"]
"""Where white space stands; see :class:`sslm.schema.documents.options.SchemaOptions`."""

INDENT_MAX: Final = 16
"""Most blanks behind a line end: four levels of four, or eight of two."""

OUTSIDE: Final = 0
"""The mode outside of texts: where a value begins, and where one may have ended."""

_TEXT: Final = 1
_ESCAPED: Final = 2

_BLANK: Final = 1 << ord(" ")
_LINE_END: Final = 1 << ord("\n")
_QUOTE: Final = 1 << ord('"')
_BACKSLASH: Final = 1 << ord("\\")
_COMMA: Final = 1 << ord(",")
_COLON: Final = 1 << ord(":")
_OPENING: Final = 1 << ord("{") | 1 << ord("[")
_CLOSING: Final = 1 << ord("}") | 1 << ord("]")


@dataclass(frozen=True, slots=True)
class Mode:
    """What a text may be in the middle of.

    Attributes:
        reads: Sets of bytes that the automaton steps by, none in two of them, and the mode after
            each.
        keeps: Sets of bytes that it does not see, and the mode after each.
    """

    reads: tuple[tuple[int, int], ...]
    keeps: tuple[tuple[int, int], ...] = ()


def _reading(comma: int, colon: int, opening: int) -> tuple[tuple[int, int], ...]:
    """Return what is read outside of texts, with the modes after each mark."""
    marks = _QUOTE | _COMMA | _COLON | _OPENING
    return (
        (_QUOTE, _TEXT),
        (_COMMA, comma),
        (_COLON, colon),
        (_OPENING, opening),
        (EVERY_BYTE ^ marks, OUTSIDE),
    )


_IN_TEXT: Final = (
    Mode(((_QUOTE, OUTSIDE), (_BACKSLASH, _ESCAPED), (EVERY_BYTE ^ _QUOTE ^ _BACKSLASH, _TEXT))),
    Mode(((EVERY_BYTE, _TEXT),)),
)
"""The modes ``_TEXT`` and ``_ESCAPED``."""


def _spaced() -> tuple[Mode, ...]:
    due = 3
    return (Mode(_reading(due, due, OUTSIDE)), *_IN_TEXT, Mode((), ((_BLANK, OUTSIDE),)))


def _flexible() -> tuple[Mode, ...]:
    after_mark, after_colon, ready, closing = 3, 4, 5, 6
    # So many blanks of a line were read, before any token and before one that closes; the blanks
    # that a line has at most leave what one blank leaves.
    lines = [*range(7, 7 + INDENT_MAX), ready]
    closing_lines = [*range(7 + INDENT_MAX, 7 + 2 * INDENT_MAX), closing]
    token = _reading(after_mark, after_colon, after_mark)
    end = ((_CLOSING, OUTSIDE),)
    return (
        Mode(token, ((_BLANK, closing), (_LINE_END, closing_lines[0]))),
        *_IN_TEXT,
        Mode(token, ((_BLANK, ready), (_LINE_END, lines[0]))),
        Mode(token, ((_BLANK, ready),)),
        Mode(token),
        Mode(end),
        *(Mode(token, ((_BLANK, following),)) for following in lines[1:]),
        *(Mode(end, ((_BLANK, following),)) for following in closing_lines[1:]),
    )


_MODES: Final[dict[Spacing, tuple[Mode, ...]]] = {
    "compact": (Mode(((EVERY_BYTE, OUTSIDE),)),),
    "spaced": _spaced(),
    "flexible": _flexible(),
}


class SpacedAutomaton:
    """A growing automaton of the same texts with white space; see :class:`.dfa.Growing`.

    Every state of it leads to a text if every state of *dfa* does.

    Args:
        dfa: The automaton of texts without white space.
        spacing: Where it may or must stand.
        table: Where shapes are.
        meter: Counts the pieces of rows.
    """

    def __init__(self, dfa: Dfa, spacing: Spacing, table: ShapeTable, meter: Meter) -> None:
        self._dfa = dfa
        self._spacing = spacing
        self._modes = _MODES[spacing]
        self._table = table
        self._meter = meter
        self._wanted = [self._bytes_wanted(mode) for mode in self._modes]
        self._pieces: dict[tuple[int, int], list[tuple[int, int, int]]] = {}
        self.shapes: list[int] = []
        self.targets: list[tuple[int, ...]] = []
        self.accepting = bytearray()
        self._states: list[tuple[int, int]] = []
        self._numbers: dict[tuple[int, int], int] = {}
        self._number(0, OUTSIDE)

    def grow(self, state: int) -> None:
        """Find shape and targets of a state."""
        inner, mode = self._states[state]
        targets = self._dfa.targets[inner]
        pieces = self._divided(self._dfa.shapes[inner], mode)
        self._meter.spend(STATE_STEPS + len(pieces))
        self.shapes[state], self.targets[state] = self._table.row(
            tuple([piece for piece, *_ in pieces]),
            [self._number(inner if at < 0 else targets[at], after) for _, at, after in pieces],
        )

    def blame(self) -> str | None:
        """Return that it is white space for which states are added."""
        return f'white space, as spacing="{self._spacing}" has it'

    def _number(self, inner: int, mode: int) -> int:
        number = self._numbers.setdefault((inner, mode), len(self._states))
        if number == len(self._states):
            self._states.append((inner, mode))
            self.shapes.append(UNKNOWN)
            self.targets.append(())
            self.accepting.append(mode == OUTSIDE and self._dfa.accepting[inner])
        return number

    def _divided(self, shape: int, mode: int) -> list[tuple[int, int, int]]:
        """Return the bytes of a row, the targets of *shape* (-1: none), and the modes after."""
        found = self._pieces.get((shape, mode))
        if found is None:
            sets = self._table.sets[shape]
            found = [
                (common, index, following)
                for index, bytes_in in enumerate(sets)
                for wanted, following in self._modes[mode].reads
                if (common := bytes_in & wanted)
            ]
            known = NO_BYTE
            for bytes_in in sets:
                known |= bytes_in
            found += [
                (bytes_in, -1, following)
                for bytes_in, following in self._modes[mode].keeps
                # Where nothing can follow that the next modes pass on, it would lead nowhere.
                if known & self._wanted[following]
            ]
            self._pieces[shape, mode] = found
        return found

    def _bytes_wanted(self, mode: Mode) -> int:
        """Return the bytes that some text has next, white space aside."""
        found = NO_BYTE
        waiting = [mode]
        for one in waiting:
            waiting += [self._modes[following] for _, following in one.keeps]
            for wanted, _ in one.reads:
                found |= wanted
        return found
