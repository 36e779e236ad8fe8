"""What can be done exactly with sets of values at one place, kind by kind.

What a schema does not speak of stays the universe itself, which costs nothing. Objects whose keys
are looked at one by one are combined key by key; only what is left becomes a product of automata.
"""

from collections.abc import Callable, Iterable
from dataclasses import replace
from itertools import product
from math import prod
from typing import Final

from sslm.schema.documents.refusals import Unsupported, doubt_label
from sslm.schema.regular.language import NOTHING, Both, Either, ExactlyOne, Language, Named, Without
from sslm.schema.values.objects import object_part
from sslm.schema.values.values import NO_PART, NO_VALUE, Entry, FreeKeys, Part, Shape, Value

_SHAPES_MAX: Final = 8
"""Shapes that one part is known by: more cost more than a product of automata."""


def both(universe: Value, values: Iterable[Value]) -> Value:
    """Return what is in all of *values*; the universe if there are none."""
    return _by_kind(universe, values, both_parts)


def any_of(universe: Value, values: Iterable[Value]) -> Value:
    """Return what is in any of *values*."""
    return _by_kind(universe, values, any_part)


def exactly_one(universe: Value, values: Iterable[Value], doubt: Unsupported) -> Value:
    """Return what is in exactly one of *values*; *doubt* is noted where that may be wrong."""

    def of_kind(_: Part, parts: list[Part]) -> Part:
        parts = [part for part in parts if part.language is not NOTHING]
        if len(parts) < 2:
            return parts[0] if parts else NO_PART
        language = ExactlyOne(tuple(part.language for part in parts))
        found = _joined(Named(language, doubt_label(doubt)), parts)
        is_open = any(part.is_open for part in parts)
        return _doubted(found, doubt, is_open=is_open, is_wrong=not found.is_exact)

    return _by_kind(universe, values, of_kind)


def outside(universe: Value, value: Value, doubt: Unsupported) -> Value:
    """Return what is not in *value*; *doubt* is noted where that may be wrong."""

    def of_kind(whole: Part, parts: list[Part]) -> Part:
        return outside_part(whole, parts[0], doubt)

    return _by_kind(universe, [value], of_kind)


def both_parts(whole: Part, parts: Iterable[Part]) -> Part:
    """Return what is in all of *parts*, of one kind; *whole* if there are none."""
    kept = _different(part for part in parts if part is not whole)
    if any(part.language is NOTHING for part in kept):
        return NO_PART
    if len(kept) < 2:
        return kept[0] if kept else whole
    shaped = [part for part in kept if part.shapes]
    if whole.shapes and len(shaped) > 1:
        merged = _merged(whole, tuple(shaped))
        if merged is not None:
            return both_parts(whole, [merged, *(part for part in kept if not part.shapes)])
    is_open = all(part.is_open for part in kept)
    found = _joined(Both(tuple(part.language for part in kept)), kept)
    return replace(found, is_open=is_open, doubts=found.doubts if is_open else ())


def any_part(whole: Part, parts: Iterable[Part]) -> Part:
    """Return what is in any of *parts*, of one kind."""
    kept = _different(part for part in parts if part.language is not NOTHING)
    if any(part is whole for part in kept):
        return whole
    if len(kept) < 2:
        return kept[0] if kept else NO_PART
    found = _joined(Either(tuple(part.language for part in kept)), kept)
    shapes = [shape for part in kept for shape in part.shapes]
    if all(part.shapes for part in kept) and len(shapes) <= _SHAPES_MAX:
        return replace(found, shapes=tuple(shapes))
    return found


