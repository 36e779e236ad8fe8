"""Sets of bytes, and rows that divide them."""

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from sslm.schema.regular.budget import Budget, Meter
from sslm.schema.regular.byte_sets import EVERY_BYTE, Row, ShapeTable, byte_set, ranges_of

SETS = st.sets(st.integers(0, 255))
RANGES = st.lists(
    st.tuples(st.integers(0, 255), st.integers(0, 255)).map(lambda p: (min(p), max(p))), max_size=5
)


def _members(bytes_in: int) -> set[int]:
    return {byte for byte in range(256) if bytes_in >> byte & 1}


@given(ranges=RANGES)
def test_a_set_has_its_ranges(ranges: list[tuple[int, int]]) -> None:
    found = byte_set(ranges)
    assert _members(found) == {b for low, high in ranges for b in range(low, high + 1)}
    again = ranges_of(found)
    assert byte_set(again) == found
    # As few as there can be, ascending.
    assert all(a[1] + 1 < b[0] for a, b in pairwise(again))


def test_every_byte_is_one_range() -> None:
    assert ranges_of(EVERY_BYTE) == ((0, 255),)
    assert ranges_of(0) == ()


def _table() -> ShapeTable:
    return ShapeTable(Meter(Budget()))


def _row(table: ShapeTable, targets: dict[int, int]) -> Row:
    return table.row(tuple(1 << byte for byte in targets), list(targets.values()))


def _meaning(table: ShapeTable, shape: int, targets: tuple[int, ...]) -> dict[int, int]:
    return {b: t for s, t in zip(table.sets[shape], targets, strict=True) for b in _members(s)}


@given(targets=st.dictionaries(st.integers(0, 255), st.integers(0, 4)))
def test_a_row_leads_where_its_pairs_lead(targets: dict[int, int]) -> None:
    table = _table()
    shape, found = _row(table, targets)
    sets = table.sets[shape]
    assert _meaning(table, shape, found) == targets
    assert len(set(found)) == len(found)
    lowest = [min(_members(one)) for one in sets]
    assert lowest == sorted(lowest)
    assert table.merged(shape, found) == (shape, found)
    assert table.shape(sets) == shape
    assert _members(table.unions[shape]) == set(targets)


@given(targets=st.dictionaries(st.integers(0, 255), st.integers(0, 4)), data=st.data())
def test_merging_joins_what_leads_alike_and_drops_what_leads_nowhere(
    targets: dict[int, int], data: st.DataObject
) -> None:
    table = _table()
    shape, found = _row(table, targets)
    others = tuple(data.draw(st.integers(-1, 2)) for _ in found)
    renamed = dict(zip(found, others, strict=True))
    expected = {b: renamed[t] for b, t in targets.items() if renamed[t] >= 0}
    merged = table.merged(shape, others)
    assert merged == _row(table, expected)
    assert _meaning(table, *merged) == expected
    # What was joined lies in the joint set, unless something was dropped.
    within = table.within(shape, merged[0])
    if -1 in others:
        assert within is None
    else:
        assert within == tuple(merged[1].index(one) for one in others)


@given(divisions=st.lists(st.lists(SETS, max_size=4), min_size=1, max_size=3))
def test_a_crossing_treats_bytes_as_each_shape_does(divisions: list[list[set[int]]]) -> None:
    table = _table()
    shapes = []
    for sets in divisions:
        pairs = {byte: index for index, one in enumerate(sets) for byte in one}
        shapes.append(_row(table, pairs)[0])
    every = _members(sum({1 << b for s in shapes for one in table.sets[s] for b in _members(one)}))
    for needed in range(len(shapes) + 1):
        crossing, indices_of = table.crossing(tuple(shapes), needed)
        seen: set[int] = set()
        for bytes_in, indices in zip(table.sets[crossing], indices_of, strict=True):
            seen |= _members(bytes_in)
            for byte in _members(bytes_in):
                for shape, index in zip(shapes, indices, strict=True):
                    inside = [i for i, one in enumerate(table.sets[shape]) if one >> byte & 1]
                    assert inside == ([index] if index >= 0 else [])
        unions = [_members(table.unions[shape]) for shape in shapes[:needed]]
        assert seen == every.intersection(*unions)
