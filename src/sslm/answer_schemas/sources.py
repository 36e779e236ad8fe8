"""What callers describe answers with, as JSON Schema documents."""

import dataclasses
import os
import types
import typing
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from sslm import limits
from sslm.artifact.file_bytes import CopiedFile
from sslm.errors.base import ArtifactError, SchemaError
from sslm.errors.schema_documents import SchemaSizeError
from sslm.errors.schema_files import SchemaSourceError
from sslm.errors.showing import briefly
from sslm.formats.schemas.containers import MAGIC

_SIMPLE: Final[dict[object, dict[str, object]]] = {
    str: {"type": "string"},
    bool: {"type": "boolean"},
    int: {"type": "integer"},
    float: {"type": "number"},
    type(None): {"type": "null"},
    list: {"type": "array"},
    dict: {"type": "object"},
    Any: {},
    object: {},
}
"""Also of lists, objects and values of which nothing more is said."""
_KNOWN: Final = (
    "str, bool, int, float, None, Any, list, tuple[...], dict[str, ...], Literal, Optional, "
    "unions, dataclasses and TypedDicts of these"
)
_NESTING_MAX: Final = 32


def schema_document(source: object) -> object:
    """Return the JSON Schema that a caller means.

    Args:
        source: A mapping, or bytes or text of JSON; a ``pathlib`` path of a file with such text; a
            pydantic model class; a dataclass or TypedDict class of simple types.

    Returns:
        What :func:`sslm.schema.documents.document.read_document` takes.

    Raises:
        SchemaSourceError: If it is nothing of these, or a class with a field of another type.
        SchemaSizeError: If a file is larger than schemas are.
        UnreadableFileError: If a file cannot be read.
    """
    if isinstance(source, (Mapping, str, bytes, bytearray, memoryview, bool)):
        return source
    if isinstance(source, os.PathLike):
        return _file_bytes(Path(source))
    if isinstance(source, type):
        # By what it can do, so that pydantic need not be there.
        describe = getattr(source, "model_json_schema", None)
        if callable(describe):
            return _described(source, describe)
        if dataclasses.is_dataclass(source) or typing.is_typeddict(source):
            return _object_schema(source, source.__name__, ())
    raise SchemaSourceError(_shown(source), _sources_known(source))


@contextmanager
def about_source(source: object) -> Iterator[None]:
    """Let what is wrong with a file be told with its name."""
    try:
        yield
    except (ArtifactError, SchemaError) as error:
        if isinstance(source, (str, os.PathLike)):
            name = os.fspath(source)
            if isinstance(name, str) and name not in str(error):
                error.add_note(name)
        raise


def schema_title(source: object) -> str | None:
    """Return the name that a source has of itself, as far as names of schemas may be so."""
    if isinstance(source, type):
        return source.__name__
    if isinstance(source, os.PathLike):
        return Path(source).name.split(".")[0]
    title = source.get("title") if isinstance(source, Mapping) else None
    return title if isinstance(title, str) else None


def _described(kind: type, describe: Callable[[], object]) -> object:
    try:
        return describe()
    except (MemoryError, RecursionError):
        raise
    except Exception as error:
        raise SchemaSourceError(
            f"the class {kind.__name__}", f"its model_json_schema() says {_first_line(error)}"
        ) from error


def _first_line(error: Exception) -> str:
    return f"{type(error).__name__}: {next(iter(str(error).splitlines()), '')}"


def _shown(source: object) -> str:
    """Return what a message calls something that is no schema."""
    if isinstance(source, type):
        return f"the class {source.__name__}"
    if typing.get_origin(source) is not None:
        return f"the type {briefly(source)}"
    return f"a value of the type {type(source).__name__}"


def _sources_known(source: object) -> str:
    known = "give a dict, JSON text, a pathlib.Path, or a pydantic, dataclass or TypedDict class"
    if isinstance(source, type) or typing.get_origin(source) is not None:
        return f"{known}; of other types, what pydantic.TypeAdapter(...).json_schema() makes"
    if hasattr(source, "model_json_schema") or dataclasses.is_dataclass(source):
        return f"{known}: its class, and no object of it"
    if hasattr(source, "json_schema"):
        return f"{known}, such as what its json_schema() returns"
    return known


