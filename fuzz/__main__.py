"""``python -m fuzz TARGET``: search for inputs that do harm.

Exit 1 if there are any, or if no input came as far as sound ones do.
"""

import argparse
import json
import sys
import time
from pathlib import Path
from typing import Any, Final

from fuzz.campaign import Places, Summary, lines_reached, replay, run_campaign
from fuzz.report import coverage_lines, facts_of, progress_line, summary_text
from fuzz.target import Target
from fuzz.targets import NAMES, load_target

_FOLDER: Final = Path("build/fuzz")
_PROGRESS_EVERY_S: Final = 30


def main(arguments: list[str]) -> int:
    """Run the command; return its exit code."""
    parser = argparse.ArgumentParser(prog="python -m fuzz", description=__doc__)
    parser.add_argument("target", nargs="?", choices=NAMES, metavar="TARGET")
    parser.add_argument("--list", action="store_true", help="name the targets")
    parser.add_argument("--seconds", type=int, default=3600, help="how long to search")
    parser.add_argument("--jobs", type=int, default=1, help="processes that search together")
    parser.add_argument("--corpus", type=Path, help=f"default {_FOLDER}/corpus/TARGET")
    parser.add_argument("--findings", type=Path, help=f"default {_FOLDER}/findings/TARGET")
    parser.add_argument("--json", action="store_true", help="print the summary as JSON")
    parser.add_argument("--replay", nargs="+", type=Path, metavar="FILE", help="run these inputs")
    parser.add_argument("--lines", action="store_true", help="say what the corpus reaches")
    options = parser.parse_args(arguments)
    if options.list:
        for name in NAMES:
            print(f"{name:<14} {load_target(name).subject}")
        return 0
    if options.target is None:
        parser.error("name a target, or --list them")
    target = load_target(options.target)
    places = Places(
        corpus=options.corpus or _FOLDER / "corpus" / target.name,
        findings=options.findings or _FOLDER / "findings" / target.name,
    )
    if options.replay:
        return _replay(target, options.replay, is_json=options.json)
    if options.lines:
        return _lines(target, places, is_json=options.json)
    progress = _Progress()
    summary = run_campaign(
        target, places, seconds=options.seconds, jobs=options.jobs, on_progress=progress.show
    )
    print(json.dumps(facts_of(summary)) if options.json else summary_text(summary))
    return 1 if summary.findings or summary.missed else 0


class _Progress:
    """A line on stderr now and then."""

    def __init__(self) -> None:
        self._shown = time.monotonic()

    def show(self, summary: Summary) -> None:
        """Show how far the search is, if it is time."""
        if time.monotonic() - self._shown >= _PROGRESS_EVERY_S:
            print(progress_line(summary), file=sys.stderr, flush=True)
            self._shown = time.monotonic()


def _replay(target: Target, paths: list[Path], *, is_json: bool) -> int:
    found = replay(target, paths)
    if is_json:
        print(json.dumps(found))
    else:
        for one in found:
            print(_replayed_text(one))
    return 1 if any(one["findings"] for one in found) else 0


def _replayed_text(facts: dict[str, Any]) -> str:
    took = ""
    if "seconds" in facts:
        took = f"{facts['seconds']} s, {facts['growth_bytes'] / (1 << 20):.1f} MiB, "
    ends = ", ".join(facts["outcomes"]) or "nothing"
    stories = "".join(f"\n{one['kind']}: {one['story']}" for one in facts["findings"])
    return f"{facts['input']}: {took}{ends}{stories}"


def _lines(target: Target, places: Places, *, is_json: bool) -> int:
    facts = lines_reached(target, places.corpus)
    if is_json:
        print(json.dumps(facts))
        return 0
    print("\n".join(coverage_lines(facts)))
    for name, one in facts["modules"].items():
        print(f"{name} misses {', '.join(one['missed']) or 'nothing'}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
