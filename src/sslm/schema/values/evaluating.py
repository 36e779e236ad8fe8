"""From schemas to sets of values: every keyword, at one place."""

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from decimal import Decimal
from typing import Final

from sslm.errors.schema_documents import SchemaSizeError
from sslm.limits import SCHEMA_ASKED_PARTS_MAX, SCHEMA_CALLS_MAX
from sslm.schema.documents.document import Json, pointer_text, shown
from sslm.schema.documents.keywords import KEYWORDS, Keywords, Role, unknown_keyword_hint
from sslm.schema.documents.options import FormatMeaning
from sslm.schema.documents.refusals import Refusals, Unsupported, schema_label
from sslm.schema.regular.compiler import LanguageCompiler
from sslm.schema.regular.language import NOTHING, Bytes, Named, either
from sslm.schema.values.algebra import any_of, both, exactly_one, outside
from sslm.schema.values.items import ItemKeywords
from sslm.schema.values.keys import KeyLanguages
from sslm.schema.values.places import Place, PlaceTable
from sslm.schema.values.properties import PropertyKeywords
from sslm.schema.values.scalars import ScalarKeywords
from sslm.schema.values.speakers import SCHEMAS_INSIDE, Member, SpeakerTable
from sslm.schema.values.spelling import spelled
from sslm.schema.values.unevaluated import UnevaluatedKeywords
from sslm.schema.values.universe import Universes
from sslm.schema.values.values import KINDS, NO_PART, NO_VALUE, Part, Value

_COMPLEMENT: Final = (
    "it would have to know whether a key is repeated among those that no schema names; set "
    "additionalProperties to false beside it, or name the keys"
)


_SCHEMA_STEPS: Final = 100
"""Steps of compiling that are counted for a schema at a place, beside its automata."""


