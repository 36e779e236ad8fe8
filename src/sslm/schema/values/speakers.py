"""The schemas that speak of the parts of one value, found through all that refers in place."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from sslm.errors.schema_documents import SchemaSizeError
from sslm.limits import SCHEMA_CALLS_MAX, SCHEMA_KEY_COUNT_MAX, SCHEMA_VALUE_COUNT_MAX
from sslm.schema.documents.canonical import canonical_json
from sslm.schema.documents.document import Json, shown
from sslm.schema.documents.keywords import KEYWORDS, Holds, Least, Most, held
from sslm.schema.documents.references import References, SchemaNode

_OF_PARTS: Final = frozenset(
    {
        *("properties", "patternProperties", "additionalProperties", "unevaluatedProperties"),
        *("prefixItems", "items", "contains", "unevaluatedItems"),
    }
)
"""Keywords whose schemas speak of parts of a value."""

_OF_FREE_KEYS: Final = frozenset(
    {"patternProperties", "additionalProperties", "unevaluatedProperties", "propertyNames"}
)
"""Keywords that say something of keys that no schema names."""
SCHEMAS_INSIDE: Final = "levels of schemas inside one another"
"""What ``SCHEMA_CALLS_MAX`` bounds, as messages call it."""


class Member(NamedTuple):
    """A schema, with the dynamic scope in which it is asked."""

    node: SchemaNode
    scope: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Constant:
    """An object or list that ``const`` or ``enum`` names, whose parts have places of their own.

    Attributes:
        text: Its spelling, keys as they stand; constants are equal if these are.
        value: The value.
        pointer: The keyword that names it first.
    """

    text: bytes
    value: dict[str, Json] | list[Json] = field(compare=False)
    pointer: str = field(compare=False)

    def inside(self, values: Iterable[Json]) -> "list[Constant]":
        """Return those of *values*, which are parts of this one, that are constants."""
        found = [constant_of(value, self.pointer) for value in values]
        return [one for one in found if one is not None]


Root = Member | Constant


def pointer_of(root: Root) -> str:
    """Return where a schema or constant stands, as messages show it."""
    return shown(root.node.pointer if isinstance(root, Member) else root.pointer)


class Speakers(NamedTuple):
    """What speaks of the parts of the values at one place.

    Attributes:
        members: Schemas with keywords for parts, and constants, in document order.
        names: Keys that they know, in the order in which they are written.
        patterns: Patterns for keys, each once.
        prefix_count: Items from the first on that they tell apart.
        is_open: Whether any schema that is asked there says something of keys that none names,
            other than that there are none.
    """

    members: tuple[Root, ...]
    names: tuple[str, ...]
    patterns: tuple[str, ...]
    prefix_count: int
    is_open: bool


class SpeakerTable:
    """Finds the speakers of a place from the schemas that are asked there."""

    def __init__(self, references: References) -> None:
        self._references = references
        self._found: dict[tuple[Root, ...], Speakers] = {}
        self._visits_left = SCHEMA_VALUE_COUNT_MAX

    def of(self, roots: tuple[Root, ...]) -> Speakers:
        """Return what speaks where the schemas *roots* are asked."""
        if roots not in self._found:
            gathering = _Gathering()
            for root in roots:
                self._gather(root, gathering, SCHEMA_CALLS_MAX)
            self._found[roots] = gathering.speakers()
        return self._found[roots]

    def inside(self, member: Member, *tokens: str) -> Member:
        """Return a subschema of a member, in its dynamic scope."""
        node = self._references.inside(member.node, *tokens)
        return Member(node, self._references.entered(node, member.scope))

    def referred(self, member: Member, keyword: str) -> Member:
        """Return what ``$ref`` or ``$dynamicRef`` of a member means there."""
        node = self._references.resolve(member.node, keyword, member.scope)
        return Member(node, self._references.entered(node, member.scope))

    def in_place(self, member: Member, keyword: str) -> Iterator[Member]:
        """Yield the schemas of one keyword that speak of the same value as *member* does."""
        entry = KEYWORDS.get(keyword)
        if entry is None or not entry.in_place:
            return
        if entry.holds is Holds.NONE:
            yield self.referred(member, keyword)
        for tokens in held(entry, keyword, member.node.content(keyword)):
            yield self.inside(member, *tokens)

    def _gather(self, root: Root, gathering: "_Gathering", calls_left: int) -> None:
        if root in gathering.seen:
            return
        if calls_left == 0:
            raise SchemaSizeError(SCHEMAS_INSIDE, SCHEMA_CALLS_MAX, pointer_of(root))
        self._visits_left -= 1
        if self._visits_left < 0:
            what = "visits of its schemas"
            raise SchemaSizeError(what, SCHEMA_VALUE_COUNT_MAX, pointer_of(root))
        gathering.seen[root] = None
        if isinstance(root, Constant):
            gathering.add_constant(root)
        elif isinstance(root.node.value, dict):
            if not _OF_PARTS.isdisjoint(root.node.value):
                gathering.members.append(root)
            for keyword, content in root.node.value.items():
                gathering.add_names(root, keyword, content)
                for constant in constants(keyword, content, root.node.pointer):
                    self._gather(constant, gathering, calls_left - 1)
                for member in self.in_place(root, keyword):
                    self._gather(member, gathering, calls_left - 1)


class _Gathering:
    """Speakers while they are found."""

    def __init__(self) -> None:
        self.seen: dict[Root, None] = {}
        self.members: list[Root] = []
        self._described: dict[str, None] = {}
        self._mentioned: dict[str, None] = {}
        self._patterns: dict[str, None] = {}
        self._prefix_count = 0
        self._is_open = False

    def add_names(self, root: Member, keyword: str, content: Json) -> None:
        """Note the keys that a keyword knows."""
        if keyword in _OF_FREE_KEYS and content is not False:
            self._is_open = True
        if keyword == "properties" and isinstance(content, dict):
            self._described.update(dict.fromkeys(content))
        elif keyword == "patternProperties" and isinstance(content, dict):
            self._patterns.update(dict.fromkeys(content))
        elif keyword == "prefixItems" and isinstance(content, list):
            self._prefix_count = max(self._prefix_count, len(content))
        elif keyword == "required" and isinstance(content, list):
            self._mention(content)
        elif keyword in {"dependentRequired", "dependentSchemas"} and isinstance(content, dict):
            for name, needed in content.items():
                self._mention([name, *needed] if isinstance(needed, list) else [name])
        if len(self._described.keys() | self._mentioned) > SCHEMA_KEY_COUNT_MAX:
            where = shown(root.node.pointer)
            raise SchemaSizeError("keys of one object", SCHEMA_KEY_COUNT_MAX, where)

    def add_constant(self, constant: Constant) -> None:
        """Note the keys of a constant, or its items."""
        self.members.append(constant)
        if isinstance(constant.value, dict):
            self._mention(list(constant.value))
        else:
            self._prefix_count = max(self._prefix_count, len(constant.value))

    def speakers(self) -> Speakers:
        """Return what was found."""
        names = tuple(self._described | self._mentioned)
        patterns = tuple(self._patterns)
        return Speakers(tuple(self.members), names, patterns, self._prefix_count, self._is_open)

    def _mention(self, names: list[Json]) -> None:
        self._mentioned.update(dict.fromkeys(name for name in names if isinstance(name, str)))


def constants(keyword: str, content: Json, pointer: str) -> Iterator[Constant]:
    """Yield the values of ``const`` and ``enum`` whose parts matter for how they are spelled.

    *pointer* is that of the schema which has the keyword.
    """
    values = [content] if keyword == "const" else []
    if keyword == "enum" and isinstance(content, list):
        values = content
    for value in values:
        if part := constant_of(value, f"{pointer}/{keyword}"):
            yield part


def constant_of(value: Json, pointer: str) -> Constant | None:
    """Return a value as a constant if it holds an object: else one order is as good as another."""
    if isinstance(value, dict) or (isinstance(value, list) and _holds_object(value)):
        return Constant(canonical_json(value), value, pointer)
    return None


def _holds_object(items: list[Json]) -> bool:
    return any(
        isinstance(item, dict) or (isinstance(item, list) and _holds_object(item)) for item in items
    )


@dataclass(frozen=True, slots=True)
class Bounds:
    """How many there are.

    Attributes:
        least: Fewest.
        most: Most, or None for no bound.
        label: Where a schema says so, for errors.
    """

    least: int = 0
    most: int | None = None
    label: str = ""


ANY_COUNT: Final = Bounds()
"""No bounds."""


def bounds_of(member: Member, least: Least, most: Most) -> Bounds:
    """Return the bounds that the keywords *least* and *most* of a schema set."""
    schema = member.node.keywords
    found = [name for name in (most, least) if name in schema]
    if not found:
        return ANY_COUNT
    return Bounds(schema.get(least, 0), schema.get(most), f"{found[0]} at #{member.node.pointer}")
