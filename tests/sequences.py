"""Sequences of the small models that tests run from end to end."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from sslm.backends.reference.backend import ReferencePlan
from sslm.program.plan import Plan
from sslm.runtime.sequences.kv_pool import KvPool
from sslm.runtime.sequences.options import SequenceOptions
from sslm.runtime.sequences.sequence import Sequence
from sslm.runtime.slices.stepper import advance, finished
from tests.tiny_models import ALL_UNITS, MODEL_ID, TinyModel, tiny_llama
from tests.toy_programs import ToyModel, moving_average_model

LONGEST = 200
PROMPT = [index * 7 % 37 for index in range(75)]
MODELS = ("odd llama", "recurrent")


def small_model(name: str, folder: Path) -> TinyModel | ToyModel:
    """Make one of the models; files that it is made from go into *folder*."""
    return moving_average_model() if name == "recurrent" else tiny_llama(folder)


def reference_plan(name: str, folder: Path) -> ReferencePlan:
    """Compile one of the models for the reference."""
    model = small_model(name, folder)
    return ReferencePlan(model.program, model.tensors)


def new_pool(plan: Plan, page_count: int = 12) -> KvPool:
    """Return a pool for the model's sequences."""
    return KvPool(plan.program.state_layout, page_count)


def new_sequence(
    plan: Plan, pool: KvPool, *, model_id: bytes = MODEL_ID, **options: Any
) -> Sequence:
    """Return a sequence of 200 tokens that takes pages as it needs them, or with other options."""
    merged = SequenceOptions(**({"context_tokens": LONGEST, "reserved_tokens": 0} | options))
    return Sequence(plan.program, pool, model_id, merged)


def step(plan: Plan, sequence: Sequence, units: int = ALL_UNITS) -> None:
    """Advance by one slice."""
    finished(advance(plan, [sequence], budget_units=units, row_count_max=64))


def run(plan: Plan, sequence: Sequence) -> None:
    """Compute everything that is pending."""
    while sequence.has_work:
        step(plan, sequence)


def end(plan: Plan, sequence: Sequence, token_count: int) -> tuple[Any, ...]:
    """Choose tokens until there are so many, and return all that must be equal."""
    run(plan, sequence)
    while len(sequence.token_ids) < token_count:
        sequence.decode()
        run(plan, sequence)
    stats = sequence.stats()
    counts = stats.layers_run, stats.layers_ceiling, stats.saturations
    return sequence.token_ids, sequence.selected, sequence.digest, counts


def slices(plan: Plan, sequence: Sequence, token_count: int) -> Iterator[None]:
    """Go on in slices of one unit, and stop before each."""
    while True:
        yield
        if not sequence.has_work:
            if len(sequence.token_ids) == token_count:
                return
            sequence.decode()
            yield
        step(plan, sequence, units=1)
