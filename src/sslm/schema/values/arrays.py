"""Languages of lists: items told apart from the first on, then others alike."""

from collections.abc import Iterable
from collections.abc import Sequence as Listing
from dataclasses import dataclass
from typing import Final

from sslm.schema.regular.language import (
    EMPTY,
    NOTHING,
    Bytes,
    Language,
    Named,
    Repeat,
    Sequence,
    Whole,
    either,
    optional,
)
from sslm.schema.values.speakers import ANY_COUNT, Bounds
from sslm.schema.values.values import NO_PART, NO_VALUE, Part, Value

_OPEN: Final = Bytes(b"[")
_CLOSE: Final = Bytes(b"]")
_COMMA: Final = Bytes(b",")


def array_part(prefix: Listing[Value], rest: Value, bounds: Bounds = ANY_COUNT) -> Part:
    """Return the lists whose items are in given sets.

    Args:
        prefix: The sets of the first items.
        rest: The set of all items after those.
        bounds: How many items there are.
    """
    most = bounds.most
    prefix = prefix if most is None else prefix[:most]
    rest_most = None if most is None else most - len(prefix)
    least = max(0, bounds.least - len(prefix))
    tail = _rest(rest.language, bool(prefix), least, rest_most, bounds.label)
    for index in range(len(prefix) - 1, -1, -1):
        item = _after_comma(prefix[index].language) if index else prefix[index].language
        tail = _sequence(item, tail)
        if index >= bounds.least:
            tail = EMPTY if tail is NOTHING else optional(tail)
    language = _sequence(_OPEN, tail, _CLOSE)
    if language is NOTHING:
        return NO_PART
    used = [*prefix, rest] if rest_most != 0 else list(prefix)
    return _part(Named(language, bounds.label) if bounds.label else language, used)


@dataclass(frozen=True, slots=True)
class Counted:
    """Items at one position, of which some count.

    Attributes:
        item: All that may stand there.
        counting: Those that count.
        others: Those that do not.
    """

    item: Value
    counting: Value
    others: Value


def containing_part(prefix: Listing[Counted], rest: Counted, bounds: Bounds) -> Part:
    """Return the lists in which a bounded number of items counts.

    Args:
        prefix: The first items.
        rest: All items after those.
        bounds: How many items count.

    Returns:
        A part with a state of its own for each position and count. Without an upper bound,
        *others* may be all items: then those that count need not be told from the rest.
    """
    ceiling = bounds.least if bounds.most is None else bounds.most
    is_capped = bounds.most is None
    width = min(len(prefix), ceiling)
    tails = [_counted_rest(rest, count, bounds, bool(prefix)) for count in range(width + 1)]
    for index in range(len(prefix) - 1, -1, -1):
        following, tails = tails, []
        at, comma = prefix[index], index > 0
        for count in range(min(index, ceiling) + 1):
            done = [EMPTY] if count >= bounds.least else []
            if is_capped and count == ceiling:
                options = [_item(at.item, following[count], comma=comma)]
            else:
                options = [_item(at.others, following[count], comma=comma)]
                if count < ceiling:
                    options.append(_item(at.counting, following[count + 1], comma=comma))
            tails.append(_either([*done, *options]))
    language = _sequence(_OPEN, tails[0], _CLOSE)
    if language is NOTHING:
        return NO_PART
    every = [*prefix, rest]
    used = [one.counting for one in every]
    used += [value for one in every for value in (one.others, one.item if is_capped else NO_VALUE)]
    return _part(Named(language, bounds.label), used)


