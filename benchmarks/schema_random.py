"""Random schemas against the ``jsonschema`` package; prints what became of them.

    python -m benchmarks.schema_random [--count N] [--depth N] [--seed N] [--free-keys WORD]
        [--json]

Of each schema that compiles, random values must be accepted exactly if they are valid; texts in
which a key stands twice, and random texts of the automaton, only if their value is. A schema that
allows nothing must have no valid value. With ``--free-keys omit``, what is accepted must be valid,
and no text may be one that is not accepted without that. Exit 1 if anything differs.
"""

import argparse
import json
import sys
from collections import Counter
from pathlib import Path
from typing import Any, Final, get_args

# Run by its path or as a module, it finds the other folders of the checkout.
sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from tests.automata import only_in_first
from tests.schema_maker import Maker
from tests.schema_oracle import Oracle
from tests.schema_walks import Walker

from sslm.errors.base import SslmError
from sslm.errors.schema import UnsatisfiableSchemaError
from sslm.schema.documents.options import FreeKeyChoice, SchemaOptions
from sslm.schema.schema_compiler import CompiledSchema, compile_schema

VALUES: Final = 60
WALKS: Final = 10
WALK_STEPS: Final = 40
VALUE_NESTING: Final = 1
"""Levels of the values: as many as fit below any place with the options used."""


def differences(
    compiled: CompiledSchema, oracle: Oracle, maker: Maker, seed: int, *, is_whole: bool
) -> list[str]:
    """Return where a compiled schema, of all its values or not, and another program differ."""
    found = []
    for value in (maker.value(VALUE_NESTING) for _ in range(VALUES)):
        is_allowed, is_valid = compiled.allows(value), oracle.allows(value)
        if is_allowed > is_valid or (is_whole and is_valid > is_allowed):
            found.append(f"value {value!r}")
        if isinstance(value, dict):
            text = maker.repeated(value)
            if compiled.automaton.matches(text) and not oracle.accepts(text):
                found.append(f"repeated key {text!r}")
    walker = Walker(compiled.automaton, seed)
    texts = [walker.text(WALK_STEPS) for _ in range(WALKS)]
    return found + [f"text {text!r}" for text in texts if not oracle.accepts(text)]


def judge(seed: int, depth: int, free_keys: FreeKeyChoice, outcomes: Counter[str]) -> list[str]:
    """Make one schema, count what became of it, and return what is wrong with that."""
    maker = Maker(seed)
    schema: Any = maker.schema(depth)
    oracle = Oracle(schema, {}, checks_formats=False)
    found = []
    is_whole = free_keys == "allow"
    try:
        compiled = compile_schema(schema, SchemaOptions(free_levels=1, free_keys=free_keys))
    except UnsatisfiableSchemaError as error:
        outcomes[error.cause] += 1
        values = [maker.value(VALUE_NESTING) for _ in range(VALUES)]
        found = [f"value {value!r}" for value in values if is_whole and oracle.allows(value)]
    except SslmError as error:
        outcomes[error.cause] += 1
    else:
        outcomes["compiles"] += 1
        found = differences(compiled, oracle, maker, seed, is_whole=is_whole)
        if not is_whole:
            found += more_than_whole(compiled, outcomes)
    return [f"{json.dumps(schema)}: {one}" for one in found]


def more_than_whole(compiled: CompiledSchema, outcomes: Counter[str]) -> list[str]:
    """Return a text without free keys that is none with them, if any."""
    try:
        whole = compile_schema(compiled.document, SchemaOptions(free_levels=1))
    except SslmError:
        outcomes["of these only without free keys"] += 1
        return []
    outcomes["of these fewer than with free keys"] += whole.automaton != compiled.automaton
    text = only_in_first(compiled.automaton, whole.automaton)
    return [] if text is None else [f"text {text!r}, which is none with free keys"]


def main() -> int:
    """Print what became of all and return the exit code."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--count", type=int, default=1000, help="schemas to make")
    parser.add_argument("--depth", type=int, default=3, help="levels of schemas in each other")
    parser.add_argument("--seed", type=int, default=0, help="of the first; each has its own")
    parser.add_argument("--free-keys", choices=get_args(FreeKeyChoice), default="allow")
    parser.add_argument("--json", action="store_true", help="print JSON")
    arguments = parser.parse_args()
    outcomes: Counter[str] = Counter()
    wrong: list[str] = []
    for seed in range(arguments.seed, arguments.seed + arguments.count):
        wrong += judge(seed, arguments.depth, arguments.free_keys, outcomes)
    facts = {"outcomes": dict(outcomes.most_common()), "wrong": wrong}
    print(json.dumps(facts) if arguments.json else json.dumps(facts, indent=1))
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
