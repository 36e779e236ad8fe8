"""Each op record accepts its bounds and refuses what lies beyond, one by one."""

from dataclasses import replace
from typing import Any

import pytest

from sslm.errors.program import AccumulatorBoundError, OpShapeError
from sslm.program import ops
from sslm.program.buffers import Buffer, BufferKind
from sslm.program.states import State, StateKind
from sslm.program.tensors import Encoding


def int32(width: int = 8, fraction_bits: int = 16, name: str = "x") -> Buffer:
    return Buffer(name=name, kind=BufferKind.INT32, width=width, fraction_bits=fraction_bits)


def codes(width: int = 8, fraction_bits: int = 16, exponent_max: int = 17) -> Buffer:
    return Buffer(
        name="codes",
        kind=BufferKind.CODES,
        width=width,
        fraction_bits=fraction_bits,
        exponent_max=exponent_max,
    )


def logits(width: int = 40) -> Buffer:
    return Buffer(name="logits", kind=BufferKind.LOGITS, width=width)


def int4(rows: int, columns: int) -> ops.MatrixRef:
    return replace(matrix(rows, columns), encoding=Encoding.PANEL_INT4)


def matrix(rows: int, columns: int, exponent: int = 30, bias: str | None = None) -> ops.MatrixRef:
    return ops.MatrixRef(
        name="w",
        out_features=rows,
        in_features=columns,
        mantissas="w.mantissas",
        exponent=exponent,
        bias=bias,
    )


def state(kind: StateKind, **changes: Any) -> State:
    facts = {"segment_index": 1, "head_count": 2, "head_dim": 4, "fraction_bits": 16}
    return State(name=kind.value, kind=kind, **(facts | changes))


EMBED = ops.Embed(table=matrix(40, 8), out=int32())
NORM = ops.RmsNorm(
    source=int32(fraction_bits=10),
    out=int32(fraction_bits=26),
    group_size=4,
    gain="gain",
    gain_exponent=20,
    epsilon=ops.Epsilon(mantissa=5, shift=40),
)
QUANTIZE = ops.Quantize(source=int32(), out=codes())
LINEAR = ops.Linear(
    source=codes(),
    out=int32(12),
    matrix=matrix(12, 8),
    accumulates=False,
    site=ops.SaturationSite.QKV,
)
ROPE = ops.Rope(
    buffer=int32(),
    head_dim=4,
    rotary_dim=4,
    pairing="half",
    cos="rope.cos",
    sin="rope.sin",
    position_count=9,
)
APPEND = ops.Append(source=int32(), state=state(StateKind.PAGED_KEYS))
ATTENTION = ops.Attention(
    query=int32(16, 20),
    out=int32(16, 16),
    keys=state(StateKind.PAGED_KEYS),
    values=state(StateKind.PAGED_VALUES),
    num_attention_heads=4,
    window=None,
)
GATED = ops.GatedActivation(gate=int32(8, 20), up=int32(8, 10), out=codes(8, 30, 48))
ADD = ops.Add(source=int32(), target=int32(name="y"))
LOGITS = ops.Logits(source=codes(), out=logits(), matrix=matrix(40, 8), first_row=16, last_row=40)
CHOOSE = ops.Choose(logits=logits(), out=Buffer(name="selected", kind=BufferKind.TOKENS, width=1))
AVERAGE = ops.MovingAverage(
    source=int32(4), out=int32(4), state=state(StateKind.FIXED, head_count=1)
)


