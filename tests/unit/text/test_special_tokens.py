"""Splitting at special tokens, against the definition."""

import random
import tracemalloc
from typing import SupportsIndex

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sslm import limits
from sslm.text.special_tokens import SpecialTokenFinder


def defined(ids: dict[str, int], text: str) -> list[str | int]:
    """The leftmost token first, the longest of those that begin there."""
    parts: list[str | int] = []
    plain = ""
    while text:
        spelling = max((one for one in ids if text.startswith(one)), key=len, default=None)
        if spelling is None:
            plain, text = plain + text[0], text[1:]
            continue
        parts += [plain, ids[spelling]] if plain else [ids[spelling]]
        plain, text = "", text[len(spelling) :]
    return [*parts, plain] if plain else parts


@given(
    spellings=st.sets(st.text("ab", min_size=1, max_size=9), max_size=12),
    text=st.text("ab", max_size=24),
)
def test_the_leftmost_longest_token_is_found(spellings: set[str], text: str) -> None:
    ids = {spelling: index for index, spelling in enumerate(sorted(spellings))}
    assert list(SpecialTokenFinder(ids).split(text)) == defined(ids, text)


@given(
    spellings=st.sets(
        st.text(st.sampled_from("ab\u3400\U00020000"), min_size=1, max_size=3), max_size=6
    ),
    text=st.text(st.sampled_from("ab\u3400\u4e07\U00020000"), max_size=24),
    more=st.sampled_from([0, 28, 40]),
)
def test_the_definition_holds_however_many_characters_begin_spellings(
    spellings: set[str], text: str, more: int
) -> None:
    """Those of few are looked for with a pattern, those of more without one."""
    known = spellings | {chr(0x4E00 + index) + "b" for index in range(more)}
    ids = {spelling: index for index, spelling in enumerate(sorted(known))}
    assert list(SpecialTokenFinder(ids).split(text)) == defined(ids, text)


@pytest.mark.parametrize("first_count", [1, 40])
@pytest.mark.parametrize("size_chars", [65_533, 65_534, 65_535, 65_536, 131_071])
def test_a_spelling_at_the_border_of_two_runs_is_found(first_count: int, size_chars: int) -> None:
    ids = {chr(0x4E00 + index) + "abc": index for index in range(first_count)}
    text = "x" * size_chars
    expected = [text, 0, 0, text, 0]
    assert (
        list(SpecialTokenFinder(ids).split(f"{text}\u4e00abc\u4e00abc{text}\u4e00abc")) == expected
    )


@pytest.mark.parametrize(
    "ids",
    [
        {chr(0x10000 + index // 250) + chr(0x100 + index % 250): index for index in range(65_000)},
        {chr(0x20000 + index) + "x": index for index in range(60_000)},
        {"a" + chr(0x20000 + index): index for index in range(60_000)},
        {chr(0x4E00 + index) + "x": index for index in range(20_000)},
    ],
    ids=["250 of each", "firsts", "seconds", "firsts of the basic plane"],
)
def test_what_is_tried_for_a_character_does_not_grow_with_the_spellings(
    ids: dict[str, int],
) -> None:
    finder = SpecialTokenFinder(ids)
    assert finder._start is None or len(finder._start.pattern) <= 2 * 32 * 40
    spellings = list(ids)[::997]
    assert list(finder.split("-".join(spellings)))[::2] == [ids[one] for one in spellings]


class CountingText(str):
    """A text that counts how often a part of it is taken."""

    taken = 0

    def __getitem__(self, key: SupportsIndex | slice) -> str:
        self.taken += 1
        return super().__getitem__(key)


def test_many_lengths_behind_one_prefix_take_few_looks() -> None:
    ids = {"a" * size + "b": size for size in range(2, 256)}
    text = CountingText("a" * 10_000)
    assert list(SpecialTokenFinder(ids).split(text)) == ["a" * 10_000]
    assert text.taken < 2 * len(text)


def test_memory_of_spellings_that_share_nothing() -> None:
    # Memory grows with the characters, so that a part of them shows how much one takes.
    size_chars = limits.SPECIAL_TOKENS_SIZE_CHARS_MAX // 16
    draw = random.Random(1)
    longest = limits.SPECIAL_TOKEN_SIZE_CHARS_MAX
    spellings = [
        "".join(map(chr, draw.choices(range(0x4E00, 0x9000), k=longest)))
        for _ in range(size_chars // longest)
    ]
    tracemalloc.start()
    try:
        finder = SpecialTokenFinder({one: index for index, one in enumerate(spellings)})
        assert list(finder.split(spellings[-1])) == [len(spellings) - 1]
        peak_bytes = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak_bytes * 16 <= 64 << 20