def unique_part(
    prefix: Listing[tuple[bytes, ...]], rest: tuple[bytes, ...], most: int | None, *, nodes: int
) -> Part | None:
    """Return the lists of items from finite sets in which none is repeated.

    Args:
        prefix: The texts that the first items may have.
        rest: The texts that all items after those may have.
        most: Most items, or None for no bound.
        nodes: Most states between items; beyond them the answer is None.
    """
    known: dict[tuple[int, frozenset[bytes]], Language] = {}
    pending = [(0, frozenset[bytes]())]
    while pending:
        key = pending[-1]
        inner = _unused(key, prefix, rest, most)
        missing = [one for one in inner.values() if one not in known]
        if missing:
            pending += missing
        else:
            pending.pop()
            comma = b"," if key[1] else b""
            options = [_sequence(Bytes(comma + text), known[one]) for text, one in inner.items()]
            known[key] = either([EMPTY, *options])
        if len(known) + len(pending) > 2 * nodes:
            return None
    return Part(Sequence((_OPEN, known[0, frozenset()], _CLOSE)))


def _unused(
    key: tuple[int, frozenset[bytes]],
    prefix: Listing[tuple[bytes, ...]],
    rest: tuple[bytes, ...],
    most: int | None,
) -> dict[bytes, tuple[int, frozenset[bytes]]]:
    """Return which texts may follow so many items with those texts, and what is then used."""
    index, used = key
    if most is not None and len(used) >= most:
        return {}
    texts = prefix[index] if index < len(prefix) else rest
    after = min(index + 1, len(prefix))
    return {text: (after, used | {text}) for text in texts if text not in used}


def _rest(item: Language, is_after: bool, least: int, most: int | None, label: str) -> Language:
    if item is NOTHING or most == 0:
        return NOTHING if least else EMPTY
    if is_after:
        return _repeat(_after_comma(item), least, most, label)
    # It is needed twice; where alternatives in it begin alike, they are told apart once.
    item = Whole(item)
    repeated = _repeat(
        _after_comma(item), max(0, least - 1), None if most is None else most - 1, label
    )
    found = Sequence((item, repeated))
    return found if least else optional(found)


def _repeat(part: Language, least: int, most: int | None, label: str) -> Language:
    found = Repeat(part, least, most)
    return Named(found, label) if label else found


def _counted_rest(rest: Counted, count: int, bounds: Bounds, is_after: bool) -> Language:
    """Return the items after the first ones, *count* of which counted."""
    least = max(0, bounds.least - count)
    most = None if bounds.most is None else bounds.most - count
    if is_after:
        return _mixed(rest, least, most)
    # The first item has no comma before it, and whether it counts changes what is left.
    options: list[Language] = [] if least else [EMPTY]
    others = rest.item if most is None and not least else rest.others
    options.append(_sequence(others.language, _mixed(rest, least, most)))
    if most != 0:
        fewer = None if most is None else most - 1
        tail = _mixed(rest, max(0, least - 1), fewer)
        options.append(_sequence(rest.counting.language, tail))
    return _either(options)


def _mixed(rest: Counted, least: int, most: int | None) -> Language:
    """Return items after a comma each, of which *least* to *most* count."""
    gap = _any_number(rest.others.language)
    last = _any_number(rest.item.language) if most is None else gap
    counting = rest.counting.language
    if counting is NOTHING or most == 0 or (most is None and least == 0):
        return NOTHING if least else last
    counted = Repeat(
        Sequence((gap, _after_comma(counting))), least, least if most is None else most
    )
    return _sequence(counted, last)


def _any_number(item: Language) -> Language:
    return EMPTY if item is NOTHING else Repeat(_after_comma(item), 0, None)


def _item(value: Value, tail: Language, *, comma: bool) -> Language:
    language = value.language
    return _sequence(_after_comma(language) if comma else language, tail)


def _after_comma(item: Language) -> Language:
    return _sequence(_COMMA, item)


def _part(language: Language, used: Iterable[Value]) -> Part:
    values = [value for value in used if not value.is_nothing]
    return Part(
        language,
        all(value.is_exact for value in values),
        any(value.is_open for value in values),
        tuple(dict.fromkeys(doubt for value in values for doubt in value.doubts)),
        any(value.is_partial for value in values),
    )


def _either(options: list[Language]) -> Language:
    kept = [option for option in options if option is not NOTHING]
    return either(kept) if kept else NOTHING


def _sequence(*parts: Language) -> Language:
    return NOTHING if any(part is NOTHING for part in parts) else Sequence(parts)
