"""Where in a value a state of an automaton stands, as states have no names of their own."""

import json
from typing import Final

from sslm.schema.tokens.step_table import NO_STATE, StepTable

_LENGTH_SHOWN_MAX: Final = 120


def value_pointer(table: StepTable, state: int) -> str:
    """Return the JSON pointer of the value that the shortest text to a state is in.

    Args:
        table: The automaton, of spellings of JSON values.
        state: One that can be reached.

    Returns:
        ``#`` and the pointer; its beginning, if that is long.
    """
    return ("#" + _pointer(_shortest_text(table, state)))[:_LENGTH_SHOWN_MAX]


def _shortest_text(table: StepTable, state: int) -> bytes:
    """Return the first of the shortest texts that lead to a state."""
    firsts = [table.byte_classes.index(column) for column in range(table.class_count)]
    came_from: dict[int, tuple[int, int]] = {0: (0, 0)}
    queue = [0]
    for at in queue:
        if at == state:
            break
        row = table.steps[at * table.class_count : (at + 1) * table.class_count]
        for column, target in enumerate(row):
            if target != NO_STATE and target not in came_from:
                came_from[target] = at, firsts[column]
                queue.append(target)
    found = bytearray()
    while state:
        state, byte = came_from[state]
        found.append(byte)
    return bytes(found[::-1])


def _pointer(text: bytes) -> str:
    """Return where the beginning of a JSON text breaks off."""
    # Of each container that is open: its key or index, or None before the first key.
    path: list[str | int | None] = []
    at = 0
    while at < len(text):
        byte = text[at : at + 1]
        if byte == b'"':
            end = _end_of_string(text, at)
            if text[end : end + 1] == b":" and path and not isinstance(path[-1], int):
                path[-1] = str(json.loads(text[at:end]))
            at = end
            continue
        if byte in (b"{", b"["):
            path.append(None if byte == b"{" else 0)
        elif byte in (b"}", b"]"):
            path.pop()
        elif byte == b"," and path:
            last = path[-1]
            path[-1] = last + 1 if isinstance(last, int) else None
        at += 1
    parts = (str(part) for part in path if part is not None)
    return "".join("/" + part.replace("~", "~0").replace("/", "~1") for part in parts)


def _end_of_string(text: bytes, at: int) -> int:
    """Return the place behind a string's closing quotation mark, or behind the text."""
    at += 1
    while at < len(text) and text[at : at + 1] != b'"':
        at += 2 if text[at : at + 1] == b"\\" else 1
    return at + 1
