"""Run pytest with clocks that run RATE times as fast.

    python -m tests.paced RATE [OPTIONS OF PYTEST]

Every clock is meant, also those of the native library and of the processes that tests start: a
library is preloaded into all of them. With 10, all work seems to take ten times as long, with 0.1
a tenth. No verdict may change. Needs Linux with glibc, and a C compiler.
"""

import argparse
import os
import subprocess
import sys
import tempfile
from pathlib import Path


def main() -> int:
    """Build the library, run the tests under it, and return pytest's exit code."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("rate", metavar="RATE", help="a number above 0")
    parser.add_argument("options", nargs=argparse.REMAINDER, metavar="OPTIONS OF PYTEST")
    arguments = parser.parse_args()
    rate, options = arguments.rate, arguments.options
    if float(rate) <= 0:
        raise SystemExit(f"RATE is {rate}, expected a number above 0")
    with tempfile.TemporaryDirectory() as folder:
        library = Path(folder) / "clocks.so"
        source = Path(__file__).with_name("clocks.c")
        compiler = os.environ.get("CC", "cc")
        subprocess.run(
            [compiler, "-shared", "-fPIC", "-O2", "-o", library, source, "-ldl"], check=True
        )
        preloaded = {"LD_PRELOAD": str(library), "SSLM_TEST_CLOCK_RATE": rate}
        command = [sys.executable, "-m", "pytest", *options]
        return subprocess.run(command, env=os.environ | preloaded, check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
