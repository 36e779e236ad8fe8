"""Choices go through saves and records unchanged."""

import pytest

from sslm.program.choice import Choice, Decoder
from sslm.runtime.saves.snapshot_records import choice_of, saved_choice
from tests.records import PLAIN_CHOICE, RICH_CHOICE

CHOICES = [
    Choice(),
    Choice(decoder=Decoder.SAMPLING, bias=((1, -2), (3, 4)), seed=(1 << 64) - 1, top_k=5),
    Choice(decoder=Decoder.DAMPED, top_k=40, damping=29_491, damping_order=3),
]


@pytest.mark.parametrize("choice", CHOICES, ids=["greedy", "sampling", "damped"])
def test_a_choice_comes_back(choice: Choice) -> None:
    found = choice_of(saved_choice(choice))
    assert found == choice
    assert type(found.decoder) is Decoder


def test_what_is_saved_is_plain() -> None:
    assert saved_choice(Choice()) == PLAIN_CHOICE
    assert choice_of(PLAIN_CHOICE).is_plain
    assert saved_choice(choice_of(RICH_CHOICE)) == RICH_CHOICE
