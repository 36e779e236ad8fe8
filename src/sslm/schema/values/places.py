"""The places of an instance, where schemas speak of the same value.

All schemas that may be asked about a value at one place are compiled over the same universe: the
values that can be written there, each in one spelling. So a place knows the order of the keys of
its objects, which of their values and which items have places of their own, and how deep they go.
"""

from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Protocol, TypeVar

from sslm.errors.schema import SchemaBudgetError
from sslm.errors.schema_documents import SchemaSizeError
from sslm.limits import (
    SCHEMA_PATTERN_COUNT_MAX,
    SCHEMA_PLACE_COUNT_MAX,
    SCHEMA_PLACE_NESTING_MAX,
)
from sslm.schema.documents.document import shown
from sslm.schema.documents.keywords import Keywords
from sslm.schema.documents.options import SchemaOptions
from sslm.schema.documents.refusals import label, schema_label
from sslm.schema.values.speakers import Member, Root, Speakers, SpeakerTable, pointer_of

Node = TypeVar("Node", bound=Hashable)


class KeyPatterns(Protocol):
    """Decides which keys match which patterns."""

    def matching(self, key: str, patterns: tuple[str, ...]) -> frozenset[str]:
        """Return those of *patterns* that *key* matches."""

    def has_keys(
        self, names: tuple[str, ...], patterns: tuple[str, ...], matched: frozenset[str]
    ) -> bool:
        """Tell whether a key besides *names* matches exactly *matched* of *patterns*."""


@dataclass(frozen=True, slots=True, eq=False)
class Place:
    """One place; equal only to itself, and made once for equal facts.

    Attributes:
        speakers: What speaks of the parts of its values.
        is_scalar: Whether no list or object may stand there.
        free_levels: Levels of lists and objects below, where nothing speaks of the parts.
        nesting: Levels of the instance above.
        visits: How often each recursive set of speakers was met on the way here.
    """

    speakers: Speakers
    is_scalar: bool
    free_levels: int
    nesting: int
    visits: frozenset[tuple[tuple[Root, ...], int]]

    @property
    def names(self) -> tuple[str, ...]:
        """Known keys, in the order in which they are written."""
        return self.speakers.names

    @property
    def prefix_count(self) -> int:
        """Items from the first on that have places of their own."""
        return self.speakers.prefix_count


@dataclass(frozen=True, slots=True)
class KeyClass:
    """Keys that no schema names and that match the same patterns.

    Attributes:
        matched: The patterns that they match.
        place: The place of their values.
    """

    matched: frozenset[str]
    place: Place


_Memo = dict[tuple[object, ...], Place]


