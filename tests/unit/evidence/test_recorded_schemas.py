"""Records of answers that follow schemas, and their replays."""

import json
from array import array
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest

import sslm
from sslm.answer_schemas.schema import Schema
from sslm.artifact.adding_schemas import add_schemas
from sslm.engine.model import Model
from sslm.errors.records import RecordSchemaError, RecordSchemaMissingError, RecordValueError
from sslm.errors.runtime import OptionRangeError
from sslm.errors.schema_files import UnknownSchemaError
from sslm.evidence.records import read_record
from sslm.evidence.replay import ReplayDifference, ReplayReport, replay_record
from sslm.formats.records.writer import RecordFinish, SavedRecord, encode_record
from sslm.opening.runner import open_backend
from sslm.program.plan import Backend
from tests.converted import talking_artifact
from tests.faulty_backend import FaultyBackend
from tests.unit.answer_schemas.test_answer_schemas import COLOURS, WAYS, fit
from tests.unit.answering.test_answer_options import CONTEXT_TOKENS
from tests.unit.evidence.test_recording import FACES, faces

PROMPT = [1, *range(261, 331)]
"""Longer than a chunk."""
ONE_OR_MANY = {"enum": [1, 123456]}


@pytest.fixture(scope="module")
def model() -> Iterator[Model]:
    with Model(talking_artifact(), context_tokens=CONTEXT_TOKENS) as opened:
        yield opened


def recorded(model: Model, folder: Path, schema: object = COLOURS, **options: Any) -> SavedRecord:
    options = {"max_tokens": 24, **options}
    model.generate(PROMPT, schema=schema, record=folder / "run.sslmr", **options)
    return read_record(folder / "run.sslmr").saved


def replayed(
    model: Model,
    record: SavedRecord,
    schema: object = COLOURS,
    *,
    open_it: Callable[[], Backend] = lambda: open_backend("auto", tier="auto", threads=1),
) -> ReplayReport:
    return replay_record(
        record, model.artifact, model.tokenizer, open_backend=open_it, threads=1, schema=schema
    )


def difference(model: Model, record: SavedRecord, schema: object = COLOURS) -> ReplayDifference:
    found = replayed(model, record, schema).first_difference
    assert found is not None
    return found


@pytest.mark.parametrize("face", FACES)
def test_every_call_that_records_can_record_a_schema(
    model: Model, tmp_path: Path, face: str
) -> None:
    path, call = tmp_path / "run.sslmr", faces(model)[face]
    options = {"max_tokens": fit(model, COLOURS) + 5, "schema": COLOURS}
    answer = call(**options, record=path)
    assert answer == call(**options)
    # Recording leaves what is taken in at once as it is.
    assert answer.forced_tokens == call(**options).forced_tokens > 0
    record = read_record(path)
    assert list(record.token_ids) == answer.token_ids
    assert (record.finish_reason, record.stop_reason) == ("stop", "schema")
    schema = Schema.compile(COLOURS, tokenizer=model.tokenizer)
    assert (record.schema_name, record.schema_digest) == (schema.name, schema.digest)
    report = sslm.replay(path, model, schema=COLOURS)
    assert (report.identical, report.first_difference) == (True, None)


@pytest.mark.parametrize("way", WAYS)
def test_a_record_is_the_same_token_by_token(model: Model, tmp_path: Path, way: str) -> None:
    jumped = recorded(model, tmp_path, **WAYS[way])
    watched = recorded(model, tmp_path, stop="\x00never\x00", **WAYS[way])
    assert replace(watched, stop=()) == jumped
    traced = recorded(model, tmp_path, record_segments=True, **WAYS[way])
    assert encode_record(replace(traced, segments=b"", segment_count=0)) == encode_record(jumped)
    for record in (jumped, watched, traced):
        for backend in ("native", "reference"):
            report = replayed(
                model,
                record,
                open_it=partial(open_backend, backend, tier="auto", threads=1),
            )
            assert report.identical
            assert report.digest == record.digest.hex()


