"""Schedules out of a seed. What is likely next depends on what the simulator's model says."""

import random
from collections.abc import Iterator
from typing import Any

from sslm.program.states import PAGE_TOKENS
from tests.simulation import expected, generating_answers
from tests.simulation.answers import Bound
from tests.simulation.choices import WAYS
from tests.simulation.models import LONGEST, MODELS, TEXT_COUNT
from tests.simulation.operations import (
    HOARD_SLOTS,
    PREFIX_SLOTS,
    SAVE_SLOTS,
    SEQUENCE_SLOTS,
    SNAPSHOT_SLOTS,
    Operation,
    World,
)
from tests.simulation.plans import ROWS_MAX, backends
from tests.simulation.schemas import NAMES
from tests.simulation.simulation import Simulation

OPERATIONS_MIN, OPERATIONS_MAX = 15, 75

_FAILING = {"create", "snapshot", "adopt", "adopt_prefix", "reset", "push", "prefill", "decode"} | {
    "begin_answer",
    "bind",
    "bind_prefix",
    "content",
    "content_prefix",
    "decode_span",
    "save",
    "save_snapshot",
    "restore",
    "restore_into",
    "freeze",
}
"""Kinds of calls that allocate."""

_WEIGHTS = {
    "create": 5,
    "drop": 1,
    "push": 7,
    "prefill": 4,
    "decode": 12,
    "decode_span": 8,
    "begin_answer": 2,
    "bind": 5,
    "content": 10,
    "choose": 6,
    "advance": 24,
    "schedule": 3,
    "reset": 1.5,
    "close": 1.2,
    "snapshot": 5,
    "drop_snapshot": 1,
    "release_snapshot": 1.5,
    "adopt": 6,
    "save": 3,
    "save_snapshot": 1,
    "restore": 3,
    "restore_into": 2,
    "begin_prefix": 2,
    "drop_prefix": 0.5,
    "bind_prefix": 1,
    "prefill_prefix": 3,
    "content_prefix": 1.5,
    "unbind_snapshot": 0.5,
    "freeze": 2,
    "adopt_prefix": 5,
    "release_prefix": 1,
    "hoard": 1,
    "unhoard": 2,
    "close_pool": 0.3,
}


def world_of(chance: random.Random) -> World:
    """Choose what a schedule runs on."""
    backend = "reference" if chance.random() < 0.04 else chance.choice(backends()[1:])
    threads = 2 if backend != "reference" and chance.random() < 0.06 else 1
    model = chance.choices(MODELS, weights=(8, 5, 6, 1))[0]
    return World(model, backend, threads, (chance.randint(3, 14), chance.randint(1, 4)))


Call = tuple[str, dict[str, Any]]
"""A kind of operation, and its arguments."""


