"""Random schemas against the ``jsonschema`` package; prints what became of them.

    python -m benchmarks.schema_random [--count N] [--depth N] [--seed N] [--json]

Of each schema that compiles, random values must be accepted exactly if they are valid; texts in
which a key stands twice, and random texts of the automaton, only if their value is. A schema that
allows nothing must have no valid value. Exit 1 if anything differs.
"""

import argparse
import json
import sys
from collections import Counter
from typing import Any, Final

from tests.schema_maker import Maker
from tests.schema_oracle import Oracle
from tests.schema_walks import Walker

from sslm.errors.base import SslmError
from sslm.errors.schema import UnsatisfiableSchemaError
from sslm.schema.compiling import CompiledSchema, compile_schema
from sslm.schema.options import SchemaOptions

VALUES: Final = 60
WALKS: Final = 10
WALK_STEPS: Final = 40
VALUE_NESTING: Final = 1
"""Levels of the values: as many as fit below any place with the options used."""


def differences(compiled: CompiledSchema, oracle: Oracle, maker: Maker, seed: int) -> list[str]:
    """Return where a compiled schema and another implementation differ."""
    found = []
    for value in (maker.value(VALUE_NESTING) for _ in range(VALUES)):
        if compiled.allows(value) != oracle.allows(value):
            found.append(f"value {value!r}")
        if isinstance(value, dict):
            text = maker.repeated(value)
            if compiled.automaton.matches(text) and not oracle.accepts(text):
                found.append(f"repeated key {text!r}")
    walker = Walker(compiled.automaton, seed)
    texts = [walker.text(WALK_STEPS) for _ in range(WALKS)]
    return found + [f"text {text!r}" for text in texts if not oracle.accepts(text)]


def judge(seed: int, depth: int, outcomes: Counter[str]) -> list[str]:
    """Make one schema, count what became of it, and return what is wrong with that."""
    maker = Maker(seed)
    schema: Any = maker.schema(depth)
    oracle = Oracle(schema, {}, checks_formats=False)
    found = []
    try:
        compiled = compile_schema(schema, SchemaOptions(free_levels=1))
    except UnsatisfiableSchemaError as error:
        outcomes[type(error).__name__] += 1
        values = [maker.value(VALUE_NESTING) for _ in range(VALUES)]
        found = [f"value {value!r}" for value in values if oracle.allows(value)]
    except SslmError as error:
        outcomes[type(error).__name__] += 1
    else:
        outcomes["compiles"] += 1
        found = differences(compiled, oracle, maker, seed)
    return [f"{json.dumps(schema)}: {one}" for one in found]


def main() -> int:
    """Print what became of all and return the exit code."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--count", type=int, default=1000, help="schemas to make")
    parser.add_argument("--depth", type=int, default=3, help="levels of schemas in each other")
    parser.add_argument("--seed", type=int, default=0, help="of the first; each has its own")
    parser.add_argument("--json", action="store_true", help="print JSON")
    arguments = parser.parse_args()
    outcomes: Counter[str] = Counter()
    wrong: list[str] = []
    for seed in range(arguments.seed, arguments.seed + arguments.count):
        wrong += judge(seed, arguments.depth, outcomes)
    facts = {"outcomes": dict(outcomes.most_common()), "wrong": wrong}
    print(json.dumps(facts) if arguments.json else json.dumps(facts, indent=1))
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
