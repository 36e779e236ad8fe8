"""``sslm.replay`` finds the model, and ``model.branch`` goes on from what was recorded."""

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import sslm
from sslm.catalog.cache import Cache
from sslm.engine.model import Model
from sslm.errors.base import ArtifactError
from sslm.errors.catalog import UnknownModelError
from sslm.errors.program import TierUnavailableError
from sslm.errors.records import NotARecordError, RecordModelError, RecordModelMissingError
from sslm.errors.runtime import OptionRangeError
from tests.converted import stories_artifact, talking_artifact

HELLO = [{"role": "user", "content": "Hello"}]
COUNT = 6


@pytest.fixture(scope="module")
def model() -> Iterator[Model]:
    with Model(talking_artifact(), context_tokens=128) as opened:
        yield opened


@pytest.fixture
def record(model: Model, tmp_path: Path) -> sslm.Record:
    model.chat(HELLO, max_tokens=COUNT, record=tmp_path / "run.sslmr")
    return sslm.read_record(tmp_path / "run.sslmr")


def test_the_model_may_be_open_a_path_a_name_or_looked_for(
    model: Model, record: sslm.Record, tmp_path: Path
) -> None:
    folder = tmp_path / "cache"
    path = tmp_path / "run.sslmr"
    with pytest.raises(RecordModelMissingError, match="0 models"):
        sslm.replay(path, cache_dir=folder)
    cached = Cache(folder).path_of("talker", "0" * 16)
    cached.parent.mkdir(parents=True)
    shutil.copy(talking_artifact(), cached)
    shutil.copy(stories_artifact(), Cache(folder).path_of("other", "0" * 16))
    for found in (
        sslm.replay(record, model),
        sslm.replay(path, model, backend="reference"),
        sslm.replay(str(path), talking_artifact(), threads=2),
        sslm.replay(path, "talker", cache_dir=folder, slice_units=1),
        sslm.replay(path, cache_dir=folder),
    ):
        assert found.identical
        assert found.model_id == model.model_id
    with pytest.raises(UnknownModelError):
        sslm.replay(path, "nobody", cache_dir=folder)
    with pytest.raises(RecordModelError):
        sslm.replay(path, "other", cache_dir=folder)


@pytest.mark.parametrize(
    ("options", "error"),
    [
        ({"backend": 1}, OptionRangeError),
        ({"threads": 0}, OptionRangeError),
        ({"backend": "reference", "threads": 2}, OptionRangeError),
        ({"slice_units": 0}, OptionRangeError),
        ({"slice_units": True}, OptionRangeError),
        ({"on_progress": 1}, OptionRangeError),
        ({"tier": "none"}, TierUnavailableError),
    ],
    ids=lambda value: str(value) if isinstance(value, dict) else "",
)
def test_odd_options_are_refused(
    model: Model, record: sslm.Record, options: dict[str, Any], error: type[Exception]
) -> None:
    with pytest.raises(error):
        sslm.replay(record, model, **options)


def test_odd_records_are_refused(model: Model, tmp_path: Path) -> None:
    for record in (1, None, b"run.sslmr"):
        with pytest.raises(OptionRangeError):
            sslm.replay(record, model)  # type: ignore[arg-type]
    with pytest.raises(NotARecordError):
        sslm.replay(talking_artifact(), model)
    (tmp_path / "empty").write_bytes(b"")
    with pytest.raises(NotARecordError):
        sslm.read_record(tmp_path / "empty")


@pytest.mark.parametrize("kept", range(COUNT))
def test_a_branch_comes_to_what_was_recorded(
    model: Model, record: sslm.Record, kept: int, tmp_path: Path
) -> None:
    """Text, ids and end; of a chat, whose answer begins a text of its own."""
    whole = model.chat(HELLO, max_tokens=COUNT)
    path = tmp_path / "branch.sslmr"
    branch = model.branch(record, kept, record=path).read()
    assert branch.token_ids == whole.token_ids[kept:]
    assert model.kept_text(record, kept) + branch.text == whole.text
    assert branch.finish_reason == whole.finish_reason
    again = sslm.read_record(path)
    assert again.prompt_token_ids == (*record.prompt_token_ids, *whole.token_ids[:kept])
    assert sslm.replay(again, model).identical


