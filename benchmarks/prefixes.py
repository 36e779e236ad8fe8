"""What many sequences on one prefix cost, and that each answers as if it were alone.

    python -m benchmarks.prefixes -m MODEL.sslm [--tokens 512,500] [--sequences 60] [--json]

For each length, in a process of its own: a prefix is computed once and frozen; sequences are made
and adopt it, each on its own clock; each takes in a question and answers; then the prefix is
released and each answers once more. Pages held must be those of the prefix once and those of each
tail, to the byte, and every chain of digests that of a sequence which had pages of its own and
computed everything. Then the same with a prefix on top of that one. Times are those of the CPU.
Exit 1 if anything differs, or if adopting takes longer than 0.2 ms where no page has to be copied.
With a page to copy, the time is that of the copy, and of the system's giving that page if it was
never used before; so each sequence is reset and adopts again, into a page that was.
"""

import argparse
import json
import resource
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median
from typing import Any

from sslm.artifact import read_artifact
from sslm.opening.runner import ALL_UNITS, build_program, open_backend
from sslm.program.plan import Plan
from sslm.program.spans import CHUNK_ROWS_MAX
from sslm.program.states import PAGE_TOKENS
from sslm.runtime.sequences.kv_pool import KvPool, page_count_for
from sslm.runtime.sequences.options import SequenceOptions, sequence_size_bytes
from sslm.runtime.sequences.prefix import Prefix
from sslm.runtime.sequences.sequence import Sequence
from sslm.runtime.slices.stepper import advance, finished

ADOPT_MS_MAX = 0.2
_MODEL_ID = bytes(32)
_QUESTIONS = ([1, 2, 3], [5], [8, 13, 21, 34, 55], [89, 144])
_ANSWER_TOKENS = 4
_INNER_TOKENS = 100
_ROOM_TOKENS = 64
"""What a question and its answers need at most, and a page of it at most."""

_EXAMPLE = "example: python -m benchmarks.prefixes -m smollm2.sslm --tokens 512 --sequences 60"


@dataclass(frozen=True, kw_only=True)
class Shared:
    """What sequences on one prefix took: bytes, milliseconds, counts."""

    prefix_tokens: int
    is_nested: bool
    sequences: int
    page_bytes: int
    prefix_pages: int
    prefix_tail_bytes: int
    held_pages: int
    expected_pages: int
    pages_if_alone: int
    own_bytes_each: int
    peak_growth_bytes: int
    create_ms_median: float
    create_ms_max: float
    adopt_ms_median: float
    adopt_ms_max: float
    adopt_again_ms_median: float
    adopt_again_ms_max: float
    equal_to_alone: int
    equal_after_release: int

    @property
    def faults(self) -> list[str]:
        """What must not be so."""
        is_copied = self.prefix_tokens % PAGE_TOKENS > 0
        wrong = {
            "pages held": self.held_pages != self.expected_pages,
            "answers": self.equal_to_alone != self.sequences,
            "answers after the release": self.equal_after_release != self.sequences,
            "time of adopting": self.adopt_ms_median > ADOPT_MS_MAX and not is_copied,
        }
        return [what for what, is_wrong in wrong.items() if is_wrong]


