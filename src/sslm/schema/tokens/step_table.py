"""An automaton over bytes as a table, which Python and C go through alike."""

from array import array
from functools import cached_property
from typing import Any, Final, Protocol

from sslm.native_library import borrow, load_library

NO_STATE: Final = 0xFFFFFFFF
"""Where a byte leads that a state does not take."""

KIND_COUNT: Final = 7
"""Kinds of bytes, as sslm_native.h tells them apart."""
WHOLE_KINDS: Final = (3, 4)
"""Those whose bounds are of what whole characters lead to, and no more."""
MARK: Final = 6
"""The highest kind: quotation marks and control characters, which no text has as they are."""


class ByteAutomaton(Protocol):
    """What is read of an automaton: deterministic, and every state leads to an accepting one."""

    @property
    def state_count(self) -> int:
        """Its states are below; the first one is 0."""

    def row(self, state: int) -> list[tuple[int, int, int]]:
        """Return (lowest byte, highest byte, next state), ascending and disjoint."""

    def is_accepting(self, state: int) -> bool:
        """Whether a text may end there."""


class StepTable:
    """The steps of an automaton, with bytes that no state tells apart taken together.

    Immutable; several threads may share one.

    Args:
        automaton: What it is the table of.

    Attributes:
        byte_classes: For each byte, the column that says where it leads.
        class_count: Columns.
        steps: uint32 [state_count, class_count]; ``NO_STATE`` where a byte is not taken.
        accepting: 1 for each state where a text may end, else 0.
        struct: ``sslm_automaton`` of sslm_native.h.
    """

    def __init__(self, automaton: ByteAutomaton) -> None:
        self.state_count = automaton.state_count
        rows = [automaton.row(state) for state in range(self.state_count)]
        borders = {0, 256}
        for row in rows:
            for low, high, _ in row:
                borders.add(low)
                borders.add(high + 1)
        lows = sorted(borders)
        self.byte_classes = bytes(
            index for index, low in enumerate(lows[:-1]) for _ in range(low, lows[index + 1])
        )
        self.class_count = len(lows) - 1
        self.steps = array("I", [NO_STATE]) * (self.state_count * self.class_count)
        for state, row in enumerate(rows):
            first = state * self.class_count
            for low, high, target in row:
                for column in range(self.byte_classes[low], self.byte_classes[high] + 1):
                    self.steps[first + column] = target
        self._sizes = bytes(min(self.byte_classes.count(one), 2) for one in range(self.class_count))
        self.accepting = bytes(automaton.is_accepting(state) for state in range(self.state_count))
        self._ffi = load_library().ffi
        self._alive: list[memoryview] = []
        self.struct = self._ffi.new("sslm_automaton *")
        self.struct.byte_classes = self._pointer("uint8_t *", self.byte_classes)
        self.struct.steps = self._pointer("uint32_t *", self.steps)
        self.struct.accepting = self._pointer("uint8_t *", self.accepting)
        self.struct.state_count = self.state_count
        self.struct.class_count = self.class_count

    def step(self, state: int, text: bytes) -> int | None:
        """Return where bytes lead from a state, or None if they are not taken."""
        steps, classes, count = self.steps, self.byte_classes, self.class_count
        for byte in text:
            state = steps[state * count + classes[byte]]
            if state == NO_STATE:
                return None
        return state

    def takes_any(self, state: int) -> bool:
        """Whether any byte leads on from a state."""
        first = state * self.class_count
        return any(step != NO_STATE for step in self.steps[first : first + self.class_count])

    def only_byte(self, state: int) -> int | None:
        """Return the one byte that can follow where a text cannot end, or None if there are more.

        Also None where the text may end.
        """
        if self.accepting[state]:
            return None
        first = state * self.class_count
        row = self.steps[first : first + self.class_count]
        if row.count(NO_STATE) != self.class_count - 1:
            return None
        column = next(index for index, step in enumerate(row) if step != NO_STATE)
        return self.byte_classes.index(column) if self._sizes[column] == 1 else None

    @cached_property
    def links(self) -> "StateLinks":
        """What leads to what."""
        return StateLinks(self)

    @cached_property
    def text_steps(self) -> "array[int]":
        """Where one character of a text leads from each state, whichever it may be.

        Of all but quotation marks, backslashes and control characters: ``NO_STATE`` if none is
        taken, ``MANY_STATES`` if not all lead to one state.
        """
        found = array("I", bytes(4 * self.state_count))
        out, view = borrow(self._ffi, "uint32_t *", found, is_writable=True)
        load_library().lib.sslm_native_text_steps(self.struct, out)
        view.release()
        return found

    def whole_states(self) -> bytearray:
        """Return 1 for each state to which whole characters may lead, 0 for those inside of one."""
        found, memory = bytearray(self.state_count), bytearray(self.state_count)
        out, out_view = borrow(self._ffi, "uint8_t *", found, is_writable=True)
        scratch, scratch_view = borrow(self._ffi, "uint8_t *", memory, is_writable=True)
        load_library().lib.sslm_native_whole_states(self.struct, out, scratch)
        out_view.release()
        scratch_view.release()
        return found

    def _pointer(self, kind: str, buffer: Any) -> Any:
        pointer, view = borrow(self._ffi, kind, buffer)
        self._alive.append(view)
        return pointer


class StateLinks:
    """Which states a byte leads to from each state, and which it comes from.

    Immutable; several threads may share one. Kinds of bytes are told apart.

    Args:
        table: What it is of; it must live as long.

    Attributes:
        struct: ``sslm_links`` of sslm_native.h.
    """

    def __init__(self, table: StepTable) -> None:
        library = load_library()
        self._ffi, self._lib = library.ffi, library.lib
        self._state_count = table.state_count
        self._alive: list[memoryview] = []
        self.struct = self._ffi.new("sslm_links *")
        rows = KIND_COUNT * table.state_count + 1
        for name in ("rows", "source_rows", "memory"):
            setattr(self.struct, name, self._pointer(array("I", bytes(4 * rows))))
        for name in ("targets", "sources"):
            setattr(self.struct, name, self._pointer(array("I", bytes(4 * len(table.steps)))))
        self._lib.sslm_native_link_states(table.struct, self.struct)

    def most(self, numbers: "array[int]", byte_count: int, *, kind: int) -> "array[int]":
        """Return for each state the largest number of all that up to some bytes lead to.

        Args:
            numbers: uint32, of each state.
            byte_count: How many bytes.
            kind: Up to ``MARK``; none of them is of a higher one.
        """
        return self._reached(numbers, byte_count, kind=kind, is_least=False)

    def least(self, numbers: "array[int]", byte_count: int, *, kind: int) -> "array[int]":
        """Return the same with the least numbers."""
        return self._reached(numbers, byte_count, kind=kind, is_least=True)

    def _reached(
        self, numbers: "array[int]", byte_count: int, *, kind: int, is_least: bool
    ) -> "array[int]":
        found, memory = array("I", numbers), array("I", bytes(16 * self._state_count))
        out, out_view = borrow(self._ffi, "uint32_t *", found, is_writable=True)
        scratch, scratch_view = borrow(self._ffi, "uint32_t *", memory, is_writable=True)
        self._lib.sslm_native_reach(
            self.struct, self._state_count, byte_count, kind, is_least, out, scratch
        )
        out_view.release()
        scratch_view.release()
        return found

    def _pointer(self, buffer: Any) -> Any:
        pointer, view = borrow(self._ffi, "uint32_t *", buffer, is_writable=True)
        self._alive.append(view)
        return pointer
