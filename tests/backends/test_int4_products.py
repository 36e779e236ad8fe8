"""Products of int4 weights: exact on every tier, for every shape and number of rows."""

from functools import cache

import numpy as np
import pytest
from numpy.typing import NDArray

from sslm.program import ops
from sslm.program.buffers import EXPONENT_MAX_INT32, Buffer, BufferKind
from sslm.program.spans import CHUNK_ROWS_MAX
from sslm.program.tensors import GROUP_COLUMNS, padded
from tests.backends.backends import open_named
from tests.backends.single_op import CODE_MAX, Memory, OneLayer, codes_buffer, int32_buffer

WIDTHS = [1, 31, 32, 33, 64, 576, 1536, 16384]
HEIGHTS = [1, 15, 16, 17, 100]
ROW_COUNTS = [*range(1, 10), 16, 17, 64]
EDGES = [-CODE_MAX, -129, -128, -127, -1, 0, 1, 127, 128, 129, CODE_MAX]


@cache
def weights(width: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Codes [heights, width] and scales [heights, groups]; the first rows are extreme."""
    random = np.random.default_rng(width)
    codes = random.integers(-7, 8, (max(HEIGHTS), width))
    scales = random.integers(1, 65, (max(HEIGHTS), padded(width, GROUP_COLUMNS) // GROUP_COLUMNS))
    codes[0] = random.choice([-7, 7], width)
    codes[1], codes[2], codes[3] = 7, -7, 7
    scales[:3], scales[3] = 64, 1
    return codes, scales


@cache
def rows_of_codes(width: int) -> NDArray[np.int64]:
    """Rows of codes [rows, width]; the first give the first weights the largest sums there are."""
    random = np.random.default_rng(width)
    rows = random.integers(-CODE_MAX, CODE_MAX + 1, (CHUNK_ROWS_MAX, width))
    rows[0] = CODE_MAX * np.sign(weights(width)[0][0])
    rows[1], rows[2] = CODE_MAX, -CODE_MAX
    rows[3:20] = random.choice(EDGES, (17, width))
    return rows


@cache
def exact_sums(width: int) -> NDArray[np.int64]:
    """Sums [rows, heights], below 2**38."""
    codes, scales = weights(width)
    scaled = codes * np.repeat(scales, GROUP_COLUMNS, axis=1)[:, :width]
    return rows_of_codes(width) @ scaled.T


def head(width: int, height: int) -> OneLayer:
    """A program whose logits are the sums of the residual with the first rows of weights."""
    residual = int32_buffer("residual", width)
    one = OneLayer(residual, vocab_size=height, position_count=CHUNK_ROWS_MAX)
    one.layer_index = 0
    codes, scales = weights(width)
    matrix = one.store.int4_matrix(
        "head", codes[:height], np.ones(height), 0, scales=scales[:height]
    )
    source = codes_buffer("codes", width, exponent_max=EXPONENT_MAX_INT32)
    logits = Buffer(name="logits", kind=BufferKind.LOGITS, width=height)
    one.head = [
        ops.Quantize(source=residual, out=source),
        ops.Logits(source=source, out=logits, matrix=matrix, first_row=0, last_row=height),
    ]
    return one


def test_the_largest_sums_are_as_large_as_the_bounds_say() -> None:
    largest = 16384 * CODE_MAX * 7 * 64
    assert exact_sums(16384)[0, 0] == exact_sums(16384)[1, 1] == exact_sums(16384)[2, 2] == largest
    assert exact_sums(16384)[2, 1] == -largest


@pytest.mark.parametrize("width", WIDTHS)
def test_sums_are_those_of_plain_integers(width: int) -> None:
    codes, scales = (part.tolist() for part in weights(width))
    for row in (0, 3, CHUNK_ROWS_MAX - 1):
        inputs = rows_of_codes(width)[row].tolist()
        for n in (0, 3, 16, 99):
            terms = (
                c * w * scales[n][k // 32]
                for k, (c, w) in enumerate(zip(inputs, codes[n], strict=True))
            )
            assert exact_sums(width)[row, n] == sum(terms)


@pytest.mark.parametrize("height", HEIGHTS)
@pytest.mark.parametrize("width", WIDTHS)
def test_every_tier_gives_the_exact_sums(backend_name: str, width: int, height: int) -> None:
    one = head(width, height)
    program = one.program()
    plan = open_named(backend_name).compile(
        program, one.store.tensors, row_count_max=CHUNK_ROWS_MAX, context_tokens=CHUNK_ROWS_MAX
    )
    memory = Memory(program, positions=CHUNK_ROWS_MAX, rows=CHUNK_ROWS_MAX)
    # The reference is slow, and the same for any number of rows.
    for count in ROW_COUNTS[-1:] if backend_name == "reference" else ROW_COUNTS:
        for first in {0, count // 2}:
            memory.residual[:] = rows_of_codes(width)
            memory.logits[:] = 0
            plan.run(1, 2, [memory.span([0] * count, first_logits_row=first)])
            expected = exact_sums(width)[first:count, :height]
            np.testing.assert_array_equal(memory.logits[: count - first], expected)
    plan.close()