@pytest.mark.parametrize(
    ("op", "changes"),
    [
        (EMBED, {"table": matrix(40, 8, exponent=-24)}),
        (EMBED, {"table": matrix(40, 8, exponent=62)}),
        (NORM, {"gain_exponent": -32, "out": int32(fraction_bits=-8)}),
        (NORM, {"gain_exponent": 62}),
        (NORM, {"out": int32(fraction_bits=44)}),
        (NORM, {"out": int32(fraction_bits=-64)}),
        (NORM, {"epsilon": ops.Epsilon(mantissa=(1 << 24) - 1, shift=0)}),
        (NORM, {"epsilon": ops.Epsilon(mantissa=0, shift=160)}),
        (NORM, {"epsilon": ops.Epsilon(mantissa=(1 << 23) - 1, shift=0), "group_size": 8}),
        (NORM, {"group_size": 65536, "source": int32(65536), "out": int32(65536)}),
        (LINEAR, {"matrix": matrix(12, 8, exponent=-7)}),
        (LINEAR, {"matrix": matrix(12, 8, exponent=110)}),
        (LINEAR, {"matrix": matrix(12, 8, exponent=24), "source": codes(exponent_max=48)}),
        (LINEAR, {"matrix": matrix(12, 65536), "source": codes(65536)}),
        (LINEAR, {"matrix": int4(12, 16384), "source": codes(16384)}),
        (LOGITS, {"matrix": int4(40, 16384), "source": codes(16384)}),
        (EMBED, {"table": int4(40, 16384), "out": int32(16384)}),
        (ROPE, {"rotary_dim": 2}),
        (ATTENTION, {"query": int32(16, 10)}),
        (ATTENTION, {"query": int32(16, 62)}),
        (ATTENTION, {"window": 1}),
        (ATTENTION, {"window": 1 << 30}),
        (GATED, {"gate": int32(8, 0), "out": codes(8, 10, 48)}),
        (GATED, {"gate": int32(8, 40), "out": codes(8, 50, 48)}),
        (LOGITS, {"first_row": 0, "last_row": 1}),
    ],
)
def test_bounds_are_inclusive(op: ops.Op, changes: dict[str, Any]) -> None:
    replace(op, **changes)


@pytest.mark.parametrize(
    ("op", "changes"),
    [
        (EMBED, {"table": matrix(40, 8, exponent=-25)}),
        (EMBED, {"table": matrix(40, 8, exponent=63)}),
        (NORM, {"gain_exponent": -33}),
        (NORM, {"gain_exponent": 63}),
        (NORM, {"out": int32(fraction_bits=45)}),
        (NORM, {"out": int32(fraction_bits=-65)}),
        (NORM, {"group_size": 0}),
        (NORM, {"group_size": 65537, "source": int32(65537), "out": int32(65537)}),
        (NORM, {"epsilon": ops.Epsilon(mantissa=1 << 24, shift=40)}),
        (NORM, {"epsilon": ops.Epsilon(mantissa=-1, shift=40)}),
        (NORM, {"epsilon": ops.Epsilon(mantissa=1, shift=161)}),
        (NORM, {"epsilon": ops.Epsilon(mantissa=1, shift=-1)}),
        (NORM, {"epsilon": ops.Epsilon(mantissa=1 << 23, shift=0), "group_size": 8}),
        (LINEAR, {"matrix": matrix(12, 8, exponent=-8)}),
        (LINEAR, {"matrix": matrix(12, 8, exponent=111)}),
        (LINEAR, {"matrix": matrix(12, 8, exponent=23), "source": codes(exponent_max=48)}),
        (LINEAR, {"matrix": matrix(12, 65537), "source": codes(65537)}),
        (LINEAR, {"matrix": matrix(12, 0), "source": codes(0)}),
        (ROPE, {"rotary_dim": 6}),
        (ROPE, {"rotary_dim": 0}),
        (ROPE, {"head_dim": 0}),
        (ATTENTION, {"query": int32(16, 9)}),
        (ATTENTION, {"query": int32(16, 63)}),
        (ATTENTION, {"window": 0}),
        (ATTENTION, {"window": (1 << 30) + 1}),
        (ATTENTION, {"keys": state(StateKind.PAGED_KEYS, head_count=5)}),
        (GATED, {"gate": int32(8, -1), "out": codes(8, 9, 48)}),
        (GATED, {"gate": int32(8, 41), "out": codes(8, 51, 48)}),
        (LOGITS, {"matrix": matrix(40, 65537), "source": codes(65537)}),
        (LINEAR, {"matrix": int4(12, 16385), "source": codes(16385)}),
        (LOGITS, {"matrix": int4(40, 16385), "source": codes(16385)}),
        (EMBED, {"table": int4(40, 16385), "out": int32(16385)}),
        (LOGITS, {"first_row": 32, "last_row": 32}),
        (LOGITS, {"first_row": -16}),
        (LOGITS, {"last_row": 41}),
    ],
)
def test_sums_that_might_not_fit_are_refused(op: ops.Op, changes: dict[str, Any]) -> None:
    with pytest.raises(AccumulatorBoundError):
        replace(op, **changes)


