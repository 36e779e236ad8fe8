"""Choosing the token after a row, the obvious way (docs/arithmetic.md, "Choosing")."""

from collections import Counter
from collections.abc import Sequence
from typing import Final

import numpy as np

from sslm.backends.reference.damped import damped
from sslm.errors.program import LogitRangeError
from sslm.numerics.philox import random_bits
from sslm.numerics.rounding import INT32_MAX, Int64Array, div_round, rshift_round
from sslm.numerics.weights import WEIGHT_BITS, log_weight, weights
from sslm.program.choice import MICRO, SCORE_BITS, Choice, Decoder, Scale, score_of
from sslm.program.plan import LogProbs
from sslm.program.sequence_data import NONE_ALLOWED, SCORE_REFUSED
from sslm.program.spans import NOT_ALLOWED, Span

ABSENT: Final = -(1 << 31)
"""The score of an id that is not allowed."""


def choose_after(span: Span, row: int, logits: Int64Array) -> int:
    """Return what a span's choice selects after a row of those with logits, int64 [vocab_size]."""
    data, exponents = span.choice, span.logit_exponents
    if data is None or data.choice.is_plain or exponents is None:
        # argmax returns the first of equals, which is the lowest id.
        best = int(logits.argmax())
        return best if logits[best] != NOT_ALLOWED else NONE_ALLOWED
    end = span.first_position + span.first_logits_row + row + 1
    token_ids = data.token_ids.cast("B").cast("i")[:end].tolist()
    exponent = exponents.cast("B").cast("i")[row]
    return choose(logits, exponent, data.choice, token_ids, data.answer_start)


def choose(
    logits: Int64Array, exponent: int, choice: Choice, token_ids: list[int], answer_start: int
) -> int:
    """Return the chosen id, or why there is none.

    Args:
        logits: int64 [vocab_size], one row.
        exponent: A logit stands for itself times two to this.
        choice: How to choose.
        token_ids: Those of the positions up to the row's own.
        answer_start: Position of the answer's first token.
    """
    scores = scores_of(logits, exponent)
    largest = int(scores.max())
    if largest == ABSENT:
        return NONE_ALLOWED
    if is_refused(largest):
        return SCORE_REFUSED
    _change(scores, choice, token_ids, answer_start)
    ids = in_order(scores)
    if choice.decoder is Decoder.GREEDY:
        return int(ids[0])
    if choice.top_k:
        ids = ids[: choice.top_k]
    weighed = weigh(scores[ids], choice.exponent_scale())
    if choice.decoder is Decoder.SAMPLING:
        return _draw(ids, weighed, choice, position=len(token_ids))
    answer = token_ids[answer_start:]
    return damped(ids.tolist(), weighed.tolist(), answer, choice)


def logprobs(
    logits: Int64Array, exponent: int, token_ids: Sequence[int], top_count: int
) -> LogProbs:
    """Return the log-probabilities of ids, and of the likeliest; see ``Plan.logprobs``.

    Raises:
        LogitRangeError: If the largest logit is beyond what a score can be.
    """
    scores = scores_of(logits, exponent)
    ids = in_order(scores)
    if not len(ids):
        return LogProbs(values=(None,) * len(token_ids), top=())
    largest = int(scores[ids[0]])
    if is_refused(largest):
        raise LogitRangeError
    total = int(weigh(scores[ids], Choice().exponent_scale()).sum())
    values = scores - largest - log_weight(total, SCORE_BITS)
    return LogProbs(
        values=tuple(None if scores[i] == ABSENT else int(values[i]) for i in token_ids),
        top=tuple((int(i), int(values[i])) for i in ids[:top_count]),
    )


def scores_of(logits: Int64Array, exponent: int) -> Int64Array:
    """Return logits as scores, int64 [vocab_size]; ``ABSENT`` for those that are not allowed."""
    is_there = logits != NOT_ALLOWED
    shift = -(exponent + SCORE_BITS)
    if shift >= 0:
        values = rshift_round(np.where(is_there, logits, 0), shift)
    else:
        # What is not 0 is beyond every score if it is shifted further.
        values = np.clip(logits, ABSENT, -ABSENT) << min(-shift, 31)
    return np.where(is_there, np.clip(values, -INT32_MAX, INT32_MAX), ABSENT)


def is_refused(largest: int) -> bool:
    """Whether the largest score is where logits are cut off, so that there may be larger ones."""
    return abs(largest) == INT32_MAX


def in_order(scores: Int64Array) -> Int64Array:
    """Return the ids that are not absent by score, the largest first, equal ones by id."""
    ids = np.argsort(-scores, kind="stable")
    return ids[: np.count_nonzero(scores != ABSENT)]


def weigh(scores: Int64Array, scale: Scale) -> Int64Array:
    """Return the weights of scores that begin with the largest one."""
    return weights(scores[0] - scores, scale.mantissa, scale.shift)


def _change(scores: Int64Array, choice: Choice, token_ids: list[int], answer_start: int) -> None:
    """Add bias and penalties to scores that are not absent, saturating at each."""

    def put(token_id: int, score: int) -> None:
        if scores[token_id] != ABSENT:
            scores[token_id] = max(-INT32_MAX, min(score, INT32_MAX))

    for token_id, micro in choice.bias:
        put(token_id, int(scores[token_id]) + score_of(micro))
    for token_id in set(token_ids) if choice.repetition != MICRO else ():
        score = int(scores[token_id])
        if score > 0:
            put(token_id, div_round(score * MICRO, choice.repetition))
        else:
            put(token_id, div_round(score * choice.repetition, MICRO))
    for token_id, count in Counter(token_ids[answer_start:]).items():
        put(token_id, int(scores[token_id]) - count * score_of(choice.frequency))
        put(token_id, int(scores[token_id]) - score_of(choice.presence))


def _draw(ids: Int64Array, weighed: Int64Array, choice: Choice, *, position: int) -> int:
    """Return one of the ids that are in order, with their weights."""
    sums = np.cumsum(weighed)
    part = -(-choice.top_p * int(sums[-1]) // MICRO)
    count = int(np.searchsorted(sums, part)) + 1
    ids, weighed = ids[:count], weighed[:count]
    is_enough = weighed >= -(-(choice.min_p << WEIGHT_BITS) // MICRO)
    ids, weighed = ids[is_enough], weighed[is_enough]
    ascending = np.argsort(ids)
    sums = np.cumsum(weighed[ascending])
    drawn = random_bits(choice.seed, position) * int(sums[-1]) >> 64
    return int(ids[ascending][np.searchsorted(sums, drawn, side="right")])
