"""What following a schema costs a decode step: processor time beside a step that follows none."""

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any, Final

from benchmarks.schema_model import AnswerForm, Asked, SchemaModel
from benchmarks.schema_questions import Question
from sslm.runtime.sequences.sequence import Sequence as RunningSequence

Progress = Callable[[str], None]

NAMES: Final = ("library", "pydantic_person", "pydantic_recipe", "order", "zod_record")
ANSWER_TOKENS: Final = 200
CHOICES: Final[dict[str, dict[str, Any]]] = {
    "greedy": {},
    "sampling": {"temperature": 1, "top_p": 0.95, "seed": 1},
}


def measured_cost(
    path: Path, questions: Sequence[Question], steps: int, progress: Progress
) -> dict[str, Any]:
    """Time steps in pairs, in turns: a token that is not forced, and one without a schema.

    Args:
        path: Of an artifact.
        questions: Those of ``NAMES`` are asked, each as often as it takes.
        steps: Pairs of each way to choose.
        progress: Told what is being done.
    """
    with SchemaModel(path, backend="native") as model:
        return {"tier": model.model.tier, "rows": list(_rows(model, questions, steps, progress))}


def _rows(
    model: SchemaModel, questions: Sequence[Question], steps: int, progress: Progress
) -> Iterator[dict[str, Any]]:
    asked = [question for question in questions if question.name in NAMES]
    forms = {question.name: model.form(question.schema) for question in asked}
    for way, options in CHOICES.items():
        pairs: list[_Pair] = []
        at = 0
        while len(pairs) < steps:
            progress(f"{len(pairs)} of {steps} steps, {way}")
            question = asked[at % len(asked)]
            at += 1
            pairs += _answer_pairs(model, question, forms[question.name], options)
        half = model.tokenizer.vocab_size // 2
        for name, some in (
            (way, pairs),
            (f"{way}, most ids", [one for one in pairs if one.allowed_count > half]),
            (f"{way}, fewer ids", [one for one in pairs if one.allowed_count <= half]),
        ):
            if some:
                yield _row(name, some)


@dataclass(frozen=True)
class _Pair:
    """Two steps at the same depth, in microseconds, and how many ids the schema allowed."""

    with_us: float
    without_us: float
    allowed_count: int


def _row(choice: str, pairs: list[_Pair]) -> dict[str, Any]:
    without = median(pair.without_us for pair in pairs)
    with_us = median(pair.with_us for pair in pairs)
    return {
        "choice": choice,
        "steps": len(pairs),
        "without_us": without,
        "with_us": with_us,
        "percent": 100 * (with_us / without - 1),
        "paired_percent": 100 * (median(one.with_us / one.without_us for one in pairs) - 1),
    }


def _answer_pairs(
    model: SchemaModel, question: Question, form: AnswerForm, options: dict[str, Any]
) -> list[_Pair]:
    """Answer once with the schema, once without; return the times of steps that had a choice."""
    prompt = model.prompt_ids(question.text)
    asked = Asked(options=options, max_tokens=ANSWER_TOKENS)
    pairs: list[_Pair] = []
    with ExitStack() as stack:
        one, other = (
            stack.enter_context(model.sequence(prompt, bound, asked))
            for bound in (form.bound, None)
        )
        for sequence in (one, other):
            while sequence.has_work:
                model.runner.advance([sequence])
        while not one.is_answer_complete:
            # Each is first in every other pair.
            order = (one, other) if len(pairs) % 2 else (other, one)
            times = {sequence: _step_us(model, sequence) for sequence in order}
            if one.selected in model.end_ids:
                break
            state = one.state.place.state
            if form.bound.only_token(state) is None:
                count = form.allowed_count(state)
                pairs.append(_Pair(times[one], times[other], count))
    return pairs


def _step_us(model: SchemaModel, sequence: RunningSequence) -> float:
    started = time.process_time_ns()
    sequence.decode()
    model.runner.advance([sequence])
    return (time.process_time_ns() - started) / 1000