def outside_part(whole: Part, part: Part, doubt: Unsupported) -> Part:
    """Return what of one kind is not in *part*; *doubt* is noted where that may be wrong."""
    if part is whole:
        return NO_PART
    if part.language is NOTHING or whole.language is NOTHING:
        return whole
    if whole.shapes and part.shapes:
        inner = [_outside_shape(whole, shape, doubt) for shape in part.shapes]
        if all(one is not None for one in inner):
            return both_parts(whole, [one for one in inner if one is not None])
    found = Part(
        Named(Without(whole.language, part.language), doubt_label(doubt)),
        whole.is_exact and part.is_exact,
        whole.is_open,
    )
    return _doubted(found, doubt, is_open=whole.is_open, is_wrong=not part.is_exact)


def _merged(whole: Part, parts: tuple[Part, ...]) -> Part | None:
    """Return what is in all of *parts*, which have shapes; None if that takes too many shapes."""
    (universe,) = whole.shapes
    if prod(len(part.shapes) for part in parts) > _SHAPES_MAX:
        return None
    if parts not in universe.merged:
        alternatives = product(*(part.shapes for part in parts))
        found = [_both_shapes(universe, shapes) for shapes in alternatives]
        universe.merged[parts] = any_part(whole, found)
    return universe.merged[parts]


def _both_shapes(universe: Shape, shapes: tuple[Shape, ...]) -> Part:
    """Return the objects that have all of *shapes*."""
    entries = [
        Entry(
            whole.key,
            both(whole.value, [shape.entries[at].value for shape in shapes]),
            any(shape.entries[at].is_required for shape in shapes),
        )
        for at, whole in enumerate(universe.entries)
    ]
    free = []
    for at, whole in enumerate(universe.free):
        classes = [shape.free[at] for shape in shapes]
        names = {id(one.names): one.names for one in classes if one.names is not whole.names}
        value = both(whole.value, [one.value for one in classes])
        is_any = all(one.is_any for one in classes)
        narrowed = Both((whole.names, *names.values())) if names else whole.names
        free.append(FreeKeys(narrowed, value, is_any))
    return object_part(entries, free)


def _outside_shape(whole: Part, shape: Shape, doubt: Unsupported) -> Part | None:
    """Return the objects that do not have *shape*; None if that takes more than shapes.

    They are those without a required key, and those with a wrong value of a known one. Where it
    is a free key that is wrong, no shape says that one of them is.
    """
    (universe,) = whole.shapes
    for one, all_free in zip(shape.free, universe.free, strict=True):
        if one.names is not all_free.names or one.value.parts != all_free.value.parts:
            return None
    wrong: list[tuple[int, Entry]] = []
    for at, (entry, every) in enumerate(zip(shape.entries, universe.entries, strict=True)):
        if entry.is_required:
            wrong.append((at, Entry(entry.key, NO_VALUE)))
        if entry.value.parts != every.value.parts:
            value = outside(every.value, entry.value, doubt)
            wrong.append((at, Entry(entry.key, value, is_required=True)))
    if len(wrong) > _SHAPES_MAX:
        return None
    entries = universe.entries
    return any_part(
        whole,
        [object_part((*entries[:at], e, *entries[at + 1 :]), universe.free) for at, e in wrong],
    )


def _joined(language: Language, parts: list[Part]) -> Part:
    doubts = tuple(dict.fromkeys(doubt for part in parts for doubt in part.doubts))
    is_exact = all(part.is_exact for part in parts)
    is_open = any(part.is_open for part in parts)
    return Part(language, is_exact, is_open, doubts, any(part.is_partial for part in parts))


def _doubted(part: Part, doubt: Unsupported, *, is_open: bool, is_wrong: bool) -> Part:
    if not (is_open and is_wrong):
        return part
    return replace(part, is_exact=False, is_open=True, doubts=(*part.doubts, doubt))


def _different(parts: Iterable[Part]) -> list[Part]:
    return list({id(part): part for part in parts}.values())


def _by_kind(
    universe: Value, values: Iterable[Value], of_kind: Callable[[Part, list[Part]], Part]
) -> Value:
    listed = list(values)
    return Value(
        tuple(
            of_kind(whole, [value.parts[at] for value in listed])
            for at, whole in enumerate(universe.parts)
        )
    )
