"""Every backend and tier chooses the same token, whatever the options."""

from dataclasses import dataclass
from functools import cache

import numpy as np
import pytest

from sslm.backends.native import NativeBackend
from sslm.errors.native import ParallelForBrokenError, RunCancelledError
from sslm.errors.program import LogitRangeError, OpShapeError
from sslm.program import ops
from sslm.program.buffers import EXPONENT_MAX_INT32, Buffer, BufferKind
from sslm.program.choice import MICRO, Choice, Decoder
from sslm.program.parallel_for import ParallelFor
from sslm.program.plan import LogProbs, Plan
from sslm.program.spans import NOT_ALLOWED
from tests.backends import hooks
from tests.backends.backends import open_named
from tests.backends.choices import Chooser, chosen, compile_choosing, select
from tests.backends.random_choices import (
    EXPONENTS,
    alone,
    random_choice,
    random_chooser,
    random_logits,
)
from tests.backends.single_op import CODE_MAX, Memory, OneLayer, int32_buffer

VOCAB_SIZES = {1: 8, 2: 8, 37: 40, 64: 20, 65: 20, 300: 40, 1000: 40, 33_000: 12}
"""How many choices side by side over a vocabulary of a size."""


def choosers(vocab_size: int) -> list[Chooser]:
    random = np.random.default_rng(vocab_size)
    return [random_chooser(random, vocab_size) for _ in range(VOCAB_SIZES[vocab_size])]


@cache
def expected(vocab_size: int) -> list[list[int]]:
    return chosen(open_named("reference"), choosers(vocab_size))


def choosers_of_one_option() -> list[Chooser]:
    random = np.random.default_rng(7)
    logits = random_logits(random, (1, 90), -40)
    choices = [one for _ in range(6) for one in alone(random_choice(random, 90))]
    return [
        Chooser(logits=logits, exponents=[-40], choice=choice, token_ids=[5, 7, 5, 7, 5, 8, 5])
        for choice in choices
    ]


@cache
def expected_of_one_option() -> list[list[int]]:
    return chosen(open_named("reference"), choosers_of_one_option())


@pytest.mark.parametrize("vocab_size", VOCAB_SIZES)
def test_all_options_together(native_name: str, vocab_size: int) -> None:
    assert chosen(open_named(native_name), choosers(vocab_size)) == expected(vocab_size)


def test_each_option_alone(native_name: str) -> None:
    assert chosen(open_named(native_name), choosers_of_one_option()) == expected_of_one_option()


def test_the_examples_come_to_every_end() -> None:
    """The random choices would prove little if all of them were refused."""
    ends = [token_id for size in VOCAB_SIZES for row in expected(size) for token_id in row]
    assert {-3, -1, 0} <= set(ends)
    assert sum(token_id > 0 for token_id in ends) > 100


def test_threads_and_neighbours_change_nothing(native_name: str) -> None:
    every = choosers(300)
    assert chosen(open_named(native_name, threads=3), every[::-1]) == expected(300)[::-1]


@pytest.mark.parametrize("exponent", [-40, 0])
def test_a_score_at_the_end_of_its_range_is_refused(backend_name: str, exponent: int) -> None:
    top = (1 << 31) - 1 if exponent else 1 << 11
    unit = 1 << 20 if exponent else 1
    rows = np.array([[top * unit, 0], [0, -top * unit], [-top * unit] * 2, [top * unit - unit, 0]])
    choice = Choice(decoder=Decoder.SAMPLING, top_k=1)
    every = [Chooser(logits=row[None], exponents=[exponent], choice=choice) for row in rows]
    assert chosen(open_named(backend_name), every) == [[-3], [0], [-3], [0]]


def test_bias_does_not_bring_absent_ids_back(backend_name: str) -> None:
    logits = np.array([[-(1 << 63), 5 << 40, -(1 << 63)]])
    greedy = Choice(bias=((0, 100 * MICRO), (2, MICRO)), repetition=2 * MICRO, presence=-MICRO)
    sampling = Choice(decoder=Decoder.SAMPLING, bias=greedy.bias, temperature=100 * MICRO)
    every = [
        Chooser(logits=logits, exponents=[-40], choice=choice, token_ids=[0, 2, 1])
        for choice in (greedy, sampling)
    ]
    assert chosen(open_named(backend_name), every) == [[1], [1]]


def test_a_cancelled_run_may_be_repeated(backend_name: str) -> None:
    every, flag = choosers(37), memoryview(bytearray(b"\1\0\0\0"))
    plan = compile_choosing(open_named(backend_name), 37)
    for _ in range(2):
        with pytest.raises(RunCancelledError):
            select(plan, every, flag)
        assert all(set(one.outcome()) == {-7} for one in every)
    for _ in range(2):
        select(plan, every)
        assert [one.outcome() for one in every] == expected(37)
    plan.close()


@pytest.mark.parametrize("lie", hooks.LIES)
def test_a_run_whose_hook_lied_may_be_repeated(lie: str) -> None:
    function, fault, _ = hooks.LIES[lie]
    every = choosers(33_000)
    hook = ParallelFor(hooks.LyingOnce(function, 0), max_tasks=3, scope="all")
    plan = compile_choosing(NativeBackend(parallel_for=hook), 33_000)
    with pytest.raises(ParallelForBrokenError, match=fault):
        select(plan, every)
    for _ in range(2):
        select(plan, every)
        assert [one.outcome() for one in every] == expected(33_000)
    plan.close()


