"""A schema that a sequence's answer follows, with the masks that are the sequence's own."""

import ctypes
from dataclasses import dataclass
from typing import Final, Literal

from sslm.memory import zeroed_memory
from sslm.schema.tokens.bound_schema import ANY_COUNT, START, BoundSchema
from sslm.schema.tokens.step_table import NO_STATE

_WORD_BITS: Final = 32

Ending = Literal["complete", "dead_end"]
"""Why nothing but what ends an answer may follow: the text can only end there; or it may, and no
token of the vocabulary that could follow leads to an end within the answer's tokens."""


@dataclass(frozen=True, slots=True)
class Place:
    """Where an answer stands.

    Args:
        state: Of the schema's automaton.
        token_count: Tokens of the answer that led there; what ends it is none of them.
    """

    state: int = START
    token_count: int = 0


class Binding:
    """A schema bound to one sequence, for as long as that is not bound otherwise.

    Masks are the schema's, or lie in memory of the binding's own: two take turns, so that the one
    in use stays whole while the next one is written.

    Args:
        schema: What the answer follows.
        answer_tokens: Most tokens that complete it, at least ``schema.shortest``: what would need
            more is not allowed. None is any number.

    Attributes:
        schema: As given.
        answer_tokens: As given.
        first_address: Where the mask before the first token lies, in memory of the binding's own.

    Raises:
        MemoryRefusedError: If the system has no memory for the masks.
    """

    def __init__(self, schema: BoundSchema, answer_tokens: int | None) -> None:
        self.schema = schema
        self.answer_tokens = answer_tokens
        size = schema.mask_size_bytes
        scratch_size = schema.scratch_size_bytes
        self._memory = [zeroed_memory(scratch_size, "the masks of a schema") for _ in range(3)]
        self._addresses = [_address(memory) for memory in self._memory]
        self.first_address = self._addresses[2]
        found = schema.mask_address(START, self.remaining(Place()), self._memory[2])
        if found != self.first_address:
            _bytes_at(self.first_address, size).raw = _bytes_at(found, size).raw

    def remaining(self, place: Place) -> int:
        """Return how many tokens may still follow, or ``ANY_COUNT``."""
        most = self.answer_tokens
        return ANY_COUNT if most is None else max(0, most - place.token_count)

    def fits(self, place: Place) -> bool:
        """Return whether the answer can be completed, and within its tokens."""
        most, distance = self.answer_tokens, self.schema.distance(place.state)
        # No mask leads to where no tokens complete the text, but content that is given may.
        if distance == NO_STATE:
            return False
        return most is None or place.token_count + distance <= most

    def after(self, place: Place, token_id: int) -> Place | None:
        """Return where a token leads, also one that ends the answer, or None if it is not taken.

        Any spelling of what the schema takes is taken, also where the mask allows only one.
        """
        if token_id in self.schema.end_ids:
            return place if self.schema.is_accepting(place.state) else None
        state = self.schema.step(place.state, token_id)
        if state is None:
            return None
        after = Place(state, place.token_count + 1)
        return after if self.fits(after) else None

    def only_token(self, place: Place) -> int | None:
        """Return the one token of content that may follow, or None if there is a choice."""
        return self.schema.only_token(place.state)

    def mask_address(self, place: Place, current: int | None) -> int:
        """Return where the mask of a place lies.

        Args:
            place: One that fits.
            current: Where the mask in use lies, which stays as it is.
        """
        if place.token_count == 0 and place.state == START:
            return self.first_address
        scratch = self._memory[int(current == self._addresses[0])]
        return self.schema.mask_address(place.state, self.remaining(place), scratch)

    def is_complete(self, place: Place) -> bool:
        """Whether the text is whole, and nothing but what ends it may follow."""
        schema = self.schema
        ends_here = self.remaining(place) == 0 and schema.is_accepting(place.state)
        return ends_here or schema.is_final(place.state)

    def ending(self, place: Place, current: int | None) -> Ending | None:
        """Return why nothing may follow, or None.

        Args:
            place: One that fits.
            current: Where the mask in use lies, which stays as it is.
        """
        if self.is_complete(place):
            return "complete"
        schema = self.schema
        # Where a text may end, what ends it is allowed. Elsewhere something leads on, by which
        # the place fits.
        if schema.end_ids or not schema.is_accepting(place.state):
            return None
        address = self.mask_address(place, current)
        is_blank = not _bytes_at(address, schema.mask_size_bytes).raw.strip(b"\0")
        return "dead_end" if is_blank else None

    def allows(self, place: Place, token_id: int) -> bool:
        """Return whether the mask of a place has a token; no sequence may have the binding yet."""
        address = self.mask_address(place, None) + 4 * (token_id // _WORD_BITS)
        word = ctypes.c_uint32.from_address(address).value
        return bool(word >> token_id % _WORD_BITS & 1)


def _address(buffer: memoryview) -> int:
    return ctypes.addressof(ctypes.c_char.from_buffer(buffer))


def _bytes_at(address: int, size_bytes: int) -> "ctypes.Array[ctypes.c_char]":
    # Not by memmove and string_at, foreign calls that say ArgumentError where memory is short.
    return (ctypes.c_char * size_bytes).from_address(address)
