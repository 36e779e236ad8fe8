"""Many sequences get fair turns, and none is answered differently for it."""

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sslm import limits
from sslm.errors.runtime import (
    AlreadyScheduledError,
    KvPoolExhaustedError,
    NotScheduledError,
    ObjectClosedError,
    OptionRangeError,
    SequenceInUseError,
)
from sslm.program.program import SegmentKind
from sslm.runtime.sequences.kv_pool import KvPool
from sslm.runtime.slices.scheduler import Scheduler
from sslm.runtime.slices.stepper import Outcome
from sslm.runtime.slices.time_slices import SliceBudget
from tests.timed_plans import MS, US, Cost, PlanRunner, Speaker, TimedPlan, ToyClock, flat
from tests.toy_programs import LAYER_COUNT, VOCAB_SIZE, moving_average_model

MODEL = moving_average_model()
TOKEN_UNITS = LAYER_COUNT + 2
"""Layers and head blocks of the toy model."""


class Bench:
    """A scheduler over the toy model, with whom it serves."""

    def __init__(self, *, cost: Cost = flat, is_computed: bool = False) -> None:
        self.clock = ToyClock()
        self.plan = TimedPlan(MODEL, self.clock, cost=cost, is_computed=is_computed)
        self.runner = PlanRunner(self.plan)
        self.scheduler = Scheduler(self.runner)
        self.speakers: list[Speaker] = []

    def speak(
        self,
        prompt: list[int],
        *,
        max_tokens: int = 10,
        weight: int = 1,
        pool: KvPool | None = None,
    ) -> Speaker:
        """Schedule one more."""
        speaker = Speaker(MODEL.program, prompt, max_tokens=max_tokens, pool=pool)
        self.speakers.append(speaker)
        self.scheduler.add(speaker.sequence, weight=weight, get_ready=speaker.get_ready)
        return speaker

    def run(self, *, units: int | None = None, max_ms: float | None = None) -> list[Outcome]:
        """Give the scheduler one slice."""
        return self.scheduler.run(SliceBudget(self.runner.costs, units=units, max_ms=max_ms))

    def finish(self, **budget: int | float) -> None:
        """Give it slices until nobody has anything to say."""
        while any(len(speaker.answer) < speaker.max_tokens for speaker in self.speakers):
            before = self._come_to()
            assert self.run(**budget) == []  # type: ignore[arg-type]
            assert self._come_to() > before

    def _come_to(self) -> tuple[int, int]:
        # A call whose time is over leaves it to the next one to take what was chosen.
        return len(self.plan.runs), sum(len(speaker.answer) for speaker in self.speakers)


def prompts(count: int) -> list[list[int]]:
    """Return prompts of different lengths, some longer than a chunk."""
    return [[(5 * i + 3 * j) % VOCAB_SIZE for j in range(1 + 37 * i % 150)] for i in range(count)]


def alone(prompt: list[int], max_tokens: int) -> tuple[list[int], str]:
    """Return ids and digest of what is computed in one piece, by itself."""
    bench = Bench(is_computed=True)
    speaker = bench.speak(prompt, max_tokens=max_tokens)
    bench.finish(units=limits.SLICE_UNITS_MAX)
    return speaker.answer, speaker.digest


ALONE = [alone(prompt, 6 + index) for index, prompt in enumerate(prompts(6))]


@pytest.mark.parametrize(
    "budget",
    [{"units": 1}, {"units": 3}, {"units": 1000}, {"max_ms": 0.15}, {"max_ms": 5}, {"max_ms": 0}],
)
def test_everybody_is_answered_as_if_alone(budget: dict[str, int | float]) -> None:
    """In slices of every kind, sharing runs and in chunks of any size."""
    bench = Bench(is_computed=True)
    for index, prompt in enumerate(prompts(6)):
        bench.speak(prompt, max_tokens=6 + index, weight=1 + index % 3)
    bench.finish(**budget)
    assert [(speaker.answer, speaker.digest) for speaker in bench.speakers] == ALONE


# Sharing.


def test_those_who_stand_together_share_runs() -> None:
    bench = Bench()
    for index in range(4):
        bench.speak([index] * (index + 1))
    bench.finish(units=1)
    assert {len(rows) for _, _, rows in bench.plan.runs} == {4}
    assert len(bench.plan.runs) == 10 * TOKEN_UNITS


def test_who_comes_later_catches_up() -> None:
    bench = Bench()
    bench.speak([1])
    bench.run(units=3)
    bench.speak([2], max_tokens=9)
    bench.finish(units=1000)
    # The first one ends its token; from the next one on they go together.
    assert [len(rows) for _, _, rows in bench.plan.runs] == [1, 1] + [2] * 9


