"""What can be wrong with a schema, or with the language that it describes."""

from sslm.errors.base import SchemaError
from sslm.errors.status import Status


class UnsatisfiableSchemaError(SchemaError):
    """No value at all satisfies a schema."""

    status = Status.SCHEMA_UNSATISFIABLE
    message = (
        "no value satisfies {where}: its conditions exclude each other, or it contains itself "
        "without an end; loosen one of them"
    )
    where: str


class SchemaBudgetError(SchemaError):
    """Compiling a schema would take more states, transitions or work than it may."""

    status = Status.SCHEMA_BUDGET
    message = (
        "compiling the schema takes more than {limit} {what}; what grew is {where}: lower its "
        "counts or lengths, make it simpler, or allow more"
    )
    what: str
    limit: int
    where: str


class SchemaTextError(SchemaError):
    """A text of a schema holds a lone surrogate, so that no UTF-8 string equals it."""

    status = Status.SCHEMA_TEXT
    message = (
        "a text of the schema holds the lone surrogate U+{code_point:04X} at character {position}; "
        "no valid string can equal it"
    )
    code_point: int
    position: int


class SchemaNumberError(SchemaError):
    """A number of a schema has too many digits, or is none that its place allows."""

    status = Status.SCHEMA_NUMBER
    message = "the number {number} of the schema {problem}"
    number: str
    problem: str


class PatternSyntaxError(SchemaError):
    """A pattern is not a regular expression."""

    status = Status.PATTERN_SYNTAX
    message = "the pattern {pattern!r} is wrong at character {position}: {problem}"
    pattern: str
    position: int
    problem: str


class UnsupportedPatternError(SchemaError):
    """A pattern asks for what an automaton cannot decide, or what is not built."""

    status = Status.PATTERN_UNSUPPORTED
    message = (
        "the pattern {pattern!r} has {what} at character {position}, which cannot be enforced "
        "exactly: {hint}"
    )
    pattern: str
    position: int
    what: str
    hint: str


class UnknownFormatError(SchemaError):
    """A format is not one that can be enforced."""

    status = Status.FORMAT_UNKNOWN
    message = "the format {name!r} cannot be enforced; those that can are {known}"
    name: str
    known: tuple[str, ...]


class UnspellableSchemaError(SchemaError):
    """No tokens of a vocabulary spell any text that a schema allows."""

    status = Status.SCHEMA_UNSPELLABLE
    message = (
        "no tokens of this vocabulary spell a text that the schema allows; change the schema, or "
        "take another model"
    )
