"""Count how often jobs of many rows compile their schemas.

    python -m benchmarks.batch_schemas MODEL.sslm --rows 1000

One job whose rows all have one schema, one whose rows have 50 in turns, one whose rows have one
that is refused. Exit 1 if any schema is compiled twice.
"""

import argparse
import json
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import Any

from sslm.answer_schemas.schema import Schema
from sslm.engine.model import Model
from sslm.serving.batch_input import BatchInput
from sslm.serving.batch_job import BatchJob
from sslm.serving.batch_lines import JobOptions

_COUNTS = {"one schema": 1, "50 schemas": 50}


def form(number: int) -> dict[str, object]:
    """Return a schema as forms have them."""
    return {
        "type": "object",
        "properties": {
            "kind": {"enum": [f"kind {number}", "other"]},
            "name": {"type": "string", "maxLength": 8},
            "count": {"type": "integer", "minimum": 0, "maximum": 9},
        },
        "required": ["kind", "count"],
        "additionalProperties": False,
    }


def row(name: str, schema: object) -> str:
    """Return a line of a file of requests."""
    body = {"prompt": "a", "max_tokens": 40, "schema": schema}
    fields = {"custom_id": name, "method": "POST", "url": "/v1/completions", "body": body}
    return json.dumps(fields) + "\n"


def compiled_by(model: Path, lines: list[str]) -> tuple[Counter[bytes], float]:
    """Answer lines with a fresh model; return how often each schema was compiled, and seconds."""
    found: Counter[bytes] = Counter()
    compile_schema = Schema.compile

    def compile_and_count(source: bytes, **options: Any) -> Schema:
        found[source] += 1
        return compile_schema(source, **options)

    with tempfile.TemporaryDirectory() as folder, Model(model) as opened:
        source = Path(folder, "in")
        source.write_text("".join(lines))
        options = JobOptions(
            seed=0,
            max_tokens=40,
            context_tokens=opened.context_tokens,
            date=None,
            model="",
            is_any_model=True,
        )
        Schema.compile = compile_and_count  # type: ignore[assignment, method-assign]
        try:
            started_s = time.perf_counter()
            BatchJob(opened, BatchInput(source), options).run(Path(folder, "out"))
            return found, time.perf_counter() - started_s
        finally:
            Schema.compile = compile_schema  # type: ignore[method-assign]


def main() -> int:
    """Count, and print what was seen."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("model", type=Path)
    parser.add_argument("--rows", type=int, default=1000)
    given = parser.parse_args()
    jobs = {
        name: [row(str(number), form(number % count)) for number in range(given.rows)]
        for name, count in _COUNTS.items()
    }
    jobs["one refusal"] = [row(str(number), {"type": "int"}) for number in range(given.rows)]
    is_wrong = False
    for name, lines in jobs.items():
        found, seconds = compiled_by(given.model, lines)
        is_wrong |= found.most_common(1)[0][1] > 1
        total = sum(found.values())
        print(f"{len(lines)} rows, {name}: {total} times compiled, {seconds:.1f} s")
    return 1 if is_wrong else 0


if __name__ == "__main__":
    sys.exit(main())