def test_who_is_behind_catches_up() -> None:
    """Whoever is furthest from the end of a token runs first, up to where others wait."""
    bench = Bench()
    bench.speak([1] * 100, max_tokens=3)
    bench.speak([2], max_tokens=3)
    bench.finish(units=1000)
    # The first chunk of a prompt that goes on ends before the head, where the other one is.
    assert bench.plan.runs == [
        (0, 3, [1, 63]),
        (0, 3, [37]),
        (3, 6, [37, 1]),
        *[(0, 6, [1, 1])] * 2,
    ]


def test_runs_are_as_long_as_they_can_be() -> None:
    """One foreign call for a token, and not one for each unit."""
    bench = Bench()
    bench.speak([1], max_tokens=3)
    bench.finish(units=1000)
    assert bench.plan.runs == [(0, 6, [1])] * 3


def test_a_prefill_leaves_room_for_others() -> None:
    bench = Bench()
    for _ in range(3):
        bench.speak([1], max_tokens=60)
    bench.speak([2] * 200, max_tokens=2)
    bench.finish(units=1000)
    wide = [rows for _, _, rows in bench.plan.runs if max(rows) > 1]
    assert wide[0] == [1, 1, 1, 61]
    assert all(sum(rows) <= 64 for rows in wide)


# Fairness.


@given(
    weights=st.lists(st.integers(1, 5), min_size=2, max_size=5),
    lengths=st.lists(st.integers(1, 150), min_size=5, max_size=5),
    budgets=st.lists(st.integers(1, 40), min_size=1, max_size=30),
)
def test_nobody_falls_behind(weights: list[int], lengths: list[int], budgets: list[int]) -> None:
    """Per weight, numbers of units differ by less than those of two tokens."""
    bench = Bench()
    for weight, length in zip(weights, lengths, strict=False):
        bench.speak([1] * length, max_tokens=140, weight=weight)
    for units in budgets:
        bench.run(units=units)
        if any(len(speaker.answer) == speaker.max_tokens for speaker in bench.speakers):
            break
        served = [
            units_run(speaker) / weight
            for speaker, weight in zip(bench.speakers, weights, strict=True)
        ]
        assert max(served) - min(served) < 2 * TOKEN_UNITS


def units_run(speaker: Speaker) -> int:
    """Return layers and head blocks that were run for one sequence."""
    sequence = speaker.sequence
    ended = sum(1 for _ in speaker.answer) + (sequence.selected is not None)
    chunk = sequence.chunk
    under_way = max(0, chunk.next_segment - 1 - LAYER_COUNT) if chunk else 0
    return speaker.units + 2 * ended + under_way


def test_weights_are_shares() -> None:
    bench = Bench()
    heavy, light = bench.speak([1], max_tokens=200, weight=3), bench.speak([2], max_tokens=200)
    bench.run(units=50 * TOKEN_UNITS)
    assert units_run(heavy) == pytest.approx(3 * units_run(light), abs=3 * TOKEN_UNITS)
    assert units_run(light) > 10 * TOKEN_UNITS


def test_who_had_nothing_to_do_gathers_no_claim() -> None:
    bench = Bench()
    idle = bench.speak([1], max_tokens=1)
    busy = bench.speak([2], max_tokens=200)
    bench.run(units=100)
    before = units_run(busy)
    idle.max_tokens = 200
    idle.sequence.state.options = busy.sequence.options
    idle.sequence.push([3])
    bench.run(units=10 * TOKEN_UNITS)
    assert units_run(busy) - before >= 5 * TOKEN_UNITS - 2


def test_the_same_calls_give_the_same_runs() -> None:
    def runs() -> list[tuple[int, int, list[int]]]:
        bench = Bench()
        for index, prompt in enumerate(prompts(5)):
            bench.speak(prompt, weight=1 + index)
        bench.finish(units=7)
        return bench.plan.runs

    assert runs() == runs()


# Time.


def slow_rows(kind: SegmentKind, rows: int) -> int:
    """Return what a machine takes that is fast by itself and slow by the row."""
    return flat(kind, rows) and 50 * US + 20 * US * rows


@pytest.mark.parametrize("max_ms", [0.25, 0.4, 1, 3.3])
def test_no_slice_takes_longer_than_it_may(max_ms: float) -> None:
    bench = Bench(cost=slow_rows)
    for prompt in prompts(5):
        bench.speak(prompt)
    unknown = 2
    while any(len(speaker.answer) < 10 for speaker in bench.speakers):
        before = bench.clock.ns
        bench.run(max_ms=max_ms)
        took_ns = bench.clock.ns - before
        assert took_ns > 0
        if took_ns > max_ms * MS:
            unknown -= 1
    assert unknown >= 0


def test_the_time_is_used() -> None:
    bench = Bench()
    bench.speak([1], max_tokens=200)
    bench.run(max_ms=1)
    before = bench.clock.ns
    for _ in range(10):
        bench.run(max_ms=1)
    # All but the sixteenth that is spared.
    assert bench.clock.ns - before == 10 * 900 * US


# Failures.


