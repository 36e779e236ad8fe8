"""Attention of a single row over pages of any codes and exponents."""

from dataclasses import dataclass

import numpy as np
import pytest

from sslm.program import ops
from sslm.program.ops import SaturationSite
from tests.backends.backends import open_named
from tests.backends.single_op import (
    CODE_MAX,
    INT32_MAX,
    Memory,
    OneLayer,
    int32_buffer,
    paged_states,
    run_layer,
)


@dataclass(frozen=True, kw_only=True)
class Row:
    """What a row attends with, and to what.

    Args:
        heads: Query heads for each of two key/value heads.
        head_dim: Of all heads.
        position: The row's; it sees *window* positions up to there, or all.
        window: How many.
        query_size: The largest absolute value of the query.
        key_size: The largest absolute code of keys; small ones bring all keys near the maximum.
        exponents: The smallest and the largest of keys and values.
        score_bits: Fraction bits of query and key together.
    """

    heads: int = 1
    head_dim: int = 64
    position: int = 150
    window: int | None = None
    query_size: int = 1 << 21
    key_size: int = CODE_MAX
    exponents: tuple[int, int] = (0, 2)
    score_bits: int = 50

    def outcome(self, backend_name: str) -> tuple[list[int], int]:
        """Return the outputs and how many were clamped."""
        random = np.random.default_rng(self.position + 1000 * self.head_dim + self.heads)
        width = 2 * self.heads * self.head_dim
        one = OneLayer(int32_buffer("residual", width), position_count=self.position + 1)
        one.states = paged_states(2, self.head_dim, k_bits=self.score_bits - 24)
        query = random.integers(-self.query_size, self.query_size, width, endpoint=True)
        source = one.load(int32_buffer("q", width, 24), query)
        one.layer.append(
            ops.Attention(
                query=source,
                out=one.residual,
                keys=one.states[0],
                values=one.states[1],
                num_attention_heads=2 * self.heads,
                window=self.window,
            )
        )
        memory = Memory(one.program(), positions=self.position + 1)
        for state, size in zip(one.states, (self.key_size, CODE_MAX), strict=True):
            for position in range(self.position + 1):
                codes, exponents = memory.paged(state, position)
                codes[:] = random.integers(-size, size, codes.shape, endpoint=True)
                exponents[:] = random.integers(*self.exponents, exponents.shape, endpoint=True)
        found = run_layer(open_named(backend_name), one, memory, position=self.position)
        return found, int(memory.saturations[SaturationSite.ATTENTION])


ROWS = {
    **{f"{heads} heads": Row(heads=heads) for heads in range(1, 7)},
    **{f"{dim} dims": Row(head_dim=dim, heads=3) for dim in (1, 2, 31, 33, 48, 65, 130, 255, 256)},
    **{
        f"last at {position}": Row(position=position, heads=3)
        for position in (0, 1, 15, 16, 31, 32, 62, 63, 64, 127, 128)
    },
    **{
        f"window of {window}": Row(window=window, heads=2, head_dim=40)
        for window in (1, 2, 20, 63, 64, 65, 90, 128)
    },
    "no key far": Row(key_size=1, heads=2),
    "some keys near": Row(score_bits=53, heads=3),
    "one key near": Row(score_bits=46, heads=3),
    "large queries": Row(query_size=INT32_MAX, score_bits=60, head_dim=256),
    "small queries": Row(query_size=1, score_bits=40, head_dim=2),
    "zero queries": Row(query_size=0, heads=3),
    "shifts to the left": Row(query_size=INT32_MAX, score_bits=30, heads=3),
    "many exponents": Row(exponents=(0, 16), heads=3),
    "clamped": Row(exponents=(17, 17), window=1, heads=5),
}


@pytest.mark.parametrize("name", ROWS)
def test_a_row_equals_the_reference(native_name: str, name: str) -> None:
    assert ROWS[name].outcome(native_name) == ROWS[name].outcome("reference")


def test_the_clamped_row_is_clamped() -> None:
    assert ROWS["clamped"].outcome("reference")[1] > 0
