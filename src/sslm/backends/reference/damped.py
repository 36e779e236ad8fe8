"""Damped greedy: the likeliest id, less what the answer so far makes likely.

docs/arithmetic.md, "Choosing", defines it.
"""

from typing import Final

from sslm.program.choice import DAMPING_BITS, Choice

_ONE: Final = 1 << DAMPING_BITS
_DECAY: Final = 29491
"""What the next shorter context weighs, with ``DAMPING_BITS`` fraction bits: 0.9."""


def damped(ids: list[int], weights: list[int], answer: list[int], choice: Choice) -> int:
    """Return the id with the best score, the lowest of equals.

    Args:
        ids: The candidates.
        weights: Theirs; the largest is two to the ``WEIGHT_BITS``.
        answer: Token ids of the answer so far.
        choice: Says how strongly, and how long contexts are.
    """
    contexts = _contexts(answer, choice.damping_order)
    total = sum(weights)

    def score(candidate: tuple[int, int]) -> tuple[int, int]:
        token_id, weight = candidate
        likely = _likelihood(token_id, contexts, choice.damping_order)
        share = (weight << DAMPING_BITS) // total
        return share - (choice.damping * likely >> DAMPING_BITS), -token_id

    return max(zip(ids, weights, strict=True), key=score)[0]


def _contexts(answer: list[int], order_max: int) -> list[list[int]]:
    """Return for each order from 1 what followed its last ``order - 1`` tokens before.

    Only for orders whose context had occurred.
    """
    found = []
    for size in range(min(order_max, len(answer))):
        context = answer[len(answer) - size :]
        followers = [
            answer[index]
            for index in range(size, len(answer))
            if answer[index - size : index] == context
        ]
        if followers:
            found.append(followers)
    return found


def _likelihood(token_id: int, contexts: list[list[int]], order_max: int) -> int:
    """Return how likely the contexts make an id, of ``_ONE``."""
    powers = [_ONE]
    for _ in range(order_max - 1):
        powers.append(powers[-1] * _DECAY >> DAMPING_BITS)
    # The longest order weighs most.
    powers = powers[::-1][: len(contexts)]
    shares = [(power << DAMPING_BITS) // sum(powers) for power in powers[:-1]]
    shares.append(_ONE - sum(shares))
    return sum(
        share * ((followers.count(token_id) << DAMPING_BITS) // len(followers)) >> DAMPING_BITS
        for share, followers in zip(shares, contexts, strict=False)
    )
