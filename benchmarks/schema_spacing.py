"""Answers of a model without white space and with it; prints a table.

    python -m benchmarks.schema_spacing MODEL.sslm [--max-tokens 128] [--only NAME...]
        [--free-keys WORD] [--json]

The 20 questions of benchmarks.schema_answers are answered greedily in each spacing. Of all answers
together: how many are valid for the ``jsonschema`` package, their tokens, before how many of these
the schema left no choice, and the mean log-probability that the model, which is not held to the
schema then, gives a token of them behind the question. As answers differ, each value that was
answered is also written compact and spaced, in the tokens that the tokenizer makes of it, and the
model asked how likely either text is as a whole.

Exit 1 if an answer is not valid.
"""

import argparse
import json
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, get_args

# Run by its path or as a module, it finds the other folders of the checkout.
sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks.schema_model import SchemaModel, is_valid
from benchmarks.schema_questions import Question, questions
from sslm.schema.documents.options import FreeKeyChoice, SchemaOptions
from sslm.schema.regular.spacing import Spacing
from sslm.schema.schema_compiler import compile_schema

SPACINGS: Final[tuple[Spacing, ...]] = get_args(Spacing)
_NATS: Final = 1 / (1 << 20)


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One answer.

    Args:
        schema: Name of the schema.
        spacing: Of the answer.
        text: The answer.
        is_valid: Whether it is.
        tokens: Of the answer.
        forced: Before so many the schema left no choice.
        nats: Sum of the natural logarithms of their probabilities.
        alike: Of the same value, by spacing: tokens of its text, and such a sum of it.
    """

    schema: str
    spacing: Spacing
    text: str
    is_valid: bool
    tokens: int
    forced: int
    nats: float
    alike: dict[Spacing, tuple[int, float]]


def answered(
    model: SchemaModel, question: Question, max_tokens: int, free_keys: FreeKeyChoice
) -> Iterator[Row]:
    """Yield an answer in each spacing."""
    prompt = model.prompt_ids(question.text)
    for spacing in SPACINGS:
        form = model.form(question.schema, spacing=spacing, free_keys=free_keys)
        most = max(max_tokens, form.bound.shortest + 32)
        found = model.model.generate(prompt, schema=form.schema, max_tokens=most)
        ids = [one for one in found.token_ids if one not in model.end_ids]
        yield Row(
            schema=question.name,
            spacing=spacing,
            text=found.text,
            is_valid=is_valid(question.schema, found.text),
            tokens=len(ids),
            forced=form.forced_count(ids),
            nats=likelihood(model, prompt, ids),
            alike={
                one: of_text(model, prompt, text)
                for one, text in spelled(question, found.parsed).items()
            },
        )


def spelled(question: Question, value: Any) -> dict[Spacing, str]:
    """Return the text of a value with and without blanks."""
    found: dict[Spacing, str] = {}
    for spacing in ("compact", "spaced"):
        compiled = compile_schema(question.schema, SchemaOptions(spacing=spacing))
        text = compiled.canonical_text(value)
        assert text is not None, "an answer is a value of its schema"
        found[spacing] = text.decode()
    return found


def of_text(model: SchemaModel, prompt: Sequence[int], text: str) -> tuple[int, float]:
    """Return how many tokens a text has, and the sum of their log-probabilities."""
    ids = model.tokenizer.encode(text)
    return len(ids), likelihood(model, prompt, ids)


def likelihood(model: SchemaModel, prompt: Sequence[int], ids: Sequence[int]) -> float:
    """Return the sum of the log-probabilities of tokens behind a prompt."""
    told = model.model.generate([*prompt, *ids], max_tokens=1, prompt_logprobs=0).prompt_logprobs
    assert told is not None
    return sum(one.q20 for one in told[len(prompt) :] if one is not None) * _NATS


def summary(rows: list[Row]) -> list[dict[str, Any]]:
    """Return what the answers of each spacing come to."""
    found = []
    for spacing in SPACINGS:
        here = [row for row in rows if row.spacing == spacing]
        tokens = sum(row.tokens for row in here)
        found.append(
            {
                "spacing": spacing,
                "answers": len(here),
                "valid": sum(row.is_valid for row in here),
                "tokens": tokens,
                "forced_share": sum(row.forced for row in here) / tokens,
                "mean_nats": sum(row.nats for row in here) / tokens,
            }
        )
    return found


def of_alike(rows: list[Row]) -> list[dict[str, Any]]:
    """Return how likely texts of the same values are."""
    found = []
    for spacing in ("compact", "spaced"):
        tokens = sum(row.alike[spacing][0] for row in rows)
        nats = sum(row.alike[spacing][1] for row in rows)
        better = sum(row.alike[spacing][1] == max(n for _, n in row.alike.values()) for row in rows)
        found.append(
            {
                "values as": spacing,
                "texts": len(rows),
                "tokens": tokens,
                "nats_per_text": nats / len(rows),
                "more_likely": better,
            }
        )
    return found


def main() -> int:
    """Answer, print the tables and return the exit code."""
    parser = argparse.ArgumentParser(
        description=(__doc__ or "").partition("\n")[0],
        epilog="example: python -m benchmarks.schema_spacing smollm2.sslm --only person",
    )
    parser.add_argument("model", type=Path)
    parser.add_argument("--max-tokens", type=int, default=128, help="of an answer; default: 128")
    parser.add_argument("--only", nargs="+", default=None, help="names of questions")
    parser.add_argument("--free-keys", choices=get_args(FreeKeyChoice), default="allow")
    parser.add_argument("--json", action="store_true", help="print JSON, answers included")
    given = parser.parse_args()
    asked = [one for one in questions() if given.only is None or one.name in given.only]
    if not asked or given.max_tokens < 1:
        parser.error("--only names questions, and --max-tokens is at least 1")
    with SchemaModel(given.model, backend="native") as model:
        rows = [
            row for one in asked for row in answered(model, one, given.max_tokens, given.free_keys)
        ]
    tables = (summary(rows), of_alike(rows))
    if given.json:
        answers = [{name: getattr(row, name) for name in Row.__slots__} for row in rows]
        print(json.dumps({"spacings": tables[0], "values": tables[1], "answers": answers}))
    else:
        for table in tables:
            print("  ".join(f"{column:>14}" for column in table[0]))
            for line in table:
                print("  ".join(f"{_shown(value):>14}" for value in line.values()))
    return 0 if all(row.is_valid for row in rows) else 1


def _shown(value: object) -> str:
    return f"{value:.3f}" if isinstance(value, float) else str(value)


if __name__ == "__main__":
    sys.exit(main())
