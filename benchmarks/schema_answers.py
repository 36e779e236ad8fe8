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
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final, get_args

# Run by its path or as a module, it finds the other folders of the checkout.
sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks.schema_answer_parts import (
    measured_answers,
    measured_malformed,
    measured_reference,
)
from benchmarks.schema_cost import measured_cost
from benchmarks.schema_questions import questions
from sslm.schema.regular.spacing import Spacing

FORCED_SHARE_MIN: Final = 0.3
PARTS: Final = ("answers", "reference", "malformed", "cost")


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
