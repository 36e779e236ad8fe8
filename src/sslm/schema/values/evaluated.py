"""Which keys or items a schema has looked at, case by case of how that came out."""

from dataclasses import dataclass
from itertools import product
from typing import Final, Literal

from sslm.limits import SCHEMA_CASE_COUNT_MAX
from sslm.schema.values.algebra import any_part, both_parts, outside_part
from sslm.schema.values.evaluation import Evaluation
from sslm.schema.values.places import Place
from sslm.schema.values.properties import PropertyKeywords
from sslm.schema.values.speakers import Member
from sslm.schema.values.values import NO_PART, Part

Kind = Literal["object", "array"]

_UNEVALUATED: Final = {"object": "unevaluatedProperties", "array": "unevaluatedItems"}


@dataclass(frozen=True, slots=True)
class Seen:
    """What was looked at.

    Attributes:
        is_all: Whether every key, or every item, was.
        names: Keys that were.
        patterns: Patterns such that all keys that match one were.
        prefix_count: As many items from the first on were.
        containing: Schemas such that every item that satisfies one was.
    """

    is_all: bool = False
    names: frozenset[str] = frozenset()
    patterns: frozenset[str] = frozenset()
    prefix_count: int = 0
    containing: frozenset[Member] = frozenset()

    def with_all(self, other: "Seen") -> "Seen":
        """Return what this or *other* has."""
        if self.is_all or other.is_all:
            return EVERYTHING
        return Seen(
            False,
            self.names | other.names,
            self.patterns | other.patterns,
            max(self.prefix_count, other.prefix_count),
            self.containing | other.containing,
        )


EVERYTHING: Final = Seen(is_all=True)
NOT_ANYTHING: Final = Seen()

Cases = dict[Seen, Part]
"""For everything that may have been seen, the values for which it is."""