def choosers_of_each_length() -> list[Chooser]:
    random = np.random.default_rng(9)
    logits = random_logits(random, (1, 20), -40)
    ids = random.integers(0, 4, 40).tolist()
    damped = Choice(decoder=Decoder.DAMPED, top_k=20, damping=65536, damping_order=4)
    penalized = Choice(repetition=1_500_000, presence=200_000, frequency=-300_000)
    return [
        Chooser(
            logits=logits,
            exponents=[-40],
            choice=choice,
            token_ids=ids[:length],
            answer_start=min(start, length),
        )
        for choice in (damped, penalized)
        for length in range(1, 41)
        for start in (0, 3, length)
    ]


@cache
def expected_of_each_length() -> list[list[int]]:
    return chosen(open_named("reference"), choosers_of_each_length())


def test_histories_of_each_length(native_name: str) -> None:
    assert chosen(open_named(native_name), choosers_of_each_length()) == expected_of_each_length()


def test_scores_need_the_exponents(backend_name: str) -> None:
    plan = compile_choosing(open_named(backend_name), 2)
    last = len(plan.program.segments)
    one = Chooser(logits=np.array([[0, 5]]), exponents=[0], choice=Choice())
    span = one.span()
    span.logit_exponents = None
    plan.run(last - 1, last, [span])
    assert one.outcome() == [1]
    one.choice = Choice(decoder=Decoder.SAMPLING)
    span = one.span()
    span.logit_exponents = None
    with pytest.raises(OpShapeError, match="exponents"):
        plan.run(last - 1, last, [span])
    plan.close()


def test_plain_greedy_compares_exact_logits(backend_name: str) -> None:
    logits = np.array([[1 << 61, (1 << 61) + 1, (1 << 61) + 1]])
    every = [Chooser(logits=logits, exponents=[0], choice=choice) for choice in (None, Choice())]
    assert chosen(open_named(backend_name), every) == [[1], [1]]


@pytest.mark.parametrize("exponent", [0, 3, 16])
@pytest.mark.parametrize("is_masked", [False, True])
def test_the_head_says_what_logits_stand_for(
    backend_name: str, exponent: int, *, is_masked: bool
) -> None:
    one = OneLayer(int32_buffer("residual", 1), vocab_size=40)
    codes = one.load_codes([CODE_MAX], exponent, EXPONENT_MAX_INT32, one.head)
    out = Buffer(name="logits", kind=BufferKind.LOGITS, width=40)
    matrix = one.store.matrix("head", np.ones((40, 1)), np.full(40, 7), 5)
    for first, last in ((0, 16), (16, 40)):
        one.head.append(
            ops.Logits(source=codes, out=out, matrix=matrix, first_row=first, last_row=last)
        )
    program = one.program()
    memory, found = Memory(program, positions=1), np.full(2, 99, np.int32)
    span = memory.span([0])
    span.logit_exponents = found.data
    span.allowed = memoryview(bytearray(8)) if is_masked else None
    plan = open_named(backend_name).compile(
        program, one.store.tensors, row_count_max=1, context_tokens=1
    )
    plan.run(0, len(program.segments), [span])
    plan.close()
    assert found.tolist() == [exponent - 5, 99]


@dataclass(frozen=True)
class Row:
    """One row of logits, and what is asked about it."""

    logits: np.ndarray
    exponent: int
    token_ids: list[int]
    top_count: int

    def told(self, plan: Plan) -> LogProbs | str:
        """Return what a plan says, or which error it raises."""
        logits = memoryview(self.logits[0])
        try:
            return plan.logprobs(logits, self.exponent, self.token_ids, top_count=self.top_count)
        except LogitRangeError as error:
            return type(error).__name__


def rows(vocab_size: int) -> list[Row]:
    random = np.random.default_rng(vocab_size)
    exponents = random.choice(EXPONENTS, 30).tolist()
    found = [
        Row(
            logits=random_logits(random, (1, vocab_size), exponent),
            exponent=exponent,
            token_ids=random.integers(0, vocab_size, 5).tolist(),
            top_count=int(random.choice([0, 1, 5, 20])),
        )
        for exponent in exponents
    ]
    nothing = np.full((1, vocab_size), NOT_ALLOWED)
    return [*found, Row(logits=nothing, exponent=0, token_ids=[0, 0], top_count=3)]


@cache
def told_by_the_reference(vocab_size: int) -> list[LogProbs | str]:
    plan = compile_choosing(open_named("reference"), vocab_size)
    return [row.told(plan) for row in rows(vocab_size)]


@pytest.mark.parametrize("vocab_size", [1, 2, 300, 33_000])
def test_log_probabilities(native_name: str, vocab_size: int) -> None:
    plan = compile_choosing(open_named(native_name), vocab_size)
    assert [row.told(plan) for row in rows(vocab_size)] == told_by_the_reference(vocab_size)
    plan.close()
    assert "LogitRangeError" in told_by_the_reference(300)


@pytest.mark.parametrize("token_ids", [[3], [-1], [0, 1 << 31]])
def test_log_probabilities_of_ids_beyond_the_vocabulary(
    backend_name: str, token_ids: list[int]
) -> None:
    plan = compile_choosing(open_named(backend_name), 3)
    logits = np.zeros(3, np.int64).data
    with pytest.raises(OpShapeError, match="id"):
        plan.logprobs(logits, 0, token_ids)
    with pytest.raises(OpShapeError, match="logits"):
        plan.logprobs(logits[:2], 0, [0])
    plan.close()