def test_a_span_that_is_longer_than_a_chunk_is_recorded(model: Model, tmp_path: Path) -> None:
    schema = {"enum": ["a" * 90, "b" * 90]}
    options = {"max_tokens": 120}
    with Model(talking_artifact(), context_tokens=256) as longer:
        jumped = recorded(longer, tmp_path, schema, **options)
        watched = recorded(longer, tmp_path, schema, **options, stop="\x00never\x00")
        assert replace(watched, stop=()) == jumped
        assert replayed(longer, jumped, schema).identical


@pytest.mark.parametrize(
    ("options", "finish"),
    [
        ({"schema": ONE_OR_MANY, "max_tokens": 3, "end_of_text": "never"}, RecordFinish.DEAD_END),
        ({"schema": ONE_OR_MANY, "max_tokens": 3}, RecordFinish.STOP_TOKEN),
        ({"schema": ONE_OR_MANY, "max_tokens": 1}, RecordFinish.SCHEMA),
        ({"schema": COLOURS, "max_tokens": 3, "finish": "cut"}, RecordFinish.LENGTH),
    ],
)
def test_how_an_answer_ends_is_recorded(
    model: Model, tmp_path: Path, options: dict[str, Any], finish: RecordFinish
) -> None:
    saved = recorded(model, tmp_path, **options)
    assert saved.finish is finish
    record, answer = read_record(tmp_path / "run.sslmr"), model.generate(PROMPT, **options)
    assert record.finish_reason == answer.finish_reason
    assert record.stop_reason == answer.stop_reason
    assert replayed(model, saved, options["schema"]).identical
    if finish in (RecordFinish.SCHEMA, RecordFinish.DEAD_END):
        found = difference(model, replace(saved, finish=RecordFinish.LENGTH), options["schema"])
        assert found.reason.startswith("the answer ends otherwise: ")


def test_a_stop_string_that_is_the_word_schema_is_told_from_a_schema(
    model: Model, tmp_path: Path
) -> None:
    schema = {"enum": ["a schema", "the schema"]}
    saved = recorded(model, tmp_path, schema, stop=["schema"])
    assert (saved.finish, saved.stop_index) == (RecordFinish.STOP_STRING, 0)
    assert replayed(model, saved, schema).identical
    other = replace(saved, finish=RecordFinish.SCHEMA)
    assert difference(model, other, schema).reason.startswith("the answer ends otherwise: ")


@pytest.mark.parametrize("way", ["greedy", "sampled"])
def test_a_changed_token_is_found_whether_the_schema_allows_it_or_not(
    model: Model, tmp_path: Path, way: str
) -> None:
    record = recorded(model, tmp_path, **WAYS[way])
    seen = set()
    for index in range(len(record.token_ids)):
        for other in (record.token_ids[index] ^ 1, model.tokenizer.encode("red")[-1]):
            ids = array("i", record.token_ids)
            if ids[index] == other:
                continue
            ids[index] = other
            found = difference(model, replace(record, token_ids=ids))
            assert (found.token_index, found.segment, found.op) == (index, "select", None)
            assert (found.found, found.expected) == (record.token_ids[index], other)
            seen.add(found.reason.endswith("; the schema does not allow it there"))
    assert True in seen


def test_one_that_the_schema_allows_is_found_too(model: Model, tmp_path: Path) -> None:
    schema = {"type": "integer", "minimum": 1, "maximum": 99}
    record = recorded(model, tmp_path, schema, max_tokens=2)
    digits = {str(digit) for digit in range(1, 10)} - {
        str(model.tokenizer.decode(record.token_ids))
    }
    others = [model.tokenizer.encode(digit)[-1] for digit in sorted(digits)]
    ids = array("i", record.token_ids)
    ids[0] = next(one for one in others if one != ids[0])
    found = difference(model, replace(record, token_ids=ids), schema)
    assert (found.token_index, found.segment) == (0, "select")
    assert found.reason == "another token was recorded than this backend and the reference compute"


def test_a_fault_of_the_backend_is_located(model: Model, tmp_path: Path) -> None:
    record = recorded(model, tmp_path)
    found = replayed(
        model, record, open_it=lambda: FaultyBackend("layers.1.down_proj")
    ).first_difference
    assert found is not None
    assert (found.segment, found.op) == ("layer 1", "linear layers.1.down_proj")
    chooser = replayed(model, record, open_it=lambda: FaultyBackend(None)).first_difference
    assert chooser is not None
    assert (chooser.segment, chooser.token_index) == ("select", 0)


