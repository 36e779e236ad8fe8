"""Compile the library for every machine that wheels are built for, with warnings as errors.

    python tools/compile_targets.py [--only TARGET]

Needs what `pip install -e '.[test]'` brings, and the network for pip. The pinned zig compiles each
object as for a wheel. Nothing is linked and nothing is run, so that all of it takes a minute on two
cores; `tools/build_wheels.py` does the rest. Exit 1 if a target does not compile.
"""

import argparse
import os
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parents[1]
for _folder in (ROOT, ROOT / "build_backend"):
    if str(_folder) not in sys.path:
        sys.path.insert(0, str(_folder))

from tools.wheel_build import BuildFailedError, Workshop  # noqa: E402
from tools.wheel_targets import TARGETS, Target  # noqa: E402


def main() -> int:
    """Compile all, print a line for each."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    names = [target.name for target in TARGETS]
    parser.add_argument("--only", action="append", choices=names, help="repeatable")
    only = parser.parse_args().only
    chosen = [target for target in TARGETS if only is None or target.name in only]
    with tempfile.TemporaryDirectory(prefix="sslm-objects-", ignore_cleanup_errors=True) as folder:
        workshop = Workshop(Path(folder).resolve())

        def outcome(target: Target) -> tuple[str, bool]:
            try:
                count = workshop.compile(ROOT, target)
            except BuildFailedError as error:
                return f"error: {error}", False
            return f"{target.name}: {count} objects, no warning", True

        try:
            workshop.prepare()
        except BuildFailedError as error:
            print(f"error: {error}", file=sys.stderr)
            return 1
        with ThreadPoolExecutor(os.cpu_count()) as pool:
            outcomes = list(pool.map(outcome, chosen))
    for text, is_good in outcomes:
        print(text, file=sys.stdout if is_good else sys.stderr)
    return 0 if all(is_good for _, is_good in outcomes) else 1


if __name__ == "__main__":
    sys.exit(main())
