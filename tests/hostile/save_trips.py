"""What becomes of spoiled saves of small models, taken in every kind of state."""

from collections.abc import Iterator
from dataclasses import dataclass

from sslm.artifact import read_artifact
from sslm.backends.native import NativeBackend
from sslm.errors.base import SslmError, StateError
from sslm.model.llama import build_llama
from sslm.program.choice import MICRO, Choice, Decoder
from sslm.program.plan import Plan
from sslm.runtime.saves.saving import restore, save
from sslm.runtime.sequences.kv_pool import KvPool
from sslm.runtime.sequences.options import SequenceOptions
from sslm.runtime.sequences.sequence import Sequence
from tests.converted import stories_artifact
from tests.hostile.byte_sweep import Trip
from tests.sequences import new_pool, new_sequence, run, step
from tests.tiny_models import MODEL_ID
from tests.toy_programs import moving_average_model

_LONGEST = 96
_OPTIONS = SequenceOptions(context_tokens=_LONGEST, reserved_tokens=0, chooses=True)


@dataclass(frozen=True)
class SaveSubject:
    """A save, with the plan that goes on with it."""

    name: str
    plan: Plan
    sound: bytes


def save_subjects() -> Iterator[SaveSubject]:
    """Saves of both models, at rest and in the middle of things; the last ones have a full page."""
    for name, plan in (("stories260K", stories_plan()), ("recurrent toy", toy_plan())):
        with new_sequence(plan, new_pool(plan), chooses=True) as sequence:
            sequence.push([1, 20, 3])
            run(plan, sequence)
            yield SaveSubject(f"{name}, at rest", plan, save(sequence))
            yield SaveSubject(f"{name}, ids alone", plan, save(sequence, kv=False))
            sequence.decode()
            step(plan, sequence, units=1)
            yield SaveSubject(f"{name}, mid-token", plan, save(sequence))
            run(plan, sequence)
            sequence.push([5, 6, 7, 8, 9])
            step(plan, sequence, units=2)
            sequence.push([10])
            yield SaveSubject(f"{name}, mid-chunk", plan, save(sequence))
            run(plan, sequence)
            sequence.push([index % 37 for index in range(58)])
            run(plan, sequence)
            yield SaveSubject(f"{name}, 68 tokens", plan, save(sequence))
            yield from _chosen_otherwise(name, plan, sequence)


def _chosen_otherwise(name: str, plan: Plan, sequence: Sequence) -> Iterator[SaveSubject]:
    """Saves of a sequence that samples, whose last position is scored again first."""
    bias = ((2, MICRO), (30, -3 * MICRO))
    choice = Choice(decoder=Decoder.SAMPLING, bias=bias, presence=MICRO, top_k=9, seed=5)
    sequence.choose(choice, answer_start=67)
    yield SaveSubject(f"{name}, sampling ids alone", plan, save(sequence, kv=False))
    run(plan, sequence)
    yield SaveSubject(f"{name}, sampling", plan, save(sequence))


def stories_plan() -> Plan:
    """Compile stories260K for the native backend."""
    with read_artifact(stories_artifact(), mmap=False) as artifact:
        program = build_llama(artifact.config, artifact.fraction_bits, artifact.tensors)
        return NativeBackend().compile(
            program, artifact.tensors, row_count_max=64, context_tokens=_LONGEST
        )


def toy_plan() -> Plan:
    """Compile the recurrent program for the native backend."""
    toy = moving_average_model()
    return NativeBackend().compile(
        toy.program, toy.tensors, row_count_max=64, context_tokens=_LONGEST
    )


def save_trip(subject: SaveSubject) -> Trip:
    """Restore a spoiled save and go on with it.

    What is refused must have taken nothing. What is not must give the same save again, so that no
    byte goes unseen, and must run: to whatever end, but to one.
    """
    plan = subject.plan

    def trip(content: bytes, offset: int) -> str | None:
        # Of this process, as a sweep may be a fork of the one that made the save.
        pool = KvPool(plan.program.state_layout, 4)
        try:
            sequence = restore(content, plan.program, pool, MODEL_ID, _OPTIONS)
        except SslmError as error:
            if isinstance(error, StateError):
                return f"refused for what the save is not to blame for: {error}"
            if pool.held_page_count:
                return "refused, and pages are held"
            raise
        with sequence:
            problem = _go_on(plan, sequence, content)
        return problem or ("pages are held at the end" if pool.held_page_count else None)

    return trip


def _go_on(plan: Plan, sequence: Sequence, content: bytes) -> str | None:
    if save(sequence, kv=_has_memory(content)) != content:
        return "what was restored is not what the save says"
    token_count = sequence.state.token_count
    run(plan, sequence)
    if sequence.position != token_count:
        return f"{sequence.position} positions were computed of {token_count}"
    is_chosen = sequence.selected is not None and sequence.selected >= 0
    if is_chosen and token_count < _LONGEST:
        sequence.decode()
        run(plan, sequence)
    return None


def _has_memory(content: bytes) -> bool:
    return bool(content[12] & 1)
