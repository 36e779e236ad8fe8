"""Perplexity of an artifact beside that of its float32 source.

Both models read the same windows of a text. What differs is then only the arithmetic, so the
difference of the two log-likelihoods at one position is small, and its standard error is that of
paired observations.
"""

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from decimal import Context, Decimal

import numpy as np
import numpy.typing as npt

from sslm import limits
from sslm.errors.model import EvaluationWindowError, SourceMismatchError, TextTooShortError
from sslm.program.choice import SCORE_BITS
from sslm.progress import Progress

Int64Array = npt.NDArray[np.int64]
Float64Array = npt.NDArray[np.float64]
LogitsArray = npt.NDArray[np.float32] | npt.NDArray[np.float64]

LogitsBlocks = Callable[[Int64Array, int], Iterable[LogitsArray]]
"""A model: ``model(token_ids, rows_per_block)`` yields the logits after every token of one window.

Rows come in order, [rows, vocab_size], *rows_per_block* at a time and the rest in the last block.
"""

ROWS_PER_BLOCK = 64
"""Rows asked of a model at a time: 25 MB of float64 at a vocabulary of 49,152."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Evaluation:
    """How well two models predict one text, and how far apart they are.

    Args:
        perplexity: Of the artifact: exp of the mean negative log-likelihood per scored token.
        source_perplexity: The same of the float32 source.
        kl: Mean over the scored positions of KL(source || artifact), nats.
        tokens: Scored positions.
        windows: Windows with at least one scored position.
        mean_difference: Artifact's minus source's mean log-likelihood, nats per token.
        standard_error: Of mean_difference, taking positions as independent; None below two.
        clustered_standard_error: Of mean_difference, taking only windows as independent; None
            below two.
        top1_agreement: Part of the scored positions where both have the same likeliest token.
        log_likelihood_q20: Sum of the artifact's log-probabilities of the scored tokens, times
            2**20: an integer, the same on every machine. None where only floats are known.
    """

    perplexity: float
    source_perplexity: float
    kl: float
    tokens: int
    windows: int
    mean_difference: float
    standard_error: float | None
    clustered_standard_error: float | None
    top1_agreement: float
    log_likelihood_q20: int | None = None

    @property
    def exact_perplexity(self) -> Decimal | None:
        """Perplexity of the artifact by its exact log-likelihood, rounded to six places."""
        if self.log_likelihood_q20 is None:
            return None
        context = Context(prec=60)
        nats = context.divide(Decimal(-self.log_likelihood_q20), Decimal(self.tokens << SCORE_BITS))
        # The exponential of decimal is correctly rounded, so that it is the same everywhere.
        return nats.exp(context).quantize(Decimal("0.000001"), context=context)

    @property
    def perplexity_change(self) -> float:
        """Relative change of the perplexity from source to artifact, 0.01 for one percent."""
        return math.expm1(-self.mean_difference)


@dataclass(frozen=True, slots=True)
class _Window:
    """A stretch of the text, and the first position of its window whose token is scored."""

    first: int
    end: int
    first_scored: int


@dataclass(frozen=True, slots=True)
class _Scores:
    """Per position: log-likelihoods of the token that follows, divergence, agreement."""

    source: Float64Array
    artifact: Float64Array
    kl: Float64Array
    is_agreed: npt.NDArray[np.bool_]


def evaluate(
    token_ids: Sequence[int],
    *,
    source: LogitsBlocks,
    artifact: LogitsBlocks,
    context: int = 512,
    stride: int = 512,
    bos_token_id: int | None = None,
    on_progress: Progress | None = None,
    on_window: Callable[[int], None] | None = None,
) -> Evaluation:
    """Score every token of a text under both models.

    The text is cut into windows of *context* tokens that begin *stride* tokens apart, the last one
    shorter, and each is read from an empty context. A window scores the tokens that no earlier one
    scored, except its very first, which nothing predicts.

    Args:
        token_ids: The whole text, without a beginning-of-sequence token.
        source: The float32 model.
        artifact: The integer model, its exact logits scaled to natural units.
        context: Longest window in tokens, from 2.
        stride: From 1, or from 2 with *bos_token_id*, to *context*.
        bos_token_id: Set in front of every window, as part of *context*, if the tokenizer adds it.
        on_progress: Called after each window with the positions scored so far and in all.
        on_window: Called after each window with the first of its positions that was scored.

    Raises:
        EvaluationWindowError: If *context* or *stride* is out of range.
        TextTooShortError: If no token can be predicted.
        SourceMismatchError: If the two models differ in their vocabulary.
    """
    prefix = [] if bos_token_id is None else [bos_token_id]
    windows = list(_windows(len(token_ids), len(prefix), context=context, stride=stride))
    if not windows:
        raise TextTooShortError(len(token_ids), 2 - len(prefix))
    total = sum(len(prefix) + w.end - w.first - w.first_scored for w in windows)
    scores: list[_Scores] = []
    done = 0
    for window in windows:
        ids = np.array([*prefix, *token_ids[window.first : window.end]], dtype=np.int64)
        scores.append(_score_window(ids, window.first_scored, source, artifact))
        if on_window is not None:
            on_window(window.first_scored)
        done += len(scores[-1].kl)
        if on_progress is not None:
            on_progress(done, total)
    return _summary(scores)


def whole_window(logits: Callable[[Int64Array], LogitsArray]) -> LogitsBlocks:
    """Make a model of a function that returns all rows of a window, [tokens, vocab_size]."""

    def blocks(token_ids: Int64Array, rows_per_block: int) -> Iterator[LogitsArray]:
        rows = logits(token_ids)
        for first in range(0, len(rows), rows_per_block):
            yield rows[first : first + rows_per_block]

    return blocks


def _windows(text_tokens: int, prefix: int, *, context: int, stride: int) -> Iterator[_Window]:
    stride_at_least = 1 + prefix
    if not (2 <= context <= limits.CONTEXT_TOKENS_MAX and stride_at_least <= stride <= context):
        raise EvaluationWindowError(context, stride, 2, limits.CONTEXT_TOKENS_MAX, stride_at_least)
    scored_end = 0
    for first in range(0, text_tokens, stride - prefix):
        end = min(first + context - prefix, text_tokens)
        first_scored = max(1, prefix + scored_end - first)
        if first_scored < prefix + end - first:
            yield _Window(first, end, first_scored)
        scored_end = end
        if end == text_tokens:
            return


def _score_window(
    ids: Int64Array, first_scored: int, source: LogitsBlocks, artifact: LogitsBlocks
) -> _Scores:
    parts: list[_Scores] = []
    row = 0
    both = zip(source(ids, ROWS_PER_BLOCK), artifact(ids, ROWS_PER_BLOCK), strict=True)
    for source_block, artifact_block in both:
        vocab_size, found = source_block.shape[1], artifact_block.shape[1]
        if found != vocab_size:
            raise SourceMismatchError("vocab_size", found, vocab_size)
        # Row i predicts token i + 1: the last row predicts nothing.
        first = max(row, first_scored - 1)
        end = min(row + len(source_block), len(ids) - 1)
        if first < end:
            rows = slice(first - row, end - row)
            targets = ids[first + 1 : end + 1]
            parts.append(_score_rows(source_block[rows], artifact_block[rows], targets))
        row += len(source_block)
    return _joined(parts)


def _score_rows(source: LogitsArray, artifact: LogitsArray, targets: Int64Array) -> _Scores:
    scores = _Scores(
        source=np.empty(len(targets)),
        artifact=np.empty(len(targets)),
        kl=np.empty(len(targets)),
        is_agreed=np.argmax(source, axis=1) == np.argmax(artifact, axis=1),
    )
    # Row by row, the float64 copies stay in the cache: several times faster than whole blocks.
    for row, target in enumerate(targets.tolist()):
        p, weights, p_total = exponentials(source[row])
        q, _, q_total = exponentials(artifact[row])
        log_ratio = math.log(q_total) - math.log(p_total)
        scores.source[row] = p[target] - math.log(p_total)
        scores.artifact[row] = q[target] - math.log(q_total)
        scores.kl[row] = float(weights @ (p - q)) / p_total + log_ratio
    return scores


def exponentials(logits: LogitsArray) -> tuple[Float64Array, Float64Array, float]:
    """Return a row with its maximum at 0, its exponentials, and their sum.

    Then no exponential overflows; the log-likelihood of token t is ``row[t] - log(sum)``.
    """
    row = logits.astype(np.float64)
    row -= row.max()
    powers = np.exp(row)
    return row, powers, float(powers.sum())


def _joined(parts: Sequence[_Scores]) -> _Scores:
    return _Scores(
        source=np.concatenate([part.source for part in parts]),
        artifact=np.concatenate([part.artifact for part in parts]),
        kl=np.concatenate([part.kl for part in parts]),
        is_agreed=np.concatenate([part.is_agreed for part in parts]),
    )


def _summary(windows: Sequence[_Scores]) -> Evaluation:
    scores = _joined(windows)
    tokens = len(scores.kl)
    differences = scores.artifact - scores.source
    mean = float(differences.mean())
    window_sums = np.array([float(np.sum(w.artifact - w.source - mean)) for w in windows])
    return Evaluation(
        perplexity=math.exp(-float(scores.artifact.mean())),
        source_perplexity=math.exp(-float(scores.source.mean())),
        kl=float(scores.kl.mean()),
        tokens=tokens,
        windows=len(windows),
        mean_difference=mean,
        standard_error=_error_of_mean(differences - mean, tokens),
        clustered_standard_error=_error_of_mean(window_sums, tokens),
        top1_agreement=float(scores.is_agreed.mean()),
    )


def _error_of_mean(deviations: Float64Array, tokens: int) -> float | None:
    """Return the standard error of a mean over *tokens* from independent sums of deviations.

    With one deviation per token this is the usual ``s / sqrt(tokens)``; with one sum per window it
    is the cluster-robust error with the correction ``G / (G - 1)`` for G windows.
    """
    count = len(deviations)
    if count < 2:
        return None
    return math.sqrt(count / (count - 1) * float(np.sum(deviations**2))) / tokens
