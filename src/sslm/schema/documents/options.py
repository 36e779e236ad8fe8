"""What may be chosen about how a schema is compiled."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, Literal

from sslm.errors.runtime import OptionRangeError
from sslm.limits import SCHEMA_FREE_LEVELS_MAX, SCHEMA_RECURSION_MAX
from sslm.schema.regular.spacing import Spacing

FREE_LEVELS: Final = 2
"""Default: states double with each level, and answers seldom need more than a list of objects."""

RECURSION_LEVELS: Final = 4
"""Default: a place with one recursive part grows by a constant with each level."""


FormatMeaning = Literal["assert", "exact", "annotate"]
"""What ``format`` means; see :class:`SchemaOptions`."""

FreeKeyChoice = Literal["allow", "omit"]
"""What becomes of keys that no schema names; see :class:`SchemaOptions`."""


ADDED_CHOICES: Final = {"free_keys": "allow", "spacing": "compact"}
"""Choices that came after the first version, with their defaults: digests and files say them only
where they are others, and so stay as they were."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SchemaOptions:
    """Choices of one compilation; they are part of a compiled schema's digest.

    Attributes:
        free_levels: Lists and objects that may stand inside each other where a schema says
            nothing, from 0 to ``SCHEMA_FREE_LEVELS_MAX``.
        recursion_levels: How often a recursive part may contain itself on one path, itself
            counted, from 1 to ``SCHEMA_RECURSION_MAX``; below that it holds no lists or objects.
        unknown_keywords: What becomes of a keyword that nobody knows: ``"refuse"``, since it may
            be a misspelt one, or ``"ignore"``, as the draft says. Those that begin with ``x-``
            are always ignored.
        formats: ``"assert"`` enforces ``format`` and refuses unknown ones; some texts that are
            valid but rare are left out, which saves thousands of states (docs/schemas.md,
            "Formats"). ``"exact"`` leaves out none. ``"annotate"`` ignores it, which is what the
            draft says of a validator that was told nothing.
        free_keys: Keys that no schema names: ``"allow"`` has them wherever they are valid.
            ``"omit"`` leaves them out of the objects of which a schema names keys, unless a schema
            that speaks of the same object has ``patternProperties``, ``propertyNames``, or
            ``additionalProperties`` or ``unevaluatedProperties`` other than false. All values that
            are left are valid.
        spacing: White space in the texts, of which none stands before the value or behind it:
            ``"compact"`` has none; ``"spaced"`` has one blank behind each comma and colon, as
            Python writes JSON; ``"flexible"`` may have what printers write (docs/schemas.md,
            "White space"), at a few times the states, and with more places to choose at.
        documents: What references may lead to besides the schema itself, by URI; each as
            :func:`sslm.schema.documents.document.read_document` takes it. Nothing is fetched.

    Raises:
        OptionRangeError: If a value is not one of those.
    """

    free_levels: int = FREE_LEVELS
    recursion_levels: int = RECURSION_LEVELS
    unknown_keywords: Literal["refuse", "ignore"] = "refuse"
    formats: FormatMeaning = "assert"
    free_keys: FreeKeyChoice = "allow"
    spacing: Spacing = "compact"
    documents: Mapping[str, object] = field(default_factory=dict)

    def __post_init__(self) -> None:
        _require_between("free_levels", self.free_levels, 0, SCHEMA_FREE_LEVELS_MAX)
        _require_between("recursion_levels", self.recursion_levels, 1, SCHEMA_RECURSION_MAX)
        _require_one_of("unknown_keywords", self.unknown_keywords, ("refuse", "ignore"))
        _require_one_of("formats", self.formats, ("assert", "exact", "annotate"))
        _require_one_of("free_keys", self.free_keys, ("allow", "omit"))
        _require_one_of("spacing", self.spacing, ("compact", "spaced", "flexible"))
        documents: object = self.documents
        if not isinstance(documents, Mapping) or not all(isinstance(one, str) for one in documents):
            raise OptionRangeError("documents", repr(documents)[:80], "a mapping from URIs")

    @property
    def leaves_blank(self) -> bool:
        """Whether a blank at the end of text without a choice is left to what is chosen next."""
        return self.spacing != "compact"

    @property
    def added_choices(self) -> dict[str, str]:
        """Those of ``ADDED_CHOICES`` that are not the defaults."""
        found = {name: getattr(self, name) for name in ADDED_CHOICES}
        return {name: value for name, value in found.items() if value != ADDED_CHOICES[name]}


def _require_between(option: str, value: object, at_least: int, at_most: int) -> None:
    if type(value) is not int or not at_least <= value <= at_most:
        expected = f"an integer from {at_least} to {at_most}"
        raise OptionRangeError(option, repr(value)[:80], expected)


def _require_one_of(option: str, value: object, allowed: tuple[str, ...]) -> None:
    if value not in allowed:
        raise OptionRangeError(option, repr(value)[:80], " or ".join(map(repr, allowed)))
