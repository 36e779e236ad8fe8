"""Schemas that a model keeps for the next request."""

import pytest

from sslm.artifact.stored_schemas import StoredSchemas
from sslm.engine.answer_schema import SchemaBinder
from sslm.engine.model import Model
from sslm.schema.bound_schema import BoundSchema
from tests.converted import talking_artifact

KEPT_COUNT = 32


@pytest.fixture
def binder() -> SchemaBinder:
    with Model(talking_artifact()) as model:
        tokenizer = model.tokenizer
    return SchemaBinder(StoredSchemas({}), tokenizer, end_ids=frozenset(), is_pinned=False)


def bound(binder: SchemaBinder, number: int) -> BoundSchema:
    found = binder.answer_schema({"const": number}, None, None)
    assert found is not None
    return found.bound


def test_those_that_were_asked_for_last_are_kept(binder: SchemaBinder) -> None:
    first, second = bound(binder, 0), bound(binder, 1)
    for number in range(2, KEPT_COUNT + 1):
        assert bound(binder, 0) is first
        bound(binder, number)
    assert bound(binder, 0) is first
    assert bound(binder, 1) is not second


def test_a_schema_is_kept_with_and_without_ends(binder: SchemaBinder) -> None:
    allowed, never = (binder.answer_schema({"const": 0}, None, one) for one in (None, "never"))
    assert allowed is not None
    assert never is not None
    assert (never.bound.end_ids, never.bound.schema_digest) == ((), allowed.bound.schema_digest)
    again = binder.answer_schema({"const": 0}, "cut", "never")
    assert again is not None
    assert again.bound is never.bound
