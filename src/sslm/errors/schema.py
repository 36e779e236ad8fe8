"""What can be wrong with a schema, or with the language that it describes."""

from sslm.errors.base import SchemaError
from sslm.errors.status import Status


class UnsatisfiableSchemaError(SchemaError):
    """No value at all satisfies a schema."""

    status = Status.SCHEMA_UNSATISFIABLE
    message = "no value satisfies {where}: its conditions exclude each other; loosen one of them"
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
