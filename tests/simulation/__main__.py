"""Random schedules of everything a sequence can be told, held to lone, plain runs.

Each schedule is made from a seed: a world (a tiny model, a backend, two pools of some pages), some
dozens of operations on it, and an end at which everything is let go. After each operation the
runtime is compared with the simulator's own model of it, and at the end every digest, choice and
counter with what the reference backend computes in another process, alone and in one piece.
"""

import argparse
import faulthandler
import json
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import nullcontext
from typing import Any

from tests.simulation.injections import INJECTIONS, injected
from tests.simulation.operations import Operation, Schedule
from tests.simulation.oracle import OracleProcess, Question
from tests.simulation.running import Played, Tally, judge, play_schedule, play_seed, settle
from tests.simulation.shrinking import shrunk

_GROUP = 25
"""Schedules that are run while the oracle looks at as many others."""

_EXAMPLE = """example:
  python -m tests.simulation --schedules 10000 --seed 1
  python -m tests.simulation --replay 4711        (the operations of one schedule)
"""


def main(words: Sequence[str] | None = None) -> int:
    """Run what the command line says; return 1 if a schedule failed."""
    arguments = _parser().parse_args(words)
    with (
        OracleProcess() as oracle,
        injected(arguments.inject) if arguments.inject else nullcontext(),
    ):
        if arguments.replay is not None:
            return _replay(arguments.replay, oracle)
        return _simulate(arguments, oracle)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        "python -m tests.simulation",
        description=__doc__,
        epilog=_EXAMPLE,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--schedules", type=int, default=200, metavar="N", help="how many (200)")
    parser.add_argument("--seed", type=int, default=1, help="of the first one; then one by one (1)")
    parser.add_argument("--replay", type=int, metavar="SEED", help="run one, and tell everything")
    parser.add_argument("--inject", choices=sorted(INJECTIONS), help="make this bug on purpose")
    parser.add_argument("--json", action="store_true", help="print the result as JSON")
    return parser


def _replay(seed: int, oracle: OracleProcess) -> int:
    def tell(operation: Operation, refusals: list[str]) -> None:
        refused = f"  -> {', '.join(refusals)}" if refusals else ""
        print(f"  {operation}{refused}")

    played = play_seed(seed, Tally(), tell)
    print(f"  ({played.schedule.world})")
    judge([played], oracle)
    print(f"seed {seed}: {played.wrong or 'as it is to be'}")
    return int(played.wrong is not None)


def _simulate(arguments: argparse.Namespace, oracle: OracleProcess) -> int:
    tally, began, done = Tally(), time.monotonic(), 0
    failed: Played | None = None
    for played in _groups(arguments, oracle, tally):
        done += len(played)
        failed = next((one for one in played if one.wrong is not None), None)
        _show_progress(done, arguments, time.monotonic() - began)
        if failed is not None:
            break
    seconds = time.monotonic() - began
    print(file=sys.stderr)
    result: dict[str, Any] = {
        "first_seed": arguments.seed,
        "schedules": done,
        "seconds": round(seconds, 1),
        "operations": dict(tally.operations.most_common()),
        "refusals": dict(tally.refusals.most_common()),
    }
    if failed is not None:
        result["failure"] = _explain(failed, arguments.inject, oracle)
    _print_result(result, is_json=arguments.json)
    return int(failed is not None)


def _groups(
    arguments: argparse.Namespace, oracle: OracleProcess, tally: Tally
) -> Iterator[list[Played]]:
    """Yield groups of judged schedules; the oracle works on one while the next one runs."""
    asked: tuple[list[Played], list[Played], list[list[Question]]] | None = None
    stop = arguments.seed + arguments.schedules
    for first in range(arguments.seed, stop, _GROUP):
        group = [play_seed(seed, tally) for seed in range(first, min(first + _GROUP, stop))]
        if asked is not None:
            settle(asked[1], asked[2], oracle)
            yield asked[0]
        waiting = [one for one in group if one.wrong is None]
        questions = [one.evidence.questions() for one in waiting]
        oracle.ask([question for some in questions for question in some])
        asked = group, waiting, questions
    if asked is not None:
        settle(asked[1], asked[2], oracle)
        yield asked[0]


def _show_progress(done: int, arguments: argparse.Namespace, seconds: float) -> None:
    seed, count = arguments.seed + done, arguments.schedules
    text = f"\r{done} of {count} schedules, {done / seconds:.0f} a second, next seed {seed}  "
    print(text, end="", file=sys.stderr, flush=True)


def _explain(failed: Played, bug: str | None, oracle: OracleProcess) -> dict[str, Any]:
    """Shrink a failure, and say how to see it again."""

    def wrong(schedule: Schedule) -> str | None:
        played = play_schedule(schedule, Tally())
        judge([played], oracle)
        return played.wrong

    schedule = failed.schedule
    least = shrunk(schedule, lambda one: wrong(one) is not None)
    with_bug = f" --inject {bug}" if bug else ""
    return {
        "seed": schedule.seed,
        "wrong": failed.wrong,
        "replay": f"python -m tests.simulation --replay {schedule.seed}{with_bug}",
        "world": str(schedule.world),
        "operations": [str(one) for one in least.operations],
        "wrong_of_these": wrong(least),
    }


def _print_result(result: dict[str, Any], *, is_json: bool) -> None:
    if is_json:
        print(json.dumps(result, indent=2))
        return
    for name in ("operations", "refusals"):
        counts = ", ".join(f"{kind} {count}" for kind, count in result[name].items())
        print(f"{name} ({sum(result[name].values())}): {counts}")
    failure = result.get("failure")
    if failure is None:
        print(f"{result['schedules']} schedules in {result['seconds']} s: all as they are to be")
        return
    print(f"seed {failure['seed']} fails: {failure['wrong']}")
    print(f"again with: {failure['replay']}")
    print(f"enough of it, in a world of {failure['world']}: {failure['wrong_of_these']}")
    for operation in failure["operations"]:
        print(f"  {operation}")


if __name__ == "__main__":
    faulthandler.enable()
    sys.exit(main())
