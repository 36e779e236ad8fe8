"""Run a model on every tier of the installed package, and print the digests as JSON.

    PYTHON tools/digest_check.py MODEL.sslm

Runs under the interpreter that has the package, which may be an emulated one.
"""

import argparse
import json
import platform
import sys

import sslm
from sslm.native_library import available_tiers, load_library

PROMPT = "Once upon a time"
MAX_TOKENS = 24


def main() -> None:
    """Verify the model's golden runs and answer one prompt, on each tier with 1 and 2 threads."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("model", metavar="MODEL.sslm")
    path = parser.parse_args().model
    digests = {}
    for tier in available_tiers():
        for threads in (1, 2):
            with sslm.load(path, backend="native", tier=tier, threads=threads) as model:
                if not model.verify().ok:
                    sys.exit(f"{tier}, {threads} threads: verify found a difference")
                answer = model.generate(PROMPT, max_tokens=MAX_TOKENS)
            digests[f"{tier} {threads}"] = answer.digest
    library = str(load_library().path)
    print(json.dumps({"machine": platform.machine(), "library": library, "digests": digests}))


if __name__ == "__main__":
    main()
