"""Replays: identical in every way to run, and else the first difference, told by its place."""

from array import array
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from sslm.engine.model import Model
from sslm.errors.base import ArtifactError
from sslm.errors.records import (
    RecordArithmeticError,
    RecordModelError,
    RecordSegmentsError,
    RecordTokenError,
    RecordValueError,
)
from sslm.evidence.records import read_record
from sslm.evidence.reexecution import Advance
from sslm.evidence.replay import ReplayDifference, ReplayReport, replay_record
from sslm.formats.records.writer import RecordFinish, SavedRecord
from sslm.native_library import TIERS, available_tiers
from sslm.opening.runner import Runner, open_backend
from sslm.program.plan import Backend
from sslm.program.sequence_data import SCORE_REFUSED
from sslm.runtime.sequences.options import SequenceOptions
from sslm.runtime.sequences.sequence import Sequence
from tests.converted import stories_artifact
from tests.faulty_backend import FaultyBackend
from tests.records import PLAIN_CHOICE

PROMPT = [1, *range(3, 73)]
"""Longer than one chunk."""
COUNT = 5
LAYERS = 5


@pytest.fixture(scope="module")
def model() -> Iterator[Model]:
    with Model(stories_artifact(), threads=2, context_tokens=128) as opened:
        yield opened


KINDS: dict[str, dict[str, Any]] = {
    "greedy": {},
    "greedy, segments": {"record_segments": True},
    "sampled, segments": {
        "record_segments": True,
        "temperature": "1.3",
        "top_p": "0.98",
        "min_p": "0.001",
        "seed": 7,
        "logit_bias": {5: "-3.5"},
    },
    "penalties": {"repetition_penalty": "0.8", "frequency_penalty": "0.5"},
    "damped": {"damping": "0.9"},
}


@pytest.fixture(scope="module", params=KINDS)
def record(
    model: Model, tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest
) -> SavedRecord:
    return recorded(model, tmp_path_factory.mktemp("record"), **KINDS[request.param])


def recorded(model: Model, folder: Path, **options: Any) -> SavedRecord:
    model.generate(PROMPT, max_tokens=COUNT, record=folder / "run.sslmr", **options)
    return read_record(folder / "run.sslmr").saved


def test_the_kinds_are_other_requests(model: Model, tmp_path: Path) -> None:
    """Greedy and sampled come to other tokens, so that a choice that is lost would show."""
    greedy = recorded(model, tmp_path).token_ids
    for kind in ("sampled, segments", "penalties"):
        assert recorded(model, tmp_path, **KINDS[kind]).token_ids != greedy


def native(tier: str = "auto", threads: int = 1) -> Callable[[], Backend]:
    return lambda: open_backend("native", tier=tier, threads=threads)


def replayed(
    model: Model,
    record: SavedRecord,
    open_it: Callable[[], Backend] | None = None,
    *,
    slice_units: int | None = None,
    around: Callable[[Runner], Advance] | None = None,
) -> ReplayReport:
    return replay_record(
        record,
        model.artifact,
        model.tokenizer,
        open_backend=open_it or native(),
        threads=1,
        slice_units=slice_units,
        around=around,
    )


def difference(model: Model, record: SavedRecord) -> ReplayDifference:
    report = replayed(model, record)
    assert not report.identical
    assert report.first_difference is not None
    return report.first_difference


@pytest.mark.parametrize("slice_units", [None, 1, 3])
@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("tier", TIERS)
def test_a_record_replays_on_every_tier(
    model: Model, record: SavedRecord, tier: str, threads: int, slice_units: int | None
) -> None:
    if tier not in available_tiers():
        pytest.skip(f"this CPU has no {tier}")
    report = replayed(model, record, native(tier, threads), slice_units=slice_units)
    assert (report.identical, report.first_difference) == (True, None)
    assert report.digest == report.recorded_digest == record.digest.hex()
    assert report.token_ids == tuple(record.token_ids)
    assert (report.backend, report.tier, report.model_id) == ("native", tier, model.model_id)


def test_a_record_replays_on_the_reference(model: Model, record: SavedRecord) -> None:
    report = replayed(model, record, lambda: open_backend("reference", tier="auto", threads=1))
    assert (report.identical, report.backend) == (True, "reference")


