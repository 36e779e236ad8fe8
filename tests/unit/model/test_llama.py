"""The llama program: its segments, buffers, states and fraction bits."""

from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import pytest

from sslm.errors.program import AccumulatorBoundError, OpShapeError, TensorMissingError
from sslm.model.fraction_bits import NORM_HEADROOM_BITS, FractionBits, LayerFractionBits
from sslm.model.llama import build_llama
from sslm.program import ops
from sslm.program.buffers import Buffer
from sslm.program.program import SegmentKind
from sslm.program.states import StateKind
from tests.tiny_models import TinyModel, tiny_llama


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> TinyModel:
    return tiny_llama(tmp_path_factory.mktemp("llama"))


def test_segments_and_states(model: TinyModel) -> None:
    program = model.program
    assert [segment.name for segment in program.segments] == [
        "embed",
        "layer 0",
        "layer 1",
        "head",
        "select",
    ]
    facts = [(s.name, s.kind, s.segment_index, s.head_count, s.head_dim) for s in program.states]
    assert facts == [
        ("layers.0.keys", StateKind.PAGED_KEYS, 1, 2, 24),
        ("layers.0.values", StateKind.PAGED_VALUES, 1, 2, 24),
        ("layers.1.keys", StateKind.PAGED_KEYS, 2, 2, 24),
        ("layers.1.values", StateKind.PAGED_VALUES, 2, 2, 24),
    ]
    assert (program.vocab_size, program.max_position_embeddings) == (275, 512)
    assert (program.profile, program.arithmetic_version) == ("int/1", 1)


def test_every_tensor_is_read_where_it_should_be(model: TinyModel) -> None:
    named = [name for segment in model.program.segments for name in segment.tensor_names()]
    assert set(named) == set(model.tensors)
    layer = model.program.segments[2].tensor_names()
    assert all(name.startswith(("layers.1.", "rope.")) for name in layer)


def test_the_ops_of_a_layer(model: TinyModel) -> None:
    kinds = [type(op).__name__ for op in model.program.segments[1].ops]
    assert kinds == [
        *("RmsNorm", "Quantize", "Linear", "Linear", "Linear", "Rope", "Rope", "Append", "Append"),
        *("Attention", "Quantize", "Linear"),
        *("RmsNorm", "Quantize", "Linear", "Linear", "GatedActivation", "Linear"),
    ]
    linears = [op for op in model.program.segments[1].ops if isinstance(op, ops.Linear)]
    sites = [(op.matrix.name.rpartition(".")[2], op.accumulates, op.site.name) for op in linears]
    assert sites == [
        ("q_proj", False, "QKV"),
        ("k_proj", False, "QKV"),
        ("v_proj", False, "QKV"),
        ("o_proj", True, "RESIDUAL"),
        ("gate_proj", False, "GATE_UP"),
        ("up_proj", False, "GATE_UP"),
        ("down_proj", True, "RESIDUAL"),
    ]
    assert [op.matrix.bias is not None for op in linears] == [True] * 3 + [False] * 4


def test_fraction_bits_are_those_of_the_layer(model: TinyModel) -> None:
    first = LayerFractionBits(q=20, k=19, v=18, gate=17, up=16)
    second = LayerFractionBits(q=21, k=22, v=23, gate=24, up=25)
    bits = FractionBits(residual=15, layers=(first, second))
    program = build_llama(model.config, bits, model.weights.tensors(bits))
    for layer, segment in zip((first, second), program.segments[1:3], strict=True):
        widths = {
            buffer.name: buffer.fraction_bits
            for op in segment.ops
            for buffer in vars_of(op)
            if buffer.name in ("residual", "q", "k", "v", "gate", "up", "mixed", "gated")
        }
        assert widths == {
            "residual": 15,
            "q": layer.q,
            "k": layer.k,
            "v": layer.v,
            "gate": layer.gate,
            "up": layer.up,
            "mixed": layer.v,
            "gated": layer.gate + layer.up,
        }
        norms = [op for op in segment.ops if isinstance(op, ops.RmsNorm)]
        for norm in norms:
            assert norm.out.fraction_bits == norm.gain_exponent + NORM_HEADROOM_BITS
            assert norm.source.fraction_bits == 15
    assert [state.fraction_bits for state in program.states] == [19, 18, 22, 23]


def vars_of(op: ops.Op) -> list[Buffer]:
    names = type(op).__dataclass_fields__
    return [value for name in names if isinstance(value := getattr(op, name), Buffer)]


def test_epsilon_is_the_files_number(model: TinyModel) -> None:
    norm = next(op for op in model.program.segments[1].ops if isinstance(op, ops.RmsNorm))
    eps = model.config.rms_norm_eps
    assert norm.epsilon.mantissa * (1 << 200) == eps * (1 << (200 + norm.epsilon.shift))


def test_a_tied_head_reads_the_embeddings_codes(tmp_path: Path) -> None:
    program = tiny_llama(tmp_path, tied=True).program
    head = program.segments[program.first_head_index]
    assert head.kind is SegmentKind.HEAD
    assert head.tensor_names() == ["final_norm", "embed", "lm_head.mantissas"]


def test_head_segments_cover_the_vocabulary_once(model: TinyModel, tmp_path: Path) -> None:
    wide = tiny_llama(tmp_path, hidden_size=2048, num_hidden_layers=1, vocab_size=4097, tied=True)
    for program, count in ((model.program, 1), (wide.program, 3)):
        heads = [s.ops[-1] for s in program.segments if s.kind is SegmentKind.HEAD]
        ranges = [(op.first_row, op.last_row) for op in heads if isinstance(op, ops.Logits)]
        assert len(ranges) == count
        assert ranges[0][0] == 0
        assert ranges[-1][1] == program.vocab_size
        assert all(a[1] == b[0] for a, b in pairwise(ranges))


def test_a_missing_tensor_is_named(model: TinyModel) -> None:
    for name in ("embed", "embed.mantissas", "layers.1.up_proj", "final_norm", "lm_head"):
        others = {other: model.tensors[other] for other in model.tensors if other != name}
        with pytest.raises(TensorMissingError) as caught:
            build_llama(model.config, model.fraction_bits, others)
        assert caught.value.name == name


@pytest.mark.parametrize("count", [0, 1, 3])
def test_fraction_bits_of_another_number_of_layers_are_refused(
    model: TinyModel, count: int
) -> None:
    bits = replace(model.fraction_bits, layers=model.fraction_bits.layers[:1] * count)
    with pytest.raises(OpShapeError):
        build_llama(model.config, bits, model.tensors)


@pytest.mark.parametrize("site", ["q", "k", "v", "gate", "up"])
@pytest.mark.parametrize("found", [-1, 31])
def test_fraction_bits_out_of_range_are_refused(site: str, found: int) -> None:
    layer = LayerFractionBits(q=0, k=30, v=0, gate=30, up=0)
    with pytest.raises(AccumulatorBoundError, match=site):
        replace(layer, **{site: found})
    with pytest.raises(AccumulatorBoundError, match="residual"):
        FractionBits(residual=found, layers=(layer,))


def test_scores_without_fraction_bits_are_refused(model: TinyModel) -> None:
    coarse = replace(model.fraction_bits.layers[0], q=12, k=13)
    bits = replace(model.fraction_bits, layers=(coarse, coarse))
    with pytest.raises(AccumulatorBoundError, match="query plus key"):
        build_llama(model.config, bits, model.weights.tensors(bits))
