"""How large saves are and how long they take, by the tokens held; prints a table.

    python -m benchmarks.saves MODEL.sslm [--tokens 64,512,2000] [--context 4096] [--repeat 15]
                               [--json]

A sequence of a large context takes in so many tokens, and is saved and restored. Of times the
shortest counts: neighbours add to one, and never take from it. What is restored must save to the
same bytes. The hash, the check of every code, and copies are parts of it. Saves of ids alone are
restored by computing the tokens again, so that only what it takes to read them is told.
"""

import argparse
import json
import sys
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path

# Run by its path or as a module, it finds the other folders of the checkout.
sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks.decode_steps import Steps
from sslm.artifact import read_artifact
from sslm.opening.runner import build_program
from sslm.runtime.saves.saving import restore, save
from sslm.runtime.sequences.kv_pool import KvPool, page_count_for
from sslm.runtime.sequences.options import SequenceOptions
from sslm.runtime.sequences.sequence import Sequence

_MODEL_ID = bytes(32)


@dataclass(frozen=True, kw_only=True)
class Measured:
    """Sizes in bytes and times in milliseconds, for one count of tokens."""

    tokens: int
    save_bytes: int
    save_ms: float
    restore_ms: float
    restore_into_new_pages_ms: float
    ids_bytes: int
    ids_save_ms: float
    ids_restore_ms: float


def measured(sequence: Sequence, *, repeat: int) -> Measured:
    """Save and restore a sequence again and again."""
    program, options = sequence.program, sequence.options
    blob, ids = save(sequence), save(sequence, kv=False)
    pool = _new_pool(sequence)

    def restored(content: bytes, where: KvPool) -> None:
        with restore(content, program, where, _MODEL_ID, options) as other:
            if save(other, kv=content is blob) != content:
                raise AssertionError("what was restored is not what was saved")

    restored(blob, pool)
    restored(ids, pool)
    return Measured(
        tokens=len(sequence.token_ids),
        save_bytes=len(blob),
        save_ms=_shortest_ms(lambda: save(sequence), repeat),
        restore_ms=_shortest_ms(lambda: _restore(sequence, blob, pool), repeat),
        restore_into_new_pages_ms=_shortest_ms(
            lambda: _restore(sequence, blob, _new_pool(sequence)), repeat
        ),
        ids_bytes=len(ids),
        ids_save_ms=_shortest_ms(lambda: save(sequence, kv=False), repeat),
        ids_restore_ms=_shortest_ms(lambda: _restore(sequence, ids, pool), repeat),
    )


def _new_pool(sequence: Sequence) -> KvPool:
    return KvPool(sequence.program.state_layout, page_count_for(sequence.options.context_tokens))


def _restore(sequence: Sequence, blob: bytes, pool: KvPool) -> None:
    restore(blob, sequence.program, pool, _MODEL_ID, sequence.options).close()


def _shortest_ms(action: Callable[[], object], repeat: int) -> float:
    times = []
    for _ in range(repeat):
        started = time.perf_counter_ns()
        action()
        times.append(time.perf_counter_ns() - started)
    return min(times) / 1e6


def main() -> int:
    """Measure every count of tokens; return the exit status."""
    parser = argparse.ArgumentParser(description=str(__doc__).partition("\n")[0])
    parser.add_argument("model", help="an .sslm file")
    parser.add_argument("--tokens", default="64,512,2000", help="counts of tokens held")
    parser.add_argument("--context", type=int, default=4096, help="tokens of the context")
    parser.add_argument("--repeat", type=int, default=15, help="times that each is measured")
    parser.add_argument("--json", action="store_true", help="print one JSON document")
    arguments = parser.parse_args()
    counts = [int(text) for text in arguments.tokens.split(",")]
    with read_artifact(arguments.model) as artifact:
        program = build_program(artifact)
        longest = min(arguments.context, program.max_position_embeddings)
        options = SequenceOptions(context_tokens=longest, reserved_tokens=0)
        with Steps(
            program, artifact.tensors, tier="auto", threads=1, context_tokens=longest
        ) as steps:
            results = []
            for count in counts:
                pool = KvPool(program.state_layout, page_count_for(longest))
                with Sequence(program, pool, _MODEL_ID, options) as sequence:
                    steps.take_in(sequence, count)
                    results.append(measured(sequence, repeat=arguments.repeat))
    if arguments.json:
        print(json.dumps([asdict(result) for result in results], indent=1))
        return 0
    print(f"context {longest}; one page of 64 tokens {program.state_layout.page_size_bytes} bytes")
    print("tokens      bytes   save ms  restore ms  new pages   ids: bytes  save ms  restore ms")
    for one in results:
        print(
            f"{one.tokens:6} {one.save_bytes:10} {one.save_ms:9.2f} {one.restore_ms:11.2f} "
            f"{one.restore_into_new_pages_ms:10.2f} {one.ids_bytes:12} {one.ids_save_ms:8.3f} "
            f"{one.ids_restore_ms:11.3f}"
        )
    return 0


if __name__ == "__main__":
    sys.exit(main())