class PlaceTable:
    """Makes places, and finds those inside them.

    Args:
        speakers: Finds what speaks at a place.
        patterns: Decides which keys match which patterns.
        options: Depths.
    """

    def __init__(
        self, speakers: SpeakerTable, patterns: KeyPatterns, options: SchemaOptions
    ) -> None:
        self._speakers = speakers
        self._patterns = patterns
        self._options = options
        self._places: _Memo = {}
        self._inside: _Memo = {}
        self._classes: dict[Place, tuple[KeyClass, ...]] = {}
        self._components: dict[tuple[Root, ...], int] = {}
        self._recursive: set[int] = set()
        # Where a schema stands that speaks of the latest place, or of one shortly before it.
        self._latest = ""

    def root(self, member: Member) -> Place:
        """Return the place of the whole instance, of which *member* speaks."""
        start = self._speakers.of((member,))
        self._find_recursion(start)
        return self._place(start, None)

    def of_names(self) -> Place:
        """Return the place of a key as such, which is a text."""
        return self._made(Place(Speakers((), (), (), 0, False), True, 0, 0, frozenset()))

    def of_key(self, place: Place, key: str) -> Place:
        """Return the place of the value of a known key."""
        return self._kept(place, key, partial(self._roots_of_key, place.speakers, key))

    def of_item(self, place: Place, index: int | None) -> Place:
        """Return the place of an item; None stands for those after the ones told apart."""
        if index is not None and index >= place.prefix_count:
            index = None
        return self._kept(place, index, partial(self._roots_of_item, place.speakers, index))

    def classes(self, place: Place) -> tuple[KeyClass, ...]:
        """Return the classes of keys that are not known; some key is in each.

        There are none where such keys are left out: see :class:`SchemaOptions`.
        """
        if place not in self._classes:
            found = []
            for matched in self._matches(place.speakers):
                roots = partial(self._roots_of_class, place.speakers, matched)
                found.append(KeyClass(matched, self._kept(place, matched, roots)))
            self._classes[place] = tuple(found)
        return self._classes[place]

    def class_of(self, place: Place, key: str) -> KeyClass | None:
        """Return the class of a key that is not known; None where such keys are left out."""
        matched = self._patterns.matching(key, place.speakers.patterns)
        return next((one for one in self.classes(place) if one.matched == matched), None)

    def _kept(self, place: Place, part: object, roots: Callable[[], tuple[Root, ...]]) -> Place:
        found = self._inside.get((place, part))
        if found is None:
            found = self._place(self._speakers.of(roots()), place)
            self._inside[place, part] = found
        return found

    def _place(self, speakers: Speakers, outer: Place | None) -> Place:
        levels = self._options.free_levels
        visits: dict[tuple[Root, ...], int] = {}
        members = speakers.members
        if members:
            number = self._components[members]
            if outer is not None:
                visits = {k: n for k, n in outer.visits if self._components[k] == number}
            if number in self._recursive:
                visits[members] = visits.get(members, 0) + 1
        elif outer is not None and not outer.speakers.members:
            levels = outer.free_levels - 1
        nesting = 0 if outer is None else outer.nesting + 1
        is_scalar = levels == 0 and not members
        if visits.get(members, 0) > self._options.recursion_levels:
            is_scalar = True
        return self._made(Place(speakers, is_scalar, levels, nesting, frozenset(visits.items())))

    def _made(self, place: Place) -> Place:
        # The nesting is only there to be bounded: equal places are one at whatever level.
        key: tuple[object, ...] = (place.speakers, place.is_scalar, place.free_levels, place.visits)
        found = self._places.setdefault(key, place)
        if place.speakers.members:
            self._latest = pointer_of(place.speakers.members[0])
        if len(self._places) > SCHEMA_PLACE_COUNT_MAX:
            raise SchemaSizeError("places of an instance", SCHEMA_PLACE_COUNT_MAX, self._latest)
        if place.nesting > SCHEMA_PLACE_NESTING_MAX:
            what = "levels of an instance that it speaks of"
            raise SchemaSizeError(what, SCHEMA_PLACE_NESTING_MAX, self._latest)
        return found

    # What speaks of a part.

    def _roots_of_key(self, speakers: Speakers, key: str) -> tuple[Root, ...]:
        matched = self._patterns.matching(key, speakers.patterns)
        found: list[Root] = []
        for member in speakers.members:
            if isinstance(member, Member):
                found += self.members_of_key(member, key, matched)
            elif isinstance(member.value, dict) and key in member.value:
                found += member.inside([member.value[key]])
        return tuple(dict.fromkeys(found))

    def _roots_of_class(self, speakers: Speakers, matched: frozenset[str]) -> tuple[Root, ...]:
        found: list[Root] = []
        for member in speakers.members:
            if isinstance(member, Member):
                found += self.members_of_key(member, None, matched)
        return tuple(dict.fromkeys(found))

    def members_of_key(
        self, member: Member, key: str | None, matched: frozenset[str], *, loosely: bool = True
    ) -> list[Member]:
        """Return the schemas that one schema has for the value of a key.

        Args:
            member: The schema.
            key: The key; None for one that no schema at the place names.
            matched: The patterns that it matches.
            loosely: Whether ``unevaluatedProperties`` belongs to them, which may not apply.
        """
        schema = member.node.keywords
        paths: list[tuple[str, ...]] = []
        if key is not None and key in schema.get("properties", {}):
            paths.append(("properties", key))
        patterns = schema.get("patternProperties", {})
        paths += [("patternProperties", one) for one in patterns if one in matched]
        if not paths and "additionalProperties" in schema:
            paths.append(("additionalProperties",))
        if loosely and "unevaluatedProperties" in schema:
            paths.append(("unevaluatedProperties",))
        return [self._speakers.inside(member, *path) for path in paths]

    def _roots_of_item(self, speakers: Speakers, index: int | None) -> tuple[Root, ...]:
        found: list[Root] = []
        for member in speakers.members:
            if isinstance(member, Member):
                found += self.members_of_item(member, index)
            elif isinstance(member.value, list) and index is not None:
                found += member.inside(member.value[index : index + 1])
        return tuple(dict.fromkeys(found))

    def members_of_item(
        self, member: Member, index: int | None, *, loosely: bool = True
    ) -> list[Member]:
        """Return the schemas that one schema has for an item.

        Args:
            member: The schema.
            index: Which item; None for those after the ones told apart at the place.
            loosely: Whether ``contains`` and ``unevaluatedItems`` belong to them, which may not
                apply.
        """
        schema = member.node.keywords
        paths: list[tuple[str, ...]] = []
        if index is not None and index < len(schema.get("prefixItems", [])):
            paths.append(("prefixItems", str(index)))
        elif "items" in schema:
            paths.append(("items",))
        if loosely:
            paths += [(name,) for name in ("contains", "unevaluatedItems") if name in schema]
        return [self._speakers.inside(member, *path) for path in paths]

    def _matches(self, speakers: Speakers) -> Iterator[frozenset[str]]:
        """Yield the sets of patterns that some key that is not known matches, and no others."""
        names, patterns = speakers.names, speakers.patterns
        if self._options.free_keys == "omit" and names and not speakers.is_open:
            return
        if len(patterns) > SCHEMA_PATTERN_COUNT_MAX:
            where = next(m.node.pointer for m in speakers.members if isinstance(m, Member))
            raise SchemaSizeError("patterns for keys", SCHEMA_PATTERN_COUNT_MAX, shown(where))
        for bits in range(1 << len(patterns)):
            matched = frozenset(p for index, p in enumerate(patterns) if bits >> index & 1)
            if self._patterns.has_keys(names, patterns, matched):
                yield matched

    # Recursion.

    def _find_recursion(self, start: Speakers) -> None:
        by_members = {start.members: start}
        followers: dict[tuple[Root, ...], tuple[tuple[Root, ...], ...]] = {}

        def following(members: tuple[Root, ...]) -> tuple[tuple[Root, ...], ...]:
            inner = [one for one in self._parts(by_members[members]) if one.members]
            by_members.update((one.members, one) for one in inner)
            if len(by_members) > SCHEMA_PLACE_COUNT_MAX:
                where = pointer_of(members[0])
                raise SchemaSizeError("places of an instance", SCHEMA_PLACE_COUNT_MAX, where)
            followers[members] = tuple(dict.fromkeys(one.members for one in inner))
            return followers[members]

        if not start.members:
            return
        self._components = components(start.members, following)
        sizes = Counter(self._components.values())
        for members, number in self._components.items():
            if sizes[number] > 1 or members in followers[members]:
                self._recursive.add(number)

    def _parts(self, speakers: Speakers) -> list[Speakers]:
        """Return what speaks of the parts, wherever they are.

        Whatever patterns for keys there are is compiled here first.
        """
        try:
            roots = self._roots(speakers)
        except SchemaBudgetError as error:
            where = _keys_label(speakers)
            raise SchemaBudgetError(error.what, error.limit, where) from error
        return [self._speakers.of(one) for one in roots]

    def _roots(self, speakers: Speakers) -> list[tuple[Root, ...]]:
        roots = [self._roots_of_key(speakers, name) for name in speakers.names]
        roots += [self._roots_of_class(speakers, one) for one in self._matches(speakers)]
        indices: list[int | None] = [*range(speakers.prefix_count), None]
        return [*roots, *(self._roots_of_item(speakers, index) for index in indices)]


