"""What of a schema cannot be enforced exactly, gathered while it is compiled."""

from dataclasses import dataclass

from sslm.errors.schema_documents import UnsupportedSchemaError
from sslm.schema.documents.document import shown


@dataclass(frozen=True, slots=True)
class Unsupported:
    """One thing that a schema asks for and that cannot be enforced exactly.

    Attributes:
        pointer: Where in the schema; a JSON pointer, cut where it is long.
        keyword: Which keyword.
        hint: Why, or what to write instead.
    """

    pointer: str
    keyword: str
    hint: str


class Refusals:
    """The refusals of one compilation, each once, in the order in which they were found."""

    def __init__(self) -> None:
        self._found: dict[Unsupported, None] = {}

    def add(self, pointer: str, keyword: str, hint: str) -> None:
        """Note that *keyword* of the schema at *pointer* cannot be enforced."""
        self._found[Unsupported(shown(pointer), keyword, hint)] = None

    def all(self) -> list[Unsupported]:
        """Return what was found so far."""
        return list(self._found)

    def raise_first(self) -> None:
        """Raise :class:`UnsupportedSchemaError` if there is anything."""
        for found in self._found:
            raise UnsupportedSchemaError(found.pointer, found.keyword, found.hint)
