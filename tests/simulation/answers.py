"""Where the answer of a sequence stands in its schema, as the simulator knows it."""

from dataclasses import dataclass

from tests.simulation.automata import Automaton
from tests.simulation.schemas import known


@dataclass(frozen=True)
class Place:
    """What an answer has come to.

    Args:
        state: Of the simulator's automaton.
        count: Tokens of content.
    """

    state: int = 0
    count: int = 0


START = Place()


@dataclass(frozen=True)
class Bound:
    """A schema that a sequence follows, and how many tokens it may take; None is any number."""

    schema: int
    answer_tokens: int | None

    @property
    def automaton(self) -> Automaton:
        return known(self.schema)

    def remaining(self, place: Place) -> int | None:
        return None if self.answer_tokens is None else self.answer_tokens - place.count

    def fits(self, place: Place) -> bool:
        """Whether an answer can be completed from there on."""
        remaining = self.remaining(place)
        enough = remaining is None or remaining >= 0
        return enough and self.automaton.can_end_in(place.state, remaining)

    def after(self, place: Place, token_id: int) -> Place | None:
        """Return where a token leads that ends the answer or is content, or None."""
        if token_id in self.automaton.end_ids:
            return place if self.is_accepting(place) else None
        return self.after_content(place, token_id)

    def after_content(self, place: Place, token_id: int) -> Place | None:
        state = self.automaton.step(place.state, token_id)
        after = None if state is None else Place(state, place.count + 1)
        return after if after is not None and self.fits(after) else None

    def is_accepting(self, place: Place) -> bool:
        return place.state in self.automaton.accepting

    def is_complete(self, place: Place) -> bool:
        """Whether nothing but an end can follow."""
        is_over = self.remaining(place) == 0 or not self.automaton.rows[place.state]
        return self.is_accepting(place) and is_over

    def ending(self, place: Place) -> str | None:
        """Return why nothing but an end can follow, or None."""
        if self.is_complete(place):
            return "complete"
        return None if self.allowed(place) else "dead_end"

    def allowed(self, place: Place) -> tuple[int, ...]:
        return tuple(self.automaton.allowed(place.state, self.remaining(place)))

    def span(self, place: Place, token_id: int, most: int | None) -> list[tuple[int, Place]]:
        """Return a chosen token and those that alone may follow it, with where each leads."""
        first = self.after(place, token_id)
        assert first is not None, "what is chosen is allowed"
        if token_id in self.automaton.end_ids:
            return [(token_id, first)]
        return [(token_id, first), *self.only_span(first, None if most is None else most - 1)]

    def only_span(self, place: Place, most: int | None) -> list[tuple[int, Place]]:
        """Return what alone may follow, as far as more than an end follows that."""
        found: list[tuple[int, Place]] = []
        while most is None or len(found) < most:
            only = self.automaton.only_token(place.state)
            after = None if only is None else self.after(place, only)
            if only is None or after is None or self.ending(after):
                break
            place = after
            found.append((only, place))
        return found
