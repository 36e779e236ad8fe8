"""Record what commands and calls do, or compare it with the recording; no test run does either.

    python -m tests.corpus compare
    python -m tests.corpus record

``compare`` prints each difference and ends with 1 if there is one. ``record`` replaces the
recording: only where a difference is intended, and the changelog tells it.
"""

import argparse
import difflib
import json
import sys
import tempfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Final

from tests.corpus.calls import all_calls, outcome_of
from tests.corpus.commands import Case, all_cases
from tests.corpus.inputs import make_inputs
from tests.corpus.running import run_case

_RECORDED: Final = Path(__file__).with_name("recorded")
_WORKERS: Final = 2


def _commands(inputs: Path, folder: Path) -> Iterator[dict[str, Any]]:
    cases = all_cases()

    def run(numbered: tuple[int, Case]) -> list[dict[str, Any]]:
        index, case = numbered
        return run_case(case, inputs, folder / f"case{index}")

    with ThreadPoolExecutor(_WORKERS) as executor:
        for done, results in enumerate(executor.map(run, enumerate(cases)), 1):
            print(f"\rcommands: case {done} of {len(cases)}", end="", file=sys.stderr)
            yield from results
    print(file=sys.stderr)


def _calls(inputs: Path) -> Iterator[dict[str, Any]]:
    for done, (name, call) in enumerate(all_calls(inputs), 1):
        print(f"\rcalls: {done}", end="", file=sys.stderr)
        yield {"call": name, "outcome": outcome_of(call, inputs)}
    print(file=sys.stderr)


def _lines(found: dict[str, Any]) -> list[str]:
    return json.dumps(found, indent=1, ensure_ascii=False, sort_keys=True).splitlines()


def main() -> int:
    """Do what the command line says."""
    parser = argparse.ArgumentParser(
        prog="python -m tests.corpus", description=__doc__.partition("\n")[0]
    )
    parser.add_argument("verb", choices=["compare", "record"])
    parser.add_argument("--only", choices=["commands", "calls"], help="a part of it")
    arguments = parser.parse_args()
    differences = 0
    with tempfile.TemporaryDirectory(prefix="sslm-corpus-") as name:
        inputs = Path(name, "inputs")
        make_inputs(inputs)
        for part in ("commands", "calls"):
            if arguments.only not in {None, part}:
                continue
            found = _commands(inputs, Path(name)) if part == "commands" else _calls(inputs)
            path = _RECORDED / f"{part}.jsonl"
            if arguments.verb == "record":
                lines = [json.dumps(one, ensure_ascii=False, sort_keys=True) for one in found]
                path.parent.mkdir(exist_ok=True)
                path.write_text("\n".join(lines) + "\n", encoding="utf-8")
                print(f"{part}: {len(lines)} recorded")
                continue
            recorded = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
            results = list(found)
            for before, after in zip(recorded, results, strict=True):
                if before != after:
                    differences += 1
                    print(
                        *difflib.unified_diff(_lines(before), _lines(after), n=3, lineterm=""),
                        sep="\n",
                    )
            print(f"{part}: {len(results)} compared")
    if arguments.verb == "compare":
        print(f"{differences} differ")
    return 1 if differences else 0


if __name__ == "__main__":
    sys.exit(main())
