"""Decode speed as a share of how fast this machine reads the weights at all.

    python -m benchmarks.decode MODEL.sslm [--threads 1] [--tier auto] [--rounds 7] [--json]

Decode and a plain search through the artifact's bytes (libc's memchr, which reads each once) are
timed in turns on the same thread, and medians compared: machines differ and neighbours come and go,
the ratio stays.
"""

import argparse
import json
import statistics
import time
from pathlib import Path

from sslm.engine.model import Model

PROMPT = "The lighthouse keeper counted the boats and"
LONG_PROMPT = (PROMPT + " then ") * 16
STEPS = 32


def measure(path: Path, *, threads: int, tier: str, rounds: int) -> dict[str, object]:
    """Return medians in milliseconds and their ratio."""
    decode_ms, read_ms, prefill_ms = [], [], []
    with Model(path, threads=threads, tier=tier, context_tokens=256) as model:
        data = path.read_bytes()
        for _ in range(rounds):
            started = time.perf_counter()
            hits = _read_through(data)
            read_ms.append((time.perf_counter() - started) * 1e3)
            prefill_ms.append(model.generate(LONG_PROMPT, max_tokens=1).usage.prefill_ms)
            usage = model.generate(PROMPT, max_tokens=STEPS).usage
            decode_ms.append(usage.decode_ms / (usage.completion_tokens - 1))
        prompt_tokens = len(model.tokenizer.encode(LONG_PROMPT))
        facts: dict[str, object] = {
            "tier": model.tier,
            "threads": threads,
            "artifact_bytes": len(data),
            "search_hits": hits,
        }
    decode, read = statistics.median(decode_ms), statistics.median(read_ms)
    return facts | {
        "decode_ms": round(decode, 3),
        "decode_tokens_per_s": round(1e3 / decode, 1),
        "read_ms": round(read, 3),
        "decode_over_read": round(decode / read, 2),
        "prefill_tokens_per_s": round(1e3 * prompt_tokens / statistics.median(prefill_ms), 1),
    }


def _read_through(data: bytes) -> int:
    """Search for a byte that no weight code has, and so read everything; return the hits."""
    hits, place = 0, data.find(b"\x80")
    while place >= 0:
        hits, place = hits + 1, data.find(b"\x80", place + 1)
    return hits


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
