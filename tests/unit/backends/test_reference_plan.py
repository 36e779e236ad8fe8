"""Whole programs on the reference, position by position, against plain Python integers."""

from array import array
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from sslm.backends.reference import ReferenceBackend, kernels
from sslm.backends.reference.backend import ReferencePlan
from sslm.errors.program import (
    OpShapeError,
    SegmentRangeError,
    TensorMissingError,
    TensorShapeError,
    TierUnavailableError,
)
from sslm.model.llama import build_llama
from sslm.program.ops import SaturationSite
from sslm.program.program import Program
from sslm.program.spans import DIGEST_SIZE_BYTES, Span
from sslm.program.stepping import begin_chunk
from sslm.program.tensors import Encoding, Tensor, Tensors
from sslm.runtime.sequences.kv_pool import KvPool, page_count_for
from sslm.runtime.sequences.options import SequenceOptions
from sslm.runtime.sequences.sequence import Sequence
from sslm.runtime.slices.stepper import advance, finished
from tests.backends.random_program import RandomProgram, Shape
from tests.tiny_models import MODEL_ID, TinyModel, generate, tiny_llama
from tests.toy_programs import int32_tensor, moving_average_model
from tests.unit.backends.plain_model import PlainModel

Model = tuple[Program, Tensors]


@dataclass(frozen=True)
class Traced:
    """What a plan gave for every position of a sequence."""

    segment_digests: list[list[bytes]]
    logits: list[list[int]]
    selected: list[int]
    saturations: dict[str, int]


def compiled(model: Model) -> ReferencePlan:
    program, tensors = model
    return ReferenceBackend().compile(program, tensors, row_count_max=64, context_tokens=128)


def traced(model: Model, ids: list[int], *, chunk_tokens: int) -> Traced:
    """Run *ids* with every trace that a sequence can keep, on a pool full of garbage."""
    program, plan = model[0], compiled(model)
    options = SequenceOptions(
        context_tokens=len(ids), chunk_tokens=chunk_tokens, has_all_logits=True, is_traced=True
    )
    pool = KvPool(program.state_layout, page_count_for(len(ids)))
    pool.memory.cast("B")[:] = b"\xfd" * pool.memory.nbytes
    found = Traced([], [], [], {})
    with Sequence(program, pool, MODEL_ID, options) as sequence:
        sequence.push(ids)
        while sequence.pending_count:
            for _, chunk in finished(advance(plan, [sequence], budget_units=2, row_count_max=64)):
                span = chunk.span
                assert span.trace is not None
                assert span.logits is not None
                assert span.selected is not None
                width = DIGEST_SIZE_BYTES
                digests = [
                    bytes(span.trace.segments[at : at + width])
                    for at in range(0, span.trace.segments.nbytes, width)
                ]
                logits = np.frombuffer(span.logits, dtype=np.int64)
                found.logits.extend(
                    logits.reshape(-1, program.vocab_size)[: span.row_count].tolist()
                )
                found.selected.extend(span.selected.cast("i")[: span.row_count])
                found.segment_digests.extend(
                    digests[row :: span.row_count] for row in range(span.row_count)
                )
        found.saturations.update(sequence.saturations)
    return found


def assert_plain(model: Model, ids: list[int], *, chunk_tokens: int) -> Traced:
    found = traced(model, ids, chunk_tokens=chunk_tokens)
    plain = PlainModel(*model)
    for position, token_id in enumerate(ids):
        computed = plain.step(token_id)
        assert found.segment_digests[position] == computed.segment_digests
        assert found.logits[position] == computed.logits
        assert found.selected[position] == computed.selected
    assert found.saturations == {
        site.name.lower(): plain.saturations[site.name.lower()] for site in SaturationSite
    }
    return found


@pytest.fixture(scope="module")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> TinyModel:
    return tiny_llama(tmp_path_factory.mktemp("llama"))


@pytest.fixture
def llama(tiny: TinyModel) -> Model:
    return tiny.program, tiny.tensors


@pytest.mark.parametrize("chunk_tokens", [1, 5], ids=["reference-1", "reference-5"])
def test_llama_on_reference(llama: Model, chunk_tokens: int) -> None:
    assert_plain(llama, [0, 274, 3, 3, 81, 130, 7, 19], chunk_tokens=chunk_tokens)


