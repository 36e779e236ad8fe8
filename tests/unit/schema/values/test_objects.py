"""Objects have exactly the texts that a slow, obvious enumeration gives."""

import json
from collections.abc import Iterator
from itertools import product

import pytest

from sslm.errors.schema import UnsatisfiableSchemaError
from sslm.schema.documents.refusals import Unsupported
from sslm.schema.regular.compiler import compile_language
from sslm.schema.regular.language import NOTHING, Bytes, either
from sslm.schema.values.objects import dependent_part, object_part
from sslm.schema.values.speakers import Bounds
from sslm.schema.values.values import KINDS, NO_PART, NO_VALUE, Entry, FreeKeys, Part, Value

DOUBT = Unsupported("/minProperties", "minProperties", "why")
FREE = FreeKeys(either((Bytes(b'"x"'), Bytes(b'"y"'))), NO_VALUE, is_any=False)


def _numbers(*values: int, is_exact: bool = True) -> Value:
    language = either([Bytes(str(value).encode()) for value in values])
    parts = [NO_PART] * len(KINDS)
    parts[KINDS.index("number")] = Part(language, is_exact)
    return Value(tuple(parts))


ONE, TWO = _numbers(1), _numbers(1, 2)


def _texts(entries: list[tuple[str, list[int], bool]], *, free: bool) -> Iterator[bytes]:
    """Yield every object of at most two free keys: known ones in their order, then those."""
    choices = [
        [(key, v) for v in values] + ([] if needed else [None]) for key, values, needed in entries
    ]
    extra: list[tuple[tuple[str, int], ...]] = [(), *[(("x", 1),)] * free, *[(("y", 1),)] * free]
    if free:
        extra += [
            (("x", 1), ("x", 1)),
            (("x", 1), ("y", 1)),
            (("y", 1), ("x", 1)),
            (("y", 1), ("y", 1)),
        ]
    for chosen in product(*choices):
        for rest in extra:
            pairs = [pair for pair in (*chosen, *rest) if pair is not None]
            yield ("{" + ",".join(f"{json.dumps(k)}:{v}" for k, v in pairs) + "}").encode()


@pytest.mark.parametrize("free", [False, True])
@pytest.mark.parametrize("needed", list(product([False, True], repeat=3)))
@pytest.mark.parametrize(
    "bounds", [(0, None), (1, None), (2, None), (3, 3), (0, 2), (0, 0), (2, 4)]
)
def test_an_object_has_known_keys_in_order_then_free_ones(
    needed: tuple[bool, ...], bounds: tuple[int, int | None], free: bool
) -> None:
    entries = [Entry(key, TWO, is_required) for key, is_required in zip("abc", needed, strict=True)]
    classes = [FreeKeys(FREE.names, ONE, is_any=True)] if free else []
    part = object_part(entries, classes, Bounds(*bounds, label="somewhere"))
    every = set(_texts([(key, [1, 2], False) for key in "abc"], free=True))
    least, most = bounds
    expected = {
        text
        for text in _texts([(k, [1, 2], n) for k, n in zip("abc", needed, strict=True)], free=free)
        if least <= text.count(b":") <= (9 if most is None else most)
    }
    try:
        automaton = compile_language(part.language)
    except UnsatisfiableSchemaError:
        assert not expected
        return
    assert {text for text in every if automaton.matches(text)} == expected


def test_many_optional_keys_cost_a_few_states_each() -> None:
    counts = []
    for count in (50, 100):
        entries = [Entry(f"{at:03}", ONE) for at in range(count)]
        counts.append(compile_language(object_part(entries, []).language).state_count)
    assert counts[1] < 2.2 * counts[0]


def test_a_forbidden_key_is_left_out_and_a_required_one_excludes_everything() -> None:
    part = object_part([Entry("a", NO_VALUE), Entry("b", ONE)], [])
    automaton = compile_language(part.language)
    assert automaton.matches(b'{"b":1}')
    assert not automaton.matches(b'{"a":1}')
    assert object_part([Entry("a", NO_VALUE, is_required=True)], []).language is NOTHING


def test_what_a_repeated_free_key_would_do_is_known() -> None:
    any_free, some_free = FreeKeys(FREE.names, ONE, is_any=True), FreeKeys(FREE.names, ONE, False)
    known = [Entry("a", ONE, is_required=True)]
    closed = object_part(known, [])
    assert (closed.is_exact, closed.is_open) == (True, False)
    free = object_part(known, [any_free])
    assert (free.is_exact, free.is_open) == (True, True)
    assert not object_part(known, [some_free]).is_exact
    assert not object_part([Entry("b", _numbers(1, is_exact=False))], []).is_exact
    # One required key and any free one are two; three could be one that is repeated.
    for least, doubts in ((2, ()), (3, (DOUBT,))):
        part = object_part(known, [any_free], Bounds(least), DOUBT)
        assert part.doubts == doubts
        assert not object_part(known, [], Bounds(least), DOUBT).doubts
    assert not object_part(known, [any_free], Bounds(0, 2)).is_exact
    assert object_part(known, [], Bounds(0, 2)).is_exact


@pytest.mark.parametrize(
    "needed",
    [
        {"a": "c"},
        {"c": "a"},
        {"a": "bc", "c": "b"},
        {"b": "a", "c": "b"},
        {"a": "b", "b": "c", "c": "a"},
        {"b": ""},
    ],
)
def test_keys_need_others_wherever_those_stand(needed: dict[str, str]) -> None:
    entries = [Entry(key, TWO) for key in "abc"]
    part = dependent_part(
        entries,
        [FreeKeys(FREE.names, ONE, is_any=True)],
        {k: frozenset(v) for k, v in needed.items()},
    )
    assert part is not None
    automaton = compile_language(part.language)
    every = set(_texts([(key, [1, 2], False) for key in "abc"], free=True))
    expected = {
        text
        for text in every
        if all(
            set(others) <= set(json.loads(text))
            for k, others in needed.items()
            if k in json.loads(text)
        )
    }
    assert {text for text in every if automaton.matches(text)} == expected


def test_too_many_dependences_are_not_enumerated() -> None:
    # Every subset of the first half decides which of the second must be there.
    entries = [Entry(f"{at:02}", ONE) for at in range(30)]
    needed = {f"{at:02}": frozenset((f"{at + 15:02}",)) for at in range(15)}
    assert dependent_part(entries, [], needed) is None