def test_a_record_replays_beside_a_neighbour(model: Model, record: SavedRecord) -> None:
    """Each token of the answer is computed together with rows of another sequence."""
    options = SequenceOptions(context_tokens=75, chunk_tokens=3, has_all_logits=True)
    shared = 0
    with ExitStack() as beside:

        def around(runner: Runner) -> Advance:
            neighbour = beside.enter_context(runner.sequence(options))
            neighbour.push([index % 50 + 3 for index in range(75)])

            def advance(sequence: Sequence) -> None:
                nonlocal shared
                busy = [neighbour] if neighbour.pending_count else []
                shared += len(busy)
                runner.advance([sequence, *busy], budget_units=2)

            return advance

        assert replayed(model, record, around=around).identical
    assert shared > 2 * COUNT


def test_progress_is_told(model: Model, record: SavedRecord) -> None:
    seen: list[tuple[int, int]] = []
    replay_record(
        record,
        model.artifact,
        model.tokenizer,
        open_backend=native(),
        threads=1,
        on_progress=lambda done, total: seen.append((done, total)),
    )
    assert seen == [(done + 1, COUNT) for done in range(COUNT)]


# What was changed in a record is found where it was changed.


@pytest.mark.parametrize("index", range(COUNT))
def test_a_changed_token_is_caught_at_that_token(
    model: Model, record: SavedRecord, index: int
) -> None:
    ids = array("i", record.token_ids)
    ids[index] ^= 1
    found = difference(model, replace(record, token_ids=ids))
    assert (found.token_index, found.position) == (index, len(PROMPT) + index - 1)
    assert (found.found, found.expected) == (record.token_ids[index], ids[index])
    assert (found.segment, found.op) == ("select", None)
    assert found.reason == (
        "another token was recorded than this backend and the reference compute"
    )


@pytest.mark.parametrize("index", range(COUNT))
def test_a_changed_link_is_caught_at_that_token(
    model: Model, record: SavedRecord, index: int
) -> None:
    links = bytearray(record.links)
    links[32 * index + 7] ^= 1
    found = difference(model, replace(record, links=bytes(links)))
    assert (found.token_index, found.segment, found.op) == (index, None, None)
    assert (found.found, found.expected) == (record.token_ids[index], record.token_ids[index])


@pytest.mark.parametrize("name", ["embed", "layer 0", "layer 4", "head"])
def test_a_changed_digest_of_a_segment_names_it(model: Model, tmp_path: Path, name: str) -> None:
    record = recorded(model, tmp_path, record_segments=True)
    names = ["embed", *(f"layer {index}" for index in range(LAYERS)), "head"]
    segments = bytearray(record.segments)
    segments[4 * (len(names) * 2 + names.index(name))] ^= 1
    found = difference(model, replace(record, segments=bytes(segments)))
    assert (found.token_index, found.segment, found.op) == (2, name, None)


def test_a_changed_prompt_differs_from_its_first_token(model: Model, record: SavedRecord) -> None:
    ids = array("i", record.prompt_ids)
    ids[3] += 1
    found = difference(model, replace(record, prompt_ids=ids))
    assert (found.token_index, found.position) == (0, len(PROMPT) - 1)


@pytest.mark.parametrize(
    ("change", "index"),
    [({"seed": 8}, 0), ({"temperature": 2_000_000}, None), ({"bias": ((3, 90_000_000),)}, None)],
    ids=["seed", "temperature", "bias"],
)
def test_a_changed_option_differs_at_a_token_that_it_changes(
    model: Model, tmp_path: Path, change: dict[str, Any], index: int | None
) -> None:
    record = recorded(model, tmp_path, **KINDS["sampled, segments"])
    found = difference(model, replace(record, choice=replace(record.choice, **change)))
    assert found.segment == "select"
    assert found.found != found.expected
    assert index in (None, found.token_index)


def test_another_digest_is_told_when_all_else_is_equal(model: Model, record: SavedRecord) -> None:
    found = difference(model, replace(record, digest=bytes(32)))
    assert found.token_index == COUNT
    assert found.reason == "tokens and states are as recorded, the digest is another one"