@pytest.mark.parametrize(
    "shape",
    [
        {"num_attention_heads": 8, "num_key_value_heads": 1, "head_dim": 6, "hidden_size": 20},
        {"num_attention_heads": 1, "num_key_value_heads": 1, "head_dim": 80, "tied": True},
    ],
    ids=["eight to one", "one head tied"],
)
def test_other_shapes_on_reference(tmp_path: Path, shape: dict[str, Any]) -> None:
    model = tiny_llama(tmp_path, biases=False, num_hidden_layers=1, **shape)
    assert_plain((model.program, model.tensors), [5, 270, 5, 1], chunk_tokens=3)


def test_pages_end_and_begin_on_reference(tmp_path: Path) -> None:
    """Positions 62 … 66 and 126 … 130, so that chunks and attention cross pages."""
    model = tiny_llama(
        tmp_path,
        hidden_size=8,
        num_attention_heads=2,
        num_key_value_heads=1,
        head_dim=4,
        intermediate_size=8,
        num_hidden_layers=1,
    )
    ids = [index * 31 % 275 for index in range(131)]
    assert_plain((model.program, model.tensors), ids, chunk_tokens=63)


def test_extreme_weights_saturate_on_reference(tiny: TinyModel) -> None:
    """All codes ±127 at scales that overflow: every saturation is counted as it must be."""
    found = assert_plain(_extreme_model(tiny), [3, 90, 3, 200], chunk_tokens=3)
    for site in ("residual", "qkv", "rope", "gate_up"):
        assert found.saturations[site] > 0


@pytest.mark.parametrize("is_extreme", [False, True], ids=["int4", "int4 extreme"])
def test_widths_may_differ_on_reference(*, is_extreme: bool) -> None:
    shape = Shape(
        seed=4,
        hidden_size=72,
        intermediate_size=70,
        num_hidden_layers=2,
        context_tokens=20,
        is_extreme=is_extreme,
        int4_share=0.6,
    )
    model = RandomProgram(shape)
    widths = Counter(t.encoding for t in model.tensors.values() if t.encoding.is_matrix)
    assert min(widths[Encoding.PANEL_INT8], widths[Encoding.PANEL_INT4]) >= 4
    found = assert_plain((model.program, model.tensors), [3, 30, 3, 9], chunk_tokens=3)
    assert (found.saturations["qkv"] > 0) == is_extreme


def test_saturations_are_counted_for_each_sequence(tiny: TinyModel) -> None:
    """Neighbours in a run have counters of their own, equal to those of a lone run."""
    plan = _extreme_plan(tiny)
    prompts = [[3, 90, 3], [200], [7] * 9]
    alone = [generate(plan, [prompt], max_tokens=2)[0] for prompt in prompts]
    assert generate(plan, prompts, max_tokens=2) == alone
    counts = [outcome.saturations["residual"] for outcome in alone]
    assert len(set(counts)) == 3
    assert min(counts) > 0


def _extreme_model(tiny: TinyModel) -> Model:
    tensors = {name: _extreme(tensor) for name, tensor in tiny.tensors.items()}
    return build_llama(tiny.config, tiny.fraction_bits, tensors), tensors


def _extreme_plan(tiny: TinyModel) -> ReferencePlan:
    return compiled(_extreme_model(tiny))


def _extreme(tensor: Tensor) -> Tensor:
    if tensor.name.endswith(".mantissas"):
        largest = [(1 << 24) - 1] * tensor.shape[0]
        return int32_tensor(tensor.name, largest, tensor.exponent - 4)
    if tensor.encoding is Encoding.PANEL_INT8:
        # Padding becomes nonzero too: nothing may read it.
        codes = np.frombuffer(tensor.data, dtype=np.int8)
        ends = np.where(codes >= 0, 127, -127).astype(np.int8)
        return replace(tensor, data=memoryview(ends.tobytes()))
    return tensor


@pytest.mark.parametrize("chunk_tokens", [1, 2, 7, 64], ids=lambda n: f"reference-{n}")
def test_recurrent_program_on_reference(chunk_tokens: int) -> None:
    model = moving_average_model()
    ids = [index * 5 % 37 for index in range(70)]
    assert_plain((model.program, model.tensors), ids, chunk_tokens=chunk_tokens)


def test_segments_out_of_range_are_refused() -> None:
    model = moving_average_model()
    plan = compiled((model.program, model.tensors))
    for first, last in ((-1, 1), (2, 1), (0, 7)):
        with pytest.raises(SegmentRangeError):
            plan.run(first, last, [])


