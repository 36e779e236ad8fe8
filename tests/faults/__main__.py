"""Let the n-th allocation, write, fsync, rename, lock, open or read of calls fail, one at a time.

Each case makes a call in a process of its own kind, with one fault in it: the call gives the right
result, or a MemoryError, or an error of the package with its status number. What it leaves is
looked at, and the same call must then give the right result. Exit 1 if any of that does not hold.
Cases that a dependency or CPython itself spoils are listed by call and n, and do not count.
"""

import argparse
import json
import sys
import tempfile
import time
from pathlib import Path

from tests.faults.calls import CALLS
from tests.faults.shim import KINDS, build, is_supported
from tests.faults.sweep import Case, Part, prepared, sweep

_EXAMPLE = """example:
  python -m tests.faults --cases 40
  python -m tests.faults --call session --kind allocation --stride 1
"""


def main(words: list[str] | None = None) -> int:
    """Run what the command line says; return 1 if a case is not as it should be."""
    arguments = _parser().parse_args(words)
    if not is_supported():
        print("needs Linux with the GNU C library, and a C compiler called cc", file=sys.stderr)
        return 2
    began = time.monotonic()
    cases: list[Case] = []
    with tempfile.TemporaryDirectory(prefix="sslm-faults-") as name:
        folder = Path(name)
        library, files = build(folder), prepared(folder / "files")
        for call in arguments.call or list(CALLS):
            parts = [
                Part(
                    call=call,
                    kind=kind,
                    start=arguments.start,
                    stride=arguments.stride,
                    cases=arguments.cases,
                    length=arguments.length,
                )
                for kind in arguments.kind or KINDS
            ]
            found = sweep(parts, library, files, folder / "work")
            cases += found
            if not arguments.json:
                for kind in KINDS:
                    _show([case for case in found if case.kind == kind], arguments.verbose)
    bad = [case for case in cases if case.is_bad]
    excused = [case for case in cases if case.is_excused]
    if arguments.json:
        print(json.dumps([case.facts() for case in cases], indent=1))
    else:
        print(
            f"{len(cases)} cases in {time.monotonic() - began:.0f} s: {len(bad)} bad, "
            f"{len(excused)} in code of others"
        )
    return int(bool(bad))


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        "python -m tests.faults",
        description=__doc__,
        epilog=_EXAMPLE,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--call", action="append", choices=list(CALLS), help="these alone (all)")
    parser.add_argument("--kind", action="append", choices=KINDS, help="these alone (all)")
    parser.add_argument("--start", type=int, default=0, metavar="N", help="the first to fail (0)")
    parser.add_argument(
        "--stride",
        type=int,
        default=0,
        metavar="N",
        help="how far apart they are; 0 spreads --cases evenly (0)",
    )
    parser.add_argument(
        "--cases", type=int, default=1 << 30, metavar="N", help="most of each call and kind (all)"
    )
    parser.add_argument(
        "--length", type=int, default=1, metavar="N", help="how many fail in a row (1)"
    )
    parser.add_argument("--json", action="store_true", help="print every case as JSON")
    parser.add_argument("--verbose", action="store_true", help="tell where each came from")
    return parser


def _show(cases: list[Case], is_whole: bool) -> None:
    if not cases:
        return
    counts: dict[str, list[Case]] = {}
    for case in cases:
        counts.setdefault(case.outcome.partition("\n")[0], []).append(case)
    print(f"{cases[0].call}, {cases[0].kind}: {len(cases)} of {cases[0].count}")
    for outcome, some in sorted(counts.items(), key=lambda item: -len(item[1])):
        print(f"  {len(some):5} {outcome}")
        if some[0].is_bad or some[0].is_excused or is_whole:
            for case in some[: 5 if not is_whole else 1000]:
                print(f"        n={case.n} {case.where if is_whole else case.where[:300]}")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
