"""Parts of benchmarks.schema_answers that say whether answers are right."""

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from benchmarks.schema_model import Answer, AnswerForm, Asked, SchemaModel, is_valid
from benchmarks.schema_monsters import malformed_schemas
from benchmarks.schema_questions import Question
from sslm.answering.results import Completion
from sslm.errors.base import SslmError
from sslm.schema.regular.spacing import Spacing

Progress = Callable[[str], None]

ANSWER_TOKENS: Final = 128
"""Of answers that need not be short; more if the schema has none so short."""

REFERENCE_NAMES: Final = ("colour", "colours", "verdict", "pydantic_score")
REFERENCE_MORE_MAX: Final = 12
"""Tokens beyond the shortest answer: the reference takes a second for each."""

GOOD_NAMES: Final = ("verdict", "person", "pydantic_recipe")
MALFORMED_AT_ONCE: Final = 100
"""Malformed schemas between good requests."""

MALFORMED_PROMPT: Final = "Say yes."


@dataclass(frozen=True, kw_only=True)
class Way:
    """How tokens are chosen, and how many there may be.

    Args:
        name: To tell it from others.
        options: As ``generate`` takes them.
        more: Tokens beyond the schema's shortest answer, or None for plenty.
    """

    name: str
    options: dict[str, Any]
    more: int | None = None

    def asked(self, form: AnswerForm, *, seed: int) -> Asked:
        """Return what it comes to for a schema."""
        shortest = form.bound.shortest
        plenty = max(ANSWER_TOKENS, shortest + 32)
        return Asked(
            options={**self.options, "seed": seed},
            max_tokens=plenty if self.more is None else shortest + self.more,
        )


WAYS: Final = (
    Way(name="greedy", options={}),
    Way(name="greedy, shortest", options={}, more=0),
    Way(name="greedy, a few more", options={}, more=3),
    Way(name="greedy, repetitions penalized", options={"repetition_penalty": 1.2}, more=40),
    Way(name="damped", options={"damping": 2}),
    Way(name="damped, a few more", options={"damping": 2, "damping_order": 3}, more=7),
    Way(name="sampling 0.7", options={"temperature": 0.7, "top_k": 40}),
    Way(name="sampling 1", options={"temperature": 1, "top_p": 0.95}),
    Way(name="sampling 1.5", options={"temperature": 1.5, "presence_penalty": 0.5}, more=60),
    Way(name="sampling 3, a few more", options={"temperature": 3, "min_p": 0.001}, more=12),
)


def measured_answers(
    path: Path,
    questions: Sequence[Question],
    count: int,
    progress: Progress,
    *,
    spacing: Spacing,
) -> dict[str, Any]:
    """Make as many answers as asked for, each in spans and token by token, and judge them."""
    rows: list[dict[str, Any]] = []
    wrong: list[str] = []
    with SchemaModel(path, backend="native") as model:
        for at, question in enumerate(questions):
            here = count // len(questions) + (at < count % len(questions))
            progress(f"{sum(row['answers'] for row in rows)} of {count} answers: {question.name}")
            form = model.form(question.schema, spacing=spacing)
            ways = [WAYS[at % len(WAYS)] for at in range(here)]
            asked = [way.asked(form, seed=at) for at, way in enumerate(ways)]
            prompt = model.prompt_ids(question.text)
            expected = model.token_by_token(prompt, form, asked)
            found = [generated(model, prompt, form, one) for one in asked]
            for way, *judged in zip(ways, asked, found, expected, strict=True):
                where = f"{question.name}, {way.name}: {judged[1].text!r}"
                wrong += [f"{where} {what}" for what in defects(question, *judged)]
            rows.append(_row(question, form, found))
    tokens, forced, jumped = (sum(row[key] for row in rows) for key in _COUNTS)
    return {
        "answers": sum(row["answers"] for row in rows),
        "tokens": tokens,
        "forced": forced,
        "jumped": jumped,
        "forced_share": forced / tokens,
        "jumped_share": jumped / tokens,
        "rows": rows,
        "wrong": wrong,
    }


_COUNTS: Final = ("tokens", "forced", "jumped")


def generated(
    model: SchemaModel, prompt: Sequence[int], form: AnswerForm, asked: Asked
) -> Completion:
    """Answer as anybody would ask for it."""
    return model.model.generate(
        prompt, schema=form.schema, max_tokens=asked.max_tokens, **asked.options
    )


