"""Perplexity, divergence and their errors, on cases computed by hand."""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from sslm import limits
from sslm.convert.evaluate import (
    ROWS_PER_BLOCK,
    Evaluation,
    Int64Array,
    LogitsBlocks,
    evaluate,
    whole_window,
)
from sslm.errors.model import EvaluationWindowError, SourceMismatchError, TextTooShortError

THREE_TO_ONE = [0.0, math.log(3)]  # Token 0 has probability 1/4, token 1 has 3/4.
EVEN = [0.0, 0.0]


def constant(row: Sequence[float]) -> LogitsBlocks:
    """A model that says the same after every token."""
    return whole_window(lambda ids: np.tile(np.array(row), (len(ids), 1)))


def log_softmax(logits: Any) -> Any:
    return logits - np.log(np.exp(logits).sum(axis=1, keepdims=True))


class Recorder:
    """An even model over *vocab_size* tokens that remembers what it was asked."""

    def __init__(self, vocab_size: int) -> None:
        self.vocab_size = vocab_size
        self.windows: list[list[int]] = []

    def __call__(self, ids: Int64Array, rows_per_block: int) -> Any:
        self.windows.append(ids.tolist())
        return whole_window(lambda all_ids: np.zeros((len(all_ids), self.vocab_size)))(
            ids, rows_per_block
        )


def test_one_window_by_hand() -> None:
    # Scored tokens: 1, 1, 0. Source likelihood 3/4 * 3/4 * 1/4 = 9/64, artifact's 1/8.
    got = evaluate([0, 1, 1, 0], source=constant(THREE_TO_ONE), artifact=constant(EVEN))
    assert (got.tokens, got.windows) == (3, 1)
    assert got.perplexity == pytest.approx(2)
    assert got.source_perplexity == pytest.approx((64 / 9) ** (1 / 3))
    assert got.kl == pytest.approx(math.log(1 / 2) / 4 + 3 / 4 * math.log(3 / 2))
    # Differences: log(2/3), log(2/3), log(2). Mean log(8/9) / 3.
    low, high = math.log(2 / 3), math.log(2)
    mean = math.log(8 / 9) / 3
    squares = 2 * (low - mean) ** 2 + (high - mean) ** 2
    assert got.mean_difference == pytest.approx(mean)
    assert got.standard_error == pytest.approx(math.sqrt(squares / 2 / 3))
    assert got.clustered_standard_error is None
    assert got.perplexity_change == pytest.approx(got.perplexity / got.source_perplexity - 1)
    # A tie goes to the lowest id, so the even model says 0 where the other says 1.
    assert got.top1_agreement == 0


def test_errors_clustered_by_window() -> None:
    # Windows [0 1 1], [0 0 0], [1 1]: scored 1 1 | 0 0 | 1.
    got = evaluate(
        [0, 1, 1, 0, 0, 0, 1, 1],
        source=constant(THREE_TO_ONE),
        artifact=constant(EVEN),
        context=3,
        stride=3,
    )
    assert (got.tokens, got.windows) == (5, 3)
    low, high = math.log(2 / 3), math.log(2)
    mean = (3 * low + 2 * high) / 5
    sums = [2 * (low - mean), 2 * (high - mean), low - mean]
    clustered = math.sqrt(3 / 2 * sum(s * s for s in sums)) / 5
    assert got.clustered_standard_error == pytest.approx(clustered)
    squares = 3 * (low - mean) ** 2 + 2 * (high - mean) ** 2
    assert got.standard_error == pytest.approx(math.sqrt(squares / 4 / 5))


def test_a_model_against_itself() -> None:
    rng = np.random.default_rng(3)
    table = rng.normal(size=(7, 7)).astype(np.float32)
    model = whole_window(lambda ids: table[ids])
    ids = rng.integers(0, 7, 300)
    got = evaluate(ids.tolist(), source=model, artifact=model, context=100, stride=100)
    assert (got.kl, got.mean_difference, got.standard_error) == (0, 0, 0)
    assert (got.clustered_standard_error, got.top1_agreement) == (0, 1)
    # Three windows of 100 tokens; an independent sum over each.
    total = 0.0
    for position, token in enumerate(ids.tolist()):
        if position % 100:
            row = [math.exp(x) for x in table[ids[position - 1]].tolist()]
            total -= math.log(row[token] / sum(row))
    assert got.tokens == 297
    assert got.perplexity == got.source_perplexity == pytest.approx(math.exp(total / 297))


def test_an_even_model_has_the_perplexity_of_its_vocabulary() -> None:
    model = Recorder(37)
    got = evaluate(list(range(37)), source=model, artifact=Recorder(37), context=8, stride=8)
    assert got.perplexity == pytest.approx(37)


