"""Answers of a model that have to follow schemas; prints a table, and what is wrong.

    python -m benchmarks.schema_answers MODEL.sslm [--answers 200] [--only PART...]
        [--spacing WORD] [--json]

Parts:
  answers    of 20 questions, chosen in every way, also with as few tokens as the schema allows:
             each must be valid for the ``jsonschema`` package and have no more tokens than it may;
             the same ids and digest must come of it if tokens that alone may follow are taken in
             without being chosen, and if each is chosen; and 30 % of the tokens, or more, must
             have been taken in so (without white space)
  reference  a few short ones on the reference backend: the same ids and digests
  malformed  1,000 malformed schemas are compiled between good requests, whose schemas, ids and
             digests must stay as they are
  cost       processor time of a decode step that follows a schema, beside one that follows none

Exit 1 if anything is wrong; the cost is only told.
"""

import argparse
import json
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any, Final, get_args

# Run by its path or as a module, it finds the other folders of the checkout.
sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks.schema_model import Answer, AnswerForm, Asked, SchemaModel, is_valid
from benchmarks.schema_monsters import malformed_schemas
from benchmarks.schema_questions import Question, questions
from sslm.answering.results import Completion
from sslm.errors.base import SslmError
from sslm.runtime.sequences.sequence import Sequence as RunningSequence
from sslm.schema.regular.spacing import Spacing

Progress = Callable[[str], None]

FORCED_SHARE_MIN: Final = 0.3
PARTS: Final = ("answers", "reference", "malformed", "cost")

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
            for way, one, answer, other in zip(ways, asked, found, expected, strict=True):
                where = f"{question.name}, {way.name}: {answer.text!r}"
                wrong += [f"{where} {what}" for what in defects(question, one, answer, other)]
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


COST_NAMES: Final = ("library", "pydantic_person", "pydantic_recipe", "order", "zod_record")
COST_ANSWER_TOKENS: Final = 200
COST_CHOICES: Final[dict[str, dict[str, Any]]] = {
    "greedy": {},
    "sampling": {"temperature": 1, "top_p": 0.95, "seed": 1},
}


def measured_cost(
    path: Path, questions: Sequence[Question], steps: int, progress: Progress
) -> dict[str, Any]:
    """Time steps in pairs, in turns: a token that is not forced, and one without a schema.

    Args:
        path: Of an artifact.
        questions: Those of ``COST_NAMES`` are asked, each as often as it takes.
        steps: Pairs of each way to choose.
        progress: Told what is being done.
    """
    with SchemaModel(path, backend="native") as model:
        return {
            "tier": model.model.tier,
            "rows": list(_cost_rows(model, questions, steps, progress)),
        }


def _cost_rows(
    model: SchemaModel, questions: Sequence[Question], steps: int, progress: Progress
) -> Iterator[dict[str, Any]]:
    asked = [question for question in questions if question.name in COST_NAMES]
    forms = {question.name: model.form(question.schema) for question in asked}
    for way, options in COST_CHOICES.items():
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
                yield _cost_row(name, some)


@dataclass(frozen=True)
class _Pair:
    """Two steps at the same depth, in microseconds, and how many ids the schema allowed."""

    with_us: float
    without_us: float
    allowed_count: int


def _cost_row(choice: str, pairs: list[_Pair]) -> dict[str, Any]:
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
    asked = Asked(options=options, max_tokens=COST_ANSWER_TOKENS)
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


def main() -> int:
    """Measure what was asked for, print it and return the exit code."""
    parser = argparse.ArgumentParser(
        description=(__doc__ or "").partition("\n")[0],
        epilog="example: python -m benchmarks.schema_answers smollm2.sslm --only cost",
    )
    parser.add_argument("model", type=Path)
    parser.add_argument("--answers", type=int, default=200, help="in all; default: 200")
    parser.add_argument("--malformed", type=int, default=1000, help="schemas; default: 1000")
    parser.add_argument("--steps", type=int, default=1200, help="of the cost; default: 1200")
    parser.add_argument("--only", nargs="+", choices=PARTS, default=PARTS, help="parts to run")
    parser.add_argument(
        "--spacing", choices=get_args(Spacing), default="compact", help="of the part answers"
    )
    parser.add_argument("--json", action="store_true", help="print JSON")
    given = parser.parse_args()
    asked = questions()
    if given.answers < 1 or given.malformed < 1 or given.steps < 2:
        parser.error("--answers and --malformed are at least 1, --steps is at least 2")
    parts: dict[str, Callable[[], dict[str, Any]]] = {
        "answers": lambda: measured_answers(
            given.model, asked, given.answers, progress, spacing=given.spacing
        ),
        "reference": lambda: measured_reference(given.model, asked, progress),
        "malformed": lambda: measured_malformed(given.model, asked, given.malformed, progress),
        "cost": lambda: measured_cost(given.model, asked, given.steps, progress),
    }
    found = {name: parts[name]() for name in PARTS if name in given.only}
    progress("")
    if given.json:
        print(json.dumps(found, indent=1))
    else:
        _print(found)
    wrong = [line for part in found.values() for line in part.get("wrong", [])]
    least = FORCED_SHARE_MIN if given.spacing == "compact" else 0
    is_enough = found.get("answers", {}).get("forced_share", 1) >= least
    return 1 if wrong or not is_enough else 0


def progress(text: str) -> None:
    """Say on the terminal what is being done."""
    if sys.stderr.isatty():
        sys.stderr.write(f"\r\033[K{text}")
        sys.stderr.flush()


def _print(found: dict[str, dict[str, Any]]) -> None:
    for name, part in found.items():
        rows = part.pop("rows", [])
        if rows:
            print("  ".join(f"{column:>18}" for column in rows[0]))
        for row in rows:
            print("  ".join(f"{_shown(value):>18}" for value in row.values()))
        wrong = part.pop("wrong", [])
        print(f"{name}: " + ", ".join(f"{key} {_shown(value)}" for key, value in part.items()))
        for line in wrong:
            print(f"  WRONG: {line}")


def _shown(value: object) -> str:
    return f"{value:.3f}" if isinstance(value, float) else str(value)


if __name__ == "__main__":
    sys.exit(main())
