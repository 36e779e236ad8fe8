"""What the states of a compiled schema mean for a vocabulary, as numbers; docs/format.md, 16."""

from array import array
from dataclasses import dataclass
from typing import Final

from sslm import limits
from sslm.errors.schema_files import SchemaTableFormError
from sslm.formats.bounded_reader import U32_MAX
from sslm.formats.schemas.automaton import Row
from sslm.formats.whole_numbers import NumberSource, encode_numbers

NONE: Final = U32_MAX
"""No distance, where the vocabulary cannot complete a text; no mask, where none is needed."""
FREE: Final = -1
"""The only token of a state with a choice."""
_PART: Final = "table of states"


@dataclass(frozen=True, slots=True, kw_only=True)
class StateTables:
    """What is known of each state of an automaton.

    Args:
        only_tokens: int32: the one token that it allows, or ``FREE``.
        only_targets: uint32: where that leads, or ``NONE``.
        distances: uint32: the fewest tokens after which a text may end, or ``NONE``.
        mask_indices: uint32: its mask, or ``NONE``.
    """

    only_tokens: "array[int]"
    only_targets: "array[int]"
    distances: "array[int]"
    mask_indices: "array[int]"


def encode_tables(rows: tuple[Row, ...], accepting: bytes, tables: StateTables) -> bytes:
    """Return the one spelling of the tables of an automaton."""
    numbers: list[int] = []
    for state in range(len(rows)):
        distance = tables.distances[state]
        numbers.append(0 if distance == NONE else distance + 1)
        token = tables.only_tokens[state]
        if _has_one_byte(rows, accepting, state):
            numbers.append(token + 1)
            if token != FREE:
                numbers.append(_steps_to(rows, state, tables.only_targets[state]))
        if token == FREE and distance != NONE:
            numbers.append(tables.mask_indices[state])
    return encode_numbers(numbers)


def read_tables(
    data: memoryview,
    rows: tuple[Row, ...],
    accepting: bytes,
    *,
    mask_count: int,
    vocab_size: int,
) -> StateTables:
    """Return the tables of an automaton that is already checked.

    Raises:
        SchemaNumbersError: If a number is not one that can be.
        SchemaTableFormError: If the tables are not such that an answer comes nearer to its end with
            the tokens that are said to lead there, or a mask has no state.
    """
    source = NumberSource(_PART, data)
    count = len(rows)
    tables = StateTables(
        only_tokens=array("i", [FREE]) * count,
        only_targets=array("I", [NONE]) * count,
        distances=array("I", [NONE]) * count,
        mask_indices=array("I", [NONE]) * count,
    )
    for state in range(count):
        # A shortest way comes through no state twice.
        distance = source.take("distance", count) - 1
        if distance >= 0:
            tables.distances[state] = distance
        if (distance == 0) != bool(accepting[state]):
            raise SchemaTableFormError(state, "it is no end of a text, or its distance is not 0")
        token = FREE
        if _has_one_byte(rows, accepting, state):
            token = source.take("only token", vocab_size) - 1
        if token != FREE:
            steps = source.take("bytes of an only token", limits.FORCED_SPAN_SIZE_BYTES_MAX)
            tables.only_tokens[state] = token
            tables.only_targets[state] = _after(rows, accepting, state, steps)
        elif distance >= 0:
            tables.mask_indices[state] = source.take("mask", mask_count - 1)
    source.require_end()
    _require_consistent(tables, mask_count)
    return tables


def _require_consistent(tables: StateTables, mask_count: int) -> None:
    distances = tables.distances
    if distances[0] == NONE:
        raise SchemaTableFormError(0, "no answer begins there")
    for state, target in enumerate(tables.only_targets):
        if target == NONE:
            continue
        after = distances[target]
        if distances[state] != (NONE if after == NONE else after + 1):
            raise SchemaTableFormError(state, "its distance is not that of its only token")
    unused = set(range(mask_count)).difference(tables.mask_indices)
    if unused:
        raise SchemaTableFormError(len(distances), f"no state has mask {min(unused)}")


def _has_one_byte(rows: tuple[Row, ...], accepting: bytes, state: int) -> bool:
    """Tell whether a text cannot end in a state, and one byte alone goes on."""
    row = rows[state]
    return not accepting[state] and len(row) == 1 and row[0][0] == row[0][1]


def _after(rows: tuple[Row, ...], accepting: bytes, state: int, steps: int) -> int:
    """Return where bytes lead of which each is the only one."""
    if steps == 0:
        raise SchemaTableFormError(state, "its only token has no bytes")
    found = state
    for _ in range(steps):
        if not _has_one_byte(rows, accepting, found):
            raise SchemaTableFormError(state, "its only token ends behind what has no choice")
        found = rows[found][0][2]
    return found


def _steps_to(rows: tuple[Row, ...], state: int, target: int) -> int:
    """Return how many bytes an only token has."""
    steps = 1
    state = rows[state][0][2]
    while state != target:
        state = rows[state][0][2]
        steps += 1
    return steps
