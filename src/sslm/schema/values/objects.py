"""Languages of objects: known keys in their order, then free ones."""

from collections.abc import Mapping
from collections.abc import Sequence as Listing
from dataclasses import dataclass
from typing import Final

from sslm.limits import SCHEMA_DEPENDENT_STATES_MAX
from sslm.schema.documents.canonical import canonical_json
from sslm.schema.documents.refusals import Unsupported
from sslm.schema.regular.language import (
    EMPTY,
    NOTHING,
    Bytes,
    Language,
    Named,
    Repeat,
    Sequence,
    either,
    optional,
)
from sslm.schema.values.speakers import ANY_COUNT, Bounds
from sslm.schema.values.values import NO_PART, Entry, FreeKeys, Part, Shape

_COMMA: Final = Bytes(b",")
_OPEN: Final = Bytes(b"{")
_CLOSE: Final = Bytes(b"}")


def object_part(
    entries: Listing[Entry],
    free: Listing[FreeKeys],
    bounds: Bounds = ANY_COUNT,
    doubt: Unsupported | None = None,
) -> Part:
    """Return the objects with given keys.

    Args:
        entries: Known keys in their order.
        free: Classes of free keys, which share none; each key may occur any number of times.
        bounds: How many keys there are.
        doubt: Noted if a repeated free key could make up for one that is missing.

    Returns:
        A part whose texts number about one state of their own for each entry and count.
    """
    usable = [entry for entry in entries if not entry.value.is_nothing or entry.is_required]
    allowed = [one for one in free if not one.value.is_nothing]
    needed = sum(entry.is_required for entry in usable)
    if bounds.most is not None and not allowed and len(usable) <= bounds.most:
        bounds = Bounds(bounds.least, None, bounds.label)
    if bounds.least <= needed:
        bounds = Bounds(0, bounds.most, bounds.label)
    language = _language(usable, _pairs(allowed), bounds)
    if language is NOTHING:
        return NO_PART
    inner = [entry.value for entry in usable] + [one.value for one in allowed]
    doubts = dict.fromkeys(found for value in inner for found in value.doubts)
    is_counted = bounds.most is not None or bounds.least > 1
    if doubt is not None and allowed and bounds.least > needed + 1:
        doubts[doubt] = None
    is_shape = bounds.least == 0 and bounds.most is None
    return Part(
        Named(language, bounds.label) if bounds.label else language,
        all(value.is_exact for value in inner)
        and all(one.is_any for one in allowed)
        and not (allowed and is_counted),
        bool(allowed) or any(value.is_open for value in inner),
        tuple(doubts),
        any(value.is_partial for value in inner),
        (Shape(tuple(entries), tuple(free)),) if is_shape else (),
    )


@dataclass(frozen=True, slots=True)
class _Pending:
    """What the keys so far, present or not, ask of those to come.

    Attributes:
        index: How many known keys were decided.
        is_first: Whether none of them is there.
        needed: Keys to come that must be there.
        excluded: Keys to come that must not.
    """

    index: int = 0
    is_first: bool = True
    needed: frozenset[str] = frozenset()
    excluded: frozenset[str] = frozenset()


def dependent_part(
    entries: Listing[Entry], free: Listing[FreeKeys], needed: Mapping[str, frozenset[str]]
) -> Part | None:
    """Return the objects in which some known keys need others.

    Args:
        entries: All known keys in their order, none of them required, with any values.
        free: All classes of free keys, with any values.
        needed: For keys, those that must be there if they are.

    Returns:
        The part; None if there is more to remember than ``SCHEMA_DEPENDENT_STATES_MAX``.
    """
    later = {entry.key: index for index, entry in enumerate(entries)}
    known: dict[_Pending, Language] = {}
    waiting = [_Pending()]
    pairs = _pairs(free)
    while waiting:
        pending = waiting[-1]
        if pending.index == len(entries):
            known[pending] = _free_tail(pairs, 0 if pending.is_first else 1, ANY_COUNT)
            waiting.pop()
            continue
        key = entries[pending.index].key
        present = _decided(pending, needed.get(key, frozenset()), frozenset(), later, has_key=True)
        needing = frozenset(one for one, others in needed.items() if key in others)
        absent = _decided(pending, frozenset(), needing, later, has_key=False)
        choices = [present] * (key not in pending.excluded) + [absent] * (key not in pending.needed)
        if missing := [choice for choice in choices if choice not in known]:
            waiting += missing
            if len(known) + len(waiting) > SCHEMA_DEPENDENT_STATES_MAX:
                return None
            continue
        waiting.pop()
        name = Bytes((b"" if pending.is_first else b",") + key_text(key) + b":")
        value = entries[pending.index].value.language
        known[pending] = _either(
            [
                _sequence(name, value, known[one]) if one is present else known[one]
                for one in choices
            ]
        )
    return Part(_sequence(_OPEN, known[_Pending()], _CLOSE), is_open=True)


def _decided(
    pending: _Pending,
    needed: frozenset[str],
    excluded: frozenset[str],
    later: Mapping[str, int],
    *,
    has_key: bool,
) -> _Pending:
    """Return what is pending once one more key was decided."""
    index = pending.index + 1
    return _Pending(
        index,
        pending.is_first and not has_key,
        frozenset(key for key in pending.needed | needed if later[key] >= index),
        frozenset(key for key in pending.excluded | excluded if later[key] >= index),
    )


def key_text(key: str) -> bytes:
    """Return a key as it is written, with its quotes."""
    return canonical_json(key)


def _pairs(free: Listing[FreeKeys]) -> Language:
    return _either([_sequence(one.names, Bytes(b":"), one.value.language) for one in free])


def _language(entries: Listing[Entry], pairs: Language, bounds: Bounds) -> Language:
    """Return the objects, built from the last key to the first.

    What may follow depends on how many keys came before only as far as the bounds, and the comma,
    are concerned: so ``tails[count]`` is shared by all ways to have written so many.
    """
    ceiling = max(1, bounds.least) if bounds.most is None else bounds.most
    reachable = min(len(entries), ceiling)
    tails = [_free_tail(pairs, count, bounds) for count in range(reachable + 1)]
    for index in range(len(entries) - 1, -1, -1):
        entry = entries[index]
        following = tails
        tails = []
        for count in range(min(index, ceiling) + 1):
            options = [] if entry.is_required else [following[count]]
            if bounds.most is None or count < bounds.most:
                comma = b"," if count else b""
                name = Bytes(comma + key_text(entry.key) + b":")
                tail = following[min(count + 1, len(following) - 1)]
                options.append(_sequence(name, entry.value.language, tail))
            tails.append(_either(options))
    return _sequence(_OPEN, tails[0], _CLOSE)


def _free_tail(pairs: Language, count: int, bounds: Bounds) -> Language:
    """Return free keys after *count* known ones, of which there may have been more if unbounded."""
    least = max(0, bounds.least - count)
    most = None if bounds.most is None else bounds.most - count
    if pairs is NOTHING or most == 0:
        return NOTHING if least else EMPTY
    if count:
        return Repeat(Sequence((_COMMA, pairs)), least, most)
    rest = Repeat(Sequence((_COMMA, pairs)), max(0, least - 1), None if most is None else most - 1)
    found = Sequence((pairs, rest))
    return found if least else optional(found)


def _either(options: list[Language]) -> Language:
    kept = [option for option in options if option is not NOTHING]
    return either(kept) if kept else NOTHING


def _sequence(*parts: Language) -> Language:
    return NOTHING if any(part is NOTHING for part in parts) else Sequence(parts)
