"""The model at the bounds of the arithmetic, and that every way to run it gives the same bits."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from benchmarks.determinism import compare, sharing_ways, ways_for
from benchmarks.determinism_models import (
    SHAPES,
    Subject,
    extreme_subject,
    small_subjects,
    wide_subject,
)

from sslm.artifact import read_artifact
from sslm.backends.reference.backend import ReferencePlan
from sslm.backends.reference.panels import panel_rows
from sslm.backends.reference.rows import Watcher
from sslm.numerics.rounding import Int64Array
from sslm.opening.runner import ALL_UNITS, build_program
from sslm.program.ops import Linear, Logits
from sslm.program.tensors import Encoding
from sslm.runtime.sequences.kv_pool import KvPool, page_count_for
from sslm.runtime.sequences.options import SequenceOptions
from sslm.runtime.sequences.sequence import Sequence
from sslm.runtime.slices.stepper import advance, finished


@pytest.fixture(scope="module")
def extreme(tmp_path_factory: pytest.TempPathFactory) -> Subject:
    return extreme_subject(tmp_path_factory.mktemp("extreme"))


class SmallestCodes(Watcher):
    """Remembers the smallest magnitude that went into each matrix."""

    def __init__(self) -> None:
        self.smallest: dict[str, int] = {}

    def multiplied(self, op: Linear | Logits, codes: Int64Array, exponents: Int64Array) -> None:
        found = int(np.abs(codes).min())
        self.smallest[op.matrix.name] = min(found, self.smallest.get(op.matrix.name, found))


def test_all_weights_and_all_codes_are_the_largest(extreme: Subject) -> None:
    watcher = SmallestCodes()
    with read_artifact(extreme.path) as artifact:
        matrices = [t for t in artifact.tensors.values() if t.encoding is Encoding.PANEL_INT8]
        for tensor in matrices:
            assert (np.abs(panel_rows(tensor, 0, tensor.shape[0])) == 127).all()
        program = build_program(artifact)
        plan = ReferencePlan(program, artifact.tensors, watcher)
        prompt = extreme.prompts[1]
        pool = KvPool(program.state_layout, page_count_for(len(prompt)))
        options = SequenceOptions(context_tokens=len(prompt))
        with Sequence(program, pool, artifact.model_id, options) as sequence:
            sequence.push(prompt)
            while sequence.pending_count:
                finished(advance(plan, [sequence], budget_units=ALL_UNITS, row_count_max=64))
            saturations = sequence.saturations
    assert set(watcher.smallest.values()) == {32639}
    assert len(watcher.smallest) == len(matrices) - len(("embed",))
    assert saturations["qkv"] > 0


def test_every_way_agrees_at_the_bounds(extreme: Subject) -> None:
    row = compare(extreme, ways_for(extreme, is_quick=True))
    assert row.differing == ()
    assert row.saturated > 0


def test_every_way_agrees_on_an_odd_shape(tmp_path: Path) -> None:
    subject = next(small_subjects(tmp_path, names=tuple(SHAPES)[1:2]))
    row = compare(subject, ways_for(subject, is_quick=True))
    assert row.differing == ()
    assert row.ways == row.agreeing > 20


def test_every_way_to_share_agrees(tmp_path: Path) -> None:
    subject = replace(wide_subject(tmp_path), prompts=((5, 6, 7),), max_tokens=2)
    ways = [way for way in sharing_ways(is_quick=True) if way.tier != "scalar"]
    row = compare(subject, ways)
    assert row.differing == ()
    assert row.ways == row.agreeing > 20
