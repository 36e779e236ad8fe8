"""The reference's kernels against plain Python integers."""

from typing import Any

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from sslm.backends.reference import kernels
from sslm.backends.reference.panels import panel_row, panel_rows
from sslm.program.ops import Epsilon
from tests.toy_programs import panel_tensor
from tests.unit.backends import plain_ops
from tests.unit.backends.plain_ops import CODE_MAX, INT32_MAX

INT32 = st.integers(-INT32_MAX, INT32_MAX)


def int64(values: Any) -> np.ndarray:
    return np.array(values, dtype=np.int64)


@st.composite
def int32_rows(draw: st.DrawFn, width: int) -> list[int]:
    """Rows of every magnitude, with extremes and zeros."""
    bound = 2 ** draw(st.integers(0, 31)) - 1
    items = st.integers(-bound, bound) | st.sampled_from([0, bound, -bound])
    return draw(st.lists(items, min_size=width, max_size=width))


@st.composite
def norms(draw: st.DrawFn) -> dict[str, Any]:
    """A norm whose record would accept it, so with every bound respected."""
    width = draw(st.integers(1, 9))
    gain_exponent = draw(st.integers(-32, 62))
    f_in = draw(st.integers(-10, 30))
    f_out = draw(st.integers(max(-64, gain_exponent - 20), gain_exponent + 24))
    mantissa = draw(st.integers(0, (1 << 24) - 1))
    largest_shift = 46 - (width * mantissa).bit_length()
    exponent = draw(st.integers(max(0, 2 * f_in - largest_shift), 160))
    gains = st.integers(-(1 << 23), 1 << 23) | st.sampled_from([1 << 23, -(1 << 23)])
    return {
        "group": draw(int32_rows(width)),
        "gain": draw(st.lists(gains, min_size=width, max_size=width)),
        "gain_exponent": gain_exponent,
        "epsilon": (mantissa, exponent),
        "f_in": f_in,
        "f_out": f_out,
    }


def run_rmsnorm(norm: dict[str, Any]) -> tuple[list[int], int]:
    out, counts = kernels.rmsnorm(
        int64([norm["group"]]),
        int64(norm["gain"]),
        gain_exponent=norm["gain_exponent"],
        epsilon=Epsilon(mantissa=norm["epsilon"][0], shift=norm["epsilon"][1]),
        fraction_bits=norm["f_in"],
        out_fraction_bits=norm["f_out"],
    )
    return out[0].tolist(), int(counts[0])


@given(norm=norms())
def test_rmsnorm(norm: dict[str, Any]) -> None:
    group, gain = norm["group"], norm["gain"]
    options = {name: norm[name] for name in ("gain_exponent", "epsilon", "f_in", "f_out")}
    assert run_rmsnorm(norm) == plain_ops.rmsnorm_group(group, gain, **options)


@pytest.mark.parametrize("group", [[1], [-1], [INT32_MAX], [CODE_MAX] * 4, [0, 0, 1], [0, 0]])
@pytest.mark.parametrize("epsilon", [(0, 0), (1, 160), ((1 << 24) - 1, 24)])
@pytest.mark.parametrize("finer", [24, 6])
def test_rmsnorm_at_its_ends(group: list[int], epsilon: tuple[int, int], finer: int) -> None:
    """The largest shift k, the largest product, and outputs that saturate or just do not."""
    gain = [1 << 23] * len(group)
    options: dict[str, Any] = {
        "gain_exponent": 20,
        "epsilon": epsilon,
        "f_in": 10,
        "f_out": 20 + finer,
    }
    out, count = run_rmsnorm({"group": group, "gain": gain, **options})
    assert (out, count) == plain_ops.rmsnorm_group(group, gain, **options)
    if finer == 6:
        assert count == 0
        assert max(map(abs, out)) < (1 << 29) + (1 << 8)


