"""Decode speed as a share of how fast this machine reads the weights at all.

    python -m benchmarks.decode MODEL.sslm [--threads 1] [--tier auto] [--rounds 7] [--json]

Decode and a plain read of the artifact (NumPy's exclusive or over all of its 64-bit words) are
timed in turns, and medians compared: machines differ and neighbours come and go, the ratio stays.
The read is on one thread; compare it with a decode on one.
"""

import argparse
import json
import statistics
import time
from pathlib import Path

import numpy as np

from sslm.engine.model import Model

PROMPT = "The lighthouse keeper counted the boats and"
LONG_PROMPT = (PROMPT + " then ") * 16
STEPS = 32


def measure(path: Path, *, threads: int, tier: str, rounds: int) -> dict[str, object]:
    """Return medians in milliseconds and their ratio."""
    decode_ms, read_ms, prefill_ms = [], [], []
    with Model(path, threads=threads, tier=tier, context_tokens=256) as model:
        words = np.fromfile(path, dtype=np.uint64, count=path.stat().st_size // 8)
        for _ in range(rounds):
            started = time.perf_counter()
            np.bitwise_xor.reduce(words)
            read_ms.append((time.perf_counter() - started) * 1e3)
            prefill_ms.append(model.generate(LONG_PROMPT, max_tokens=1).usage.prefill_ms)
            usage = model.generate(PROMPT, max_tokens=STEPS).usage
            decode_ms.append(usage.decode_ms / (usage.completion_tokens - 1))
        prompt_tokens = len(model.tokenizer.encode(LONG_PROMPT))
        facts: dict[str, object] = {
            "tier": model.tier,
            "threads": threads,
            "artifact_bytes": words.nbytes,
        }
    decode, read = statistics.median(decode_ms), statistics.median(read_ms)
    return facts | {
        "decode_ms": round(decode, 3),
        "decode_tokens_per_s": round(1e3 / decode, 1),
        "read_ms": round(read, 3),
        "read_over_decode": round(read / decode, 2),
        "prefill_tokens_per_s": round(1e3 * prompt_tokens / statistics.median(prefill_ms), 1),
    }


def main() -> None:
    """Parse, measure, print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("model", type=Path)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--tier", default="auto")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    facts = measure(
        arguments.model, threads=arguments.threads, tier=arguments.tier, rounds=arguments.rounds
    )
    if arguments.json:
        print(json.dumps(facts))
        return
    for name, value in facts.items():
        print(f"{name:>22}  {value}")


if __name__ == "__main__":
    main()
