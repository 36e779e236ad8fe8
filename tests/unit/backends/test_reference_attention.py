"""The reference's attention against plain Python integers."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sslm.backends.reference.attention import Codes, attention
from sslm.program.buffers import Buffer, BufferKind
from sslm.program.ops import Attention
from sslm.program.states import PAGE_TOKENS, State, StateKind
from tests.unit.backends import plain_ops
from tests.unit.backends.plain_ops import INT32_MAX


@dataclass(frozen=True)
class Case:
    """One span's attention, with states as whole pages."""

    op: Attention
    first_position: int
    query: np.ndarray
    keys: Codes
    values: Codes


def attention_op(
    *,
    head_dim: int,
    heads: int,
    kv_heads: int,
    window: int | None,
    query_bits: int = 20,
    key_bits: int = 18,
) -> Attention:
    def buffer(name: str, bits: int) -> Buffer:
        width = heads * head_dim
        return Buffer(name=name, kind=BufferKind.INT32, width=width, fraction_bits=bits)

    def state(kind: StateKind, bits: int) -> State:
        return State(
            name=kind.value,
            kind=kind,
            segment_index=1,
            head_count=kv_heads,
            head_dim=head_dim,
            fraction_bits=bits,
        )

    return Attention(
        query=buffer("q", query_bits),
        out=buffer("mixed", 17),
        keys=state(StateKind.PAGED_KEYS, key_bits),
        values=state(StateKind.PAGED_VALUES, 17),
        num_attention_heads=heads,
        window=window,
    )


def random_case(seed: int, *, first_position: int, rows: int, op: Attention) -> Case:
    """Random rows of random sizes. What lies past the last row is garbage of an earlier user."""
    generator = np.random.default_rng(seed)
    kv_heads, head_dim = op.keys.head_count, op.keys.head_dim
    pages = (first_position + rows - 1) // PAGE_TOKENS + 1
    shape = kv_heads, pages * PAGE_TOKENS

    def codes() -> Codes:
        numbers = generator.integers(-32639, 32640, size=(*shape, head_dim))
        exponents = generator.integers(0, 18, size=shape)
        numbers[:, first_position + rows :] = generator.choice([-32768, 32767])
        exponents[:, first_position + rows :] = 255
        return Codes(numbers, exponents)

    largest = 2 ** generator.integers(1, 31)
    query = generator.integers(-largest, largest, size=(rows, op.query.width))
    return Case(op, first_position, query, codes(), codes())


def plain(case: Case) -> tuple[list[list[int]], list[int]]:
    """Row by row and head by head, over the visible positions."""
    op, head_dim = case.op, case.op.keys.head_dim
    rows, counts = [], []
    for index, row in enumerate(case.query.tolist()):
        position = case.first_position + index
        first = 0 if op.window is None else max(0, position - op.window + 1)
        out: list[int] = []
        for head in range(op.num_attention_heads):
            kv_head = head * op.keys.head_count // op.num_attention_heads
            keys, values = (
                {
                    j: (codes.codes[kv_head, j].tolist(), int(codes.exponents[kv_head, j]))
                    for j in range(first, position + 1)
                }
                for codes in (case.keys, case.values)
            )
            query = row[head * head_dim : (head + 1) * head_dim]
            bits = op.query.fraction_bits + op.keys.fraction_bits
            out += plain_ops.attention_head(query, keys, values, fraction_bits=bits)
        clamped, count = plain_ops.saturated(out)
        rows.append(clamped)
        counts.append(count)
    return rows, counts


def assert_plain(case: Case) -> None:
    out, counts = attention(
        case.query, case.keys, case.values, first_position=case.first_position, op=case.op
    )
    assert (out.tolist(), counts.tolist()) == plain(case)


@st.composite
def cases(draw: st.DrawFn) -> Case:
    """Spans that begin around page ends, with windows around page sizes."""
    heads, kv_heads = draw(st.sampled_from([(1, 1), (2, 2), (3, 1), (4, 2)]))
    bits = draw(st.integers(26, 78))
    op = attention_op(
        head_dim=draw(st.integers(1, 5)),
        heads=heads,
        kv_heads=kv_heads,
        window=draw(st.sampled_from([None, 1, 2, 63, 64, 65, 100])),
        query_bits=bits - 13,
        key_bits=13,
    )
    return random_case(
        draw(st.integers(0, 2**32)),
        first_position=draw(st.sampled_from([0, 1, 62, 63, 64, 65, 127, 128, 150])),
        rows=draw(st.integers(1, 3)),
        op=op,
    )


@given(case=cases())
def test_spans_of_every_kind(case: Case) -> None:
    assert_plain(case)


@pytest.mark.parametrize("seed", range(4))
def test_a_whole_chunk_over_pages(seed: int) -> None:
    op = attention_op(head_dim=3, heads=3, kv_heads=1, window=None, query_bits=26, key_bits=24)
    assert_plain(random_case(seed, first_position=40, rows=64, op=op))


def constant_case(**changes: Any) -> Case:
    """100 equal keys and values under a constant query."""
    op = attention_op(head_dim=2, heads=1, kv_heads=1, window=None, **changes)
    numbers = np.full((1, 128, 2), 32639)
    codes = Codes(numbers, np.full((1, 128), 17))
    return Case(op, 99, np.full((1, 2), INT32_MAX), codes, codes)


@pytest.mark.parametrize("bits", [(13, 13), (39, 39)])
def test_largest_codes_and_exponents(bits: tuple[int, int]) -> None:
    """Scores that are clamped, and outputs that saturate: equal weights give back the value."""
    case = constant_case(query_bits=bits[0], key_bits=bits[1])
    assert_plain(case)
    out, counts = attention(case.query, case.keys, case.values, first_position=99, op=case.op)
    assert out.tolist() == [[INT32_MAX, INT32_MAX]]
    assert counts.tolist() == [2]


@pytest.mark.parametrize("steps", [0, 7, 8, 9, 21, 22, 40])
def test_a_sink_key_leaves_the_others_their_precision(steps: int) -> None:
    """The first key is some powers of two above all others, of its own block and of later ones."""
    case = random_case(1, first_position=191, rows=1, op=constant_case().op)
    # A product of 2**14 * 2**8 * steps, shifted by 38 - 16 - 16 bits, is steps at 16 fraction bits.
    case.query[:] = [[1 << 14, 0]]
    case.keys.codes[:] = 0
    case.keys.codes[:, 0, 0] = steps << 8
    case.keys.exponents[:] = 16
    assert_plain(case)


def test_equal_scores_give_the_mean() -> None:
    """Two keys of one weight, values 100 and -50: 25, exactly."""
    op = attention_op(head_dim=1, heads=1, kv_heads=1, window=2)
    keys = Codes(np.zeros((1, 64, 1), dtype=np.int64), np.zeros((1, 64), dtype=np.int64))
    values = Codes(np.zeros((1, 64, 1), dtype=np.int64), np.zeros((1, 64), dtype=np.int64))
    values.codes[0, :3, 0] = [30000, 100, -50]
    out, counts = attention(np.array([[5]]), keys, values, first_position=2, op=op)
    assert out.tolist() == [[25]]
    assert counts.tolist() == [0]
