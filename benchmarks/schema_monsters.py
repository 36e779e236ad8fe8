"""Schemas that explode elsewhere, with malformed ones; prints what became of each.

    python -m benchmarks.schema_monsters [--malformed N] [--vocabulary V.gguf] [--json]

A monster compiles within the default budget, or is refused in under two seconds with the reason;
a malformed schema, made from a real one by a random change, ends in a named error or compiles.
Exit 1 if one does neither.
"""

import argparse
import json
import random
import sys
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

# Run by its path or as a module, it finds the other folders of the checkout.
sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks.schema_masks import Vocabulary
from sslm.errors.base import SslmError
from sslm.errors.schema import SchemaBudgetError
from sslm.schema.schema_compiler import compile_schema
from sslm.schema.tokens.step_table import StepTable
from sslm.schema.tokens.tables import build_token_tables

REFUSAL_SECONDS_MAX: Final = 2.0
"""Processor time of a refusal."""

COMPILING_SECONDS_MAX: Final = 6.0
"""Processor time of a success, which the budget bounds."""

SCHEMAS: Final = Path(__file__).parents[1] / "tests" / "schemas"

TEXT: Final = {"type": "string"}
KEYS: Final = tuple(f"key_{at}" for at in range(20))


def monsters() -> dict[str, Any]:
    """Return the schemas by name."""
    optional = {f"key_{at}": TEXT for at in range(15)}
    many = {f"key_{at:03}": {"type": ["string", "null"]} for at in range(200)}
    alternation: dict[str, Any] = TEXT
    for level in range(12):
        alternation = {"anyOf": [alternation, {"type": "array", "items": alternation}]}
        alternation["description"] = str(level)
    nested: dict[str, Any] = {"type": "integer"}
    for _ in range(12):
        nested = {"type": "object", "properties": {"a": nested, "b": nested}}
    overlapping = [
        {"type": "object", "properties": {f"k{at}": {"type": "integer"}}, "required": [f"k{at}"]}
        for at in range(12)
    ]
    return _multiplied() | {
        "maxItems 10000": {"type": "array", "items": TEXT, "maxItems": 10_000},
        "maxItems 10000 of integers": {
            "type": "array",
            "items": {"type": "integer"},
            "maxItems": 10_000,
        },
        "minItems 1000000": {"type": "array", "minItems": 1_000_000},
        "maxLength 100000": {"type": "string", "maxLength": 100_000},
        "15 optional keys": {"type": "object", "properties": optional},
        "15 optional keys, closed": {
            "type": "object",
            "properties": optional,
            "additionalProperties": False,
        },
        "15 optional keys, 3 to 7 of them": {
            "type": "object",
            "properties": optional,
            "additionalProperties": False,
            "minProperties": 3,
            "maxProperties": 7,
        },
        "200 optional keys": {"type": "object", "properties": many, "additionalProperties": False},
        "alternations in each other": alternation,
        "objects in each other": nested,
        "12 overlapping alternatives": {"oneOf": overlapping},
        "12 overlapping alternatives, all": {"allOf": [{"not": one} for one in overlapping]},
        "maxProperties 5000": {"type": "object", "maxProperties": 5000},
        "contains 500": {"type": "array", "contains": {"const": 1}, "minContains": 500},
        "contains at most 5000": {"contains": {"type": "integer"}, "maxContains": 5000},
        "multipleOf a long decimal": {"type": "number", "multipleOf": 0.123456789123},
        "a wide range of numbers": {"type": "number", "minimum": -1e300, "maximum": 1e300},
        "a pattern that doubles": {"type": "string", "pattern": "a.{24}b"},
        "a counted pattern": {"type": "string", "pattern": "^(a{1,100}){1,100}$"},
        "two recursions": {
            "$ref": "#/$defs/e",
            "$defs": {
                "e": {
                    "type": "object",
                    "properties": {"l": {"$ref": "#/$defs/e"}, "r": {"$ref": "#/$defs/e"}},
                    "additionalProperties": False,
                }
            },
        },
        "unique items of a large set": {
            "type": "array",
            "uniqueItems": True,
            "items": {"enum": list(range(200))},
        },
        "20 dependent keys": {
            "dependentRequired": {f"key_{at}": [f"key_{at + 1}"] for at in range(20)},
        },
        "references in a chain": {
            "$ref": "#/$defs/d0",
            "$defs": {
                **{f"d{at}": {"$ref": f"#/$defs/d{at + 1}"} for at in range(3000)},
                "d3000": TEXT,
            },
        },
        "references to each other": {
            "$ref": "#/$defs/a",
            "$defs": {"a": {"$ref": "#/$defs/b"}, "b": {"allOf": [{"$ref": "#/$defs/a"}]}},
        },
        "a value that must contain itself": {
            "type": "object",
            "properties": {"a": {"$ref": "#"}},
            "required": ["a"],
        },
    }