@pytest.mark.parametrize(
    ("text", "bos", "context_stride", "windows", "tokens"),
    [
        # Each window's first token is predicted by nothing.
        ([1, 2, 3, 4, 5], None, (2, 2), [[1, 2], [3, 4]], 2),
        ([1, 2, 3, 4, 5], None, (3, 3), [[1, 2, 3], [4, 5]], 3),
        ([1, 2, 3], None, (8, 8), [[1, 2, 3]], 2),
        # A beginning-of-sequence token takes a place and predicts the first one.
        ([1, 2, 3, 4, 5], 0, (3, 3), [[0, 1, 2], [0, 3, 4], [0, 5]], 5),
        ([1], 0, (3, 3), [[0, 1]], 1),
        # Overlap: every token but the first is scored, once.
        ([1, 2, 3, 4, 5, 6], None, (4, 2), [[1, 2, 3, 4], [3, 4, 5, 6]], 5),
        ([1, 2, 3, 4, 5], None, (4, 1), [[1, 2, 3, 4], [2, 3, 4, 5]], 4),
        ([1, 2, 3, 4, 5], 0, (4, 2), [[0, 1, 2, 3], [0, 2, 3, 4], [0, 3, 4, 5]], 5),
    ],
)
def test_windows(
    text: list[int],
    bos: int | None,
    context_stride: tuple[int, int],
    windows: list[list[int]],
    tokens: int,
) -> None:
    context, stride = context_stride
    source, artifact = Recorder(9), Recorder(9)
    got = evaluate(
        text,
        source=source,
        artifact=artifact,
        context=context,
        stride=stride,
        bos_token_id=bos,
    )
    assert source.windows == artifact.windows == windows
    assert got.tokens == tokens


def test_rows_come_in_blocks_that_change_nothing() -> None:
    rng = np.random.default_rng(8)
    tables = rng.normal(size=(2, 11, 11))
    ids = rng.integers(0, 11, 5 * ROWS_PER_BLOCK // 2).tolist()

    def model(table: Any) -> LogitsBlocks:
        def blocks(window: Int64Array, rows_per_block: int) -> Any:
            assert rows_per_block == ROWS_PER_BLOCK
            return whole_window(lambda all_ids: table[all_ids])(window, rows_per_block)

        return blocks

    got = evaluate(ids, source=model(tables[0]), artifact=model(tables[1]))
    previous, following = np.array(ids[:-1]), np.array(ids[1:])
    log_p = log_softmax(tables[0][previous])
    log_q = log_softmax(tables[1][previous])
    rows = np.arange(len(following))
    assert got.tokens == len(following)
    assert got.source_perplexity == pytest.approx(math.exp(-log_p[rows, following].mean()))
    assert got.perplexity == pytest.approx(math.exp(-log_q[rows, following].mean()))
    assert got.kl == pytest.approx((np.exp(log_p) * (log_p - log_q)).sum(axis=1).mean())


def test_large_logits_do_not_overflow() -> None:
    got = evaluate([0, 1], source=constant([1e5, 1e5, -1e5]), artifact=constant([1e5, 1e5, 1e5]))
    assert got.source_perplexity == pytest.approx(2)
    assert got.perplexity == pytest.approx(3)
    assert got.kl == pytest.approx(math.log(3 / 2))


def test_progress_counts_scored_positions() -> None:
    seen: list[tuple[int, int]] = []
    evaluate(
        list(range(8)),
        source=Recorder(9),
        artifact=Recorder(9),
        context=3,
        stride=3,
        on_progress=lambda done, total: seen.append((done, total)),
    )
    assert seen == [(2, 5), (4, 5), (5, 5)]


@pytest.mark.parametrize(
    ("context", "stride", "bos"),
    [(1, 1, None), (4, 0, None), (4, 5, None), (4, 1, 0), (limits.CONTEXT_TOKENS_MAX + 1, 4, None)],
)
def test_windows_that_cannot_be(context: int, stride: int, bos: int | None) -> None:
    found = f"the context is {context} and the stride {stride}, expected"
    with pytest.raises(EvaluationWindowError, match=found):
        evaluate(
            [1, 2, 3],
            source=Recorder(9),
            artifact=Recorder(9),
            context=context,
            stride=stride,
            bos_token_id=bos,
        )


@pytest.mark.parametrize(("text", "bos"), [([], None), ([1], None), ([], 0)])
def test_a_text_without_anything_to_predict(text: list[int], bos: int | None) -> None:
    with pytest.raises(TextTooShortError):
        evaluate(text, source=Recorder(9), artifact=Recorder(9), bos_token_id=bos)


def test_models_of_two_vocabularies() -> None:
    with pytest.raises(SourceMismatchError, match="vocab_size is 8 and the source's is 9"):
        evaluate([1, 2, 3], source=Recorder(9), artifact=Recorder(8))


def test_evaluation_is_plain_facts() -> None:
    got = evaluate([1, 2, 3], source=Recorder(9), artifact=Recorder(9))
    assert isinstance(got, Evaluation)
    assert all(isinstance(x, int | float) for x in (got.perplexity, got.kl, got.top1_agreement))
