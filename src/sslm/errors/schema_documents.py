"""What can be wrong with a schema as it was written, or with what it asks for."""

from sslm.errors.base import SchemaError
from sslm.errors.status import Status


class SchemaSyntaxError(SchemaError):
    """A schema document is not JSON."""

    status = Status.SCHEMA_SYNTAX
    message = "the schema is not a JSON document: {reason}"
    reason: str


class SchemaSizeError(SchemaError):
    """A schema document is larger, or refers to more, than it may."""

    status = Status.SCHEMA_SIZE
    message = "the schema has more than {at_most} {what}, at {pointer!r}; make it smaller"
    what: str
    at_most: int
    pointer: str


class SchemaDuplicateKeyError(SchemaError):
    """An object of a schema document has one key twice, so that what it says is unclear."""

    status = Status.SCHEMA_DUPLICATE_KEY
    message = "an object of the schema has the key {key!r} twice; remove one of them"
    key: str


class MalformedSchemaError(SchemaError):
    """The value of a keyword is not of the kind that the keyword takes."""

    status = Status.SCHEMA_MALFORMED
    message = "{keyword!r} at {pointer!r} of the schema is not {expected}"
    pointer: str
    keyword: str
    expected: str


class UnsupportedSchemaError(SchemaError):
    """A schema asks for what cannot be enforced exactly."""

    status = Status.SCHEMA_UNSUPPORTED
    message = "{keyword!r} at {pointer!r} of the schema cannot be enforced exactly: {hint}"
    pointer: str
    keyword: str
    hint: str


class SchemaReferenceError(SchemaError):
    """A reference of a schema leads nowhere."""

    status = Status.SCHEMA_REFERENCE
    message = "the reference {reference!r} at {pointer!r} of the schema leads nowhere: {reason}"
    pointer: str
    reference: str
    reason: str


class SchemaValueError(SchemaError):
    """A value has no JSON text, so that no schema can be asked about it."""

    status = Status.SCHEMA_VALUE
    message = "the value has no JSON text: {reason}"
    reason: str
