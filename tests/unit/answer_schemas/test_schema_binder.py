"""Schemas that a model keeps for the next request."""

import json
import threading
from pathlib import Path
from typing import Any

import pytest

from sslm import limits
from sslm.answer_schemas import binder as answer_schema
from sslm.answer_schemas.binder import AnswerSchema, KeptSchema, SchemaBinder
from sslm.answer_schemas.schema import Schema
from sslm.answer_schemas.vocabulary import SchemaVocabulary, schema_vocabulary
from sslm.artifact.stored_schemas import StoredSchemas
from sslm.engine.model import Model
from sslm.errors.runtime import MemoryBudgetError
from sslm.errors.schema_documents import MalformedSchemaError
from sslm.opening.admission import Admission
from sslm.schema.tokens.bound_schema import BoundSchema
from sslm.text.tokenizer import Tokenizer
from tests.converted import talking_artifact


@pytest.fixture
def binder() -> SchemaBinder:
    with Model(talking_artifact()) as model:
        tokenizer = model.tokenizer
    return SchemaBinder(StoredSchemas({}), tokenizer, end_ids=frozenset([2]), is_pinned=False)


@pytest.fixture
def compiled(monkeypatch: pytest.MonkeyPatch) -> list[object]:
    """Sources that were compiled, in their order."""
    found: list[object] = []
    compile_schema = Schema.compile

    def compile_and_note(source: object, **options: Any) -> Schema:
        found.append(source)
        return compile_schema(source, **options)

    monkeypatch.setattr(Schema, "compile", compile_and_note)
    return found


def bound(binder: SchemaBinder, number: int) -> BoundSchema:
    return binder.answer_schema({"const": number}).bound


def test_those_that_were_asked_for_last_are_kept(
    binder: SchemaBinder, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "KEPT_SCHEMA_COUNT_MAX", 4)
    first, second = bound(binder, 0), bound(binder, 1)
    for number in range(2, 5):
        assert bound(binder, 0) is first
        bound(binder, number)
    assert bound(binder, 0) is first
    assert bound(binder, 1) is not second


def test_as_many_are_kept_as_have_room(
    binder: SchemaBinder, monkeypatch: pytest.MonkeyPatch, compiled: list[object]
) -> None:
    several = [{"const": number} for number in range(50)]
    for source in several * 3:
        binder.answer_schema(source)
    assert compiled == several
    monkeypatch.setattr(limits, "KEPT_SCHEMAS_SIZE_BYTES_MAX", 1)
    binder.answer_schema({"const": 50})
    # The latest one is kept, whatever it takes.
    for number in (50, 49, 49):
        binder.answer_schema({"const": number})
    assert compiled[50:] == [{"const": 50}, {"const": 49}]


def test_those_that_are_kept_give_way_to_what_is_asked_for(
    binder: SchemaBinder, compiled: list[object]
) -> None:
    one = KeptSchema(bound(binder, 0), "").size_bytes + len('{"const": 0}')
    admission = Admission(10 * one)
    with Model(talking_artifact()) as model:
        other = SchemaBinder(
            StoredSchemas({}),
            model.tokenizer,
            end_ids=frozenset([2]),
            is_pinned=False,
            admission=admission,
        )
    compiled.clear()
    for number in range(4):
        bound(other, number)
    # Nobody follows them: all of the memory is free, and none of it was given up.
    assert admission.free_bytes() == 10 * one
    bound(other, 0)
    assert len(compiled) == 4
    with admission.admit("a sequence", 8 * one):
        # There is room for two beside it, those that were asked for last.
        for number in (3, 0):
            bound(other, number)
        assert len(compiled) == 4
        bound(other, 1)
        assert compiled[4:] == [{"const": 1}]
    with admission.admit("a sequence", 10 * one):
        with pytest.raises(MemoryBudgetError, match="a compiled schema"):
            bound(other, 1)
        assert len(compiled) == 6
    # Not even what was refused is kept where there is no room.
    bound(other, 1)
    assert len(compiled) == 7


def test_a_schema_that_answers_follow_counts_once(binder: SchemaBinder) -> None:
    admission = Admission(1 << 20)
    with Model(talking_artifact()) as model:
        other = SchemaBinder(
            StoredSchemas({}),
            model.tokenizer,
            end_ids=frozenset([2]),
            is_pinned=False,
            admission=admission,
        )
    answers = [other.answer_schema({"const": 0}, None, end) for end in (None, "never")]
    size = KeptSchema(answers[0].bound, "").size_bytes
    assert admission.free_bytes() == (1 << 20) - size
    with pytest.raises(MemoryBudgetError):
        admission.admit("a sequence", (1 << 20) - size + 1)
    del answers
    # Kept all the same, it gives way.
    assert admission.free_bytes() == 1 << 20
    with admission.admit("a sequence", 1 << 20):
        pass