def test_another_choice_of_the_schema_differs(model: Model, tmp_path: Path) -> None:
    record = recorded(model, tmp_path, ONE_OR_MANY, max_tokens=3)
    assert record.schema is not None
    endless = replace(record, schema=replace(record.schema, allows_ends=False))
    assert difference(model, endless, ONE_OR_MANY).reason.startswith("the answer ends before")


# The schema at hand.


def test_the_schema_is_found_by_name_in_the_models_file(model: Model, tmp_path: Path) -> None:
    schema = Schema.compile(COLOURS, tokenizer=model.tokenizer, name="colours")
    path = tmp_path / "with.sslm"
    add_schemas(talking_artifact(), path, [schema.prepared])
    with Model(path, context_tokens=CONTEXT_TOKENS) as other:
        record = recorded(other, tmp_path, "colours")
        assert record == recorded(model, tmp_path, schema)
        assert replayed(other, record, None).identical
        assert replayed(other, record, "colours").identical
    # Also elsewhere, by whatever gives the same tables, under any name.
    for source in (schema, COLOURS, schema.renamed("other")):
        assert replayed(model, record, source).identical
    schema.save(tmp_path / "colours.sslms")
    assert replayed(model, record, tmp_path / "colours.sslms").identical


def test_a_schema_that_is_missing_or_another_one_is_refused(model: Model, tmp_path: Path) -> None:
    schema = Schema.compile(COLOURS, tokenizer=model.tokenizer, name="colours")
    record = recorded(model, tmp_path, schema)
    with pytest.raises(RecordSchemaMissingError) as missing:
        replayed(model, record, None)
    assert missing.value.facts() == {"name": "colours", "expected": schema.digest}
    other = Schema.compile(ONE_OR_MANY, tokenizer=model.tokenizer, name="colours")
    with pytest.raises(RecordSchemaError) as caught:
        replayed(model, record, other)
    assert caught.value.facts() == {
        "name": "colours",
        "expected": schema.digest,
        "found": other.digest,
    }
    path = tmp_path / "with.sslm"
    add_schemas(talking_artifact(), path, [other.prepared])
    with Model(path, context_tokens=CONTEXT_TOKENS) as lying, pytest.raises(RecordSchemaError):
        replayed(lying, record, None)
    with pytest.raises(UnknownSchemaError):
        replayed(model, record, "colours")
    model.generate(PROMPT, max_tokens=2, record=tmp_path / "plain")
    with pytest.raises(OptionRangeError, match="follows no schema"):
        replayed(model, read_record(tmp_path / "plain").saved, COLOURS)


def test_a_budget_that_no_answer_fits_is_refused(model: Model, tmp_path: Path) -> None:
    record = recorded(model, tmp_path)
    cut = replace(record, max_tokens=3, token_ids=record.token_ids[:3], links=record.links[:96])
    with pytest.raises(RecordValueError, match="an answer of at most 3 tokens"):
        replayed(model, cut)


# Going on from a part.


def test_a_branch_from_the_beginning_follows_the_schema(model: Model, tmp_path: Path) -> None:
    path = tmp_path / "run.sslmr"
    expected = model.generate(PROMPT, schema=COLOURS, max_tokens=24, record=path)
    assert model.branch(path, 0, schema=COLOURS).read() == expected
    with pytest.raises(RecordSchemaMissingError):
        model.branch(path, 0)
    plain = model.branch(path, 2, schema=None, max_tokens=3).read()
    assert plain.parsed is None
    answer = model.branch(path, 0, schema=ONE_OR_MANY, max_tokens=8).read()
    assert answer.parsed == json.loads(answer.text)
    with pytest.raises(OptionRangeError, match=r"token_count.*from its beginning"):
        model.branch(path, 2, schema=COLOURS)
    with pytest.raises(OptionRangeError, match=r"token_count.*from its beginning"):
        model.branch(path, 2)
