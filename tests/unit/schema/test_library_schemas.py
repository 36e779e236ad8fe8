"""Schemas as pydantic, zod and OpenAI's strict mode write them compile to valid texts only."""

import json
from decimal import Decimal
from pathlib import Path
from typing import Final

import pytest

from sslm.schema.schema_compiler import compile_schema
from tests.schema_oracle import Oracle
from tests.schema_walks import Walker

SCHEMAS: Final = {
    path.name: path for path in sorted((Path(__file__).parents[2] / "schemas").glob("*.json"))
}


def test_there_are_schemas_of_all_kinds() -> None:
    assert len(SCHEMAS) >= 40
    assert {name.partition("_")[0] for name in SCHEMAS} == {"openai", "pydantic", "zod"}


@pytest.mark.parametrize("name", SCHEMAS)
def test_a_schema_of_a_library_compiles(name: str) -> None:
    source = SCHEMAS[name].read_bytes()
    compiled = compile_schema(source)
    oracle = Oracle(json.loads(source, parse_float=Decimal), {}, checks_formats=True)
    walker = Walker(compiled.automaton, seed=1)
    texts = [walker.text(60) for _ in range(5)]
    assert [text for text in texts if not oracle.accepts(text)] == []
