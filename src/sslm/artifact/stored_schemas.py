"""The compiled schemas of a model file, each decoded when it is first asked for."""

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Final

from sslm.errors.schema_files import UnknownSchemaError
from sslm.formats.bounded_reader import BoundedReader
from sslm.formats.schemas.containers import (
    encode_schema_section,
    read_schema_section,
    require_vocabulary,
)
from sslm.hashes import Sha256

if TYPE_CHECKING:
    from sslm.artifact.prepared_schema import PreparedSchema

_NAMES_SHOWN: Final = 8


class StoredSchemas(Mapping[str, "PreparedSchema"]):
    """Schemas by name, in ascending order of the names.

    Opening a file looks at no more than their beginnings, so that those which nobody asks for cost
    nothing. The section's bytes were checked against the file's hash by then.

    Args:
        found: The bytes of each, and where they lie in the file, by name.
    """

    def __init__(self, found: Mapping[str, memoryview]) -> None:
        self._encoded = found
        self._decoded: dict[str, PreparedSchema] = {}

    @classmethod
    def read(
        cls, data: memoryview, *, base_offset_bytes: int, vocabulary_sha256: bytes
    ) -> "StoredSchemas":
        """Read a section.

        Args:
            data: The section.
            base_offset_bytes: Where it lies in the file, for errors.
            vocabulary_sha256: Of the model's vocabulary.

        Raises:
            SchemaVocabularyError: If a schema is for another one.
            ArtifactError: One class per defect.
        """
        section = read_schema_section(data, base_offset_bytes=base_offset_bytes)
        for name, (vocabulary, _) in section.items():
            require_vocabulary(name, vocabulary, vocabulary_sha256)
        # Copies, small as they are: the file can then be closed while schemas are in use.
        return cls({name: memoryview(bytes(schema)) for name, (_, schema) in section.items()})

    def __getitem__(self, name: str) -> "PreparedSchema":
        """Return a schema, checked; whoever asks again gets the same one.

        Raises:
            KeyError: If there is none of that name; :meth:`named` says which there are.
            ArtifactError: One class per defect.
        """
        found = self._decoded.get(name)
        if found is None:
            # Few who open a model ask for a schema, and what reads one takes a while to import.
            from sslm.artifact.prepared_schema import decode_schema

            found = decode_schema(BoundedReader(self._encoded[name]))
            self._decoded[name] = found
        return found

    def named(self, name: str) -> "PreparedSchema":
        """Return a schema as indexing does, or raise UnknownSchemaError if there is none."""
        if name not in self._encoded:
            names = list(self._encoded)
            shown = ", ".join(names[:_NAMES_SHOWN]) + (", ..." if len(names) > _NAMES_SHOWN else "")
            raise UnknownSchemaError(str(name)[:80], shown or "none")
        return self[name]

    def size_bytes(self, name: str) -> int:
        """Return the bytes that the file holds of a schema."""
        return self._encoded[name].nbytes

    def sha256(self) -> str:
        """Return hex that stands for all of them, as they lie in the file, and for their names."""
        found = Sha256()
        for name, encoded in self._encoded.items():
            found.update(len(name.encode()).to_bytes(8, "little") + name.encode())
            found.update(encoded.nbytes.to_bytes(8, "little"))
            found.update(encoded)
        return found.hexdigest()

    def with_others(self, schemas: Sequence["PreparedSchema"]) -> bytes:
        """Return the section that holds others too, whose names are not taken."""
        own = [(name, bytes(encoded)) for name, encoded in self._encoded.items()]
        return encode_schema_section([*own, *((one.name, one.encoded) for one in schemas)])

    def __iter__(self) -> Iterator[str]:
        return iter(self._encoded)

    def __len__(self) -> int:
        return len(self._encoded)

    def __contains__(self, name: object) -> bool:
        """Tell whether there is one, without decoding it."""
        return name in self._encoded


NO_SCHEMAS: Final = StoredSchemas({})
"""Of a file that has none."""