class Evaluator:
    """Finds which values at a place a schema allows.

    Args:
        speakers: Finds the schemas that a schema refers to.
        places: Finds the places inside a place.
        universes: All values of a place.
        patterns: Decides which keys match which patterns.
        compiler: Decides what only an automaton can.
        refusals: Where to note what cannot be exact.
        ignores_unknown: Whether unknown keywords mean nothing.
        formats: What ``format`` means; see :class:`ScalarKeywords`.

    Attributes:
        needs_all_texts: Whether a complement was asked for of a set that leaves texts of a format
            out: then all must be found again with formats that leave out none.
    """

    def __init__(
        self,
        *,
        speakers: SpeakerTable,
        places: PlaceTable,
        universes: Universes,
        patterns: KeyLanguages,
        compiler: LanguageCompiler,
        refusals: Refusals,
        ignores_unknown: bool,
        formats: FormatMeaning,
    ) -> None:
        self.speakers = speakers
        self.places = places
        self.universes = universes
        self.patterns = patterns
        self.compiler = compiler
        self.refusals = refusals
        self.needs_all_texts = False
        self._parts_left = SCHEMA_ASKED_PARTS_MAX
        self._ignores_unknown = ignores_unknown
        self._scalars = ScalarKeywords(refusals, formats)
        self._items = ItemKeywords(self)
        self._properties = PropertyKeywords(self)
        self._unevaluated = UnevaluatedKeywords(self, self._properties)
        self._found: dict[tuple[Member, Place], Value] = {}
        self._active: set[tuple[Member, Place]] = set()
        self._call_count = 0

    def value(self, member: Member, place: Place) -> Value:
        """Return the values of *place* that a schema allows."""
        key = (member, place)
        if key in self._found:
            return self._found[key]
        if key in self._active:
            self.refusals.add(member.node.pointer, "$ref", "it refers to itself without an end")
            return NO_VALUE
        self._active.add(key)
        with self.call(member):
            found = self._found[key] = self._new_value(member, place)
        self._active.remove(key)
        return found

    @contextmanager
    def call(self, member: Member) -> Iterator[None]:
        """Count a schema that is worked out inside others, while it is.

        Raises:
            SchemaSizeError: If there are too many of them for Python's stack.
        """
        if self._call_count == SCHEMA_CALLS_MAX:
            raise SchemaSizeError(SCHEMAS_INSIDE, SCHEMA_CALLS_MAX, shown(member.node.pointer))
        self._call_count += 1
        yield
        self._call_count -= 1

    def evaluated(self, member: Member, place: Place) -> Value:
        """Return what a schema allows, its ``unevaluated...`` keywords left out."""
        universe = self.universes.of(place)
        if isinstance(member.node.value, bool):
            return universe if member.node.value else NO_VALUE
        schema = member.node.keywords
        found = self._typed(member, schema, place)
        kinds = {kind for kind in KINDS if found[kind] is not NO_PART}
        parts: list[Value] = [found, *self._applied(member, schema, place)]
        own: dict[str, Callable[[], Part]] = {
            "number": lambda: self._scalars.numbers(member, universe["number"]),
            "string": lambda: self._scalars.strings(member, universe["string"]),
            "array": lambda: self._items.part(member, place),
            "object": lambda: self._properties.part(member, place),
        }
        for kind, find in own.items():
            if kind in kinds and universe[kind] is not NO_PART:
                parts.append(universe.with_part(kind, find()))
        return both(universe, parts)

    def doubt(self, member: Member, keyword: str, values: Iterable[Value]) -> Unsupported:
        """Return what to note where the complement of one of some sets would be wrong.

        Sets that leave something out have no right complement: see ``needs_all_texts``.
        """
        self.needs_all_texts |= any(value.is_partial for value in values)
        return Unsupported(f"{member.node.pointer}/{keyword}", keyword, _COMPLEMENT)

    def in_place(self, member: Member, keyword: str, place: Place) -> list[Value]:
        """Return the sets of the schemas of one keyword that speaks of the same value."""
        return [self.value(one, place) for one in self.speakers.in_place(member, keyword)]

    def _new_value(self, member: Member, place: Place) -> Value:
        schema, is_object = member.node.keywords, isinstance(member.node.value, dict)
        if is_object:
            self._check(member, schema)
            self.spend(member, len(place.names) + place.prefix_count)
            self.compiler.spend(_SCHEMA_STEPS, schema_label(schema, member.node.pointer))
        found = self.evaluated(member, place)
        if is_object:
            for kind, keyword, of_kind in (
                ("object", "unevaluatedProperties", self._unevaluated.object_part),
                ("array", "unevaluatedItems", self._unevaluated.array_part),
            ):
                if keyword in schema and found[kind] is not NO_PART:
                    found = found.with_part(kind, of_kind(member, place))
            found = self._labelled(found, member, self.universes.of(place))
        return found

    def spend(self, member: Member, parts: int) -> None:
        """Count the parts of values that a schema is asked about; raise SchemaSizeError."""
        self._parts_left -= parts
        if self._parts_left < 0:
            what = "keys and items that its schemas are asked about"
            raise SchemaSizeError(what, SCHEMA_ASKED_PARTS_MAX, shown(member.node.pointer))

    def _labelled(self, value: Value, member: Member, universe: Value) -> Value:
        """Return *value* such that an error about its size names the schema's keywords."""
        schema, pointer = member.node.keywords, member.node.pointer

        def named(kind: str, part: Part, whole: Part) -> Part:
            if part is whole or part.language is NOTHING:
                return part
            label = schema_label(schema, pointer, kind)
            return replace(part, language=Named(part.language, label))

        return Value(tuple(map(named, KINDS, value.parts, universe.parts)))

    def _check(self, member: Member, schema: Keywords) -> None:
        for name in schema:
            keyword = KEYWORDS.get(name)
            where = member.node.pointer + pointer_text((name,))
            if keyword is not None and keyword.role is Role.REFUSED:
                self.refusals.add(where, name, keyword.hint)
            elif keyword is None and not self._ignores_unknown and not name.startswith("x-"):
                self.refusals.add(where, name, unknown_keyword_hint(name))
        for pattern in schema.get("patternProperties", {}):
            self._scalars.refuse_pattern(member, "patternProperties", pattern)
        if "format" in schema:
            self._scalars.refuse_format(member, schema["format"])

    def _typed(self, member: Member, schema: Keywords, place: Place) -> Value:
        """Return the values that ``type``, ``const`` and ``enum`` allow."""
        universe = self.universes.of(place)
        found = universe
        if "type" in schema:
            listed = schema["type"] if isinstance(schema["type"], list) else [schema["type"]]
            names = {"number" if name == "integer" else name for name in listed}
            pairs = zip(KINDS, universe.parts, strict=True)
            found = Value(tuple(part if kind in names else NO_PART for kind, part in pairs))
        if "const" in schema:
            found = both(universe, [found, self._constants([schema["const"]], place)])
        if "enum" in schema:
            found = both(universe, [found, self._constants(schema["enum"], place)])
        return found

    def _constants(self, values: list[Json], place: Place) -> Value:
        """Return the set of some values."""
        texts: dict[str, dict[bytes, None]] = {kind: {} for kind in KINDS}
        for value in values:
            text = spelled(value, place, self.places)
            if text is not None:
                texts[_kind(value)][text] = None
        return Value(
            tuple(
                Part(either(map(Bytes, texts[kind]))) if texts[kind] else NO_PART for kind in KINDS
            )
        )

    def _applied(self, member: Member, schema: Keywords, place: Place) -> Iterator[Value]:
        """Yield what the keywords allow whose schemas speak of the same value."""
        universe = self.universes.of(place)
        for keyword in ("$ref", "$dynamicRef", "allOf"):
            if keyword in schema:
                yield both(universe, self.in_place(member, keyword, place))
        if "anyOf" in schema:
            yield any_of(universe, self.in_place(member, "anyOf", place))
        if "oneOf" in schema:
            alternatives = self.in_place(member, "oneOf", place)
            yield exactly_one(universe, alternatives, self.doubt(member, "oneOf", alternatives))
        if "not" in schema:
            (value,) = self.in_place(member, "not", place)
            yield outside(universe, value, self.doubt(member, "not", [value]))
        if "if" in schema and ("then" in schema or "else" in schema):
            yield self._conditional(member, schema, place)

    def _conditional(self, member: Member, schema: Keywords, place: Place) -> Value:
        universe = self.universes.of(place)
        (condition,) = self.in_place(member, "if", place)
        then = self.in_place(member, "then", place) if "then" in schema else []
        otherwise = self.in_place(member, "else", place) if "else" in schema else []
        failing = outside(universe, condition, self.doubt(member, "if", [condition]))
        if "then" not in schema:
            return any_of(universe, [condition, both(universe, otherwise)])
        passing = both(universe, [condition, *then])
        return any_of(universe, [passing, both(universe, [failing, *otherwise])])


def _kind(value: Json) -> str:
    if value is None:
        return "null"
    kinds: tuple[tuple[type | tuple[type, ...], str], ...] = (
        (bool, "boolean"),
        ((int, Decimal), "number"),
        (str, "string"),
        (list, "array"),
    )
    return next((name for kind, name in kinds if isinstance(value, kind)), "object")
