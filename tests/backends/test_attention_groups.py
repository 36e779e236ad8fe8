"""Attention over pages whose groups have every shift, exponent and size that kernels tell apart."""

from dataclasses import dataclass
from functools import cache

import numpy as np
import pytest

from sslm.program import ops
from sslm.program.buffers import EXPONENT_MAX_INT32
from sslm.program.spans import CHUNK_ROWS_MAX
from sslm.program.states import PAGE_TOKENS
from tests.backends.backends import open_named
from tests.backends.single_op import CODE_MAX, Memory, OneLayer, int32_buffer, paged_states

QUERY_BITS, KEY_BITS, KEY_EXPONENT = 16, 10, 3
"""With these, 2**14 in a query makes 128 times a key's code of its score, and 2**7 the code."""

HEAD_COUNT = 3


@dataclass(frozen=True)
class Pages:
    """How the pages before the last rows look.

    Args:
        nearest: Of each page, how many powers of two its nearest key lies below the largest score.
        spread: Powers of two over which the other keys of a page lie below that.
        exponents: Value exponents are drawn from these.
        head_dim: Dims of a head.
        window: Visible positions, or None.
        least_code: Values are drawn from here up to the largest code.
        row_count: Rows that attend.
    """

    nearest: tuple[int, ...]
    spread: float
    exponents: tuple[int, ...]
    head_dim: int = 64
    window: int | None = None
    least_code: int = -CODE_MAX
    row_count: int = CHUNK_ROWS_MAX


EVERY_SHIFT = tuple(range(64))
CASES = {
    "one exponent": Pages(EVERY_SHIFT, 12.0, (15,)),
    "near alone": Pages((0, 1, 0, 3), 3.0, (15, 16, 17)),
    "far alone but one": Pages((30, 29, 28, 0), 60.0, (15, 16)),
    "lifted": Pages(EVERY_SHIFT, 2.0, (0, EXPONENT_MAX_INT32)),
    "raised": Pages((0, 0, 1, 7, 8, 9), 6.0, (5,) * 8 + (14, 17)),
    "cut near and far": Pages((0, 2, 5, 0, 2), 16.0, (8, 9, 16)),
    "one lane's worth": Pages((0, 14, 15, 16, 17, 47, 48, 49), 0.5, (14,)),
    "all exponents": Pages((0, 9, 3, 20), 10.0, tuple(range(EXPONENT_MAX_INT32 + 1))),
    # Many pages, since the last bit of a page's share rarely shows.
    "rounded near": Pages((0,) + (7,) * 120, 9.0, (14,) * 40 + (15,)),
    "nearly vanishing": Pages((0,) + (47, 48, 49) * 20, 0.0, (14,), least_code=32000),
    "a row of every shift": Pages(EVERY_SHIFT, 12.0, (15,), row_count=1),
    "a row with keys at the limit": Pages((0,) + (7, 8) * 40, 0.0, (14,), row_count=1),
    "a row of vanishing keys": Pages(
        (0,) + tuple(range(38, 50)) * 6, 0.0, (14,), least_code=32000, row_count=1
    ),
    "single rows": Pages((0, 8, 16, 4, 40), 8.0, (14, 15, 17), row_count=5),
    "few rows": Pages((0, 8, 16, 4, 40), 8.0, (14, 15, 17), row_count=21),
    "narrow heads": Pages((0, 8, 3, 16, 30), 9.0, (8, 9, 16), head_dim=24),
    "odd wide heads": Pages((0, 8, 3, 16, 30, 1, 2), 9.0, (8, 9, 16), head_dim=130),
    "widest heads": Pages((0, 8, 3, 16, 30), 9.0, (8, 9, 16), head_dim=256),
    "window": Pages((0, 8, 3, 16, 30, 5, 1, 1), 9.0, (8, 9, 16), window=150),
}
"""Exponents are around 14, from where on outputs keep every bit of a quotient."""


def _key_codes(pages: Pages, random: np.random.Generator) -> np.ndarray:
    """Return int16 [positions, head_dim]: two dims make the score, the others hardly matter."""
    # One key has nearly all of the weight, so that quotients keep what others add.
    below = [random.uniform(0, pages.spread, PAGE_TOKENS) + power for power in pages.nearest]
    below[0] += 20
    for page, power in zip(below, pages.nearest, strict=True):
        page[random.integers(PAGE_TOKENS)] = power + random.choice([0.0, 0.4, 0.999]) * (power > 0)
    fine = np.round(np.concatenate(below) * 65536).astype(np.int64)
    codes = random.integers(-3, 4, (len(fine), pages.head_dim))
    codes[:, 0] = np.maximum((CODE_MAX // 2) - fine // 128, -CODE_MAX)
    codes[:, 1] = -(fine % 128)
    return codes.astype(np.int16)


def _layer(pages: Pages, positions: int) -> OneLayer:
    width = HEAD_COUNT * pages.head_dim
    one = OneLayer(int32_buffer("residual", width, QUERY_BITS), position_count=positions)
    one.states = paged_states(1, pages.head_dim, k_bits=KEY_BITS, v_bits=QUERY_BITS)
    one.layer.append(
        ops.Attention(
            query=one.residual,
            out=one.residual,
            keys=one.states[0],
            values=one.states[1],
            num_attention_heads=HEAD_COUNT,
            window=pages.window,
        )
    )
    return one


@cache
def _outcome(name: str, backend_name: str) -> tuple[list[list[int]], list[int]]:
    """Return the rows after attention, and the saturations by site."""
    pages, random = CASES[name], np.random.default_rng(sorted(CASES).index(name))
    keys = _key_codes(pages, random)
    positions, rows = len(keys), pages.row_count
    one = _layer(pages, positions)
    memory = Memory(one.program(), positions=positions, rows=rows)
    exponents = random.choice(pages.exponents, positions)
    for position in range(positions):
        for state, drawn, exponent in (
            (one.states[0], keys[position], KEY_EXPONENT),
            (
                one.states[1],
                random.integers(pages.least_code, CODE_MAX + 1, pages.head_dim),
                exponents[position],
            ),
        ):
            stored, stored_exponents = memory.paged(state, position)
            stored[:], stored_exponents[:] = drawn, exponent
    queries = random.integers(-2, 3, (rows, HEAD_COUNT, pages.head_dim))
    queries[:, :, 0] = random.integers(-200, 1, (rows, HEAD_COUNT))
    # Rows whose distances are just as they were meant to be.
    queries[::2] = 0
    queries[:, :, 0] += 1 << 14
    queries[:, :, 1] = 1 << 7
    memory.residual[:rows] = queries.reshape(rows, -1)
    plan = open_named(backend_name).compile(
        one.program(), one.store.tensors, row_count_max=rows, context_tokens=positions
    )
    span = memory.span([0] * rows, first_position=positions - rows, first_logits_row=rows)
    plan.run(1, 2, [span])
    plan.close()
    return memory.residual[:rows].tolist(), memory.saturations.tolist()


@pytest.mark.parametrize("name", CASES)
def test_groups_of_every_kind(native_name: str, name: str) -> None:
    assert _outcome(name, native_name) == _outcome(name, "reference")