def test_rmsnorm_groups_do_not_mix() -> None:
    rows = [[5, -3], [0, 0], [INT32_MAX, 1]]
    options: dict[str, Any] = {"gain_exponent": 22, "epsilon": (3, 40), "f_in": 12, "f_out": 46}
    out, counts = kernels.rmsnorm(
        int64(rows),
        int64([1 << 22, -(1 << 23)]),
        gain_exponent=22,
        epsilon=Epsilon(mantissa=3, shift=40),
        fraction_bits=12,
        out_fraction_bits=46,
    )
    expected = [plain_ops.rmsnorm_group(row, [1 << 22, -(1 << 23)], **options) for row in rows]
    assert [(row, count) for row, count in zip(out.tolist(), counts.tolist(), strict=True)] == (
        expected
    )
    assert counts.tolist() == [2, 0, 1]


@st.composite
def products(draw: st.DrawFn) -> tuple[list[int], list[list[int]], list[int], int]:
    width = draw(st.integers(1, 6))
    codes = st.integers(-CODE_MAX, CODE_MAX) | st.sampled_from([CODE_MAX, -CODE_MAX])
    weight = st.integers(-127, 127) | st.sampled_from([127, -127])
    mantissa = st.integers(0, (1 << 24) - 1)
    return (
        draw(st.lists(codes, min_size=width, max_size=width)),
        [draw(st.lists(weight, min_size=width, max_size=width)) for _ in range(3)],
        draw(st.lists(mantissa, min_size=3, max_size=3)),
        draw(st.integers(-24, 110)),
    )


@given(case=products(), added=INT32, old=INT32)
def test_linear(
    case: tuple[list[int], list[list[int]], list[int], int], added: int, old: int
) -> None:
    """Equal after saturation, whatever int32 bias and old value are added before it."""
    codes, weights, mantissas, shift = case
    found = kernels.linear(
        int64([codes]), np.array(weights, dtype=np.float64), int64(mantissas), int64([shift])
    )
    expected = plain_ops.linear_values(codes, weights, mantissas, shift)
    totals = [plain_ops.clamp(value + added + old) for value in expected]
    assert [plain_ops.clamp(int(value) + added + old) for value in found[0]] == totals
    changed = [value + added + old != total for value, total in zip(expected, totals, strict=True)]
    assert [
        int(value) + added + old != total for value, total in zip(found[0], totals, strict=True)
    ] == changed


@pytest.mark.parametrize("shift", range(-24, 0))
def test_linear_shifted_left_saturates_whatever_is_added(shift: int) -> None:
    """No bias and old value together bring a sum back that was far beyond 32 bits."""
    weights = np.array([[127.0], [-127.0]])
    found = kernels.linear(int64([[CODE_MAX]]), weights, int64([(1 << 24) - 1] * 2), int64([shift]))
    exact = plain_ops.linear_values(
        [CODE_MAX], weights.astype(int).tolist(), [(1 << 24) - 1] * 2, shift
    )
    for added in (-2 * INT32_MAX, 0, 2 * INT32_MAX):
        assert [plain_ops.clamp(int(value) + added) for value in found[0]] == [
            plain_ops.clamp(value + added) for value in exact
        ]


def test_linear_at_its_widest() -> None:
    """65536 inputs, all at their largest: sums just below 2**38, products just below 2**62."""
    codes = np.full((2, 65536), CODE_MAX, dtype=np.int64)
    codes[1] = -CODE_MAX
    weights = np.full((1, 65536), 127.0)
    mantissa = (1 << 24) - 1
    exact = 65536 * CODE_MAX * 127 * mantissa
    for shift in (0, 30, 31, 62, 63):
        found = kernels.linear(codes, weights, int64([mantissa]), int64([shift, shift]))
        expected = [plain_ops.scale_shift(sign * exact, shift) for sign in (1, -1)]
        assert found[:, 0].tolist() == expected
    left = kernels.linear(codes, weights, int64([mantissa]), int64([-24, -24]))
    assert (np.abs(left) > 1 << 40).all()
    assert np.sign(left[:, 0]).tolist() == [1, -1]