def defects(question: Question, asked: Asked, found: Completion, expected: Answer) -> Iterator[str]:
    """Yield what is wrong with an answer, beside the same one token by token."""
    if not is_valid(question.schema, found.text):
        yield "is not valid"
    elif found.parsed != json.loads(found.text):
        yield f"says {found.parsed!r}"
    if found.finish_reason != "stop":
        yield f"ends because of {found.finish_reason}"
    if len(found.token_ids) > asked.max_tokens:
        yield f"has {len(found.token_ids)} tokens of {asked.max_tokens}"
    if (tuple(found.token_ids), found.digest) != (expected.ids, expected.digest):
        yield f"differs token by token: {expected.ids}"


def _row(question: Question, form: AnswerForm, found: list[Completion]) -> dict[str, Any]:
    tokens = sum(len(answer.token_ids) for answer in found)
    forced = sum(form.forced_count(answer.token_ids) for answer in found)
    return {
        "schema": question.name,
        "states": form.bound.state_count,
        "shortest": form.bound.shortest,
        "answers": len(found),
        "tokens": tokens,
        "forced": forced,
        "jumped": sum(answer.forced_tokens for answer in found),
        "forced_share": forced / tokens if tokens else 0.0,
    }


def measured_reference(
    path: Path, questions: Sequence[Question], progress: Progress
) -> dict[str, Any]:
    """Make a few short answers on both backends, and compare them."""
    short = [way for way in WAYS if way.more is not None and way.more <= REFERENCE_MORE_MAX]
    wrong, count = [], 0
    with (
        SchemaModel(path, backend="native") as native,
        SchemaModel(path, backend="reference") as reference,
    ):
        for question in (one for one in questions if one.name in REFERENCE_NAMES):
            progress(f"on the reference: {question.name}")
            form = native.form(question.schema)
            prompt = native.prompt_ids(question.text)
            asked = [way.asked(form, seed=at) for at, way in enumerate(short)]
            expected = reference.token_by_token(prompt, form, asked)
            for way, one, other in zip(short, asked, expected, strict=True):
                found = generated(native, prompt, form, one)
                count += 1
                where = f"{question.name}, {way.name}: {found.text!r}"
                wrong += [f"{where} {what}" for what in defects(question, one, found, other)]
    return {"answers": count, "wrong": wrong}


def measured_malformed(
    path: Path, questions: Sequence[Question], count: int, progress: Progress
) -> dict[str, Any]:
    """Ask by malformed schemas between good requests, which must stay as they are."""
    good = [question for question in questions if question.name in GOOD_NAMES]
    outcomes = {"refused": 0, "answered": 0, "compared": 0}
    wrong: list[str] = []
    with SchemaModel(path, backend="native") as model:
        prompt = model.prompt_ids(MALFORMED_PROMPT)
        before = [_good(model, question) for question in good]
        for at, malformed in enumerate(malformed_schemas(count), 1):
            try:
                model.model.generate(prompt, schema=malformed, max_tokens=1, finish="cut")
                outcomes["answered"] += 1
            except SslmError:
                outcomes["refused"] += 1
            except Exception as error:
                wrong.append(f"{type(error).__name__} {error} for {str(malformed)[:500]}")
            if at % MALFORMED_AT_ONCE == 0 or at == count:
                progress(f"{at} of {count} malformed schemas")
                after = [_good(model, question) for question in good]
                outcomes["compared"] += len(good)
                wrong += [
                    f"{question.name} differs after {at} malformed schemas"
                    for question, one, other in zip(good, before, after, strict=True)
                    if one != other
                ]
    return {"malformed": count, **outcomes, "wrong": wrong}


def _good(model: SchemaModel, question: Question) -> tuple[Any, ...]:
    """Compile a schema anew, and answer greedily and by sampling; return what must not change."""
    form = model.form(question.schema)
    most, prompt = form.bound.shortest + 24, model.prompt_ids(question.text)
    answers = [
        generated(model, prompt, form, Asked(options=options, max_tokens=most))
        for options in ({}, {"temperature": 1, "seed": 5})
    ]
    return form.schema, [(answer.token_ids, answer.digest) for answer in answers]