@pytest.mark.parametrize(
    ("change", "index", "reason"),
    [
        ({"max_tokens": COUNT + 1}, COUNT, "the answer goes on, the recorded one ends (length)"),
        (
            {"finish": RecordFinish.STOP_TOKEN},
            COUNT,
            "the answer ends otherwise: length, recorded is stop ",
        ),
        (
            {"stop": ("zzz",), "finish": RecordFinish.STOP_STRING},
            COUNT,
            "the answer ends otherwise: length, recorded is stop 'zzz'",
        ),
    ],
    ids=["max_tokens", "finish", "stop"],
)
def test_a_changed_end_is_told(
    model: Model, record: SavedRecord, change: dict[str, object], index: int, reason: str
) -> None:
    found = difference(model, replace(record, **change))  # type: ignore[arg-type]
    assert (found.token_index, found.segment) == (index, None)
    assert found.reason.startswith(reason)


def test_a_stop_that_comes_before_the_recorded_end(model: Model, record: SavedRecord) -> None:
    ids = record.token_ids
    index = next(at for at, token_id in enumerate(ids) if token_id != ids[0])
    found = difference(model, replace(record, stop_token_ids=(ids[index],)))
    assert (found.token_index, found.found, found.expected) == (index + 1, None, ids[index + 1])
    assert found.reason == f"the answer ends before this token (stop {ids[index]})"


@pytest.mark.parametrize(
    ("change", "error"),
    [
        ({"model_id": bytes(32)}, RecordModelError),
        ({"arithmetic_version": 2}, RecordArithmeticError),
        ({"prompt_ids": array("i", [1, 512])}, RecordTokenError),
        ({"token_ids": array("i", [1, 2, 3, 4, 512])}, RecordTokenError),
        ({"stop_token_ids": (2, 600)}, RecordTokenError),
        ({"context_tokens": 1 << 20}, RecordValueError),
        ({"choice": replace(PLAIN_CHOICE, bias=((512, 1),))}, RecordValueError),
        ({"choice": replace(PLAIN_CHOICE, decoder=2)}, RecordValueError),
        ({"choice": replace(PLAIN_CHOICE, top_k=513)}, RecordValueError),
        ({"segments": bytes(4 * COUNT), "segment_count": 1}, RecordSegmentsError),
    ],
    ids=lambda value: next(iter(value)) if isinstance(value, dict) else "",
)
def test_what_no_model_can_be_asked_is_refused(
    model: Model, record: SavedRecord, change: dict[str, object], error: type[ArtifactError]
) -> None:
    with pytest.raises(error):
        replayed(model, replace(record, **change))  # type: ignore[arg-type]


# A machine that computes wrongly is found where it does.


@pytest.mark.parametrize(
    ("tensor", "segment", "op"),
    [
        ("layers.0.q_proj", "layer 0", "linear layers.0.o_proj"),
        ("layers.0.k_proj", "layer 0", "append layers.0.keys"),
        ("layers.2.v_proj", "layer 2", "append layers.2.values"),
        ("layers.3.o_proj", "layer 3", "linear layers.3.o_proj"),
        ("layers.4.up_proj", "layer 4", "linear layers.4.down_proj"),
        ("embed", "embed", "embed"),
        ("final_norm", "head", "logits lm_head"),
        (None, "select", "choose"),
    ],
)
def test_a_wrong_result_is_traced_to_its_op(
    model: Model, record: SavedRecord, tensor: str | None, segment: str, op: str
) -> None:
    report = replayed(model, record, lambda: FaultyBackend(tensor))
    found = report.first_difference
    assert found is not None
    assert (found.token_index, found.segment, found.op) == (0, segment, op)
    assert found.reason == "native and the reference differ from there on"
    # The choice is made behind the last position of the prompt; all else differs everywhere.
    if segment in ("head", "select"):
        assert found.position == len(PROMPT) - 1


def test_a_refused_choice_is_no_token(model: Model, record: SavedRecord) -> None:
    report = replayed(model, record, lambda: FaultyBackend(None, chosen=SCORE_REFUSED))
    found = report.first_difference
    assert found is not None
    assert (found.segment, found.op, found.token_index) == ("select", "choose", 0)
    assert (found.found, found.expected) == (None, record.token_ids[0])
    assert report.token_ids == ()