class Sharing:
    """Sequences of one model in one pool.

    Args:
        plan: Of the model.
        count: How many sequences there will be at once.
        prefix_tokens: Their common beginning, without a nested one.
    """

    def __init__(self, plan: Plan, *, count: int, prefix_tokens: int) -> None:
        self._plan = plan
        self._program = plan.program
        self._count = count
        self._context = prefix_tokens + _INNER_TOKENS + _ROOM_TOKENS
        pages = page_count_for(self._context)
        # Each may need two pages behind a shared one; and there is one that shares nothing.
        self._pool = KvPool(self._program.state_layout, 2 * pages + 2 * count)
        self._options = SequenceOptions(context_tokens=self._context, reserved_tokens=0)

    def sequence(self) -> Sequence:
        """Return a fresh one."""
        return Sequence(self._program, self._pool, _MODEL_ID, self._options)

    def compute(self, sequence: Sequence) -> None:
        """Compute everything that is pending."""
        while sequence.has_work:
            finished(
                advance(
                    self._plan, [sequence], budget_units=ALL_UNITS, row_count_max=CHUNK_ROWS_MAX
                )
            )

    def ids(self, count: int, seed: int) -> list[int]:
        """Return token ids that are no text."""
        return [(7919 * index + seed) % self._program.vocab_size for index in range(count)]

    def answer(self, sequence: Sequence) -> bytes:
        """Choose a few tokens, and return the chain of digests behind them."""
        for _ in range(_ANSWER_TOKENS):
            sequence.decode()
            self.compute(sequence)
        return sequence.digest

    def alone(self, ids: list[int]) -> list[tuple[bytes, bytes]]:
        """Return the chains behind two answers to each question, without any prefix."""
        chains = []
        for question in _QUESTIONS:
            with self.sequence() as sequence:
                sequence.push(ids + question)
                self.compute(sequence)
                chains.append((self.answer(sequence), self.answer(sequence)))
        return chains

    def begin(self, ids: list[int], below: Prefix | None = None) -> Prefix:
        """Compute a prefix, on top of another one or not, and freeze it."""
        sequence = self.sequence()
        if below is not None:
            below.adopt_into(sequence)
        prefix = Prefix(sequence)
        prefix.prefill(ids)
        self.compute(prefix.sequence)
        prefix.freeze()
        return prefix

    def measure(self, prefix: Prefix, ids: list[int], *, is_nested: bool) -> Shared:
        """Let sequences adopt a prefix whose tokens are *ids*, and answer; release it."""
        alone = self.alone(ids)
        before_pages, before_bytes = self._pool.held_page_count, _resident_bytes()
        _forget_peak()
        create_ms: list[float] = []
        sequences: list[Sequence] = [_timed(self.sequence, create_ms) for _ in range(self._count)]
        adopt_ms = [_adopt_ms(prefix, sequence) for sequence in sequences]
        for sequence in sequences:
            sequence.reset()
        again_ms = [_adopt_ms(prefix, sequence) for sequence in sequences]
        first = []
        for index, sequence in enumerate(sequences):
            sequence.push(_QUESTIONS[index % len(_QUESTIONS)])
            self.compute(sequence)
            first.append(self.answer(sequence))
        grown_bytes = _peak_bytes() - before_bytes
        held = self._pool.held_page_count - before_pages + len(prefix.snapshot.hold.pages)
        tail_bytes = prefix.snapshot.size_bytes
        full_pages = len(ids) // PAGE_TOKENS
        expected = full_pages + sum(
            page_count_for(sequence.position) - full_pages for sequence in sequences
        )
        prefix.release()
        second = [self.answer(sequence) for sequence in sequences]
        shared = Shared(
            prefix_tokens=len(ids),
            is_nested=is_nested,
            sequences=self._count,
            page_bytes=self._program.state_layout.page_size_bytes,
            prefix_pages=full_pages,
            prefix_tail_bytes=tail_bytes,
            held_pages=held,
            expected_pages=expected,
            pages_if_alone=sum(page_count_for(sequence.position) for sequence in sequences),
            own_bytes_each=sequence_size_bytes(self._program, self._options),
            peak_growth_bytes=grown_bytes,
            create_ms_median=median(create_ms),
            create_ms_max=max(create_ms),
            adopt_ms_median=median(adopt_ms),
            adopt_ms_max=max(adopt_ms),
            adopt_again_ms_median=median(again_ms),
            adopt_again_ms_max=max(again_ms),
            equal_to_alone=_equal(first, [one for one, _ in alone]),
            equal_after_release=_equal(second, [two for _, two in alone]),
        )
        for sequence in sequences:
            sequence.close()
        return shared


def _equal(found: list[bytes], expected: list[bytes]) -> int:
    return sum(chain == expected[index % len(expected)] for index, chain in enumerate(found))


def _adopt_ms(prefix: Prefix, sequence: Sequence) -> float:
    times_ms: list[float] = []
    _timed(lambda: prefix.adopt_into(sequence), times_ms)
    return times_ms[0]


def _timed(act: Callable[[], Any], times_ms: list[float]) -> Any:
    started = time.thread_time_ns()
    result = act()
    times_ms.append((time.thread_time_ns() - started) / 1e6)
    return result


def _resident_bytes() -> int:
    pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1])
    return pages * resource.getpagesize()


