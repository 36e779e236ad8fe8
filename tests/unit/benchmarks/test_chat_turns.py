"""Twenty turns with an edit: nothing unchanged is computed twice, and every answer is right."""

from collections.abc import Iterator
from dataclasses import replace

import pytest
from benchmarks.chat_turns import EDITED_TURN, QUESTIONS, Turn, chat_turns, is_right

from sslm.engine.model import Model
from tests.converted import talking_artifact

SHORT = [f"{question[:3]}?" for question in QUESTIONS]
"""The model has 512 tokens."""


@pytest.fixture(scope="module")
def model() -> Iterator[Model]:
    with Model(talking_artifact(ends_with_a_line=True)) as opened:
        yield opened


@pytest.fixture(scope="module")
def turns(model: Model) -> list[Turn]:
    return list(chat_turns(model, max_tokens=2, questions=SHORT))


def test_every_turn_is_right(turns: list[Turn]) -> None:
    assert len(turns) == len(QUESTIONS) + 1
    assert [turn for turn in turns if not is_right(turn)] == []


def test_a_turn_computes_what_it_adds(turns: list[Turn]) -> None:
    first, *later = turns
    assert (first.cached_tokens, first.prefilled_tokens) == (0, first.prompt_tokens)
    longest = max(len(question) for question in SHORT)
    for before, turn in zip(turns, later, strict=False):
        if turn.name.endswith("edited"):
            continue
        # All that the turn before computed: its prompt, and its answer but for the last token.
        assert turn.cached_tokens >= before.prompt_tokens + before.answer_tokens - 3
        assert turn.prefilled_tokens < longest + 30
    edited, original = turns[EDITED_TURN], turns[EDITED_TURN - 1]
    assert edited.name == f"{EDITED_TURN} edited"
    assert original.cached_tokens <= edited.cached_tokens < original.prompt_tokens


def test_without_checkpoints_the_command_would_fail(model: Model) -> None:
    cold = list(chat_turns(model, max_tokens=3, questions=SHORT[:3], checkpoint_bytes=0))
    assert all(turn.equals_cold for turn in cold)
    assert [is_right(turn) for turn in cold] == [True, False, False]
    assert not is_right(replace(cold[0], equals_cold=False))
