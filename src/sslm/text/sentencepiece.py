"""SentencePiece byte-pair encoding of plain text: merges by score, bytes for the rest.

The library's own byte-pair model orders merges by rank, and two merges can never share one. Here
equal scores are common (all runs of spaces have the same), and then the leftmost pair goes first;
so this model is written out.
"""

import heapq
import re
from collections.abc import Callable
from typing import Final

from sslm.text.vocabulary import SPACE, TokenType, Vocabulary, byte_of_byte_token

_CACHE_SIZE_MAX: Final = 1 << 14
_CACHED_WORD_SIZE_CHARS_MAX: Final = 32
_STEPS_BETWEEN_LOOKS: Final = 1 << 12
"""Words or merges between two looks at the time: a few milliseconds."""


class SentencePieceEncoder:
    """Turns plain text into the ids of a SentencePiece vocabulary; knows no special tokens."""

    def __init__(self, vocabulary: Vocabulary) -> None:
        # Only normal tokens take part, so that no text can become a control token by merging.
        normal_ids = vocabulary.ids_of_type(TokenType.NORMAL)
        self._ids = {vocabulary.tokens[i]: i for i in normal_ids if vocabulary.tokens[i]}
        self._priorities = {
            spelling: -vocabulary.scores[token_id] for spelling, token_id in self._ids.items()
        }
        self._byte_ids = {
            byte_of_byte_token(vocabulary.tokens[token_id]): token_id
            for token_id in vocabulary.ids_of_type(TokenType.BYTE)
        }
        joins_words = re.compile(f"[^{SPACE}]{SPACE}")
        self._can_cut_words = not any(joins_words.search(spelling) for spelling in self._ids)
        self._cache: dict[str, list[int]] = {}

    def encode(self, text: str, require_time: Callable[[], None]) -> list[int]:
        """Return the ids of *text*, which is valid Unicode; a space prefix is already in it.

        *require_time* is called every now and then, and raises to stop.
        """
        spelled = text.replace(" ", SPACE)
        if not self._can_cut_words:
            return self._encode_word(spelled, require_time)
        # No token has a space after another character, so nothing ever merges across that place.
        ids: list[int] = []
        words = re.findall(f"{SPACE}*[^{SPACE}]+|{SPACE}+", spelled)
        for index, word in enumerate(words):
            if index % _STEPS_BETWEEN_LOOKS == 0:
                require_time()
            known = self._cache.get(word)
            if known is None:
                known = self._encode_word(word, require_time)
                self._remember(word, known)
            ids += known
        return ids

    def _remember(self, word: str, ids: list[int]) -> None:
        if len(word) <= _CACHED_WORD_SIZE_CHARS_MAX:
            if len(self._cache) >= _CACHE_SIZE_MAX:
                self._cache.clear()
            self._cache[word] = ids

    def _encode_word(self, word: str, require_time: Callable[[], None]) -> list[int]:
        ids: list[int] = []
        for spelling in self._merge(word, require_time):
            token_id = self._ids.get(spelling)
            if token_id is None:
                ids += (self._byte_ids[byte] for byte in spelling.encode())
            else:
                ids.append(token_id)
        return ids

    def _merge(self, word: str, require_time: Callable[[], None]) -> list[str]:
        """Join neighbours, highest score first and leftmost among equals, until none is a token."""
        symbols = list(word)
        end = len(symbols)
        following = list(range(1, end + 1))
        preceding = list(range(-1, end - 1))
        # An entry is (negated score, left place, right place, what they join to). It is stale
        # once a side has been swallowed (empty) or has grown (the lengths no longer add up).
        queue: list[tuple[float, int, int, str]] = []

        def propose(left: int, right: int) -> None:
            if left >= 0 and right < end:
                joined = symbols[left] + symbols[right]
                priority = self._priorities.get(joined)
                if priority is not None:
                    heapq.heappush(queue, (priority, left, right, joined))

        for place in range(end - 1):
            if place % _STEPS_BETWEEN_LOOKS == _STEPS_BETWEEN_LOOKS - 1:
                require_time()
            propose(place, place + 1)
        steps = 0
        while queue:
            steps += 1
            if steps % _STEPS_BETWEEN_LOOKS == 0:
                require_time()
            _, left, right, joined = heapq.heappop(queue)
            is_stale = not symbols[left] or not symbols[right]
            if is_stale or len(symbols[left]) + len(symbols[right]) != len(joined):
                continue
            symbols[left], symbols[right] = joined, ""
            following[left] = following[right]
            if following[left] < end:
                preceding[following[left]] = left
            propose(preceding[left], left)
            propose(left, following[left])
        return [symbol for symbol in symbols if symbol]
