"""Threads and interrupts on the objects of the runtime, for as long as asked.

    python -X dev -m benchmarks.thread_stress [--seconds 60] [--seed 1]

Pages are taken and given back by several threads. On each backend: sequences of one pool by several
threads, one by all of them, prefixes that are released while others adopt them, models that are
closed in the middle of requests, signals at random moments. Whatever is computed is compared with
what lone sequences answer; in the end all pages are free. The first thing that is wrong is raised;
a thread that hangs is, too.
"""

import argparse
import faulthandler
import sys
import time
from pathlib import Path

# Run by its path or as a module, it finds the other folders of the checkout.
sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from tests.stress import (
    Stand,
    different_sequences,
    interrupts,
    models_that_close,
    one_sequence,
    pages_alone,
    released_prefixes,
)

LENGTHS = {"native": (3, 64, 70, 130), "reference": (2, 5, 66)}


def main() -> int:
    """Run all kinds of work; return 0, or raise."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    faulthandler.dump_traceback_later(options.seconds * 10 + 120, exit=True)
    kinds = (different_sequences, one_sequence, released_prefixes, interrupts)
    share = options.seconds / (2 * len(kinds) + 2)
    started = time.monotonic()
    for backend, lengths in LENGTHS.items():
        stand = Stand(backend, lengths=lengths)
        for kind in kinds:
            count = kind(stand, share, options.seed)
            stand.require_rest()
            print(f"{backend:<10} {kind.__name__:<20} {count:>8}", flush=True)
        stand.pool.close()
        stand.runner.close()
    print(f"{'':<10} {'pages_alone':<20} {pages_alone(share, options.seed):>8}")
    print(f"{'':<10} {'models_that_close':<20} {models_that_close(share, options.seed):>8}")
    print(f"nothing wrong in {time.monotonic() - started:.0f} s")
    return 0


if __name__ == "__main__":
    sys.exit(main())