def _multiplied() -> dict[str, Any]:
    """Return one or two schemas for each keyword that can multiply."""
    return _texts() | _numbers_and_constants() | _containers() | _conditions()


def _texts() -> dict[str, Any]:
    words = "|".join(f"word{at}" for at in range(200))
    searches = [{"pattern": f"{one}.*{two}"} for one in "abcde" for two in "vwxyz"]
    return {
        "a counted alternation": {"type": "string", "pattern": f"^({words}){{60}}$"},
        "a letter so far from the end": {"type": "string", "pattern": "^.*a.{30}$"},
        "25 searches at once": {"type": "string", "allOf": searches},
        "any of 25 searches": {"type": "string", "anyOf": searches},
        "one of 25 searches": {"type": "string", "oneOf": searches},
        "a host name under not": {"type": "string", "not": {"format": "hostname"}},
        "a date under not, with a pattern": {
            "allOf": [{"type": "string", "not": {"format": "date-time"}}, {"pattern": "a.{12}b"}]
        },
    }


def _numbers_and_constants() -> dict[str, Any]:
    largest = 10**400 - 3
    return {
        "bounds of 400 digits and a multiple": {
            "type": "number",
            "minimum": -largest,
            "maximum": largest,
            "multipleOf": 0.0375,
        },
        "multiples of several numbers": {"allOf": [{"multipleOf": n} for n in (97, 101, 103)]},
        "enum of 10000 long texts": {"enum": [f"{at:05}" + "x" * 60 for at in range(10_000)]},
        "a huge constant": {"const": [{"key": ["text" * 20, at]} for at in range(5000)]},
        "unique items of a long enum": {
            "type": "array",
            "uniqueItems": True,
            "items": {"enum": [f"name {at}" for at in range(2000)]},
        },
    }


def _containers() -> dict[str, Any]:
    patterns = ("^a", "b$", "c.d", "^.{5}$", "e{3}", "f.*g")
    chain = {
        f"d{at}": {"type": "array", "items": {"$ref": f"#/$defs/d{at + 1}"}} for at in range(40)
    }
    return {
        "overlapping patterns of keys": {
            "type": "object",
            "patternProperties": {one: {"minLength": at} for at, one in enumerate(patterns)},
        },
        "names by patterns": {
            "type": "object",
            "propertyNames": {"allOf": [{"pattern": one} for one in patterns]},
        },
        "contains 50 to 500": {
            "type": "array",
            "contains": {"type": "string", "pattern": "ab"},
            "minContains": 50,
            "maxContains": 500,
        },
        "lists in lists by references": {
            "$ref": "#/$defs/d0",
            "$defs": {**chain, "d40": TEXT},
        },
        "unevaluated keys of many alternatives": {
            "anyOf": [{"properties": {key: TEXT}} for key in KEYS[:12]],
            "unevaluatedProperties": False,
        },
        "minItems and maxItems in each other": {
            "type": "array",
            "items": {"type": "array", "items": {"type": "integer"}, "maxItems": 300},
            "maxItems": 300,
        },
    }


def _conditions() -> dict[str, Any]:
    chain: dict[str, Any] = {"required": ["end"]}
    for key in KEYS[:15]:
        known = {"required": [key]}
        chain = {"if": known, "then": {"properties": {key: {"type": "integer"}}}, "else": chain}
    web = {
        one: {"anyOf": [{"required": [KEYS[at - 1]]}, {"properties": {KEYS[at - 2]: TEXT}}]}
        for at, one in enumerate(KEYS)
    }
    nested: dict[str, Any] = {"pattern": "a.b"}
    for at in range(10):
        nested = {"oneOf": [nested, {"allOf": [{"pattern": f"{at}.c"}, {"not": nested}]}]}
    return {
        "if in else in each other": {"type": "object", **chain},
        "a web of dependent schemas": {"type": "object", "dependentSchemas": web},
        "oneOf, allOf and not in each other": {"type": "string", **nested},
    }


