"""Products of many rows: counts of rows and columns at every end of a tier's tiles."""

from array import array
from dataclasses import dataclass
from functools import cache

import numpy as np
import pytest

from sslm.errors.program import OpShapeError
from sslm.program import ops
from sslm.program.buffers import EXPONENT_MAX_INT32, Buffer, BufferKind
from sslm.program.plan import Backend
from sslm.program.spans import CHUNK_ROWS_MAX, NOT_ALLOWED, Span, allowed_size_bytes
from tests.backends.backends import open_named
from tests.backends.single_op import Memory, OneLayer, codes_buffer, int32_buffer

ROW_COUNTS = (*range(1, 18), 33, 63, 64, 100)
WIDTHS = (1, 3, 4, 15, 16, 17, 31, 33, 47, 63, 64, 65, 100, 128, 130, 192, 577)
"""Of the input, and of the output of linear."""
VOCAB_SIZES = (1, 15, 16, 17, 31, 32, 33, 48, 65, 100)
EXPONENTS = (-7, 0, 20, 30, 36, 63, 75)
"""Of the matrix of linear: shifts to the left, to the right, and of more than 62 bits."""
CODE_MAX = 32639


@dataclass(frozen=True, kw_only=True)
class Case:
    """One run.

    Args:
        rows: Of all spans.
        width: Of the residual.
        vocab_size: Rows of the head.
        seed: Of everything else.
        is_extreme: Whether weights are ±127 and codes ±32639.
        is_masked: Whether spans allow some ids only.
    """

    rows: int
    width: int
    vocab_size: int
    seed: int
    is_extreme: bool = False
    is_masked: bool = False


def cases() -> list[Case]:
    """Return two for every count of rows, whose other numbers go round, and some extremes."""
    numbered = list(enumerate((*ROW_COUNTS, *ROW_COUNTS)))
    # Sums of 577 of the largest products do not fit 32 bits.
    widest = [
        Case(rows=rows, width=577, vocab_size=33, seed=seed, is_extreme=True)
        for rows, seed in ((1, 3), (2, 7), (6, 11), (12, 15), (40, 23))
    ]
    return widest + [
        Case(
            rows=rows,
            width=WIDTHS[(7 * index) % len(WIDTHS)],
            vocab_size=VOCAB_SIZES[(3 * index) % len(VOCAB_SIZES)],
            seed=index,
            is_extreme=index % 4 == 3,
            is_masked=index % 3 == 1,
        )
        for index, rows in numbered
    ]


def span_rows(rows: int, random: np.random.Generator) -> list[int]:
    """Cut a count of rows into those of spans."""
    cut = []
    while rows:
        cut.append(int(random.integers(1, min(rows, CHUNK_ROWS_MAX) + 1)))
        rows -= cut[-1]
    return cut


def weights(shape: tuple[int, int], case: Case, random: np.random.Generator) -> np.ndarray:
    if case.is_extreme:
        return random.choice([-127, 127], shape) if case.seed % 8 == 3 else np.full(shape, 127)
    return random.integers(-127, 128, shape)


def residual(case: Case, rows: int, random: np.random.Generator) -> np.ndarray:
    """Return rows of all sizes, zero included."""
    shape = (rows, case.width)
    if case.is_extreme:
        signs = random.choice([-1, 1], shape if case.seed % 8 == 3 else (rows, 1))
        return CODE_MAX * signs << random.integers(0, 16, (rows, 1))
    sizes = np.left_shift(1, random.integers(0, 32, (rows, 1)))
    return random.integers(-sizes + 1, sizes, shape)


def allowed_bits(case: Case, random: np.random.Generator) -> memoryview:
    """Return no id, one, a few that lie together, or any."""
    bits = np.zeros(8 * allowed_size_bytes(case.vocab_size), np.uint8)
    first = int(random.integers(0, case.vocab_size))
    count = (0, 1, 5, case.vocab_size)[int(random.integers(0, 4))]
    bits[first : first + count] = random.integers(0, 2, len(bits[first : first + count]))
    # What lies beyond the vocabulary does not matter.
    bits[case.vocab_size :] = 1
    return np.packbits(bits, bitorder="little").data


