"""What the digests of every position cost, as a share of a step.

    python -m benchmarks.digests MODEL.sslm [--tier auto] [--repetitions 20] [--json]

Two steps are measured on one thread: decode of a token, and a chunk of 64 rows of a prompt. The
plan tells how much of a step it spends on digests, and the links of the chain, which Python makes,
are timed alone. Beside it stands what the same bytes cost with either variant of SHA-256 alone,
since a CPU may lack the instructions for it. Of times the shortest counts, of steps the CPU's:
neighbours add to a time, and never take from it. Exit 1 if the share is above 1 %.
"""

import argparse
import json
import sys
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path

from sslm.artifact import Artifact, read_artifact
from sslm.bench.cases import Case
from sslm.bench.measuring import Bench, bench
from sslm.bench.workload import Workload, workload
from sslm.native_library import borrow, cpu_features, load_library
from sslm.numerics.digests import next_link
from sslm.program.program import Program
from sslm.program.spans import CHUNK_ROWS_MAX

SHARE_MAX = 0.01
DEPTH = 64
"""Tokens that are there before: some context, but not so much that digests seem cheap."""
LONG_SIZE_BYTES = 1 << 22
CASES = (
    Case(kind="generation", tokens=1, depth=DEPTH),
    Case(kind="prompt", tokens=CHUNK_ROWS_MAX, depth=DEPTH),
)


@dataclass(frozen=True, kw_only=True)
class Share:
    """What digests cost in one kind of step.

    Args:
        step: Which: ``tg1 @ d64`` or ``pp64 @ d64``.
        step_us: Microseconds of the whole step.
        digests_us: Of those, what the plan spends on digests.
        links_us: And what linking them costs.
        digest_bytes: Bytes that are hashed for one position.
        alone_us: Microseconds to hash the step's bytes with the variant that this CPU takes.
        portable_us: The same in portable C.
        share: Of the step, digests and links together.
        portable_share: The same, were the instructions missing and nothing else slower.
    """

    step: str
    step_us: float
    digests_us: float
    links_us: float
    digest_bytes: int
    alone_us: float
    portable_us: float
    share: float
    portable_share: float


def digest_size_bytes(program: Program) -> int:
    """Return how many bytes are hashed for a position after the last layer."""
    size_bytes = 4 + 4 + 8 + 4 * program.residual.width
    for state in program.states:
        if state.segment_index != program.first_head_index - 1:
            continue
        codes = state.head_count * state.head_dim
        size_bytes += 2 * codes + state.head_count if state.is_paged else 4 * codes
    return size_bytes


def shortest_us(action: Callable[[], object], repetitions: int) -> float:
    """Time an action and return the shortest in microseconds."""
    found = []
    for _ in range(repetitions):
        started = time.process_time_ns()
        action()
        found.append(time.process_time_ns() - started)
    return min(found) / 1e3


def hash_us(size_bytes: int, *, portable: bool, repetitions: int) -> float:
    """Return the microseconds that hashing a message of so many bytes takes.

    A long message is timed: each call asks what the CPU can do, which takes longer on a virtual
    machine than the hash of a short one.
    """
    library = load_library()
    message, view = borrow(library.ffi, "uint8_t *", bytes(LONG_SIZE_BYTES))
    digest = library.ffi.new("uint8_t[32]")

    def hash_long() -> None:
        library.lib.sslm_native_sha256(message, LONG_SIZE_BYTES, portable, digest)

    with view:
        long_us = shortest_us(hash_long, repetitions)
    # A message takes whole blocks of 64 bytes, with nine bytes at its end.
    return long_us * -(-(size_bytes + 9) // 64) * 64 / LONG_SIZE_BYTES


def links_us(count: int, repetitions: int) -> float:
    """Return the microseconds that *count* links of a chain take."""

    def link_all() -> None:
        link = bytes(32)
        for token_id in range(count):
            link = next_link(link, token_id, link)

    return shortest_us(link_all, repetitions)


def timed_step(one: Bench, work: Workload) -> tuple[int, int]:
    """Do a step; return its nanoseconds, and those of the plan's digests."""
    with one.timed() as timings:
        started = time.process_time_ns()
        work.repeat()
        step_ns = time.process_time_ns() - started
    return step_ns, timings.by_kind()["digests"]


def share_of(one: Bench, case: Case, repetitions: int) -> Share:
    """Measure one kind of step."""
    size_bytes = digest_size_bytes(one.runner.program)
    with workload(one.runner, case) as work:
        work.repeat()
        found = [timed_step(one, work) for _ in range(repetitions)]
    step_us, digests_us = (min(times) / 1e3 for times in zip(*found, strict=True))
    linking_us = links_us(case.tokens, repetitions)
    alone_us, portable_us = (
        case.tokens * hash_us(size_bytes, portable=portable, repetitions=repetitions)
        for portable in (False, True)
    )
    slower_us = portable_us - alone_us
    cost_us = digests_us + linking_us
    return Share(
        step=case.name,
        step_us=step_us,
        digests_us=digests_us,
        links_us=linking_us,
        digest_bytes=size_bytes,
        alone_us=alone_us,
        portable_us=portable_us,
        share=cost_us / step_us,
        portable_share=(cost_us + slower_us) / (step_us + slower_us),
    )


def shares(artifact: Artifact, *, tier: str, repetitions: int) -> list[Share]:
    """Measure every kind of step on one thread of a tier."""
    with bench(artifact, CASES, tier=tier) as one:
        return [share_of(one, case, repetitions) for case in CASES]


def parsed() -> argparse.Namespace:
    """Return the command line's arguments."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.digests", description=__doc__)
    parser.add_argument("model", type=Path)
    parser.add_argument("--tier", default="auto")
    parser.add_argument("--repetitions", type=int, default=20)
    parser.add_argument("--json", action="store_true")
    return parser.parse_args()


def main() -> int:
    """Measure, print, and return the exit status."""
    arguments = parsed()
    with read_artifact(arguments.model) as artifact:
        found = shares(artifact, tier=arguments.tier, repetitions=arguments.repetitions)
    has_instructions = "sha" in cpu_features()
    if arguments.json:
        rows = [asdict(one) for one in found]
        print(json.dumps({"has_sha_instructions": has_instructions, "steps": rows}))
    else:
        for one in found:
            print(
                f"{one.step:10} {one.step_us:9.0f} µs: digests {one.digests_us:.1f}, "
                f"links {one.links_us:.1f}, {one.share:.3%}; hashing alone {one.alone_us:.1f}, "
                f"in portable C {one.portable_us:.1f}, {one.portable_share:.3%}"
            )
    return int(any(one.share > SHARE_MAX for one in found))


if __name__ == "__main__":
    sys.exit(main())