def monster_failures(found: list[str], vocabulary: Vocabulary | None) -> dict[str, str]:
    """Try every monster; return those that neither compile nor are refused in time.

    Args:
        found: Where to note what became of each.
        vocabulary: For which the tables of tokens are built too, if one is given.
    """
    failures = {}
    for name, schema in monsters().items():
        started = time.process_time()
        try:
            compiled = compile_schema(schema)
            outcome = f"{compiled.automaton.state_count} states"
            seconds_max = COMPILING_SECONDS_MAX
            if vocabulary is not None:
                table = StepTable(compiled.automaton)
                tables = build_token_tables(table, vocabulary.trie, vocabulary.split)
                outcome += f", {len(tables.masks)} masks"
        except SslmError as error:
            outcome = str(error)
            seconds_max = REFUSAL_SECONDS_MAX
            if isinstance(error, SchemaBudgetError) and " at #" not in error.where:
                failures[name] = f"the reason names no keyword or no place: {error}"
        seconds = time.process_time() - started
        found.append(f"{seconds:6.2f} s  {name}: {outcome}")
        if seconds > seconds_max:
            failures[name] = f"{seconds:.2f} s: {outcome}"
    return failures


def malformed_failures(count: int, outcomes: Counter[str]) -> dict[str, str]:
    """Change real schemas at random; return the changes that end neither well nor by name.

    Args:
        count: How many to try.
        outcomes: Where to count what became of them.
    """
    failures = {}
    for changed in malformed_schemas(count):
        started = time.process_time()
        try:
            compile_schema(changed)
            outcome = "compiles"
        except SslmError as error:
            outcome = error.cause
        except Exception as error:
            outcome = f"{type(error).__name__}: {error}"
            failures[str(changed)[:2000]] = outcome
        outcomes[outcome] += 1
        if time.process_time() - started > COMPILING_SECONDS_MAX:
            failures[str(changed)[:2000]] = f"{time.process_time() - started:.1f} s: {outcome}"
    return failures


def malformed_schemas(count: int) -> Iterator[Any]:
    """Change real schemas at random: a quarter as texts, the others as values."""
    sources = [path.read_bytes() for path in sorted(SCHEMAS.glob("*.json"))]
    generator = random.Random(count)
    for at in range(count):
        source = generator.choice(sources)
        if at % 4 == 0:
            yield _changed_text(source, generator)
        else:
            yield _changed_value(source, generator)


def _changed_text(source: bytes, generator: random.Random) -> bytes:
    """Return a document with a few bytes cut out, doubled or replaced."""
    found = bytearray(source)
    for _ in range(generator.randint(1, 3)):
        start = generator.randrange(len(found))
        end = min(len(found), start + generator.randint(1, 20))
        kind = generator.randrange(3)
        if kind == 0:
            del found[start:end]
        elif kind == 1:
            found[start:start] = found[start:end]
        else:
            found[start:end] = generator.randbytes(end - start)
    return bytes(found)


def _changed_value(source: bytes, generator: random.Random) -> Any:
    """Return a document with a value of another kind somewhere, or another keyword."""
    document = json.loads(source)
    places = list(_places(document))
    strange: list[Any] = [
        None,
        True,
        -1,
        1.5,
        10**30,
        "",
        "x",
        [],
        {},
        [{}],
        {"type": "x"},
        {"$ref": "#"},
    ]
    names = ["type", "items", "allOf", "minLength", "$ref", "enum", "pattern", "not", "required"]
    for _ in range(generator.randint(1, 2)):
        container, key = generator.choice(places)
        if isinstance(container, dict) and generator.random() < 0.4:
            container[generator.choice(names)] = generator.choice(strange)
        elif isinstance(container, dict) and key in container and generator.random() < 0.3:
            container[generator.choice(names)] = container.pop(key)
        elif not isinstance(container, dict) or key in container:
            container[key] = generator.choice(strange)
    return document


def _places(value: Any) -> list[tuple[Any, Any]]:
    """Return every container inside a value with each of its keys."""
    keys = list(value) if isinstance(value, dict) else range(len(value))
    found = [(value, key) for key in keys]
    for key in keys:
        if isinstance(value[key], list | dict):
            found += _places(value[key])
    return found


def main() -> int:
    """Print what became of each and return the exit code."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--malformed", type=int, default=1000)
    parser.add_argument(
        "--vocabulary", type=Path, metavar="V.gguf", help="whose tables of tokens are built too"
    )
    parser.add_argument("--json", action="store_true", help="print JSON")
    arguments = parser.parse_args()
    vocabulary = Vocabulary(arguments.vocabulary) if arguments.vocabulary else None
    lines: list[str] = []
    outcomes: Counter[str] = Counter()
    facts = {
        "monster_failures": monster_failures(lines, vocabulary),
        "malformed_failures": malformed_failures(arguments.malformed, outcomes),
        "monsters": lines,
        "malformed": dict(outcomes.most_common()),
    }
    print(json.dumps(facts) if arguments.json else json.dumps(facts, indent=1))
    return 1 if facts["monster_failures"] or facts["malformed_failures"] else 0


if __name__ == "__main__":
    sys.exit(main())