@given(data=st.data(), pairing=st.sampled_from(["interleaved", "half"]))
def test_rope(data: st.DataObject, pairing: str) -> None:
    head_dim, pairs = 5, data.draw(st.integers(1, 2))
    row = data.draw(int32_rows(2 * head_dim))
    entries = st.integers(-(1 << 30), 1 << 30) | st.sampled_from([1 << 30, -(1 << 30)])
    cos = data.draw(st.lists(entries, min_size=pairs, max_size=pairs))
    sin = data.draw(st.lists(entries, min_size=pairs, max_size=pairs))
    found, counts = kernels.rotate(
        int64([row]), int64([cos]), int64([sin]), head_dim=head_dim, pairing=pairing
    )
    expected = plain_ops.rope(row, cos, sin, head_dim=head_dim, pairing=pairing)
    assert (found[0].tolist(), int(counts[0])) == expected


@given(t=st.integers(0, 23 << 16) | st.integers(0, 1 << 40))
@example(t=(22 << 16) - 1)
@example(t=22 << 16)
def test_pow2neg(t: int) -> None:
    assert kernels.pow2neg(int64([t])).tolist() == [plain_ops.pow2neg(t)]


def test_pow2neg_never_grows() -> None:
    values = kernels.pow2neg(np.arange((22 << 16) + 2, dtype=np.int64))
    assert (np.diff(values) <= 0).all()
    assert values[[0, 1 << 16, 2 << 16, 22 << 16]].tolist() == [1 << 20, 1 << 19, 1 << 18, 0]


@given(a=st.integers(0, 1 << 21) | st.integers(0, 1 << 50))
@example(a=(1 << 20) - 1)
@example(a=1 << 20)
def test_sigmoid_neg(a: int) -> None:
    assert kernels.sigmoid_neg(int64([a])).tolist() == [plain_ops.sigmoid_neg(a)]


@given(data=st.data(), width=st.integers(1, 5), gate_fraction_bits=st.integers(0, 40))
def test_gated_activation(data: st.DataObject, width: int, gate_fraction_bits: int) -> None:
    gate, up = data.draw(int32_rows(width)), data.draw(int32_rows(width))
    codes, exponents = kernels.gated_activation(
        int64([gate]), int64([up]), gate_fraction_bits=gate_fraction_bits
    )
    expected = plain_ops.gated_activation(gate, up, gate_fraction_bits=gate_fraction_bits)
    assert (codes[0].tolist(), int(exponents[0])) == expected


@pytest.mark.parametrize("sign", [1, -1])
def test_gated_activation_at_its_widest(sign: int) -> None:
    codes, exponents = kernels.gated_activation(
        int64([[INT32_MAX, -INT32_MAX]]), int64([[sign * INT32_MAX] * 2]), gate_fraction_bits=0
    )
    assert codes.tolist() == [[sign * 16384, 0]]
    assert exponents.tolist() == [48]


@given(data=st.data(), width=st.integers(1, 3), rows=st.integers(1, 4))
def test_moving_average(data: st.DataObject, width: int, rows: int) -> None:
    walked = [data.draw(int32_rows(width)) for _ in range(rows)]
    state = data.draw(int32_rows(width))
    found = kernels.moving_average(int64(walked), int64(state)).tolist()
    assert found == plain_ops.moving_average(walked, state)
    assert max(abs(value) for row in found for value in row) <= INT32_MAX


@pytest.mark.parametrize(("rows", "columns"), [(1, 1), (15, 3), (16, 4), (17, 5), (50, 9)])
def test_panels_are_read_back_in_any_range(rows: int, columns: int) -> None:
    codes = (np.arange(rows * columns) * 37 % 255 - 127).reshape(rows, columns)
    tensor = panel_tensor("w", codes)
    for first in range(0, rows, 7):
        for last in range(first + 1, rows + 1, 5):
            assert panel_rows(tensor, first, last).tolist() == codes[first:last].tolist()
    assert [panel_row(tensor, row).tolist() for row in range(rows)] == codes.tolist()
