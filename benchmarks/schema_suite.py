"""The schema compiler against the JSON Schema test suite; prints a table of files.

    python -m benchmarks.schema_suite [--only WORD] [--walks N] [--spacing WORD] [--json]

Every group of draft 2020-12 is compiled. Of each that compiles, every instance is spelled and must
be accepted exactly if it is valid; and random texts of its automaton must be valid for the
``jsonschema`` package. A schema that allows nothing must have no valid instance. The schemas in
tests/schemas, as pydantic, zod and OpenAI's strict mode write them, must all compile. Exit 1 if
anything is wrong, or if fewer than three fifths of the groups compile.
"""

import argparse
import json
import re
import sys
import time
from collections import Counter
from dataclasses import dataclass, field, replace
from decimal import Decimal
from pathlib import Path
from typing import Any, Final, get_args

# Run by its path or as a module, it finds the other folders of the checkout.
sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from tests.schema_oracle import Oracle
from tests.schema_suite import Group, groups, remotes
from tests.schema_walks import Walker

from sslm.errors.base import SslmError
from sslm.errors.schema import UnsatisfiableSchemaError
from sslm.schema.documents.options import SchemaOptions
from sslm.schema.regular.spacing import Spacing
from sslm.schema.schema_compiler import CompiledSchema, compile_schema

COMPILED_SHARE_MIN: Final = 0.6
SCHEMAS: Final = Path(__file__).parents[1] / "tests" / "schemas"

NO_ORACLE: Final = ("optional/ecmascript-regex.json", "optional/non-bmp-regex.json")
"""Files about patterns that Python's regular expressions, and so ``jsonschema``, read otherwise."""

WALK_STEPS: Final = 60


@dataclass
class Tally:
    """What came out."""

    groups: int = 0
    compiled: int = 0
    unsatisfiable: int = 0
    instances: int = 0
    walks: int = 0
    false_accepts: list[str] = field(default_factory=list)
    false_refusals: list[str] = field(default_factory=list)
    wrong_walks: list[str] = field(default_factory=list)
    refused: Counter[str] = field(default_factory=Counter)


def judge(group: Group, tally: Tally, walks: int) -> None:
    """Compile one group and add what came out to *tally*."""
    tally.groups += 1
    try:
        compiled = compile_schema(group.schema, group.options)
    except UnsatisfiableSchemaError:
        tally.unsatisfiable += 1
        compiled = None
    except SslmError as error:
        tally.refused[refusal(error)] += 1
        return
    tally.compiled += compiled is not None
    for test in group.tests:
        tally.instances += 1
        accepted = compiled is not None and compiled.allows(test["data"])
        if accepted != test["valid"]:
            wrong = tally.false_accepts if accepted else tally.false_refusals
            wrong.append(f"{group.file}: {group.description}: {test['description']}")
    if compiled is not None and group.file not in NO_ORACLE:
        oracle = Oracle(group.schema, remotes(), checks_formats=group.options.formats != "annotate")
        walk(f"{group.file}: {group.description}", compiled, oracle, tally, walks)


def walk(name: str, compiled: CompiledSchema, oracle: Oracle, tally: Tally, walks: int) -> None:
    """Let another implementation judge random texts."""
    walker = Walker(compiled.automaton, seed=walks)
    for _ in range(walks):
        tally.walks += 1
        text = walker.text(WALK_STEPS)
        try:
            is_valid = oracle.accepts(text)
        except re.error:
            # A pattern that Python does not know: nothing to compare with.
            return
        except ValueError:
            is_valid = False
        if not is_valid:
            tally.wrong_walks.append(f"{name}: {text!r}")


def refusal(error: SslmError) -> str:
    """Return the cause of a refusal in a few words."""
    keyword = error.facts().get("keyword")
    return error.cause + (f" {keyword}" if keyword else "")


