"""How deep schemas lead into one another is counted, so that the caller's stack decides nothing."""

import sys
from collections.abc import Callable
from typing import Any

import pytest

from sslm.errors.schema_documents import SchemaSizeError, SchemaSyntaxError
from sslm.limits import SCHEMA_CALLS_MAX, SCHEMA_NESTING_MAX
from sslm.schema.schema_compiler import check, compile_schema
from tests.calling import called_from


def _chain(link: Callable[[dict[str, Any]], dict[str, Any]], length: int) -> dict[str, Any]:
    """Return a schema of so many that lead to one another, and the last one to a constant."""
    definitions = {f"d{n}": link({"$ref": f"#/$defs/d{n + 1}"}) for n in range(length - 1)}
    return {
        **link({"$ref": "#/$defs/d0"}),
        "$defs": {**definitions, f"d{length - 1}": {"const": 1}},
    }


LINKS: dict[str, tuple[Callable[[dict[str, Any]], dict[str, Any]], int]] = {
    "references": (lambda inner: inner, 1),
    "allOf": (lambda inner: {"allOf": [inner]}, 2),
    "anyOf": (lambda inner: {"anyOf": [{"const": 2}, inner]}, 2),
    "else": (lambda inner: {"if": {"const": 2}, "else": inner}, 2),
}
"""How each schema leads to the next, and how many levels that is."""


@pytest.mark.parametrize("callers", [0, 100])
@pytest.mark.parametrize("name", LINKS)
def test_a_chain_is_refused_for_its_length_alone(name: str, callers: int) -> None:
    link, levels = LINKS[name]
    longest = (SCHEMA_CALLS_MAX - 1) // levels
    called_from(callers, lambda: compile_schema(_chain(link, longest)))
    for refuse in (compile_schema, check):
        with pytest.raises(SchemaSizeError, match="levels of schemas inside one another"):
            called_from(callers, lambda: refuse(_chain(link, longest + 1)))  # noqa: B023


def test_a_caller_without_any_stack_left_is_told_so() -> None:
    """It is no verdict on the schema, which may be fine."""
    schema = _chain(LINKS["allOf"][0], 40)
    with pytest.raises(RecursionError):
        called_from(sys.getrecursionlimit() - 300, lambda: compile_schema(schema))


@pytest.mark.parametrize("callers", [0, 300, 600])
def test_a_text_is_refused_for_its_depth_alone(callers: int) -> None:
    for depth in (SCHEMA_NESTING_MAX + 1, 100_000):
        for text in ("[" * depth + "]" * depth, '{"a":' * depth, b"[" * depth):
            with pytest.raises(SchemaSizeError, match="levels of nesting"):
                called_from(callers, lambda: compile_schema(text))  # noqa: B023
    with pytest.raises(SchemaSyntaxError):
        called_from(callers, lambda: compile_schema('"' + "[" * 100_000))