def test_a_run_of_nothing_does_nothing() -> None:
    model = moving_average_model()
    plan = compiled((model.program, model.tensors))
    plan.run(0, len(model.program.segments), [])


def test_a_missing_tensor_is_named() -> None:
    model = moving_average_model()
    for name in model.tensors:
        others = {other: model.tensors[other] for other in model.tensors if other != name}
        with pytest.raises(TensorMissingError) as caught:
            compiled((model.program, others))
        assert caught.value.name == name


@pytest.mark.parametrize("name", ["embed", "head.mantissas", "final_norm"])
def test_a_tensor_of_another_shape_is_named(name: str) -> None:
    model = moving_average_model()
    others = model.tensors | {name: int32_tensor(name, [1])}
    with pytest.raises(TensorShapeError) as caught:
        compiled((model.program, others))
    assert caught.value.name == name


def _span(model: Model, **changes: Any) -> Span:
    """A sound span of five rows, with *changes*."""
    program = model[0]
    pool = KvPool(program.state_layout, 2)
    sequence = Sequence(program, pool, MODEL_ID, SequenceOptions(context_tokens=80))
    sequence.push([1, 2, 3, 4, 5])
    begin_chunk(program, sequence.state.data)
    return replace(sequence.state.data.span(), **changes)


def _ids(*token_ids: int) -> memoryview:
    return memoryview(array("i", token_ids))


@pytest.mark.parametrize(
    "changes",
    [
        {"token_ids": _ids()},
        {"token_ids": _ids(*[1] * 65)},
        {"token_ids": _ids(275)},
        {"token_ids": _ids(-1)},
        {"first_position": -1},
        {"first_position": 508},
        {"first_position": 124},
        {"first_logits_row": 6},
        {"adapter_slot": 1},
    ],
)
def test_spans_that_do_not_fit_are_refused(llama: Model, changes: dict[str, Any]) -> None:
    span = _span(llama, **changes)
    with pytest.raises(OpShapeError):
        compiled(llama).run(0, 1, [span])


@pytest.mark.parametrize("page", [-1, 2])
def test_pages_outside_of_the_pool_are_refused(llama: Model, page: int) -> None:
    span = _span(llama)
    span.memory.pages = _ids(page)
    with pytest.raises(OpShapeError):
        compiled(llama).run(0, 1, [span])


def test_a_failed_run_leaves_counters_and_residual(
    tiny: TinyModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What a run counted before it failed would be counted again when it is repeated."""
    plan, span = _extreme_plan(tiny), _span((tiny.program, tiny.tensors))
    span.memory.saturations.cast("q")[:] = memoryview(array("q", range(6)))
    with monkeypatch.context() as patched:
        patched.setattr(kernels, "gated_activation", _failing_at(2, kernels.gated_activation))
        with pytest.raises(ZeroDivisionError):
            plan.run(0, 3, [span])
    assert span.memory.saturations.cast("q").tolist() == list(range(6))
    assert not any(span.memory.residual)
    plan.run(0, 3, [span])
    assert span.memory.saturations.cast("q")[SaturationSite.RESIDUAL] > 0


def test_a_failed_run_leaves_fixed_states(monkeypatch: pytest.MonkeyPatch) -> None:
    """What a scan wrote is committed at the end of the run, not before."""
    model = moving_average_model()
    plan, span = compiled((model.program, model.tensors)), _span((model.program, model.tensors))
    plan.run(0, 2, [span])
    before = bytes(span.memory.fixed), bytes(span.memory.residual)
    assert any(before[0])
    monkeypatch.setattr(kernels, "moving_average", _failing_at(2, kernels.moving_average))
    with pytest.raises(ZeroDivisionError):
        plan.run(1, 3, [span])
    assert (bytes(span.memory.fixed), bytes(span.memory.residual)) == before


def _failing_at(count: int, kernel: Callable[..., Any]) -> Callable[..., Any]:
    """A kernel that raises when it is called for the *count*-th time."""
    calls = iter(range(1, count + 1))

    def fail(*arguments: Any, **named: Any) -> Any:
        if next(calls) == count:
            raise ZeroDivisionError
        return kernel(*arguments, **named)

    return fail


def test_other_tiers_are_refused() -> None:
    with pytest.raises(TierUnavailableError):
        ReferenceBackend("avx2")
    assert ReferenceBackend("numpy").tier == "numpy"