def test_a_schema_is_kept_with_and_without_ends(binder: SchemaBinder) -> None:
    allowed, never = (binder.answer_schema({"const": 0}, None, one) for one in (None, "never"))
    assert (allowed.bound.end_ids, never.bound.end_ids) == ((2,), ())
    assert allowed.bound.schema_digest == never.bound.schema_digest
    assert allowed.bound.digest != never.bound.digest
    again = binder.answer_schema({"const": 0}, "cut", "never")
    assert again.bound is never.bound


def test_a_refusal_is_kept_without_what_callers_note(
    binder: SchemaBinder, compiled: list[object]
) -> None:
    wrong = {"type": "int"}
    for row in range(3):
        with pytest.raises(MalformedSchemaError) as caught:
            binder.answer_schema(wrong)
        assert not hasattr(caught.value, "__notes__")
        caught.value.add_note(f"in row {row}")
    assert compiled == [wrong]


def test_a_file_is_compiled_when_it_has_changed(
    binder: SchemaBinder, compiled: list[object], tmp_path: Path
) -> None:
    path = tmp_path / "one.json"
    path.write_text('{"const": 1}')
    first = binder.answer_schema(path).bound
    assert binder.answer_schema(path).bound is first
    path.write_text('{"const": 2}')
    assert binder.answer_schema(path).bound.schema_digest != first.schema_digest
    assert compiled == [path, path]


def test_a_source_that_changes_meanwhile_is_not_kept(
    binder: SchemaBinder, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = {"const": 1}
    compile_schema = Schema.compile

    def compile_and_change(given: object, **options: Any) -> Schema:
        source["const"] = 2
        return compile_schema(given, **options)

    monkeypatch.setattr(Schema, "compile", compile_and_change)
    binder.answer_schema(source)
    monkeypatch.undo()
    one, two = (binder.answer_schema({"const": number}).bound for number in (1, 2))
    assert one.schema_digest != two.schema_digest


def test_a_schema_file_is_cross_checked_once(
    binder: SchemaBinder, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    with Model(talking_artifact()) as model:
        Schema.compile({"const": 1}, tokenizer=model.tokenizer).save(tmp_path / "one.sslms")
    checked = []
    monkeypatch.setattr(Schema, "cross_check", lambda *given, **options: checked.append(given))
    first = binder.answer_schema(tmp_path / "one.sslms").bound
    assert binder.answer_schema(tmp_path / "one.sslms").bound is first
    assert len(checked) == 1


def test_what_threads_ask_for_at_once_is_made_once(
    binder: SchemaBinder, compiled: list[object], monkeypatch: pytest.MonkeyPatch
) -> None:
    vocabularies = []

    def read(tokenizer: Tokenizer, *given: Any) -> SchemaVocabulary:
        vocabularies.append(threading.active_count())
        return schema_vocabulary(tokenizer, *given)

    monkeypatch.setattr(answer_schema, "schema_vocabulary", read)
    together = threading.Barrier(6)
    found: list[AnswerSchema] = []

    def ask(number: int) -> None:
        together.wait()
        found.append(binder.answer_schema({"const": number, "maxLength": 3000}))

    threads = [threading.Thread(target=ask, args=(number % 2,)) for number in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len({id(one.bound) for one in found}) == 2
    assert sorted(map(json.dumps, compiled)) == [
        json.dumps({"const": number, "maxLength": 3000}) for number in (0, 1)
    ]
    assert len(vocabularies) == 2


def test_whoever_waits_for_another_thread_may_give_up(binder: SchemaBinder) -> None:
    is_making, is_given_up = threading.Event(), threading.Event()

    class Slow:
        """What a schema is made of."""

        @staticmethod
        def model_json_schema() -> dict[str, Any]:
            is_making.set()
            assert is_given_up.wait(240)
            return {"const": 1}

    class TooLateError(Exception):
        """Raised by who waits."""

    def give_up(what: str, done: int, total: int) -> None:
        raise TooLateError

    maker = threading.Thread(target=binder.answer_schema, args=(Slow,))
    maker.start()
    assert is_making.wait(240)
    with pytest.raises(TooLateError):
        binder.answer_schema(Slow, None, None, give_up)
    is_given_up.set()
    maker.join()
    assert binder.answer_schema(Slow, None, None, give_up).name == "Slow"


def test_what_was_given_up_is_made_by_the_next(
    binder: SchemaBinder, compiled: list[object]
) -> None:
    source = {"type": "string", "maxLength": 500}
    count = 0

    def give_up(what: str, done: int, total: int) -> None:
        nonlocal count
        count += 1
        if what == "schema masks" and count > 3:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        binder.answer_schema(source, None, None, give_up)
    found = binder.answer_schema(source)
    assert compiled == [source, source]
    assert found.bound.shortest > 0


def test_a_source_that_asks_for_itself_does_not_wait(binder: SchemaBinder) -> None:
    class Nested:
        """What a schema is made of."""

        depth = 0

        @classmethod
        def model_json_schema(cls) -> dict[str, Any]:
            cls.depth += 1
            if cls.depth < 3:
                binder.answer_schema(cls)
            return {"const": 1}

    assert binder.answer_schema(Nested).name == "Nested"
