"""How much an answer repeats itself, counted."""

import pytest
from benchmarks.damped import LOOP_TOKENS, PERIOD_MAX, PROMPTS, is_loop, measure, repeated_trigrams

from sslm.engine.model import Model
from tests.converted import stories_artifact


@pytest.mark.parametrize(
    ("token_ids", "counts"),
    [
        ([], (0, 0)),
        ([1, 2], (0, 0)),
        ([1, 2, 3], (0, 1)),
        ([1, 2, 3, 1, 2, 3], (1, 4)),
        ([5, 5, 5, 5, 5], (2, 3)),
    ],
)
def test_trigrams_that_occurred_before(token_ids: list[int], counts: tuple[int, int]) -> None:
    assert repeated_trigrams(token_ids) == counts


def test_a_loop_is_periodic_for_sixty_tokens() -> None:
    before = list(range(100, 140))
    assert is_loop([*before, *([7] * LOOP_TOKENS)])
    assert not is_loop([*before, *([7] * (LOOP_TOKENS - 1))])
    longest = list(range(PERIOD_MAX))
    assert is_loop([*before, *(longest * 3)])
    assert not is_loop([*before, *([*longest, PERIOD_MAX] * 3)])
    assert not is_loop([*before, *(longest * 2), *longest[:-1], 99])
    assert not is_loop([7] * (LOOP_TOKENS - 1))


def test_answers_are_counted_together() -> None:
    with Model(stories_artifact()) as model:
        answers = model.generate_many(PROMPTS[:2], max_tokens=40)
    found = measure("greedy", answers)
    assert found.tokens == sum(len(one.token_ids) for one in answers)
    assert found.trigrams == found.tokens - 2 * len(answers)
    assert found.rate == found.repeated / found.trigrams
    assert len(set(PROMPTS)) == 40
