"""What to bind, and what content to give, so that most of it is taken."""

import random
from typing import Any

from tests.simulation import expected
from tests.simulation.answers import START, Bound
from tests.simulation.schemas import END_IDS, NAMES, PIECES, known


def binding(chance: random.Random, in_use: list[Bound]) -> dict[str, Any]:
    """Choose a schema, mostly one that somebody follows, and how many tokens an answer has."""
    if chance.random() < 0.08:
        return {"schema": None, "answer_tokens": None}
    if in_use and chance.random() < 0.5:
        schema = chance.choice(in_use).schema
    else:
        schema = chance.randrange(len(NAMES))
    least = known(schema).shortest(0)
    assert least is not None
    more = chance.choice((0, 0, 1, 2, 4, 20, -1 if chance.random() < 0.2 else 3))
    answer_tokens = None if chance.random() < 0.35 else least + more
    if chance.random() < 0.02:
        answer_tokens = 0
    return {"schema": schema, "answer_tokens": answer_tokens}


def content(chance: random.Random, model: expected.Sequence | None) -> dict[str, Any]:
    """Choose ids that go on where an answer stands, now and then with something else at the end."""
    bound = model.bound if model is not None else None
    ids: list[int] = []
    place = model.progress.place if model is not None else START
    for _ in range(chance.choice((0, 0, 1, 1, 2, 3, 5, 8))):
        fitting = [i for i in range(len(PIECES)) if bound and bound.after_content(place, i)]
        if bound is None or not fitting:
            break
        ids.append(chance.choice(fitting))
        place = bound.after_content(place, ids[-1]) or place
    if chance.random() < 0.4:
        # Mostly what is spelled right, and cannot be completed, or not in so few tokens.
        odd = [
            i
            for i in range(len(PIECES))
            if bound and bound.automaton.step(place.state, i) and not bound.after_content(place, i)
        ]
        ids.append(chance.choice(odd or (*range(len(PIECES)), *END_IDS, 29)))
    arguments: dict[str, Any] = {"ids": ids}
    if chance.random() < 0.05:
        arguments["bad"] = chance.choice(list(expected.BAD_IDS))
    return arguments


def most(chance: random.Random) -> int | None:
    """Choose how many tokens to take in at once."""
    return chance.choice((None, None, None, 1, 2, 3, 0 if chance.random() < 0.1 else None))
