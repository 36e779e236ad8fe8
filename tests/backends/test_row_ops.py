"""Ops that go element by element, at widths around the vectors' and values at their ends."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache

import numpy as np
import pytest

from sslm.native_library import available_tiers
from sslm.program import ops
from sslm.program.buffers import EXPONENT_MAX_GATED, EXPONENT_MAX_INT32, Buffer, BufferKind
from tests.backends.backends import open_named
from tests.backends.single_op import INT32_MAX, Memory, OneLayer, codes_buffer, int32_buffer

ROW_COUNT = 12
WIDTHS = (1, 3, 7, 8, 15, 16, 17, 63, 64, 65, 576)
VOCAB_SIZES = (1, 2, 7, 8, 9, 511, 512, 513, 1030, 5000)
NORM_SHIFTS = (-24, -17, *range(-12, 9), 20, 40, 94, 126)
"""Fraction bits of a gain less those of the output."""
EMBED_EXPONENTS = (-24, -9, -1, 0, 1, 2, 17, 30, 31, 32, 33, 62)
GATE_BITS = (0, 15, 16, 17, 26, 40)
READINGS = ((1 << 23, 24), (1 << 8, 24), (1, 24), (1, 40))
"""Mantissas and exponents of matrices that show codes with exponents near 0, 16, 24 and 40."""


@dataclass(frozen=True, eq=False)
class Case:
    """A program of one layer over given rows.

    Args:
        one: The program.
        rows: int32 [rows, hidden_size], what the residual is before the layer.
    """

    one: OneLayer
    rows: np.ndarray

    def outcome(self, backend_name: str) -> tuple[list[list[int]], list[int]]:
        """Return the rows after the layer, and the saturations by site."""
        program, count = self.one.program(), len(self.rows)
        memory = Memory(program, positions=count, rows=count)
        memory.residual[:count] = self.rows
        plan = open_named(backend_name).compile(
            program, self.one.store.tensors, row_count_max=count, context_tokens=count
        )
        span = memory.span([0] * count, first_logits_row=count)
        plan.run(1, 2, [span])
        plan.close()
        return memory.residual[:count].tolist(), memory.saturations.tolist()


def check(backend_name: str, make: Callable[..., Case], *arguments: object) -> None:
    """Compare a case with what the reference makes of it."""
    case = made(make, *arguments)
    assert case.outcome(backend_name) == expected(make, *arguments)


def layer_of(width: int, fraction_bits: int = 0) -> OneLayer:
    residual = int32_buffer("residual", width, fraction_bits)
    return OneLayer(residual, position_count=ROW_COUNT)


@cache
def made(make: Callable[..., Case], *arguments: object) -> Case:
    return make(*arguments)


@cache
def expected(make: Callable[..., Case], *arguments: object) -> tuple[list[list[int]], list[int]]:
    return made(make, *arguments).outcome("reference")


def rows_of(width: int, seed: int, largest: int = INT32_MAX) -> np.ndarray:
    """Rows of all sizes, of zeros, of the ends of the range, one large value, and halves."""
    random = np.random.default_rng([width, seed])
    rows = np.zeros((ROW_COUNT, width), np.int64)
    for index, bits in enumerate((31, 30, 24, 17, 15, 4)):
        rows[index] = random.integers(-(1 << bits) + 1, 1 << bits, width)
    ends = np.array([INT32_MAX, -INT32_MAX])
    rows[6] = random.choice(ends, width)
    rows[7] = ends[0]
    rows[8, random.integers(width)] = random.choice(ends)
    rows[9] = random.integers(-8, 8, width) << 12
    rows[9, random.integers(width)] = 32639 << 13
    rows[10] = random.choice([-1, 0, 1], width)
    return np.clip(rows, -largest, largest).astype(np.int32)


def norm_case(width: int, groups: int, shift: int) -> Case:
    gain_exponent = 18 if shift < 80 else 62
    fraction_bits = gain_exponent - shift
    one = layer_of(width * groups, fraction_bits)
    gain = np.random.default_rng(width).integers(-(1 << 23), (1 << 23) + 1, width)
    gain[0] = 1 << 23
    one.layer.append(
        ops.RmsNorm(
            source=one.residual,
            out=one.residual,
            group_size=width,
            gain=one.store.int32("gain", gain),
            gain_exponent=gain_exponent,
            epsilon=ops.Epsilon(mantissa=2748779, shift=38 + 2 * max(0, fraction_bits - 14)),
        )
    )
    return Case(one, rows_of(width * groups, groups))


@pytest.mark.parametrize("width", WIDTHS)
def test_rmsnorm_at_every_width(native_name: str, width: int) -> None:
    check(native_name, norm_case, width, 1, -6)
    check(native_name, norm_case, width, 3, -6)


@pytest.mark.parametrize("shift", NORM_SHIFTS)
def test_rmsnorm_at_every_shift(native_name: str, shift: int) -> None:
    check(native_name, norm_case, 37, 1, shift)


@pytest.mark.parametrize("row", [(41, 9, 1, 0), (86, 9, 0, 0), (87, 4, 2, 1), (97, 10, 7, 1)])
def test_rmsnorm_takes_the_root_exactly(backend_name: str, row: tuple[int, ...]) -> None:
    """Newton's method ends 1 above these roots, of sums of squares, and the reciprocal shows it."""
    one = layer_of(len(row), 24)
    one.layer.append(
        ops.RmsNorm(
            source=one.residual,
            out=one.residual,
            group_size=len(row),
            gain=one.store.int32("gain", [1] * len(row)),
            gain_exponent=0,
            epsilon=ops.Epsilon(mantissa=0, shift=48),
        )
    )
    total = sum(value * value for value in row)
    k = (64 - total.bit_length()) // 2
    root = math.isqrt(total << 2 * k)
    reciprocal = ((1 << 56) + root) // (2 * root)
    expected_row = [((value * reciprocal >> 30 - k) + 1) // 2 for value in row]
    found, _ = Case(one, np.array([row], np.int32)).outcome(backend_name)
    assert found == [expected_row]


def test_rmsnorm_saturates_where_there_is_no_room() -> None:
    _, saturations = expected(norm_case, 37, 1, -24)
    assert saturations[ops.SaturationSite.NORM] > 30


def read_codes(one: OneLayer, codes: Buffer, mantissa: int, exponent: int) -> None:
    """Write codes times a power of two to the residual."""
    width = codes.width
    matrix = one.store.matrix("identity", np.eye(width), [mantissa] * width, exponent)
    one.layer.append(
        ops.Linear(
            source=codes,
            out=one.residual,
            matrix=matrix,
            accumulates=False,
            site=ops.SaturationSite.GATE_UP,
        )
    )


def quantize_case(width: int) -> Case:
    one = layer_of(width)
    codes = codes_buffer("codes", width, exponent_max=EXPONENT_MAX_INT32)
    one.layer.append(ops.Quantize(source=one.residual, out=codes))
    read_codes(one, codes, *READINGS[0])
    return Case(one, rows_of(width, 0))


@pytest.mark.parametrize("width", WIDTHS)
def test_quantize_at_every_width(native_name: str, width: int) -> None:
    check(native_name, quantize_case, width)


def gated_case(width: int, gate_bits: int, reading: tuple[int, int], up_bits: int) -> Case:
    one = layer_of(width, gate_bits)
    up = np.random.default_rng(up_bits).integers(-(1 << up_bits) + 1, 1 << up_bits, width)
    up[-1] = INT32_MAX if up_bits == 31 else up[-1]
    ups = one.load(int32_buffer("up", width), up)
    codes = codes_buffer("codes", width, fraction_bits=gate_bits, exponent_max=EXPONENT_MAX_GATED)
    one.layer.append(ops.GatedActivation(gate=one.residual, up=ups, out=codes))
    read_codes(one, codes, *reading)
    return Case(one, rows_of(width, gate_bits))


@pytest.mark.parametrize("width", WIDTHS)
def test_gated_activation_at_every_width(native_name: str, width: int) -> None:
    check(native_name, gated_case, width, 26, READINGS[2], 28)


@pytest.mark.parametrize("gate_bits", GATE_BITS)
@pytest.mark.parametrize("reading", READINGS)
def test_gated_activation_at_every_exponent(
    native_name: str, gate_bits: int, reading: tuple[int, int]
) -> None:
    check(native_name, gated_case, 50, gate_bits, reading, 31)
    check(native_name, gated_case, 50, gate_bits, reading, 5)


def rope_case(heads: int, head_dim: int, rotary_dim: int, pairing: str, largest: int) -> Case:
    width, shape = heads * head_dim, (ROW_COUNT, rotary_dim // 2)
    one = layer_of(width)
    random = np.random.default_rng(rotary_dim)
    cos = random.integers(-(1 << 30), (1 << 30) + 1, shape)
    sin = random.integers(-(1 << 30), (1 << 30) + 1, shape)
    cos[:, 0], sin[:, 0] = 1 << 30, -(1 << 30)
    one.layer.append(
        ops.Rope(
            buffer=one.residual,
            head_dim=head_dim,
            rotary_dim=rotary_dim,
            pairing="interleaved" if pairing == "interleaved" else "half",
            cos=one.store.int32("cos", cos),
            sin=one.store.int32("sin", sin),
            position_count=ROW_COUNT,
        )
    )
    return Case(one, rows_of(width, 3, largest))


@pytest.mark.parametrize("pairing", ["interleaved", "half"])
@pytest.mark.parametrize(
    ("heads", "head_dim", "rotary_dim"),
    [(1, 2, 2), (3, 6, 4), (9, 64, 64), (2, 80, 34), (1, 130, 130), (5, 32, 30), (2, 96, 66)],
)
def test_rope_at_every_width(
    native_name: str, heads: int, head_dim: int, rotary_dim: int, pairing: str
) -> None:
    # Up to 2^30 - 1 no sum of two can be out of range; one more, and it can.
    for largest in (INT32_MAX, 1 << 30, (1 << 30) - 1):
        check(native_name, rope_case, heads, head_dim, rotary_dim, pairing, largest)


def test_rope_saturates_above_half_the_range_alone() -> None:
    for largest, is_saturated in ((INT32_MAX, True), (1 << 30, True), ((1 << 30) - 1, False)):
        _, saturations = expected(rope_case, 9, 64, 64, "half", largest)
        assert bool(saturations[ops.SaturationSite.ROPE]) is is_saturated


def add_case(width: int, kind: str) -> Case:
    one = layer_of(width)
    rows = {
        "ends": rows_of(width, 6)[6],
        "large": rows_of(width, 0)[0],
        "one": rows_of(width, 0)[10],
    }
    source = one.load(int32_buffer("source", width), rows[kind])
    one.layer.append(ops.Add(source=source, target=one.residual))
    return Case(one, rows_of(width, 1))


@pytest.mark.parametrize("width", WIDTHS)
def test_add_at_every_width(native_name: str, width: int) -> None:
    for kind in ("ends", "large", "one"):
        check(native_name, add_case, width, kind)


def test_add_counts_the_lowest_number_too() -> None:
    """-2^31 fits 32 bits, and is out of range all the same."""
    one = layer_of(2)
    source = one.load(int32_buffer("source", 2), [-1, 1])
    one.layer.append(ops.Add(source=source, target=one.residual))
    case = Case(one, np.array([[-INT32_MAX, INT32_MAX]], np.int32))
    for name in ("reference", *available_tiers()):
        rows, saturations = case.outcome(name)
        assert rows == [[-INT32_MAX, INT32_MAX]]
        assert saturations[ops.SaturationSite.RESIDUAL] == 2


@pytest.mark.parametrize("exponent", EMBED_EXPONENTS)
def test_embed_at_every_exponent(native_name: str, exponent: int) -> None:
    width, vocab_size = 67, 21
    one = OneLayer(int32_buffer("residual", width), vocab_size=vocab_size, position_count=21)
    random = np.random.default_rng(exponent + 99)
    weights = random.choice([-127, -1, 0, 1, 64, 127], (vocab_size, width))
    mantissas = random.integers(0, 1 << 24, vocab_size)
    mantissas[:3] = (1 << 24) - 1, 0, 1
    table = one.store.matrix("table", weights, mantissas, exponent)
    one.embed.append(ops.Embed(table=table, out=one.residual))
    found = []
    for name in ("reference", native_name):
        program = one.program()
        memory = Memory(program, positions=vocab_size, rows=vocab_size)
        plan = open_named(name).compile(
            program, one.store.tensors, row_count_max=vocab_size, context_tokens=vocab_size
        )
        span = memory.span(list(range(vocab_size)), first_logits_row=vocab_size)
        plan.run(0, 1, [span])
        plan.close()
        found.append((memory.residual[:vocab_size].tolist(), memory.saturations.tolist()))
    assert found[1] == found[0]


@pytest.mark.parametrize("vocab_size", VOCAB_SIZES)
def test_argmax_takes_the_lowest_of_the_largest(backend_name: str, vocab_size: int) -> None:
    one = OneLayer(int32_buffer("residual", 1), vocab_size=vocab_size, position_count=8)
    out = Buffer(name="selected", kind=BufferKind.TOKENS, width=1)
    logits = Buffer(name="logits", kind=BufferKind.LOGITS, width=vocab_size)
    one.select.append(ops.Choose(logits=logits, out=out))
    random = np.random.default_rng(vocab_size)
    rows = np.array(
        [
            random.integers(-(1 << 62) + 1, 1 << 62, vocab_size),
            random.integers(0, 2, vocab_size),
            np.full(vocab_size, -(1 << 62) + 1),
            np.arange(vocab_size),
            np.arange(vocab_size)[::-1],
            random.integers(-(1 << 62) + 1, 0, vocab_size),
            np.arange(vocab_size) == vocab_size - 1,
            np.arange(vocab_size) // 9 == vocab_size // 18,
        ]
    )
    program = one.program()
    memory = Memory(program, positions=len(rows), rows=len(rows))
    memory.logits[:] = rows
    plan = open_named(backend_name).compile(
        program, one.store.tensors, row_count_max=len(rows), context_tokens=len(rows)
    )
    plan.run(len(program.segments) - 1, len(program.segments), [memory.span([0] * len(rows))])
    plan.close()
    assert memory.selected.tolist() == np.argmax(rows, axis=1).tolist()
