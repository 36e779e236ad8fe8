"""What a schedule has seen of answers, to be compared with the oracle's."""

from dataclasses import dataclass
from zlib import crc32

from sslm.runtime.sequences.sequence import Sequence
from sslm.runtime.sequences.snapshot import Snapshot
from sslm.runtime.sequences.state import Chunk
from tests.simulation import expected
from tests.simulation.choices import Key, Rule
from tests.simulation.oracle import Answer, Question, Reply

TokenIds = tuple[int, ...]


@dataclass(slots=True)
class Seen:
    """What was seen after some tokens, or None of what was not."""

    digest: bytes | None = None
    selected: int | None = None
    saturations: TokenIds | None = None
    residual: int | None = None


class Evidence:
    """What was seen of a schedule's sequences, by their tokens.

    Args:
        model: Name of the model.
    """

    def __init__(self, model: str) -> None:
        self._model = model
        self._seen: dict[tuple[int, TokenIds], Seen] = {}
        self._chosen: dict[tuple[int, TokenIds, Key], tuple[Rule, int]] = {}
        self.contradiction: str | None = None
        """Two things seen after the same tokens that differ, or None."""

    def note(self, real: Sequence, model: expected.Sequence) -> None:
        """Note what a sequence shows now."""
        progress = model.progress
        is_between = progress.chunk is None or progress.chunk.next_segment == 0
        saturations = tuple(real.saturations.values()) if is_between else None
        self._add(model.options.identity, progress.ids, Seen(real.digest, None, saturations))
        if real.selected is not None:
            self._choose(model, progress.ids, real.selected)

    def note_chunk(self, real: Chunk, model: expected.Sequence) -> None:
        """Note what was chosen after each scored row of a chunk that has just come to its end."""
        span = real.span
        # What follows a schema and has tokens pending was not chosen as its mask is now.
        if span.selected is None or (model.bound is not None and model.progress.pending):
            return
        chosen, ids = memoryview(span.selected).cast("B").cast("i"), model.progress.ids
        first = len(ids) - span.row_count + span.first_logits_row
        for row, stop in enumerate(range(first + 1, len(ids) + 1)):
            self._choose(model, ids[:stop], chosen[row])

    def note_snapshot(self, real: Snapshot, model: expected.Snapshot) -> None:
        """Note what only a snapshot shows."""
        if real.last_residual:
            residual = crc32(real.last_residual)
            self._add(model.identity, model.progress.ids, Seen(residual=residual))

    def _choose(self, model: expected.Sequence, ids: TokenIds, selected: int) -> None:
        """Note what was chosen by a rule; plain ones are asked for with everything else."""
        identity, rule = model.options.identity, model.rule._replace(allowed=model.allowed())
        is_plain = rule.is_plain and rule.allowed is None
        self._add(identity, ids, Seen(selected=selected if is_plain else None))
        if not is_plain:
            key = identity, ids, rule.key()
            _, before = self._chosen.setdefault(key, (rule, selected))
            if before != selected:
                self.contradiction = _difference(f"choice by {rule}", ids, selected, before)

    def _add(self, identity: int, ids: TokenIds, seen: Seen) -> None:
        if not ids:
            return
        known = self._seen.setdefault((identity, ids), seen)
        for name in Seen.__slots__:
            found, before = getattr(seen, name), getattr(known, name)
            if before is None:
                setattr(known, name, found)
            elif found is not None and found != before:
                self.contradiction = _difference(name, ids, found, before)

    def questions(self) -> list[Question]:
        """Return what to ask: streams of tokens none of which is the beginning of another."""
        asked: list[tuple[int, TokenIds]] = []
        for identity, ids in sorted(self._seen, reverse=True):
            # In this order, what begins with some tokens comes right before these alone.
            if asked and asked[-1][0] == identity and asked[-1][1][: len(ids)] == ids:
                continue
            asked.append((identity, ids))
        return [
            Question(self._model, identity, ids, self._rules(identity, ids))
            for identity, ids in asked
        ]

    def _rules(self, identity: int, ids: TokenIds) -> tuple[tuple[int, Rule], ...]:
        """Return by which rules something was chosen after which beginnings of a stream."""
        found = [
            (len(beginning), rule)
            for (whose, beginning, _), (rule, _) in self._chosen.items()
            if whose == identity and ids[: len(beginning)] == beginning
        ]
        return tuple(sorted(found, key=repr))

    def compare(self, questions: list[Question], answers: list[Reply]) -> str | None:
        """Return the first difference from what the oracle says, if any."""
        if self.contradiction:
            return self.contradiction
        right: dict[tuple[int, TokenIds], tuple[Question, list[Answer]]] = {}
        chosen: dict[tuple[int, TokenIds, Key], int] = {}
        for question, (answer, selected) in zip(questions, answers, strict=True):
            for (stop, rule), found_id in zip(question.rules, selected, strict=True):
                chosen[question.identity, question.token_ids[:stop], rule.key()] = found_id
            for stop in range(1, len(question.token_ids) + 1):
                right[question.identity, question.token_ids[:stop]] = question, answer
        for key, (rule, found_id) in self._chosen.items():
            if found_id != chosen[key]:
                return _difference(f"choice by {rule}", key[1], found_id, chosen[key])
        for (identity, ids), seen in sorted(self._seen.items(), key=lambda one: len(one[0][1])):
            _, answer = right[identity, ids]
            for name in Seen.__slots__:
                found, wanted = getattr(seen, name), getattr(answer[len(ids) - 1], name)
                if found is not None and found != wanted:
                    return _difference(name, ids, found, wanted)
        return None


def _difference(name: str, ids: TokenIds, found: object, wanted: object) -> str:
    shown = [one.hex() if isinstance(one, bytes) else one for one in (found, wanted)]
    tokens = ", ".join(map(str, ids[-8:]))
    return f"{name} after {len(ids)} tokens (… {tokens}) is {shown[0]}, a lone run says {shown[1]}"
