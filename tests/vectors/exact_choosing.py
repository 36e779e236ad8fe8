"""Section 5 of docs/arithmetic.md with Python integers, one function a numbered part."""

from collections.abc import Mapping, Sequence
from typing import Any

from tests.vectors.exact import div_round, rshift_round, sat32

ABSENT = -(2**63)
COEFFICIENTS = (2977044459, 1031764650, 238385494, 41298234, 5702267, 632021, 46333)
DEFAULTS: dict[str, Any] = {
    "decoder": "greedy",
    "bias": [],
    "repetition": 10**6,
    "presence": 0,
    "frequency": 0,
    "temperature": 10**6,
    "top_k": 0,
    "top_p": 10**6,
    "min_p": 0,
    "seed": 0,
    "alpha": 0,
    "order": 1,
}
LOG2_E_96 = 114302077158074026402637675937


def score(logit: int, exponent: int) -> int | None:
    """Section 5.1; None is absent."""
    if logit == ABSENT:
        return None
    shift = -(exponent + 20)
    return sat32(rshift_round(logit, shift) if shift >= 0 else logit << -shift)


def micro_score(micro: int) -> int:
    """Section 5, conventions."""
    return div_round(micro << 20, 10**6)


def changed(
    scores: list[int | None], options: Mapping[str, Any], ids: Sequence[int], start: int
) -> list[int | None]:
    """Sections 5.2 and 5.3."""
    scores = list(scores)
    for token_id, micro in options["bias"]:
        if scores[token_id] is not None:
            scores[token_id] = sat32(scores[token_id] + micro_score(micro))
    r = options["repetition"]
    for token_id in set(ids):
        x = scores[token_id]
        if x is not None:
            scores[token_id] = sat32(div_round(x * 10**6, r) if x > 0 else div_round(x * r, 10**6))
    answer = list(ids[start:])
    for token_id in set(answer):
        x = scores[token_id]
        if x is not None:
            x = sat32(x - answer.count(token_id) * micro_score(options["frequency"]))
            scores[token_id] = sat32(x - micro_score(options["presence"]))
    return scores


def scale(temperature: int) -> tuple[int, int]:
    """Section 5.4: the mantissa and the shift of a temperature in millionths."""
    e = 0
    while LOG2_E_96 * 10**6 // (temperature << e) >= 2**31:
        e += 1
    mantissa = div_round(LOG2_E_96 * 10**6, temperature << e)
    return (mantissa, 92 - e) if mantissa < 2**31 else (2**30, 91 - e)


def weight(gap: int, mantissa: int, shift: int) -> int:
    """Section 5.4."""
    t = rshift_round(gap * mantissa, shift)
    if t >= 41 << 24:
        return 0
    i, f = t >> 24, (t << 8) % 2**32
    h = COEFFICIENTS[6]
    for c in COEFFICIENTS[5::-1]:
        h = c - (f * h >> 32)
    return rshift_round(2**40 - (f * h >> 24), i)


def philox(counter: Sequence[int], key: Sequence[int]) -> list[int]:
    """Section 5.8."""
    c, k = list(counter), list(key)
    for _ in range(10):
        a, b = 0xD2511F53 * c[0], 0xCD9E8D57 * c[2]
        c = [b // 2**32 ^ c[1] ^ k[0], b % 2**32, a // 2**32 ^ c[3] ^ k[1], a % 2**32]
        k = [(k[0] + 0x9E3779B9) % 2**32, (k[1] + 0xBB67AE85) % 2**32]
    return c


def drawn(candidates: list[tuple[int, int]], options: Mapping[str, Any], position: int) -> int:
    """Sections 5.6 to 5.8, of (id, weight) in order."""
    total, kept, sum_of_kept = sum(w for _, w in candidates), [], 0
    for token_id, w in candidates:
        if sum_of_kept * 10**6 >= options["top_p"] * total:
            break
        kept.append((token_id, w))
        sum_of_kept += w
    kept = [(i, w) for i, w in kept if w * 10**6 >= options["min_p"] * 2**40]
    words = philox([position, 0, 0, 0], [options["seed"] % 2**32, options["seed"] // 2**32])
    rest = (words[0] + 2**32 * words[1]) * sum(w for _, w in kept) // 2**64
    for token_id, w in sorted(kept):
        rest -= w
        if rest < 0:
            return token_id
    raise AssertionError("the part is below the whole")


def likelihood(token_id: int, answer: Sequence[int], order_max: int) -> int:
    """Section 5.9: P."""
    answer, totals, counts = list(answer), {}, {}
    for o in range(1, min(order_max, len(answer)) + 1):
        context = answer[len(answer) - (o - 1) :]
        after = [answer[j] for j in range(o - 1, len(answer)) if answer[j - o + 1 : j] == context]
        if after:
            totals[o], counts[o] = len(after), after.count(token_id)
    powers = {order_max: 2**15}
    for o in range(order_max - 1, 0, -1):
        powers[o] = powers[o + 1] * 29491 >> 15
    shares = {o: (powers[o] << 15) // sum(powers[p] for p in totals) for o in totals}
    if totals:
        last = max(totals)
        shares[last] = 2**15 - sum(shares[o] for o in totals if o != last)
    return sum(shares[o] * ((counts[o] << 15) // totals[o]) >> 15 for o in totals)


def damped(
    candidates: list[tuple[int, int]], options: Mapping[str, Any], answer: Sequence[int]
) -> int:
    """Section 5.9, of (id, weight) in order."""
    total = sum(w for _, w in candidates)
    best = {
        token_id: (w << 15) // total
        - (options["alpha"] * likelihood(token_id, answer, options["order"]) >> 15)
        for token_id, w in candidates
    }
    return min(i for i in best if best[i] == max(best.values()))


def choose(
    logits: Sequence[int],
    exponent: int,
    given: Mapping[str, Any],
    ids: Sequence[int],
    start: int,
) -> int:
    """Section 5: the id after the position of the last of *ids*, or -1 or -3."""
    options = {**DEFAULTS, **given}
    scores = [score(logit, exponent) for logit in logits]
    there = [x for x in scores if x is not None]
    if not there:
        return -1
    if abs(max(there)) == 2**31 - 1:
        return -3
    scores = changed(scores, options, ids, start)
    order = sorted((-x, i) for i, x in enumerate(scores) if x is not None)
    if options["decoder"] == "greedy":
        return order[0][1]
    largest = -order[0][0]
    is_damped = options["decoder"] == "damped"
    factor = scale(10**6 if is_damped else options["temperature"])
    first = order[: options["top_k"] or len(order)]
    candidates = [(i, weight(largest + x, *factor)) for x, i in first]
    return (
        damped(candidates, options, ids[start:])
        if is_damped
        else drawn(candidates, options, len(ids))
    )


def log_weight(w: int) -> int:
    """Section 5.10: ln(w / 2^40) with 20 fraction bits."""
    b = w.bit_length() - 1
    x, log2 = w >> (b - 31), b - 40
    for _ in range(28):
        x = x * x >> 31
        log2 = 2 * log2 + (x >= 2**32)
        x = x >> 1 if x >= 2**32 else x
    return rshift_round(log2 * 744261118, 38)


def logprobs(logits: Sequence[int], exponent: int) -> list[int | None]:
    """Section 5.10: of every id."""
    scores = [score(logit, exponent) for logit in logits]
    largest = max(x for x in scores if x is not None)
    total = sum(weight(largest - x, *scale(10**6)) for x in scores if x is not None)
    return [None if x is None else x - largest - log_weight(total) for x in scores]