def _peak_bytes() -> int:
    status = Path("/proc/self/status").read_text(encoding="ascii")
    return int(status.partition("VmHWM:")[2].split()[0]) << 10


def _forget_peak() -> None:
    # Where it is not allowed, the peak is that of the whole process, and so may be too high.
    with suppress(OSError):
        Path("/proc/self/clear_refs").write_text("5", encoding="ascii")


def measure_here(model: Path, *, prefix_tokens: int, count: int) -> list[Shared]:
    """Measure one length in this process: the prefix itself, and one on top of it."""
    with read_artifact(model) as artifact:
        program = build_program(artifact)
        backend = open_backend("native", tier="auto", threads=1)
        context = prefix_tokens + _INNER_TOKENS + _ROOM_TOKENS
        plan = backend.compile(
            program, artifact.tensors, row_count_max=CHUNK_ROWS_MAX, context_tokens=context
        )
        sharing = Sharing(plan, count=count, prefix_tokens=prefix_tokens)
        outer_ids = sharing.ids(prefix_tokens, 13)
        inner_ids = sharing.ids(_INNER_TOKENS, 29)
        found = [sharing.measure(sharing.begin(outer_ids), outer_ids, is_nested=False)]
        with sharing.begin(outer_ids) as outer:
            inner = sharing.begin(inner_ids, outer)
        found.append(sharing.measure(inner, outer_ids + inner_ids, is_nested=True))
        plan.close()
    return found


def measure(model: Path, *, prefix_tokens: int, count: int) -> list[Shared]:
    """Measure one length in a new process, whose memory nothing else has used."""
    command = [sys.executable, "-m", "benchmarks.prefixes", "-m", str(model), "--json", "--here"]
    command += ["--tokens", str(prefix_tokens), "--sequences", str(count)]
    output = subprocess.run(command, check=False, stdout=subprocess.PIPE).stdout
    return [Shared(**facts) for facts in json.loads(output)]


def show(shared: Shared) -> None:
    """Print one prefix."""
    page_mib = shared.page_bytes / (1 << 20)
    kind = "on top of another" if shared.is_nested else "by itself"
    print(f"prefix of {shared.prefix_tokens} tokens {kind}, {shared.sequences} sequences")
    print(
        f"  pages held {shared.held_pages} ({shared.held_pages * page_mib:.1f} MiB), expected "
        f"{shared.expected_pages}; alone they would hold {shared.pages_if_alone} "
        f"({shared.pages_if_alone * page_mib:.1f} MiB)"
    )
    print(
        f"  peak memory grew by {shared.peak_growth_bytes / (1 << 20):.1f} MiB; buffers of each "
        f"sequence are {shared.own_bytes_each / 1024:.0f} KiB"
    )
    for what, middle, most in (
        ("create", shared.create_ms_median, shared.create_ms_max),
        ("adopt", shared.adopt_ms_median, shared.adopt_ms_max),
        ("adopt again", shared.adopt_again_ms_median, shared.adopt_again_ms_max),
    ):
        print(f"  {what}: median {middle:.3f} ms, at most {most:.3f} ms")
    print(
        f"  equal to alone {shared.equal_to_alone}, after the release {shared.equal_after_release}"
        f"; wrong: {', '.join(shared.faults) or 'nothing'}"
    )


def main() -> int:
    """Parse, measure, print."""
    parser = argparse.ArgumentParser(
        description=str(__doc__).partition("\n")[0],
        epilog=_EXAMPLE,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("-m", "--model", type=Path, required=True, help="an .sslm file")
    parser.add_argument("--tokens", default="512,500", help="lengths of the prefix")
    parser.add_argument("--sequences", type=int, default=60, help="how many adopt it")
    parser.add_argument("--json", action="store_true", help="print one JSON document")
    parser.add_argument("--here", action="store_true", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    run = measure_here if arguments.here else measure
    lengths = [int(text) for text in arguments.tokens.split(",")]
    found = [
        shared
        for length in lengths
        for shared in run(arguments.model, prefix_tokens=length, count=arguments.sequences)
    ]
    if arguments.json:
        print(json.dumps([asdict(shared) for shared in found]))
    else:
        for shared in found:
            show(shared)
    return int(any(shared.faults for shared in found))


if __name__ == "__main__":
    sys.exit(main())
