"""The JSON Schema test suite, draft 2020-12, with the depths that its instances need."""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from decimal import Decimal
from functools import cache
from typing import Any, Final

from sslm.schema.documents.options import FREE_LEVELS, SchemaOptions
from tests.data import shared_data

_ROOT: Final = "json-schema-test-suite"
_REMOTE_BASE: Final = "http://localhost:1234/"


@dataclass(frozen=True, slots=True)
class Group:
    """A schema of the suite with its instances.

    Attributes:
        file: Its file, relative to the draft's folder.
        description: What the suite says it is about.
        schema: The schema, numbers exact.
        tests: Instances: ``description``, ``data`` and ``valid``.
        options: What it is compiled with.
    """

    file: str
    description: str
    schema: Any
    tests: list[dict[str, Any]]
    options: SchemaOptions


def groups() -> Iterator[Group]:
    """Yield all groups of all files, the optional ones included.

    Unknown keywords mean nothing there, as the draft says; ``format`` is enforced only where the
    suite is about that.
    """
    folder = shared_data(f"{_ROOT}/tests/draft2020-12")
    for path in sorted(folder.rglob("*.json")):
        file = path.relative_to(folder).as_posix()
        for found in json.loads(path.read_text(encoding="utf-8"), parse_float=Decimal):
            depth = max(nesting(test["data"]) for test in found["tests"])
            options = SchemaOptions(
                free_levels=max(FREE_LEVELS, depth),
                unknown_keywords="ignore",
                formats="exact" if file.startswith("optional/format/") else "annotate",
                documents=remotes(),
            )
            yield Group(file, found["description"], found["schema"], found["tests"], options)


@cache
def remotes() -> dict[str, bytes]:
    """Return the documents that the suite serves at its made-up address, by URI."""
    folder = shared_data(f"{_ROOT}/remotes")
    return {
        _REMOTE_BASE + path.relative_to(folder).as_posix(): path.read_bytes()
        for path in sorted(folder.rglob("*.json"))
    }


def nesting(value: Any) -> int:
    """Return how many lists and objects stand inside each other in a value."""
    if not isinstance(value, list | dict):
        return 0
    inner = value.values() if isinstance(value, dict) else value
    return 1 + max(map(nesting, inner), default=0)