class Generator:
    """Chooses one operation after the other.

    Args:
        chance: Where choices come from.
        simulation: Whose model is looked at.
    """

    def __init__(self, chance: random.Random, simulation: Simulation) -> None:
        self._chance = chance
        self._simulation = simulation
        self._text = chance.randrange(TEXT_COUNT)
        self._scene: Iterator[Call] = iter(())
        self.count = chance.randint(OPERATIONS_MIN, OPERATIONS_MAX)
        """How many operations the schedule is to have."""

    def next(self) -> Operation:
        """Choose an operation: the next one of a scene, mostly, or any other."""
        chance, call = self._chance, None
        if chance.random() < 0.75:
            call = next(self._scene, None)
            if call is None and chance.random() < 0.3:
                self._scene = chance.choice(
                    (self._speak, self._fork, self._carry, self._share, self._follow)
                )()
        if call is None:
            kind = self._kind()
            call = kind, getattr(self, f"_{kind}")()
        kind, arguments = call
        fails_at = None
        if kind in _FAILING and self._chance.random() < 0.03:
            fails_at = self._chance.randint(1, 12)
        return Operation(kind, arguments, fails_at)

    def _kind(self) -> str:
        """Choose what to do; mostly something that there is something for."""
        simulation = self._simulation
        models = [one.model for one in simulation.sequences if one is not None]
        prefixes = map(simulation.open_prefix_sequence, range(PREFIX_SLOTS))
        open_ones = [*models, *(one.model for one in prefixes if one is not None)]
        is_waiting = any(_is(model, "pending") for model in open_ones)
        is_pointless = {
            "create": len(models) == SEQUENCE_SLOTS,
            "advance": not is_waiting,
            "schedule": not is_waiting,
            "push": not any(_is(model, "idle") for model in models),
            "prefill": not any(_is(model, "idle") for model in models),
            "decode": not any(_is(model, "chosen") for model in models),
            "decode_span": not any(_is(model, "chosen") for model in models),
            "bind": not any(_is(model, "unused") for model in models),
            "content": not any(_is(model, "bound") for model in models),
            "begin_answer": not any(_is(model, "bound") for model in models),
            "bind_prefix": not any(map(simulation.open_prefix_sequence, range(PREFIX_SLOTS))),
            "content_prefix": not any(map(simulation.open_prefix_sequence, range(PREFIX_SLOTS))),
            "adopt": not any(simulation.snapshots),
            "adopt_prefix": not any(simulation.prefixes),
            "prefill_prefix": not any(map(simulation.open_prefix_sequence, range(PREFIX_SLOTS))),
        }
        weights = {
            kind: weight / 10 if is_pointless.get(kind) else weight
            for kind, weight in _WEIGHTS.items()
        }
        return self._chance.choices(list(weights), list(weights.values()))[0]

    # Scenes: calls that mean something together.

    def _speak(self) -> Iterator[Call]:
        """Somebody new takes in more than a page of a text, and answers."""
        seq = self._empty(self._simulation.sequences)
        yield "create", self._create() | {"seq": seq, "pool": 0}
        if self._chance.random() < 0.3:
            yield "bind", self._bind(seq)
        if self._chance.random() < 0.5:
            yield "choose", self._choose(seq)
        count = self._chance.choice((40, 63, 64, 65, 70, 100, 128, 129))
        yield "push", {"seq": seq, "text": self._text, "start": 0, "count": count}
        yield from self._compute(seq)
        if self._chance.random() < 0.4:
            yield "choose", self._choose(seq)
        for _ in range(self._chance.choice((1, 1, 4))):
            yield from self._compute(seq)
            yield "decode", {"seq": seq}
        yield from self._compute(seq)

    def _fork(self) -> Iterator[Call]:
        """Somebody new goes on from where somebody stands, and both go on."""
        seq, snapshot = self._seq(prefer="paged"), self._chance.randrange(SNAPSHOT_SLOTS)
        yield from self._go_halfway(seq)
        yield "snapshot", {"seq": seq, "snapshot": snapshot}
        other = self._empty(self._simulation.sequences)
        yield "create", self._create() | {"seq": other, "pool": 0}
        if self._chance.random() < 0.6:
            yield "choose", self._choose(other)
        yield from self._bind_as(other, self._snapshot_at(snapshot))
        yield "adopt", {"seq": other, "snapshot": snapshot}
        for slot in self._chance.sample((seq, other), 2):
            yield "push", {"seq": slot, **self._tokens(self._model_at(slot))}
            yield "decode", {"seq": slot}
        yield from self._compute(seq, other)
        yield from self._let_go(seq, other, snapshot)

    def _follow(self) -> Iterator[Call]:
        """Somebody new answers by a schema to its end, and begins again somewhere on the way."""
        seq, snapshot = self._empty(self._simulation.sequences), self._chance.randrange(2)
        yield "create", self._create() | {"seq": seq, "pool": 0, "has_all_logits": False}
        yield "bind", self._bind(seq)
        if self._chance.random() < 0.15:
            # Nothing, which is a use all the same.
            kind = self._chance.choice(("push", "prefill"))
            yield kind, {"seq": seq, "text": 0, "start": 0, "count": 0}
            yield "bind", self._bind(seq)
        for _ in range(self._chance.choice((1, 2, 2))):
            yield "push", {"seq": seq, **self._tokens(self._model_at(seq))}
            start = self._chance.choice((None, "begin_answer", "content", "content"))
            if start == "begin_answer":
                yield start, self._begin_answer(seq)
            elif start is not None:
                yield start, self._content(seq)
            yield from self._compute(seq)
            for _ in range(self._chance.choice((2, 4, 9))):
                if self._chance.random() < 0.3:
                    yield "content", self._content(seq)
                else:
                    yield "decode_span", self._decode_span(seq)
                yield from self._compute(seq)
                if self._chance.random() < 0.1:
                    yield "snapshot", {"seq": seq, "snapshot": snapshot}
            yield self._chance.choice(("reset", "decode")), {"seq": seq}
            if self._chance.random() < 0.5:
                yield "adopt", {"seq": seq, "snapshot": snapshot}
                yield from self._compute(seq)

    def _bind_as(self, seq: int, other: expected.Snapshot | None) -> Iterator[Call]:
        """Bind mostly what a snapshot follows, perhaps within another number of tokens."""
        if other is not None and other.bound is not None and self._chance.random() < 0.85:
            answer_tokens = other.bound.answer_tokens
            if self._chance.random() < 0.4:
                answer_tokens = self._bind(seq)["answer_tokens"]
            schema = other.bound.schema
            yield "bind", {"seq": seq, "schema": schema, "answer_tokens": answer_tokens}
        elif self._chance.random() < 0.3:
            yield "bind", self._bind(seq)

    def _snapshot_at(self, slot: int) -> expected.Snapshot | None:
        one = self._simulation.snapshots[slot]
        return one.model if one else None

    def _frozen_at(self, slot: int) -> expected.Snapshot | None:
        one = self._simulation.prefixes[slot]
        return one.model.snapshot if one else None

    def _let_go(self, seq: int, other: int, snapshot: int) -> Iterator[Call]:
        """Let some of those go who share pages, in some order; somebody new takes what is free."""
        chance = self._chance
        kind = chance.choice(("reset", "close", "close"))
        slots = [slot for slot in (seq, other) if chance.random() < 0.5]
        ends: list[Call] = [(kind, {"seq": slot}) for slot in slots]
        if chance.random() < 0.7:
            ends.append(("release_snapshot", {"snapshot": snapshot}))
        yield from chance.sample(ends, len(ends))
        if kind == "reset":
            for slot in slots:
                yield "push", {"seq": slot, **self._tokens(self._model_at(slot))}
        yield from self._speak()
        yield from self._compute(seq, other)

    def _carry(self) -> Iterator[Call]:
        """Somebody goes on from what somebody saved, and both go on."""
        seq, slot = self._seq(prefer="paged"), self._chance.randrange(SAVE_SLOTS)
        yield from self._go_halfway(seq)
        yield "save", {"seq": seq, "save_slot": slot, "kv": self._chance.random() < 0.7}
        other = self._empty(self._simulation.sequences)
        schema = self._schema_of_save(slot)
        yield "restore", {"save_slot": slot, **self._create(), "seq": other, "schema": schema}
        yield from self._compute(seq, other)

    def _go_halfway(self, seq: int) -> Iterator[Call]:
        """Perhaps stop in the middle of a chunk."""
        if self._chance.random() < 0.7:
            yield "push", {"seq": seq, **self._tokens(self._model_at(seq))}
            units = self._chance.choice((1, 1, 2, 3))
            yield "advance", {"slots": [seq], "units": units, "rows": ROWS_MAX}

    def _share(self) -> Iterator[Call]:
        """A beginning is computed once, frozen and adopted; perhaps on top of another one."""
        seq, prefix = self._empty(self._simulation.sequences), self._chance.randrange(PREFIX_SLOTS)
        yield "create", self._create() | {"seq": seq, "pool": 0}
        if any(self._simulation.prefixes) and self._chance.random() < 0.6:
            below = self._filled(self._simulation.prefixes)
            yield "adopt_prefix", {"seq": seq, "prefix": below}
        yield "begin_prefix", {"seq": seq, "prefix": prefix}
        if self._chance.random() < 0.5:
            yield "bind_prefix", self._bind_prefix(prefix)
        yield "prefill_prefix", {"prefix": prefix, **self._tokens(self._prefix_at(prefix))}
        if self._chance.random() < 0.5:
            yield "content_prefix", self._content_prefix(prefix)
        yield from self._compute(SEQUENCE_SLOTS + prefix)
        yield "freeze", {"prefix": prefix}
        other = self._empty(self._simulation.sequences)
        yield "create", self._create() | {"seq": other, "pool": 0}
        yield from self._bind_as(other, self._frozen_at(prefix))
        yield "adopt_prefix", {"seq": other, "prefix": prefix}

    def _compute(self, *slots: int) -> Iterator[Call]:
        """Advance until little is left."""
        for _ in range(self._chance.choice((1, 2, 3, 5))):
            found = map(self._member_at, slots)
            if not any(model is not None and _is(model, "pending") for model in found):
                return
            units = self._chance.choice((1, 3, 50, 50, 50))
            yield "advance", {"slots": [*slots], "units": units, "rows": ROWS_MAX}

    def _member_at(self, slot: int) -> expected.Sequence | None:
        is_prefix = slot >= SEQUENCE_SLOTS
        return self._prefix_at(slot - SEQUENCE_SLOTS) if is_prefix else self._model_at(slot)

    def _prefix_at(self, slot: int) -> expected.Sequence | None:
        one = self._simulation.open_prefix_sequence(slot)
        return one.model if one else None

    def _model_at(self, slot: int) -> expected.Sequence | None:
        one = self._simulation.sequences[slot]
        return one.model if one else None

    # Slots: mostly such as make the call succeed.

    def _seq(self, *, prefer: str = "open") -> int:
        wanted = [
            slot
            for slot, one in enumerate(self._simulation.sequences)
            if one is not None and _is(one.model, prefer)
        ]
        if wanted and self._chance.random() < 0.9:
            return self._chance.choice(wanted)
        return self._chance.randrange(SEQUENCE_SLOTS)

    def _filled(self, slots: list[Any]) -> int:
        filled = [slot for slot, one in enumerate(slots) if one is not None]
        if filled and self._chance.random() < 0.95:
            return self._chance.choice(filled)
        return self._chance.randrange(len(slots))

    def _empty(self, slots: list[Any]) -> int:
        empty = [slot for slot, one in enumerate(slots) if one is None]
        return self._chance.choice(empty or range(len(slots)))

    # Sequences.

    def _options(self) -> dict[str, Any]:
        chance = self._chance
        context = chance.choice((LONGEST, LONGEST, 150, 129, 128, 70))
        if chance.random() < 0.01:
            context = LONGEST + 1
        reserved = chance.choices((0, context, chance.randint(0, context)), weights=(6, 2, 2))[0]
        return {
            "pool": int(chance.random() < 0.1),
            "context_tokens": context,
            "chunk_tokens": chance.choice((64, 64, 64, 63, 7, 2)),
            "reserved_tokens": reserved,
            "has_all_logits": chance.random() < 0.1,
            "chooses": chance.random() < 0.8,
            "identity": int(chance.random() < 0.05),
        }

    def _create(self) -> dict[str, Any]:
        return {"seq": self._empty(self._simulation.sequences), **self._options()}

    def _drop(self) -> dict[str, Any]:
        return {"seq": self._chance.randrange(SEQUENCE_SLOTS)}

    def _push(self) -> dict[str, Any]:
        seq = self._seq(prefer="idle")
        one = self._simulation.sequences[seq]
        return {"seq": seq, **self._tokens(one.model if one else None)}

    _prefill = _push

    def _tokens(self, model: expected.Sequence | None) -> dict[str, Any]:
        chance = self._chance
        start = model.progress.token_count if model else 0
        to_boundary = -start % PAGE_TOKENS
        count = chance.choice(
            (1, 2, 5, 20, 64, 80, to_boundary, to_boundary + 1, max(0, to_boundary - 1))
        )
        room = model.options.context_tokens - start if model else 0
        if chance.random() < 0.06:
            count = max(0, room + chance.randint(-1, 3))
        elif count > room >= 0 and chance.random() < 0.7:
            count = chance.randint(0, room)
        text = self._text if chance.random() < 0.8 else chance.randrange(TEXT_COUNT)
        tokens: dict[str, Any] = {"text": text, "start": start, "count": count}
        if chance.random() < 0.05:
            tokens["bad"] = chance.choice(list(expected.BAD_IDS))
        return tokens

    def _decode(self) -> dict[str, Any]:
        return {"seq": self._seq(prefer="chosen")}

    def _decode_span(self, seq: int | None = None) -> dict[str, Any]:
        slot = self._seq(prefer="chosen") if seq is None else seq
        return {"seq": slot, "most": generating_answers.most(self._chance)}

    def _bind(self, seq: int | None = None) -> dict[str, Any]:
        slot = self._seq(prefer="unused") if seq is None else seq
        return {"seq": slot, **generating_answers.binding(self._chance, self._in_use())}

    def _bind_prefix(self, prefix: int | None = None) -> dict[str, Any]:
        slot = self._filled(self._simulation.prefixes) if prefix is None else prefix
        return {"prefix": slot, **generating_answers.binding(self._chance, self._in_use())}

    def _in_use(self) -> list[Bound]:
        """Return what sequences, frozen prefixes and snapshots follow."""
        simulation = self._simulation
        followed = [one.model.bound for one in simulation.sequences if one is not None]
        followed += [one.model.bound for one in simulation.snapshots if one is not None]
        frozen = map(self._frozen_at, range(PREFIX_SLOTS))
        followed += [one.bound for one in frozen if one is not None]
        return [one for one in followed if one is not None]

    def _begin_answer(self, seq: int | None = None) -> dict[str, Any]:
        slot = self._seq(prefer="bound") if seq is None else seq
        return {"seq": slot, "most": self._chance.choice((0, 1, 2, 9, 9))}

    def _content(self, seq: int | None = None) -> dict[str, Any]:
        slot = self._seq(prefer="bound") if seq is None else seq
        return {"seq": slot, **generating_answers.content(self._chance, self._model_at(slot))}

    def _content_prefix(self, prefix: int | None = None) -> dict[str, Any]:
        slot = self._filled(self._simulation.prefixes) if prefix is None else prefix
        model = self._prefix_at(slot)
        return {"prefix": slot, **generating_answers.content(self._chance, model)}

    def _choose(self, seq: int | None = None) -> dict[str, Any]:
        """Mostly from where the answer to what there is would begin, or again."""
        chance = self._chance
        slot = (
            self._seq(prefer="chosen" if chance.random() < 0.7 else "open") if seq is None else seq
        )
        model = self._model_at(slot)
        count = model.progress.token_count if model else 0
        start = chance.choice((count, count, chance.randint(0, count), 0))
        if model and chance.random() < 0.3:
            start = model.rule.answer_start
        if chance.random() < 0.02:
            start = LONGEST + 1
        return {"seq": slot, "way": chance.randrange(len(WAYS)), "start": start}

    def _reset(self) -> dict[str, Any]:
        return {"seq": self._seq()}

    _close = _reset

    def _together(self) -> list[int]:
        """Choose slots of sequences and prefixes, most of them with something pending."""
        chance = self._chance
        slots = [
            slot
            for slot, one in enumerate(self._simulation.sequences)
            if one is not None and (_is(one.model, "pending") or chance.random() < 0.1)
        ]
        for slot in range(PREFIX_SLOTS):
            prefix = self._simulation.open_prefix_sequence(slot)
            is_pending = prefix is not None and _is(prefix.model, "pending")
            if chance.random() < (0.9 if is_pending else 0.1):
                slots.append(SEQUENCE_SLOTS + slot)
        chance.shuffle(slots)
        return slots

    def _schedule(self) -> dict[str, Any]:
        chance = self._chance
        arguments: dict[str, Any] = {"slots": self._together(), "tokens": chance.randint(0, 3)}
        if chance.random() < 0.5:
            arguments["units"] = chance.randint(1, 20)
        else:
            arguments["max_us"] = chance.choice((0, 50, 100, 250, 1000, 2000))
        return arguments

    def _advance(self) -> dict[str, Any]:
        chance, slots = self._chance, self._together()
        if chance.random() < 0.4:
            slots = slots[:1]
        if slots and chance.random() < 0.01:
            slots.append(slots[0])
        units = chance.choice((1, 1, 2, 3, 3, 50, 50, 50))
        if chance.random() < 0.01:
            units = 0
        arguments: dict[str, Any] = {
            "slots": slots,
            "units": units,
            "rows": chance.choice((ROWS_MAX, ROWS_MAX, 64, 64, 5 if chance.random() < 0.1 else 99)),
        }
        if chance.random() < 0.3:
            arguments["is_watched"] = True
        if chance.random() < 0.1:
            arguments["chunk_rows"] = chance.choice((1, 3, 63))
        if chance.random() < 0.06:
            is_reference = self._simulation.world.backend == "reference"
            arguments["cancel_at"] = chance.randint(0, 40) if is_reference else 0
        elif chance.random() < 0.15:
            arguments["events"] = [
                [
                    chance.choice((0, 0, 1, 2)),
                    chance.choice(
                        ("cancel", "cancel", "close", "use", "memory", "busy", "foreign")
                    ),
                    chance.randrange(4),
                ]
                for _ in range(chance.choice((1, 1, 2)))
            ]
        return arguments

    # Snapshots and saves.

    def _snapshot(self) -> dict[str, Any]:
        return {
            "seq": self._seq(prefer="computed"),
            "snapshot": self._chance.randrange(SNAPSHOT_SLOTS),
        }

    def _drop_snapshot(self) -> dict[str, Any]:
        return {"snapshot": self._filled(self._simulation.snapshots)}

    _release_snapshot = _unbind_snapshot = _drop_snapshot

    def _adopt(self) -> dict[str, Any]:
        return {
            "seq": self._seq(prefer="fresh"),
            "snapshot": self._filled(self._simulation.snapshots),
        }

    def _save(self) -> dict[str, Any]:
        return {
            "seq": self._seq(prefer="computed"),
            "save_slot": self._chance.randrange(SAVE_SLOTS),
            "kv": self._chance.random() < 0.7,
        }

    def _save_snapshot(self) -> dict[str, Any]:
        snapshot = self._filled(self._simulation.snapshots)
        slot = self._chance.randrange(SAVE_SLOTS)
        return {"snapshot": snapshot, "save_slot": slot, "kv": self._chance.random() < 0.7}

    def _restore(self) -> dict[str, Any]:
        slot = self._filled(self._simulation.saves)
        return {"save_slot": slot, **self._create(), "schema": self._schema_of_save(slot)}

    def _restore_into(self) -> dict[str, Any]:
        seq, slot = self._seq(prefer="fresh"), self._filled(self._simulation.saves)
        return {"save_slot": slot, "seq": seq, "schema": self._schema_of_save(slot)}

    def _schema_of_save(self, slot: int) -> int | None:
        """Choose a schema to have at hand: mostly the one that a save follows, if it does."""
        chance, one = self._chance, self._simulation.saves[slot]
        if chance.random() < 0.15:
            return chance.choice((None, chance.randrange(len(NAMES))))
        bound = one.model.bound if one is not None else None
        return None if bound is None else bound.schema

    # Prefixes.

    def _begin_prefix(self) -> dict[str, Any]:
        return {"seq": self._seq(), "prefix": self._chance.randrange(PREFIX_SLOTS)}

    def _drop_prefix(self) -> dict[str, Any]:
        return {"prefix": self._filled(self._simulation.prefixes)}

    _release_prefix = _freeze = _drop_prefix

    def _prefill_prefix(self) -> dict[str, Any]:
        slot = self._filled(self._simulation.prefixes)
        prefix = self._simulation.prefixes[slot]
        return {"prefix": slot, **self._tokens(prefix.model._sequence if prefix else None)}

    def _adopt_prefix(self) -> dict[str, Any]:
        return {
            "seq": self._seq(prefer="fresh"),
            "prefix": self._filled(self._simulation.prefixes),
        }

    # Pools.

    def _hoard(self) -> dict[str, Any]:
        return {
            "hoard": self._chance.randrange(HOARD_SLOTS),
            "pool": self._chance.choice((0, 0, 0, 1)),
            "count": self._chance.randint(0, 8),
        }

    def _unhoard(self) -> dict[str, Any]:
        return {"hoard": self._filled(self._simulation.hoards)}

    def _close_pool(self) -> dict[str, Any]:
        return {"pool": self._chance.choice((0, 0, 1))}


def _is(model: expected.Sequence, what: str) -> bool:
    progress = model.progress
    if model.is_closed:
        return False
    return {
        "open": True,
        "idle": not progress.pending_count,
        "fresh": not progress.token_count,
        "computed": bool(progress.ids),
        "paged": len(progress.ids) >= PAGE_TOKENS,
        "pending": progress.has_work,
        "chosen": progress.selected is not None,
        "unused": not model.is_used,
        "bound": model.bound is not None,
    }[what]
