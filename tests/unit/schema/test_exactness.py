"""A schema compiles to exactly its values: what another implementation says, at random."""

import pytest

from sslm.errors.schema import SchemaBudgetError, UnsatisfiableSchemaError
from sslm.errors.schema_documents import UnsupportedSchemaError
from sslm.schema.documents.options import SchemaOptions
from sslm.schema.schema_compiler import CompiledSchema, compile_schema
from tests.schema_maker import Maker
from tests.schema_oracle import Oracle
from tests.schema_walks import Walker

SCHEMAS_OF_EACH_SEED = 8
VALUES = 40
OPTIONS = SchemaOptions(free_levels=1)


def _compare(compiled: CompiledSchema, oracle: Oracle, maker: Maker, seed: int) -> None:
    for value in (maker.value(1) for _ in range(VALUES)):
        assert compiled.allows(value) == oracle.allows(value), value
        if isinstance(value, dict):
            # The last of two equal keys counts, so the text must not pass for the first one's.
            text = maker.repeated(value)
            assert oracle.accepts(text) or not compiled.automaton.matches(text), text
    walker = Walker(compiled.automaton, seed)
    for _ in range(10):
        text = walker.text(40)
        assert oracle.accepts(text), text


@pytest.mark.parametrize("seed", range(6))
def test_a_schema_allows_exactly_its_values(seed: int) -> None:
    maker = Maker(seed)
    compared = 0
    for _ in range(SCHEMAS_OF_EACH_SEED):
        schema = maker.schema(2)
        oracle = Oracle(schema, {}, checks_formats=False)
        try:
            compiled = compile_schema(schema, OPTIONS)
        except (UnsupportedSchemaError, SchemaBudgetError):
            continue
        except UnsatisfiableSchemaError:
            assert not any(oracle.allows(maker.value()) for _ in range(VALUES)), schema
            continue
        compared += 1
        try:
            _compare(compiled, oracle, maker, seed)
        except AssertionError as error:
            raise AssertionError(schema) from error
    # Few are refused, or this would show little.
    assert compared >= SCHEMAS_OF_EACH_SEED // 3
