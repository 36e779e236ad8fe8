"""Rows a second when several are answered together, beside one after the other; prints a table.

    python -m benchmarks.batches MODEL.sslm --threads 1

For each size of a batch, the same rows are answered both ways in turn. Times are medians; CPU time
is that of the whole process. Exit 1 if an answer differs.
"""

import argparse
import statistics
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

from sslm.answering.results import Completion
from sslm.engine.model import Model

OPENINGS = (
    "The capital of France is",
    "Once upon a time there was",
    "A short list of rivers:",
    "def add(a, b):",
    "The weather today",
    "In the year 1900",
    "My favourite food",
    "Water boils at",
)


def measured(ask: Callable[[], list[Completion]]) -> tuple[float, float, list[Completion]]:
    """Return wall seconds, CPU seconds, and the answers."""
    wall, cpu = time.perf_counter(), time.process_time()
    answers = ask()
    return time.perf_counter() - wall, time.process_time() - cpu, answers


def main() -> int:
    """Measure, and print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("model", type=Path)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--rows", type=int, default=32)
    parser.add_argument("--max-tokens", type=int, default=24)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--sizes", type=int, nargs="+", default=[1, 2, 4, 8, 16, 32])
    given = parser.parse_args()
    count, most = given.rows, given.max_tokens
    prompts = [f"{OPENINGS[i % len(OPENINGS)]} {i}" for i in range(count)]
    is_same = True
    print(f"{count} rows of {most} tokens, {given.threads} threads; rows/s, CPU ms a row")
    print("size  alone        together      ratio of wall, of CPU")
    with Model(given.model, threads=given.threads) as model:
        for size in given.sizes:
            ways = (
                lambda: [model.generate(prompt, max_tokens=most) for prompt in prompts],
                partial(model.generate_many, prompts, max_tokens=most, batch_size=size),
            )
            rounds = [[measured(way) for way in ways] for _ in range(given.rounds)]
            # Seeds are told of greedy answers, too, and rows have their own.
            is_same = is_same and all(
                [(one.text, one.digest) for one in alone[2]]
                == [(one.text, one.digest) for one in together[2]]
                for alone, together in rounds
            )
            by_way = [[one[way] for one in rounds] for way in range(len(ways))]
            wall = [statistics.median(seconds for seconds, _, _ in taken) for taken in by_way]
            cpu = [statistics.median(seconds for _, seconds, _ in taken) for taken in by_way]
            told = [f"{count / wall[way]:5.1f} {1000 * cpu[way] / count:6.1f}" for way in range(2)]
            print(f"{size:4}  {'  '.join(told)}  {wall[0] / wall[1]:.2f} {cpu[0] / cpu[1]:.2f}")
    print("all answers are the same" if is_same else "AN ANSWER DIFFERS")
    return 0 if is_same else 1


if __name__ == "__main__":
    sys.exit(main())
