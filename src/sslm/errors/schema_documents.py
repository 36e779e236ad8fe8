"""What can be wrong with a schema as it was written, or with what it asks for."""

from sslm.errors.base import SchemaError, SslmError
from sslm.errors.showing import presentable
from sslm.errors.status import Status


class _PlacedError(Exception):
    """What tells where it is by the fact ``pointer``, which for the root is empty."""

    def __str__(self) -> str:
        assert isinstance(self, SslmError)
        shown = {name: presentable(fact) for name, fact in self.facts().items()}
        place = f" at {shown['pointer']!r}" if shown["pointer"] else ""
        return self.message.format(**shown, place=place)


class SchemaSyntaxError(SchemaError):
    """A schema document is not JSON."""

    status = Status.SCHEMA_SYNTAX
    message = "the schema is not a JSON document: {reason}"
    reason: str


class SchemaSizeError(_PlacedError, SchemaError):
    """A schema document is larger, or refers to more, than it may."""

    status = Status.SCHEMA_SIZE
    message = "the schema has more than {at_most} {what}{place}; make it smaller"
    what: str
    at_most: int
    pointer: str


class SchemaDuplicateKeyError(SchemaError):
    """An object of a schema document has one key twice, so that what it says is unclear."""

    status = Status.SCHEMA_DUPLICATE_KEY
    message = "an object of the schema has the key {key!r} twice; remove one of them"
    key: str


class MalformedSchemaError(_PlacedError, SchemaError):
    """The value of a keyword is not of the kind that the keyword takes.

    Where there is no keyword, it is a document as a whole; *pointer* is empty, or its URI.
    """

    status = Status.SCHEMA_MALFORMED
    message = "{keyword!r}{place} of the schema is {found}, expected {expected}"
    pointer: str
    keyword: str
    found: str
    expected: str

    def __str__(self) -> str:
        if self.keyword:
            return super().__str__()
        document = f"the document {self.pointer!r}" if self.pointer else "the schema"
        return f"{document} is {self.found}, expected {self.expected}"


class UnsupportedSchemaError(_PlacedError, SchemaError):
    """A schema asks for what cannot be enforced exactly."""

    status = Status.SCHEMA_UNSUPPORTED
    message = (
        "{keyword!r}{place} of the schema cannot be enforced exactly: {hint}. "
        "`sslm schema check` and Schema.check tell all that cannot"
    )
    pointer: str
    keyword: str
    hint: str


class SchemaReferenceError(_PlacedError, SchemaError):
    """A reference of a schema leads nowhere."""

    status = Status.SCHEMA_REFERENCE
    message = "the reference {reference!r}{place} of the schema leads nowhere: {reason}"
    pointer: str
    reference: str
    reason: str


class SchemaValueError(SchemaError):
    """A value has no JSON text, so that no schema can be asked about it."""

    status = Status.SCHEMA_VALUE
    message = "the value has no JSON text: {reason}"
    reason: str