@pytest.mark.parametrize(
    ("op", "changes"),
    [
        (EMBED, {"out": int32(9)}),
        (EMBED, {"out": codes()}),
        (NORM, {"source": codes()}),
        (NORM, {"out": int32(9)}),
        (NORM, {"group_size": 3}),
        (QUANTIZE, {"source": codes()}),
        (QUANTIZE, {"out": int32()}),
        (QUANTIZE, {"out": codes(9)}),
        (QUANTIZE, {"out": codes(fraction_bits=15)}),
        (QUANTIZE, {"out": codes(exponent_max=16)}),
        (LINEAR, {"source": int32()}),
        (LINEAR, {"source": codes(9)}),
        (LINEAR, {"out": int32(13)}),
        (ROPE, {"buffer": codes()}),
        (ROPE, {"head_dim": 5}),
        (ROPE, {"rotary_dim": 3}),
        (APPEND, {"source": int32(9)}),
        (APPEND, {"source": int32(fraction_bits=15)}),
        (APPEND, {"source": int32(4), "state": state(StateKind.FIXED, head_count=1)}),
        (ATTENTION, {"query": int32(17, 20)}),
        (ATTENTION, {"out": int32(15)}),
        (ATTENTION, {"out": int32(16, 17)}),
        (ATTENTION, {"keys": state(StateKind.PAGED_VALUES)}),
        (ATTENTION, {"values": state(StateKind.PAGED_KEYS)}),
        (ATTENTION, {"values": state(StateKind.PAGED_VALUES, head_dim=5)}),
        (ATTENTION, {"values": state(StateKind.PAGED_VALUES, head_count=4)}),
        (ATTENTION, {"num_attention_heads": 5}),
        (ATTENTION, {"num_attention_heads": 8}),
        (GATED, {"gate": int32(9, 20)}),
        (GATED, {"up": int32(9, 10)}),
        (GATED, {"out": codes(8, 29, 48)}),
        (GATED, {"out": codes(8, 30, 17)}),
        (ADD, {"source": int32(9)}),
        (ADD, {"source": int32(fraction_bits=15)}),
        (ADD, {"target": codes()}),
        (LOGITS, {"source": codes(9)}),
        (LOGITS, {"out": logits(41)}),
        (LOGITS, {"out": int32(40)}),
        (LOGITS, {"first_row": 8}),
        (CHOOSE, {"logits": int32(40)}),
        (CHOOSE, {"out": Buffer(name="selected", kind=BufferKind.TOKENS, width=2)}),
        (CHOOSE, {"out": int32(1)}),
        (AVERAGE, {"source": int32(5)}),
        (AVERAGE, {"out": int32(5)}),
        (AVERAGE, {"out": int32(4, 15)}),
        (AVERAGE, {"state": state(StateKind.PAGED_KEYS)}),
        (AVERAGE, {"state": state(StateKind.FIXED, head_count=1, fraction_bits=15)}),
    ],
)
def test_operands_that_disagree_are_refused(op: ops.Op, changes: dict[str, Any]) -> None:
    with pytest.raises(OpShapeError) as caught:
        replace(op, **changes)
    assert caught.value.op == type(op).__name__


def test_ops_name_their_tensors() -> None:
    assert EMBED.tensor_names() == ["w", "w.mantissas"]
    assert replace(LINEAR, matrix=matrix(12, 8, bias="w.bias")).tensor_names() == [
        "w",
        "w.mantissas",
        "w.bias",
    ]
    assert NORM.tensor_names() == ["gain"]
    assert ROPE.tensor_names() == ["rope.cos", "rope.sin"]
    assert LOGITS.tensor_names() == ["w", "w.mantissas"]
    for op in (QUANTIZE, APPEND, ATTENTION, GATED, ADD, CHOOSE, AVERAGE):
        assert op.tensor_names() == []


def test_row_rules() -> None:
    assert AVERAGE.row_rule is ops.RowRule.SCAN
    assert ATTENTION.row_rule is ops.RowRule.CAUSAL
    assert LINEAR.row_rule is ops.RowRule.ROWWISE