def judge_schemas(tally: Tally, walks: int, options: SchemaOptions) -> dict[str, str]:
    """Compile the schemas of the libraries; return those that do not, with the reason."""
    failures = {}
    for path in sorted(SCHEMAS.glob("*.json")):
        source = path.read_bytes()
        try:
            compiled = compile_schema(source, options)
        except SslmError as error:
            failures[path.name] = str(error)
            continue
        oracle = Oracle(json.loads(source, parse_float=Decimal), {}, checks_formats=True)
        walk(path.name, compiled, oracle, tally, walks)
    return failures


def main() -> int:
    """Print the table and return the exit code."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--only", default="", help="only files with this in their name")
    parser.add_argument("--walks", type=int, default=20, help="random texts of each schema")
    parser.add_argument(
        "--spacing", choices=get_args(Spacing), default="compact", help="white space in texts"
    )
    parser.add_argument("--json", action="store_true", help="print JSON")
    arguments = parser.parse_args()
    started = time.perf_counter()
    by_file: dict[str, Tally] = {}
    for group in groups():
        if arguments.only not in group.file:
            continue
        if group.file not in by_file and not arguments.json:
            print(f"{time.perf_counter() - started:6.1f} s  {group.file}", file=sys.stderr)
        options = replace(group.options, spacing=arguments.spacing)
        spaced = replace(group, options=options)
        judge(spaced, by_file.setdefault(group.file, Tally()), arguments.walks)
    schemas = Tally()
    facts = totals([*by_file.values(), schemas])
    options = SchemaOptions(spacing=arguments.spacing)
    facts["schemas_refused"] = judge_schemas(schemas, arguments.walks, options)
    facts |= totals([*by_file.values(), schemas])
    facts["seconds"] = round(time.perf_counter() - started, 1)
    facts["files"] = {file: row(tally) for file, tally in by_file.items()}
    show(facts, as_json=arguments.json)
    return 0 if is_right(facts) else 1


def totals(tallies: list[Tally]) -> dict[str, Any]:
    """Return the sums over all files."""
    count = sum(tally.groups for tally in tallies)
    compiled = sum(tally.compiled for tally in tallies)
    refused: Counter[str] = Counter()
    for tally in tallies:
        refused += tally.refused
    return {
        "groups": count,
        "compiled": compiled,
        "unsatisfiable": sum(tally.unsatisfiable for tally in tallies),
        "compiled_share": round(compiled / max(1, count), 4),
        "instances": sum(tally.instances for tally in tallies),
        "false_accepts": [name for tally in tallies for name in tally.false_accepts],
        "false_refusals": [name for tally in tallies for name in tally.false_refusals],
        "walks": sum(tally.walks for tally in tallies),
        "wrong_walks": [name for tally in tallies for name in tally.wrong_walks],
        "refused": dict(refused.most_common()),
    }


def row(tally: Tally) -> dict[str, Any]:
    """Return what is shown of one file."""
    return {
        "groups": tally.groups,
        "compiled": tally.compiled,
        "unsatisfiable": tally.unsatisfiable,
        "false_accepts": len(tally.false_accepts),
        "false_refusals": len(tally.false_refusals),
        "refused": dict(tally.refused),
    }


def is_right(facts: dict[str, Any]) -> bool:
    """Tell whether everything is as it must be."""
    wrong = ("false_accepts", "false_refusals", "wrong_walks", "schemas_refused")
    return facts["compiled_share"] >= COMPILED_SHARE_MIN and not any(facts[name] for name in wrong)


def show(facts: dict[str, Any], *, as_json: bool) -> None:
    """Print the result: counts in JSON, where the lists have names of their own."""
    if as_json:
        lists = {name: facts[name] for name in ("false_accepts", "false_refusals")}
        counts = {name: len(found) for name, found in lists.items()}
        print(json.dumps(facts | counts | {f"{n}_found": found for n, found in lists.items()}))
        return
    for file, found in facts.pop("files").items():
        print(f"{file:<45} {json.dumps(found)}")
    for name, value in facts.items():
        print(f"{name:<20} {json.dumps(value, indent=1)}")


if __name__ == "__main__":
    sys.exit(main())