def _keys_label(speakers: Speakers) -> str:
    """Return how the first patterns for keys are named at a place, or else what speaks of it."""
    labels = []
    for one in speakers.members:
        schema: Keywords = one.node.keywords if isinstance(one, Member) else {}
        if "patternProperties" in schema:
            return label(["patternProperties"], pointer_of(one))
        labels.append(schema_label(schema, pointer_of(one)))
    return labels[0]


def components(start: Node, following: Callable[[Node], Iterable[Node]]) -> dict[Node, int]:
    """Return for every node that *start* reaches the number of its component.

    Nodes have the same number if each reaches the other (Tarjan 1972). A node alone in its
    component may still follow itself.

    Args:
        start: Where the walk begins.
        following: The nodes that directly follow a node; asked once for each.
    """
    found: dict[Node, int] = {}
    order: dict[Node, int] = {start: 0}
    lowest: dict[Node, int] = {start: 0}
    path, waiting = [start], [(start, iter(following(start)))]
    while waiting:
        node, rest = waiting[-1]
        inner = next(rest, None)
        if inner is None:
            waiting.pop()
            if waiting:
                outer = waiting[-1][0]
                lowest[outer] = min(lowest[outer], lowest[node])
            if lowest[node] == order[node]:
                _close(node, path, found)
        elif inner not in order:
            order[inner] = lowest[inner] = len(order)
            path.append(inner)
            waiting.append((inner, iter(following(inner))))
        elif inner not in found:
            lowest[node] = min(lowest[node], order[inner])
    return found


def _close(node: Node, path: list[Node], found: dict[Node, int]) -> None:
    """Give everything on *path* down to *node* one number."""
    number = len(found)
    while True:
        member = path.pop()
        found[member] = number
        if member == node:
            return
