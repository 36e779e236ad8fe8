"""Whoever changes one weight of an artifact and seals it again is found out, to the segment."""

from collections.abc import Callable
from pathlib import Path
from random import Random

import pytest

from sslm.artifact import read_artifact
from sslm.engine.model import Model
from sslm.errors.status import Status
from sslm.opening.runner import build_program
from sslm.program.program import Program
from tests.causes import raises
from tests.converted import stories_artifact
from tests.tampering import (
    named_segment,
    nudge_weight,
    random_place,
    readers_of,
    replace_weight,
    was_computed,
)

PLACES = 40


Change = Callable[..., bytes]


@pytest.fixture(scope="module")
def original() -> bytes:
    return stories_artifact().read_bytes()


@pytest.fixture(scope="module")
def program() -> Program:
    with read_artifact(stories_artifact()) as artifact:
        return build_program(artifact)


def first_difference(file: bytes, folder: Path) -> str | None:
    path = folder / "changed.sslm"
    path.write_bytes(file)
    with Model(path) as model:
        report = model.verify()
    assert report.ok is (report.first_difference is None)
    return report.first_difference


def test_the_original_verifies(original: bytes, tmp_path: Path) -> None:
    assert first_difference(original, tmp_path) is None


def test_a_change_without_a_new_seal_does_not_open(original: bytes, tmp_path: Path) -> None:
    path = tmp_path / "broken.sslm"
    path.write_bytes(original[:-1] + bytes([original[-1] ^ 1]))
    with raises(Status.SSLM_INTEGRITY):
        Model(path)


def test_one_byte_is_changed_besides_the_seal(original: bytes, tmp_path: Path) -> None:
    there = nudge_weight(original, "layers.0.q_proj", row=0, column=0)
    assert there != original
    assert len(there) == len(original)
    pairs = enumerate(zip(original, there, strict=True))
    changed = [index for index, (one, two) in pairs if one != two]
    assert len([index for index in changed if not 32 <= index < 64]) == 1


@pytest.mark.parametrize("change", [nudge_weight, replace_weight])
def test_every_change_is_found_and_its_segment_named(
    original: bytes, program: Program, tmp_path: Path, change: Change
) -> None:
    """One code, by the least or the most there is, in places spread over the segments."""
    random = Random(2)
    found: list[str | None] = []
    for _ in range(PLACES):
        tensor, row, column = random_place(original, program, random)
        changed = change(original, tensor, row=row, column=column)
        found.append(first_difference(changed, tmp_path))
        assert named_segment(found[-1]) in readers_of(program, tensor), (tensor, row, column)
    assert any(was_computed(difference) for difference in found)


def test_a_token_that_no_golden_run_uses_is_found_by_the_digest_of_its_weights(
    original: bytes, tmp_path: Path
) -> None:
    with read_artifact(stories_artifact()) as artifact:
        assert artifact.golden is not None
        used = {
            token_id
            for run in artifact.golden.runs
            for token_id in (*run.prompt_token_ids, *run.token_ids)
        }
    unused = max(set(range(512)) - used)
    found = first_difference(nudge_weight(original, "embed", row=unused, column=3), tmp_path)
    assert named_segment(found) == "embed"
    assert not was_computed(found)
