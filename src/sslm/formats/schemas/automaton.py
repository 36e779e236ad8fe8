"""Automata over bytes as numbers; see docs/format.md, 16."""

from sslm.errors.schema_files import SchemaAutomatonError
from sslm.formats.whole_numbers import NumberSource, encode_numbers

Row = tuple[tuple[int, int, int], ...]
"""Lowest byte, highest byte and next state of each range of a state, ascending, none of which could
be joined with the next one."""

_Shape = tuple[tuple[int, int], ...]
_PART = "automaton"


def encode_automaton(rows: tuple[Row, ...], accepting: bytes) -> tuple[int, bytes]:
    """Return how many shapes an automaton has, and its one spelling.

    Args:
        rows: Of states in the order in which a breadth-first search from the first one meets them.
        accepting: 1 for each state where a text may end, else 0.

    Raises:
        SchemaAutomatonError: If the states are in another order.
    """
    shapes: dict[_Shape, int] = {}
    numbers: list[int] = []
    seen = 1
    for state, row in enumerate(rows):
        shape = tuple((low, high) for low, high, _ in row)
        numbers.append(2 * shapes.setdefault(shape, len(shapes)) + accepting[state])
        for _, _, target in row:
            if target > seen:
                raise SchemaAutomatonError(target, "is numbered before states that come first")
            numbers.append(seen - target)
            seen += target == seen
    head: list[int] = []
    for shape in shapes:
        head.append(len(shape))
        start = 0
        for low, high in shape:
            head += [low - start, high - low]
            start = high + 1
    return len(shapes), encode_numbers([*head, *numbers])


def read_automaton(
    data: memoryview, *, state_count: int, shape_count: int
) -> tuple[tuple[Row, ...], bytes]:
    """Return the rows of an automaton, and which states accept.

    Every state is reached from the first one and leads to one that accepts.

    Raises:
        SchemaNumbersError: If a number is not one that can be.
        SchemaAutomatonError: If it is not such an automaton.
    """
    source = NumberSource(_PART, data)
    shapes = [_read_shape(source) for _ in range(shape_count)]
    if len(set(shapes)) != len(shapes):
        raise SchemaAutomatonError(0, "has ranges that are told twice")
    rows: list[Row] = []
    accepting = bytearray()
    seen = 1
    shapes_seen = 0
    for state in range(state_count):
        if state == seen:
            raise SchemaAutomatonError(state, "is not reached from those before")
        number = source.take("shape of a state", 2 * min(shapes_seen, shape_count - 1) + 1)
        shapes_seen = max(shapes_seen, number // 2 + 1)
        accepting.append(number & 1)
        row = []
        for low, high in shapes[number // 2]:
            back = source.take("target", seen)
            row.append((low, high, seen - back))
            seen += back == 0
        rows.append(tuple(row))
        _require_joined(state, rows[-1])
    source.require_end()
    if seen != state_count or shapes_seen != shape_count:
        raise SchemaAutomatonError(state_count, "and what comes before is not all that is told of")
    _require_live(rows, accepting)
    return tuple(rows), bytes(accepting)


def _read_shape(source: NumberSource) -> _Shape:
    ranges = []
    start = 0
    for _ in range(source.take("count of ranges", 256)):
        low = start + source.take("distance to a range", 255 - start if start < 256 else 0)
        high = low + source.take("size of a range", 255 - low if low < 256 else 0)
        if high > 255:
            raise SchemaAutomatonError(0, "has ranges beyond the last byte")
        ranges.append((low, high))
        start = high + 1
    return tuple(ranges)


def _require_joined(state: int, row: Row) -> None:
    end, last_target = -1, -1
    for low, high, target in row:
        if low == end and target == last_target:
            raise SchemaAutomatonError(state, "has two ranges that are one")
        end, last_target = high + 1, target


def _require_live(rows: list[Row], accepting: bytearray) -> None:
    sources: list[list[int]] = [[] for _ in rows]
    for state, row in enumerate(rows):
        for _, _, target in row:
            sources[target].append(state)
    live = bytearray(accepting)
    left = [state for state in range(len(rows)) if live[state]]
    while left:
        for state in sources[left.pop()]:
            if not live[state]:
                live[state] = 1
                left.append(state)
    if 0 in live:
        raise SchemaAutomatonError(live.index(0), "leads to no end of a text")
