"""How a schema was compiled, to and from the JSON that files hold."""

from collections.abc import Mapping
from typing import Final, cast

from sslm.errors.base import SchemaError
from sslm.errors.runtime import OptionRangeError
from sslm.errors.schema_files import SchemaDocumentError
from sslm.formats.bounded_reader import U32_MAX
from sslm.formats.sslm.canonical_json import JsonFields, JsonValue, decode_json, encode_json
from sslm.schema.documents.canonical import canonical_json
from sslm.schema.documents.document import read_document
from sslm.schema.documents.options import ADDED_CHOICES, SchemaOptions
from sslm.schema.schema_compiler import COMPILER_VERSION

_CHOICE_SIZE_CHARS_MAX: Final = 16


def encode_options(options: SchemaOptions, *, has_canonical_spans: bool) -> bytes:
    """Return the one spelling of how a schema is compiled, its other documents left out."""
    fields: dict[str, JsonValue] = {
        "canonical_spans": has_canonical_spans,
        "compiler_version": COMPILER_VERSION,
        "formats": options.formats,
        "free_levels": options.free_levels,
        "recursion_levels": options.recursion_levels,
        "unknown_keywords": options.unknown_keywords,
    }
    return encode_json({**fields, **options.added_choices})


def decode_options(options: bytes, documents: bytes) -> tuple[SchemaOptions, bool, int]:
    """Return options, whether spans are canonical, and the version of the compiler.

    Args:
        options: As :func:`encode_options` writes them, unchecked.
        documents: What a schema refers to besides itself, unchecked; empty for nothing.

    Raises:
        ArtifactError: One class per defect.
    """
    fields = JsonFields("options", decode_json(memoryview(options), "options"))
    has_canonical_spans = fields.boolean("canonical_spans")
    compiler_version = fields.integer("compiler_version", at_least=1, at_most=COMPILER_VERSION)
    choices = {
        name: fields.text(name, at_most=_CHOICE_SIZE_CHARS_MAX)
        for name in ("formats", "unknown_keywords")
    }
    choices |= _added_choices(fields)
    levels = {
        name: fields.integer(name, at_least=0, at_most=U32_MAX)
        for name in ("free_levels", "recursion_levels")
    }
    fields.finish()
    others = _other_documents(documents) if documents else {}
    try:
        found = SchemaOptions(documents=others, **choices, **levels)  # type: ignore[arg-type]
    except OptionRangeError as error:
        raise SchemaDocumentError("options", f"cannot be: {error}") from error
    return found, has_canonical_spans, compiler_version


def require_canonical(part: str, raw: bytes) -> object:
    """Return what a document holds; raise SchemaDocumentError unless in its one spelling."""
    try:
        found = read_document(raw)
    except SchemaError as error:
        raise SchemaDocumentError(part, f"is none: {error}") from error
    if canonical_json(found) != raw:
        raise SchemaDocumentError(part, "is not in its one spelling")
    return found


def _added_choices(fields: JsonFields) -> dict[str, str]:
    """Take the choices that files say only where they are not the default."""
    found = {}
    for name, default in ADDED_CHOICES.items():
        if fields.has(name):
            found[name] = fields.text(name, at_most=_CHOICE_SIZE_CHARS_MAX)
            if found[name] == default:
                problem = f"say {name} {default!r}, which is meant where it is left out"
                raise SchemaDocumentError("options", problem)
    return found


def _other_documents(raw: bytes) -> Mapping[str, object]:
    found = require_canonical("documents that the schema refers to", raw)
    if not isinstance(found, dict) or not found or list(found) != sorted(found):
        problem = "are no object with at least one, in ascending order"
        raise SchemaDocumentError("other documents", problem)
    return cast(Mapping[str, object], found)