def test_a_branch_may_be_of_the_path_of_a_record(
    model: Model, record: sslm.Record, tmp_path: Path
) -> None:
    path = tmp_path / "branch.sslmr"
    branch = model.branch(record, 2, record=path).read()
    assert model.branch(str(path), 0).read() == model.branch(path, 0).read()
    assert model.branch(path, 0).read().token_ids == branch.token_ids
    assert model.kept_text(path, 1) == model.kept_text(sslm.read_record(path), 1)


@pytest.mark.parametrize("odd", [None, 3, b"run.sslmr", []], ids=repr)
def test_a_branch_of_what_is_no_record_is_refused(model: Model, odd: Any) -> None:
    for call in (model.branch, model.kept_text):
        with pytest.raises(OptionRangeError, match="path"):
            call(odd, 1)


def test_a_branch_may_go_on_otherwise(model: Model, record: sslm.Record) -> None:
    longer = model.branch(record, 2, max_tokens=2 * COUNT).read()
    assert len(longer.token_ids) == 2 * COUNT
    assert longer.token_ids[: COUNT - 2] == list(record.token_ids[2:])
    stopped = model.branch(record, 2, stop_token_ids=[record.token_ids[3]]).read()
    assert stopped.stop_reason == record.token_ids[3]
    # All of it may be kept, and then one token is left to ask for.
    assert len(model.branch(record, COUNT).read().token_ids) == 1


def test_a_branch_draws_as_the_record_did_or_otherwise(model: Model, tmp_path: Path) -> None:
    path = tmp_path / "run.sslmr"
    options: Any = {"temperature": "1.2", "top_k": 50, "seed": 3, "logit_bias": {9: 1}}
    whole = model.generate("Hello", max_tokens=COUNT, record=path, **options)
    record = sslm.read_record(path)
    assert record.choosing == whole.choosing
    assert record.seed == 3
    for kept in range(COUNT):
        same = model.branch(record, kept).read()
        assert same.token_ids == whole.token_ids[kept:]
        assert (same.seed, same.choosing) == (3, whole.choosing)
    other = model.branch(record, 2, seed=4, max_tokens=20).read()
    assert (other.seed, other.choosing["top_k"]) == (4, 50)
    assert other.token_ids != model.branch(record, 2, max_tokens=20).read().token_ids
    # Another decoder: what only the recorded one looks at is left out.
    greedy = model.branch(record, 2, temperature=0).read()
    assert set(greedy.choosing) == {"logit_bias"}
    damped = model.branch(record, 2, damping="0.5", record=path).read()
    assert set(damped.choosing) == {"damping", "damping_order", "damping_top_k", "logit_bias"}
    again = model.branch(sslm.read_record(path), 1, temperature=1).read()
    assert set(again.choosing) == {"temperature", "seed", "logit_bias"}


@pytest.mark.parametrize("count", [-1, COUNT + 1, True, "1", None])
def test_a_branch_keeps_tokens_that_there_are(
    model: Model, record: sslm.Record, count: Any
) -> None:
    with pytest.raises(OptionRangeError, match="token_count"):
        model.branch(record, count)
    with pytest.raises(OptionRangeError, match="token_count"):
        model.kept_text(record, count)


def test_a_branch_is_of_the_same_model(record: sslm.Record) -> None:
    with Model(stories_artifact()) as other:
        with pytest.raises(ArtifactError):
            other.branch(record, 1)
        with pytest.raises(RecordModelError):
            other.kept_text(record, 1)


@pytest.mark.parametrize("odd", [3, b"run.sslm", []], ids=repr)
def test_a_model_that_is_no_name_is_refused(record: sslm.Record, odd: Any) -> None:
    with pytest.raises(OptionRangeError, match="model"):
        sslm.replay(record, odd)
