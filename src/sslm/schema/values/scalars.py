"""Keywords of single values: numbers, texts."""

from typing import Final

from sslm.errors.schema import (
    PatternSyntaxError,
    SchemaBudgetError,
    UnknownFormatError,
    UnsupportedPatternError,
)
from sslm.errors.schema_documents import MalformedSchemaError
from sslm.schema.documents.document import shown, told
from sslm.schema.documents.keywords import Keywords
from sslm.schema.documents.options import FormatMeaning
from sslm.schema.documents.refusals import Refusals, label
from sslm.schema.regular.language import Both, Bytes, Language, Named, Sequence
from sslm.schema.values.decimals import decimals
from sslm.schema.values.patterns import pattern_language
from sslm.schema.values.speakers import Member, bounds_of
from sslm.schema.values.strings import any_text, text_of_length
from sslm.schema.values.text_formats import format_language
from sslm.schema.values.values import Part

_QUOTE: Final = Bytes(b'"')

_BOUNDING: Final[tuple[str, ...]] = (
    "minimum",
    "maximum",
    "exclusiveMinimum",
    "exclusiveMaximum",
    "multipleOf",
)


_DRAFT_FORMATS: Final = frozenset(
    {
        *("date-time", "date", "time", "duration", "email", "idn-email", "hostname"),
        *("idn-hostname", "ipv4", "ipv6", "uri", "uri-reference", "iri", "iri-reference", "uuid"),
        *("uri-template", "json-pointer", "relative-json-pointer", "regex"),
    }
)
"""Formats of the draft; each says something of texts only."""

_PATTERN_NAMES: Final = frozenset(
    {
        *("starts_with", "ends_with", "includes", "lowercase", "uppercase"),
        *("cuid", "cuid2", "ulid", "xid", "ksuid", "nanoid", "e164"),
    }
)
"""What zod writes as the format of a schema whose pattern says all of it."""

_NEVER_WHOLE: Final = "hostname"
"""The format that always leaves texts out: labels that begin with xn--."""

_HOST_NAMES: Final = (
    "all host names are needed here, since a complement or exact formats are asked for, and which "
    "labels that begin with xn-- are valid takes tables of Unicode; write a pattern"
)

_UNKNOWN_FORMAT: Final = (
    "the draft has no such format; write a pattern, or bounds if it is about numbers, or take "
    "formats for notes: formats='annotate' (--formats annotate)"
)
_UUID_VERSION: Final = (
    "the draft has no formats for versions of UUIDs; write uuid, which takes any version, or a "
    "pattern"
)


def any_number() -> Language:
    """Return every number."""
    return decimals()


def any_string() -> Language:
    """Return every text, with its quotes."""
    return quoted(any_text())


def quoted(content: Language) -> Language:
    """Return texts between quotes."""
    return Sequence((_QUOTE, content, _QUOTE))


class ScalarKeywords:
    """Finds which numbers and texts the keywords of one schema allow.

    Args:
        refusals: Where to note what cannot be exact.
        formats: What ``format`` means; see :class:`sslm.schema.documents.options.SchemaOptions`.
    """

    def __init__(self, refusals: Refusals, formats: FormatMeaning) -> None:
        self._refusals = refusals
        self._formats = formats

    def numbers(self, member: Member, whole: Part) -> Part:
        """Return the numbers that a schema's own keywords allow, out of *whole*."""
        schema = member.node.keywords
        bounds = [name for name in _BOUNDING if name in schema]
        is_integral = _is_integral(schema)
        if not bounds and not is_integral:
            return whole
        where = label(bounds or ["type"], member.node.pointer)
        try:
            language = decimals(
                minimum=schema.get("minimum"),
                maximum=schema.get("maximum"),
                exclusive_minimum=schema.get("exclusiveMinimum"),
                exclusive_maximum=schema.get("exclusiveMaximum"),
                multiple_of=schema.get("multipleOf"),
                integral=is_integral,
            )
        except SchemaBudgetError as error:
            raise SchemaBudgetError(error.what, error.limit, where) from error
        return Part(Named(language, where))

    def strings(self, member: Member, whole: Part) -> Part:
        """Return the texts that a schema's own keywords allow, out of *whole*."""
        schema = member.node.keywords
        contents: list[Language] = []
        bounds = bounds_of(member, "minLength", "maxLength")
        if bounds.label:
            contents.append(Named(text_of_length(bounds.least, bounds.most), bounds.label))
        for keyword, found in (
            ("pattern", self._pattern(member)),
            ("format", self._format(member)),
        ):
            if found is not None:
                contents.append(Named(found, f"{keyword} at #{member.node.pointer}"))
        if not contents:
            return whole
        content = contents[0] if len(contents) == 1 else Both(tuple(contents))
        is_partial = self._formats == "assert" and "format" in schema
        return Part(quoted(content), is_partial=is_partial)

    def refuse_pattern(self, member: Member, keyword: str, pattern: str) -> bool:
        """Note it if a pattern has no automaton; tell whether that is so.

        Raises:
            MalformedSchemaError: If it is no regular expression at all.
        """
        where = shown(f"{member.node.pointer}/{keyword}")
        try:
            pattern_language(pattern)
        except PatternSyntaxError as error:
            expected = f"a regular expression: {error.problem} at character {error.position}"
            raise MalformedSchemaError(where, keyword, told(pattern), expected) from error
        except UnsupportedPatternError as error:
            hint = f"{error.what} at character {error.position} of the pattern: {error.hint}"
            self._refusals.add(where, keyword, hint)
            return True
        return False

    def refuse_format(self, member: Member, name: str) -> None:
        """Note it if a format is not one that the draft defines; those are about texts alone."""
        is_known = name in _DRAFT_FORMATS or _names_pattern(member.node.keywords)
        if self._formats != "annotate" and not is_known:
            is_uuid = name.removeprefix("uuid").removeprefix("v").isdigit()
            hint = _UUID_VERSION if is_uuid else _UNKNOWN_FORMAT
            self._refusals.add(f"{member.node.pointer}/format", "format", hint)

    def _pattern(self, member: Member) -> Language | None:
        pattern = member.node.keywords.get("pattern")
        if pattern is None or self.refuse_pattern(member, "pattern", pattern):
            return None
        return pattern_language(pattern)

    def _format(self, member: Member) -> Language | None:
        text = member.node.keywords.get("format")
        if text is None or self._formats == "annotate" or text not in _DRAFT_FORMATS:
            return None
        if self._formats == "exact" and text == _NEVER_WHOLE:
            self._refusals.add(f"{member.node.pointer}/format", "format", _HOST_NAMES)
            return None
        try:
            return format_language(text, exact=self._formats == "exact")
        except UnknownFormatError as error:
            hint = f"it is not built; those that are: {', '.join(error.known)}; or write a pattern"
            self._refusals.add(f"{member.node.pointer}/format", "format", hint)
            return None


def _names_pattern(schema: Keywords) -> bool:
    """Tell whether the format of a schema is a name for the pattern beside it."""
    return "pattern" in schema and schema.get("format") in _PATTERN_NAMES


def _is_integral(schema: Keywords) -> bool:
    listed = schema.get("type", [])
    names = listed if isinstance(listed, list) else [listed]
    return "integer" in names and "number" not in names
