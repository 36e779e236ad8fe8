"""What a sequence chooses depends on its own tokens and choice alone."""

import random
from dataclasses import dataclass, replace
from functools import cache

import pytest

from sslm.native_library import best_tier
from sslm.program.choice import MICRO, Choice, Decoder
from sslm.program.plan import Plan
from sslm.runtime.saves.saving import restore, save
from sslm.runtime.sequences.kv_pool import KvPool
from sslm.runtime.sequences.options import SequenceOptions
from sslm.runtime.sequences.sequence import Sequence
from sslm.runtime.slices.stepper import advance, finished
from tests.backends.backends import open_named
from tests.tiny_models import ALL_UNITS, MODEL_ID
from tests.toy_programs import VOCAB_SIZE, moving_average_model

MODEL = moving_average_model()
ANSWER = 24
FORCED = {5: [3, 4, 5], 15: [1]}
"""Tokens that are given in the middle of an answer, after so many others of it."""

HOT = Choice(decoder=Decoder.SAMPLING, temperature=20 * MICRO, seed=11)
CHOICES = [
    Choice(),
    HOT,
    replace(HOT, seed=12),
    replace(
        HOT,
        bias=((3, MICRO), (9, -2 * MICRO)),
        repetition=1_200_000,
        presence=MICRO,
        frequency=MICRO // 2,
        top_k=30,
        top_p=980_000,
        min_p=1,
    ),
    Choice(decoder=Decoder.DAMPED, top_k=6, damping=1 << 18, damping_order=3),
    Choice(presence=4 * MICRO, frequency=MICRO),
    Choice(bias=((8, 9 * MICRO),)),
]


@dataclass
class Answering:
    """A sequence with what it has answered so far."""

    sequence: Sequence
    prompt_tokens: int
    is_forced: bool

    def go_on(self) -> bool:
        """Take the next token if there is one; tell whether the answer is complete."""
        if self.sequence.has_work:
            return False
        count = len(self.sequence.token_ids) - self.prompt_tokens
        if count >= ANSWER:
            return True
        forced = FORCED.get(count) if self.is_forced else None
        if forced:
            self.sequence.push(forced)
        else:
            self.sequence.decode()
        return False

    def found(self) -> tuple[list[int], bytes]:
        return self.sequence.token_ids, self.sequence.digest


def answering(plan: Plan, pool: KvPool, index: int) -> Answering:
    prompt = [(7 * position + index) % VOCAB_SIZE for position in range(10 + 20 * index)]
    options = SequenceOptions(context_tokens=200, chooses=True, chunk_tokens=64 - index)
    sequence = Sequence(plan.program, pool, MODEL_ID, options)
    sequence.choose(CHOICES[index], len(prompt))
    sequence.push(prompt)
    return Answering(sequence, len(prompt), is_forced=index % 2 == 1)


def run(plan: Plan, sequences: list[Sequence], units: int) -> None:
    finished(advance(plan, sequences, budget_units=units, row_count_max=200))


def compiled(name: str, threads: int = 1) -> Plan:
    return open_named(name, threads=threads).compile(
        MODEL.program, MODEL.tensors, row_count_max=200, context_tokens=200
    )


@cache
def alone() -> list[tuple[list[int], bytes]]:
    plan, found = compiled("reference"), []
    for index in range(len(CHOICES)):
        one = answering(plan, KvPool(plan.program.state_layout, 4), index)
        while not one.go_on():
            run(plan, [one.sequence], ALL_UNITS)
        found.append(one.found())
    # They are answers of different choices, and none of them is one token over and over.
    assert all(len(set(ids[-ANSWER:])) > 2 for ids, _ in found[1:6])
    return found


def beside_others(plan: Plan, seed: int) -> list[tuple[list[int], bytes]]:
    """Answer all of them in random slices of random batches, restored now and then."""
    chance = random.Random(seed)
    pool = KvPool(plan.program.state_layout, 100)
    every = [answering(plan, pool, index) for index in range(len(CHOICES))]
    while waiting := [one for one in every if not one.go_on()]:
        chosen = chance.sample(waiting, chance.randint(1, len(waiting)))
        run(plan, [one.sequence for one in chosen], chance.choice((1, 1, 2, 3, ALL_UNITS)))
        if chance.random() < 0.1:
            one = chance.choice(every)
            blob = save(one.sequence, kv=chance.random() < 0.7)
            options = one.sequence.options
            one.sequence.close()
            one.sequence = restore(blob, plan.program, pool, MODEL_ID, options)
        if chance.random() < 0.1:
            # Somebody asks what another choice would take, and does without.
            one = chance.choice(every)
            known = one.sequence.choice, one.sequence.answer_start
            one.sequence.choose(chance.choice(CHOICES), chance.randrange(100))
            if one.sequence.has_work and chance.random() < 0.5:
                run(plan, [one.sequence], 1)
            one.sequence.choose(*known)
    return [one.found() for one in every]


@pytest.mark.parametrize("seed", range(3))
def test_batches_slices_and_restores_choose_what_lone_runs_do(backend_name: str, seed: int) -> None:
    plan = compiled(backend_name)
    assert beside_others(plan, seed) == alone()
    plan.close()


def test_threads_choose_what_lone_runs_do() -> None:
    plan = compiled(best_tier(), threads=2)
    assert beside_others(plan, 5) == alone()
    plan.close()