def _file_bytes(path: Path) -> bytes:
    if path.is_file() and path.stat().st_size > limits.SCHEMA_SIZE_BYTES_MAX:
        raise SchemaSizeError("bytes", limits.SCHEMA_SIZE_BYTES_MAX, "")
    file = CopiedFile(path, size_at_most_bytes=limits.SCHEMA_SIZE_BYTES_MAX)
    content = bytes(file.view)
    if content.startswith(MAGIC):
        raise SchemaSourceError(
            str(path), "it is compiled already; Schema.load and --schema take it, or give its JSON"
        )
    return content


def _object_schema(kind: type, place: str, around: tuple[type, ...]) -> dict[str, object]:
    """Describe a dataclass or TypedDict: its fields in their order, and no others."""
    if kind in around or len(around) > _NESTING_MAX:
        raise SchemaSourceError(
            place, f"{kind.__name__} contains itself; write its JSON Schema with $ref"
        )
    try:
        hints = typing.get_type_hints(kind, include_extras=False)
    except (NameError, TypeError) as error:
        raise SchemaSourceError(place, f"its types cannot be found out: {error}") from error
    names, required = _field_names(kind, hints)
    return {
        "type": "object",
        "properties": {
            name: _type_schema(hints[name], f"{place}.{name}", (*around, kind)) for name in names
        },
        "required": required,
        "additionalProperties": False,
    }


def _field_names(kind: type, hints: Mapping[str, object]) -> tuple[list[str], list[str]]:
    """Return the fields that an object has, and those that it must have."""
    if not dataclasses.is_dataclass(kind):
        required: frozenset[str] = getattr(kind, "__required_keys__", frozenset())
        return list(hints), [name for name in hints if name in required]
    fields = [field for field in dataclasses.fields(kind) if field.init]
    missing = dataclasses.MISSING
    return [field.name for field in fields], [
        field.name
        for field in fields
        if field.default is missing and field.default_factory is missing
    ]


def _type_schema(hint: Any, place: str, around: tuple[type, ...]) -> dict[str, object]:
    if hint in _SIMPLE:
        return dict(_SIMPLE[hint])
    if isinstance(hint, type) and (dataclasses.is_dataclass(hint) or typing.is_typeddict(hint)):
        return _object_schema(hint, place, around)
    found = _container_schema(hint, place, around)
    if found is None:
        shown = getattr(hint, "__name__", None) or repr(hint)
        raise SchemaSourceError(f"{place} of the type {shown}", f"known are {_KNOWN}")
    return found


def _container_schema(hint: Any, place: str, around: tuple[type, ...]) -> dict[str, object] | None:
    """Describe a type that is made of others, or return None if it is not known."""
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if origin in (typing.Union, types.UnionType):
        return {"anyOf": [_type_schema(one, place, around) for one in arguments]}
    if origin is typing.Literal:
        return _literal_schema(arguments, place)
    if origin is list:
        return {"type": "array", "items": _type_schema(arguments[0], f"{place}[]", around)}
    if origin is tuple:
        return _tuple_schema(arguments, place, around)
    if origin is dict and arguments[0] is str:
        inner = _type_schema(arguments[1], f"{place}{{}}", around)
        return {"type": "object", "additionalProperties": inner}
    return None


def _literal_schema(values: tuple[object, ...], place: str) -> dict[str, object]:
    for value in values:
        if type(value) not in (str, int, bool, type(None)):
            raise SchemaSourceError(
                f"{place} of the type Literal", "its values are texts, integers, booleans or None"
            )
    return {"enum": list(values)}


def _tuple_schema(
    arguments: tuple[object, ...], place: str, around: tuple[type, ...]
) -> dict[str, object]:
    if len(arguments) == 2 and arguments[1] is Ellipsis:
        return {"type": "array", "items": _type_schema(arguments[0], f"{place}[]", around)}
    return {
        "type": "array",
        "prefixItems": [
            _type_schema(one, f"{place}[{index}]", around) for index, one in enumerate(arguments)
        ],
        "minItems": len(arguments),
        "maxItems": len(arguments),
    }
