"""What recording a request costs, and how large records are.

    python -m benchmarks.records MODEL.sslm [--prompt-tokens 128] [--tokens 32] [--repetitions 8]

The same request is answered unrecorded, recorded, and recorded with digests of segments, in turns;
of each the processor time of the fastest answer, and of the fastest prompt and token. One thread.
"""

import argparse
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import sslm

_WAYS: dict[str, dict[str, Any]] = {
    "unrecorded": {},
    "recorded": {"record_segments": False},
    "with segments": {"record_segments": True},
}


def answer_times(
    model: "sslm.Model", prompt: list[int], count: int, options: dict[str, Any]
) -> tuple[int, int]:
    """Return the nanoseconds of processor time until the first token, and from there to the end."""
    started = time.process_time_ns()
    with model.stream(prompt, max_tokens=count, **options) as stream:
        next(stream)
        first = time.process_time_ns()
        stream.read()
    return first - started, time.process_time_ns() - first


def main() -> int:
    """Print a line for each way."""
    parser = argparse.ArgumentParser(description=str(__doc__).partition("\n")[0])
    parser.add_argument("model")
    parser.add_argument("--prompt-tokens", type=int, default=128)
    parser.add_argument("--tokens", type=int, default=32)
    parser.add_argument("--repetitions", type=int, default=8)
    arguments = parser.parse_args()
    best: dict[str, list[int]] = {}
    sizes: dict[str, int] = {}
    with tempfile.TemporaryDirectory() as folder, sslm.load(arguments.model) as model:
        prompt = [index % 97 + 3 for index in range(arguments.prompt_tokens)]
        path = Path(folder) / "run.sslmr"
        for _ in range(arguments.repetitions):
            for name, options in _WAYS.items():
                given = {"record": path, **options} if options else {}
                times = answer_times(model, prompt, arguments.tokens, given)
                best[name] = [min(pair) for pair in zip(best.get(name, times), times, strict=True)]
                sizes[name] = path.stat().st_size if given else 0
    plain = best["unrecorded"]
    for name, (prefill, decode) in best.items():
        token = decode / (arguments.tokens - 1) / 1e6
        extra = [100 * (prefill / plain[0] - 1), 100 * (decode / plain[1] - 1)]
        print(
            f"{name:14} prompt {prefill / 1e6:8.2f} ms ({extra[0]:+5.1f} %)  token {token:8.3f} ms "
            f"({extra[1]:+5.1f} %)  {sizes[name]} bytes"
        )
    return 0


if __name__ == "__main__":
    sys.exit(main())
