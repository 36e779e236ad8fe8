"""Lists have exactly the texts that a slow, obvious enumeration gives."""

from collections.abc import Iterable
from itertools import product

import pytest

from sslm.errors.schema import UnsatisfiableSchemaError
from sslm.schema.regular.compiler import compile_language
from sslm.schema.regular.language import Bytes, Language, either
from sslm.schema.values.arrays import Counted, array_part, containing_part, unique_part
from sslm.schema.values.speakers import Bounds
from sslm.schema.values.values import KINDS, NO_PART, NO_VALUE, Part, Value

LISTS = [items for count in range(5) for items in product((1, 2, 3), repeat=count)]
BOUNDS = [(0, None), (1, None), (2, None), (0, 0), (0, 1), (2, 3), (3, 3), (1, 2)]


def _numbers(*values: int) -> Value:
    if not values:
        return NO_VALUE
    parts = [NO_PART] * len(KINDS)
    language = either([Bytes(str(value).encode()) for value in values])
    parts[KINDS.index("number")] = Part(language)
    return Value(tuple(parts))


def _text(items: Iterable[int]) -> bytes:
    return str(list(items)).replace(" ", "").encode()


def _accepted(language: Language) -> set[tuple[int, ...]]:
    try:
        automaton = compile_language(language)
    except UnsatisfiableSchemaError:
        return set()
    return {items for items in LISTS if automaton.matches(_text(items))}


def _fits(count: int, bounds: tuple[int, int | None]) -> bool:
    return bounds[0] <= count and (bounds[1] is None or count <= bounds[1])


@pytest.mark.parametrize("bounds", BOUNDS)
@pytest.mark.parametrize("prefix", [(), ((1,),), ((1, 2), (3,)), ((1,), (), (2,))])
@pytest.mark.parametrize("rest", [(), (2,), (1, 2, 3)])
def test_a_list_has_its_items_in_order(
    prefix: tuple[tuple[int, ...], ...], rest: tuple[int, ...], bounds: tuple[int, int | None]
) -> None:
    values = [_numbers(*allowed) for allowed in prefix]
    part = array_part(values, _numbers(*rest), Bounds(*bounds, label="somewhere"))
    expected = {
        items
        for items in LISTS
        if _fits(len(items), bounds)
        and all(item in (prefix[at] if at < len(prefix) else rest) for at, item in enumerate(items))
    }
    assert _accepted(part.language) == expected


@pytest.mark.parametrize("bounds", BOUNDS[1:])
@pytest.mark.parametrize("prefix_count", [0, 1, 3])
@pytest.mark.parametrize("counting", [(), (1,), (1, 2), (1, 2, 3)])
@pytest.mark.parametrize("is_loose", [False, True])
def test_a_list_contains_as_many_as_it_must(
    counting: tuple[int, ...], prefix_count: int, bounds: tuple[int, int | None], is_loose: bool
) -> None:
    item = _numbers(1, 2, 3)
    others = _numbers(*({1, 2, 3} - set(counting)))
    # Without an upper bound, all items may stand for those that do not count.
    others = item if is_loose and bounds[1] is None else others
    counted = Counted(item, _numbers(*counting), others)
    part = containing_part([counted] * prefix_count, counted, Bounds(*bounds, label="somewhere"))
    expected = {items for items in LISTS if _fits(sum(item in counting for item in items), bounds)}
    assert _accepted(part.language) == expected


@pytest.mark.parametrize("most", [None, 2, 3])
@pytest.mark.parametrize("prefix", [(), ((b"1", b"2"),), ((b"1",), (b"3",))])
def test_a_list_repeats_nothing(prefix: tuple[tuple[bytes, ...], ...], most: int | None) -> None:
    rest = (b"1", b"2", b"3")
    part = unique_part(prefix, rest, most, nodes=100)
    assert part is not None
    expected = {
        items
        for items in LISTS
        if len(set(items)) == len(items)
        and (most is None or len(items) <= most)
        and all(str(i).encode() in one for i, one in zip(items, prefix, strict=False))
    }
    assert _accepted(part.language) == expected


def test_too_many_subsets_are_not_enumerated() -> None:
    many = tuple(str(value).encode() for value in range(200))
    assert unique_part((), many, None, nodes=1000) is None
    assert unique_part((), many, 1, nodes=1000) is not None