def test_one_that_fails_does_not_stop_the_others() -> None:
    bench = Bench(is_computed=True)
    for prompt in prompts(3):
        bench.speak(prompt, max_tokens=8)
    bench.run(units=9)
    used = bench.speakers[1].sequence
    use = used.begin_use()
    (outcome,) = bench.run(units=1000)
    assert outcome.sequence is used
    assert isinstance(outcome.error, SequenceInUseError)
    assert [len(speaker.answer) for speaker in bench.speakers] == [8, 1, 8]
    use.end()
    assert bench.run(units=1000) == []
    assert [len(speaker.answer) for speaker in bench.speakers] == [8, 8, 8]
    assert bench.speakers[1].digest == alone(prompts(3)[1], 8)[1]


def test_one_that_cannot_go_on_is_asked_again() -> None:
    bench = Bench(is_computed=True)
    pool = KvPool(MODEL.program.state_layout, 1)
    other = pool.hold()
    bench.speak([1, 2])
    poor = bench.speak([3, 4])

    def get_ready() -> bool:
        other.take(1)
        other.release()
        return poor.get_ready()

    bench.scheduler.remove(poor.sequence)
    bench.scheduler.add(poor.sequence, get_ready=get_ready)
    blocking = pool.hold()
    blocking.take(1)
    (outcome,) = bench.run(units=1000)
    assert isinstance(outcome.error, KvPoolExhaustedError)
    assert outcome.error.__traceback__ is None
    assert [len(speaker.answer) for speaker in bench.speakers] == [10, 0]
    blocking.release()
    assert bench.run(units=1000) == []
    assert (poor.answer, poor.digest) == alone([3, 4], 10)


def test_one_that_is_closed_is_gone() -> None:
    bench = Bench()
    first, second = bench.speak([1]), bench.speak([2])
    bench.run(units=1)
    first.sequence.close()
    (outcome,) = bench.run(units=1)
    assert outcome.sequence is first.sequence
    assert isinstance(outcome.error, ObjectClosedError)
    assert bench.scheduler.sequences == [second.sequence]
    assert bench.run(units=1) == []
    with pytest.raises(NotScheduledError):
        bench.scheduler.remove(first.sequence)


def test_one_that_is_closed_behind_its_last_slice_is_told_of_next() -> None:
    bench = Bench()
    first, second = bench.speak([1], max_tokens=1), bench.speak([2])

    def close_the_other() -> bool:
        # After the last look at the first one in this call.
        first.sequence.close()
        return second.get_ready()

    bench.scheduler.remove(second.sequence)
    bench.scheduler.add(second.sequence, get_ready=close_the_other)
    assert bench.run(units=TOKEN_UNITS) == []
    assert bench.scheduler.sequences == [first.sequence, second.sequence]
    (outcome,) = bench.run(units=1)
    assert outcome.sequence is first.sequence
    assert bench.scheduler.sequences == [second.sequence]


# Who is in.


def test_adding_and_removing() -> None:
    bench = Bench()
    speaker = bench.speak([1], max_tokens=3)
    with pytest.raises(AlreadyScheduledError):
        bench.scheduler.add(speaker.sequence)
    bench.scheduler.remove(speaker.sequence)
    assert bench.run(units=5) == []
    assert bench.plan.runs == []
    with pytest.raises(NotScheduledError):
        bench.scheduler.remove(speaker.sequence)
    bench.scheduler.add(speaker.sequence, get_ready=speaker.get_ready)
    bench.finish(units=5)


@pytest.mark.parametrize("weight", [0, -1, limits.SCHEDULE_WEIGHT_MAX + 1])
def test_weights_have_a_range(weight: int) -> None:
    with pytest.raises(OptionRangeError, match="weight"):
        Bench().speak([1], weight=weight)


def test_their_number_has_a_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "SCHEDULED_SEQUENCE_COUNT_MAX", 2)
    bench = Bench()
    bench.speak([1])
    bench.speak([1])
    with pytest.raises(OptionRangeError, match="number of sequences is 3"):
        bench.speak([1])


@pytest.mark.parametrize(
    "call",
    [
        lambda bench: bench.run(units=1),
        lambda bench: bench.scheduler.add(bench.speakers[0].sequence),
        lambda bench: bench.scheduler.remove(bench.speakers[0].sequence),
    ],
    ids=["run", "add", "remove"],
)
def test_one_call_at_a_time(call: Callable[[Bench], object]) -> None:
    """A call from within another one is refused, and that one goes on."""
    bench = Bench()
    speaker = bench.speak([1], max_tokens=2)
    refused = []

    def get_ready() -> bool:
        with pytest.raises(SequenceInUseError, match="scheduler") as caught:
            call(bench)
        refused.append(caught.value)
        return speaker.get_ready()

    bench.scheduler.remove(speaker.sequence)
    bench.scheduler.add(speaker.sequence, get_ready=get_ready)
    bench.finish(units=1000)
    assert len(refused) > 1


def test_an_empty_one_does_nothing() -> None:
    bench = Bench()
    assert bench.run(units=1) == []
    assert bench.run(max_ms=1) == []