def one_layer(case: Case, random: np.random.Generator) -> OneLayer:
    """Return linear and logits, both fed with the residual's codes."""
    width, vocab_size = case.width, case.vocab_size
    one = OneLayer(int32_buffer("residual", width), vocab_size=vocab_size, position_count=128)
    codes = codes_buffer("codes", width, exponent_max=EXPONENT_MAX_INT32)
    matrix = one.store.matrix(
        "linear",
        weights((width, width), case, random),
        random.integers(0, 1 << 24, width),
        EXPONENTS[case.seed % len(EXPONENTS)],
        random.integers(-1 << 30, 1 << 30, width) if case.seed % 2 else None,
    )
    one.layer += [
        ops.Quantize(source=one.residual, out=codes),
        ops.Linear(
            source=codes,
            out=one.residual,
            matrix=matrix,
            accumulates=case.seed % 5 < 3,
            site=ops.SaturationSite.RESIDUAL,
        ),
    ]
    head = one.store.matrix(
        "head",
        weights((vocab_size, width), case, random),
        random.integers(-(1 << 24) + 1, 1 << 24, vocab_size),
        0,
    )
    logits = Buffer(name="logits", kind=BufferKind.LOGITS, width=vocab_size)
    cut = 16 * (vocab_size // 32)
    one.head.append(ops.Quantize(source=one.residual, out=codes))
    one.head += [
        ops.Logits(source=codes, out=logits, matrix=head, first_row=first, last_row=last)
        for first, last in ((0, cut), (cut, vocab_size))
        if first < last
    ]
    selected = Buffer(name="selected", kind=BufferKind.TOKENS, width=1)
    one.select.append(ops.Choose(logits=logits, out=selected))
    return one


def spans_of(case: Case, one: OneLayer, random: np.random.Generator) -> list[tuple[Memory, Span]]:
    """Return spans whose first, last or other rows get logits."""
    found = []
    for rows in span_rows(case.rows, random):
        memory = Memory(one.program(), positions=128, rows=rows)
        memory.residual[:rows] = residual(case, rows, random)
        first_logits_row = (0, rows - 1, rows // 2, rows)[int(random.integers(0, 4))]
        span = memory.span([0] * rows, first_logits_row=first_logits_row)
        span.allowed = allowed_bits(case, random) if case.is_masked else None
        found.append((memory, span))
    return found


def outcome(backend: Backend, case: Case) -> list[object]:
    """Run from the layer on; return what every span has then."""
    random = np.random.default_rng(case.seed)
    one = one_layer(case, random)
    program = one.program()
    spans = spans_of(case, one, random)
    plan = backend.compile(program, one.store.tensors, row_count_max=case.rows, context_tokens=128)
    plan.run(1, len(program.segments), [span for _, span in spans])
    plan.close()
    return [
        (
            memory.residual[: span.row_count].tolist(),
            memory.saturations.tolist(),
            memory.logits.tolist(),
            memory.selected.tolist(),
        )
        for memory, span in spans
    ]


@cache
def expected(case: Case) -> list[object]:
    return outcome(open_named("reference"), case)


@pytest.mark.parametrize("case", cases(), ids=lambda case: f"{case.rows} rows")
def test_products_equal_the_reference(native_name: str, case: Case) -> None:
    assert outcome(open_named(native_name, threads=1 + case.seed % 2), case) == expected(case)


def test_the_widest_sums_are_exact(backend_name: str) -> None:
    """65536 products of the largest codes and weights, positive or negative."""
    width, rows = 65536, 5
    one = OneLayer(int32_buffer("residual", width), vocab_size=2, position_count=128)
    codes = codes_buffer("codes", width, exponent_max=EXPONENT_MAX_INT32)
    signs = np.array([[127], [-127]])
    head = one.store.matrix("head", np.broadcast_to(signs, (2, width)), [(1 << 24) - 1] * 2, 0)
    logits = Buffer(name="logits", kind=BufferKind.LOGITS, width=2)
    one.head += [
        ops.Quantize(source=one.residual, out=codes),
        ops.Logits(source=codes, out=logits, matrix=head, first_row=0, last_row=2),
    ]
    memory = Memory(one.program(), positions=128, rows=rows)
    memory.residual[:rows] = np.array([CODE_MAX, -CODE_MAX, 127, -128, 255])[:, None]
    program = one.program()
    plan = open_named(backend_name).compile(
        program, one.store.tensors, row_count_max=rows, context_tokens=128
    )
    plan.run(2, 3, [memory.span([0] * rows)])
    plan.close()
    sums = [127 * width * ((1 << 24) - 1) * code for code in (CODE_MAX, -CODE_MAX, 127, -128, 255)]
    assert memory.logits.tolist() == [[total, -total] for total in sums]


def test_only_allowed_ids_are_scored_and_chosen(backend_name: str) -> None:
    vocab_size = 100
    case = Case(rows=1, width=20, vocab_size=vocab_size, seed=4)
    one = one_layer(case, np.random.default_rng(4))
    program = one.program()
    plan = open_named(backend_name).compile(
        program, one.store.tensors, row_count_max=1, context_tokens=128
    )
    free = Memory(program, positions=128)
    free.residual[0] = np.arange(20) * 1000
    plan.run(2, len(program.segments), [free.span([0])])
    for ids in ([], [0], [99], [40, 41], [3, 17, 64], [*range(100)]):
        memory = Memory(program, positions=128)
        memory.residual[0] = free.residual[0]
        words = array("I", [0] * 4)
        for token_id in ids:
            words[token_id // 32] |= 1 << token_id % 32
        span = memory.span([0])
        span.allowed = memoryview(words)
        plan.run(2, len(program.segments), [span])
        scores = free.logits[0].tolist()
        assert memory.logits[0].tolist() == [
            scores[index] if index in ids else NOT_ALLOWED for index in range(vocab_size)
        ]
        assert memory.selected[0] == max(ids, key=lambda index: (scores[index], -index), default=-1)
    plan.close()


def test_a_mask_that_is_too_short_is_refused(backend_name: str) -> None:
    case = Case(rows=1, width=20, vocab_size=33, seed=4)
    one = one_layer(case, np.random.default_rng(4))
    program = one.program()
    plan = open_named(backend_name).compile(
        program, one.store.tensors, row_count_max=1, context_tokens=128
    )
    span = Memory(program, positions=128).span([0])
    span.allowed = memoryview(array("I", [1]))
    with pytest.raises(OpShapeError, match="allowed ids"):
        plan.run(1, 2, [span])
    plan.close()