class CaseFinder:
    """Tells the cases of a schema apart.

    Args:
        evaluator: Finds the values of other schemas.
        properties: Finds objects by their keys.
        kind: Whether objects or lists are looked at.
    """

    def __init__(self, evaluator: Evaluation, properties: PropertyKeywords, kind: Kind) -> None:
        self._evaluator = evaluator
        self._properties = properties
        self._kind: Kind = kind
        self._found: dict[tuple[Member, Place], Cases] = {}
        self._has_overflowed = False

    def inside(self, member: Member, place: Place) -> Cases | None:
        """Return the cases of a schema whose own ``unevaluated...`` keyword is left out.

        Returns:
            The cases; None if there are more than ``SCHEMA_CASE_COUNT_MAX``.
        """
        allowed = self._evaluator.evaluated(member, place)[self._kind]
        found = self._split(member, place, allowed)
        return None if self._has_overflowed else found

    def _of(self, member: Member, place: Place) -> Cases:
        """Return the cases in which a schema allows a value."""
        key = (member, place)
        if key not in self._found:
            allowed = self._evaluator.value(member, place)[self._kind]
            if isinstance(member.node.value, bool):
                self._found[key] = {NOT_ANYTHING: allowed}
            elif _UNEVALUATED[self._kind] in member.node.keywords:
                self._found[key] = {EVERYTHING: allowed}
            else:
                with self._evaluator.call(member):
                    self._found[key] = self._split(member, place, allowed)
        return self._found[key]

    def _split(self, member: Member, place: Place, allowed: Part) -> Cases:
        cases: Cases = {self._own(member): allowed}
        for keyword in member.node.keywords:
            for choice in self._choices(member, keyword, place):
                cases = self._crossed(cases, choice, place)
        return cases

    def _own(self, member: Member) -> Seen:
        """Return what keywords look at that do so in any case."""
        schema = member.node.keywords
        if self._kind == "object":
            names, patterns = schema.get("properties", {}), schema.get("patternProperties", {})
            if "additionalProperties" in schema:
                return EVERYTHING
            return Seen(names=frozenset(names), patterns=frozenset(patterns))
        if "items" in schema:
            return EVERYTHING
        prefix = schema.get("prefixItems", [])
        inner = (
            [self._evaluator.speakers.inside(member, "contains")] if "contains" in schema else []
        )
        return Seen(prefix_count=len(prefix), containing=frozenset(inner))

    def _choices(self, member: Member, keyword: str, place: Place) -> list[Cases]:
        """Return for each independent choice of a keyword the cases it divides all values into.

        Values that *member* does not allow anyway may be in any case, or in none.
        """
        members = list(self._evaluator.speakers.in_place(member, keyword))
        if keyword in {"$ref", "$dynamicRef", "allOf"}:
            return [self._of(one, place) for one in members]
        if keyword == "anyOf":
            return [self._with_failure(member, keyword, one, place) for one in members]
        if keyword == "oneOf":
            return [self._merged([self._of(one, place) for one in members], place)]
        if keyword == "dependentSchemas":
            return [self._dependent(one, place) for one in members]
        if keyword == "if":
            return [self._conditional(member, members[0], place)]
        return []

    def _with_failure(self, member: Member, keyword: str, inner: Member, place: Place) -> Cases:
        """Return the cases of a schema, and that in which it does not allow a value."""
        return self._merged(
            [self._of(inner, place), {NOT_ANYTHING: self._failing(member, keyword, inner, place)}],
            place,
        )

    def _failing(self, member: Member, keyword: str, inner: Member, place: Place) -> Part:
        evaluator = self._evaluator
        whole = evaluator.universes.of(place)[self._kind]
        allowed = evaluator.value(inner, place)
        doubt = evaluator.doubt(member, keyword, [allowed])
        return outside_part(whole, allowed[self._kind], doubt)

    def _dependent(self, inner: Member, place: Place) -> Cases:
        name = inner.node.tokens[-1]
        if self._kind == "array":
            return {NOT_ANYTHING: self._evaluator.universes.of(place)["array"]}
        absent = {NOT_ANYTHING: self._properties.keyed(place, forbidden={name})}
        present = {NOT_ANYTHING: self._properties.keyed(place, required={name})}
        inside = self._crossed(present, self._of(inner, place), place)
        return self._merged([absent, inside], place)

    def _conditional(self, member: Member, condition: Member, place: Place) -> Cases:
        passing = self._of(condition, place)
        failing = {NOT_ANYTHING: self._failing(member, "if", condition, place)}
        for keyword in ("then", "else"):
            if keyword not in member.node.keywords:
                continue
            (inner,) = self._evaluator.speakers.in_place(member, keyword)
            cases = self._of(inner, place)
            if keyword == "then":
                passing = self._crossed(passing, cases, place)
            else:
                failing = self._crossed(failing, cases, place)
        return self._merged([passing, failing], place)

    def _crossed(self, cases: Cases, choice: Cases, place: Place) -> Cases:
        """Return the cases in which a case of each happens."""
        if all(old.with_all(new) == old for old in cases for new in choice):
            # Nothing new is seen, so it does not matter which: *cases* hold what is allowed.
            return cases
        whole = self._evaluator.universes.of(place)[self._kind]
        found: dict[Seen, list[Part]] = {}
        for (old, a), (new, b) in product(cases.items(), choice.items()):
            part = both_parts(whole, [a, b])
            if part is not NO_PART:
                found.setdefault(old.with_all(new), []).append(part)
        if len(found) > SCHEMA_CASE_COUNT_MAX:
            self._has_overflowed = True
            return cases
        return {seen: any_part(whole, parts) for seen, parts in found.items()}

    def _merged(self, several: list[Cases], place: Place) -> Cases:
        whole = self._evaluator.universes.of(place)[self._kind]
        found: dict[Seen, list[Part]] = {}
        for cases in several:
            for seen, part in cases.items():
                found.setdefault(seen, []).append(part)
        return {seen: any_part(whole, parts) for seen, parts in found.items()}
