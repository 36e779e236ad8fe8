"""Sets of bytes, and rows that divide them."""

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from sslm.schema.byte_sets import EVERY_BYTE, ShapeTable, byte_set, ranges_of

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


@given(targets=st.dictionaries(st.integers(0, 255), st.integers(0, 4)))
def test_a_row_leads_where_its_pairs_lead(targets: dict[int, int]) -> None:
    table = ShapeTable()
    shape, found = table.row((1 << byte, target) for byte, target in targets.items())
    sets = table.sets[shape]
    assert {b: t for s, t in zip(sets, found, strict=True) for b in _members(s)} == targets
    assert len(set(found)) == len(found)
    lowest = [min(_members(one)) for one in sets]
    assert lowest == sorted(lowest)
    assert table.ordered_row(list(sets), list(found)) == (shape, found)
    assert table.shape(sets) == shape


@given(divisions=st.lists(st.lists(SETS, max_size=4), min_size=1, max_size=3))
def test_a_crossing_treats_bytes_as_each_shape_does(divisions: list[list[set[int]]]) -> None:
    table = ShapeTable()
    shapes = []
    for sets in divisions:
        pairs = {byte: index for index, one in enumerate(sets) for byte in one}
        shapes.append(table.row((1 << byte, index) for byte, index in pairs.items())[0])
    crossing = table.crossing(tuple(shapes))
    seen: set[int] = set()
    for bytes_in, indices in crossing:
        assert not seen & _members(bytes_in)
        seen |= _members(bytes_in)
        for byte in _members(bytes_in):
            for shape, index in zip(shapes, indices, strict=True):
                inside = [i for i, one in enumerate(table.sets[shape]) if one >> byte & 1]
                assert inside == ([index] if index >= 0 else [])
    assert seen == {b for shape in shapes for one in table.sets[shape] for b in _members(one)}
    assert crossing == sorted(crossing, key=lambda piece: min(_members(piece[0])))
