"""The figures that follow from the samples, each beside its target."""

import statistics
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Any, Final, Literal

from benchmarks.versus.rounds import (
    BATCH,
    DECODE,
    DEEP,
    INT4,
    INT8,
    OPENVINO,
    PREFILL,
    Q4_0,
    Q8_0,
    Samples,
)

Clock = Literal["wall", "cpu"]
LINEAR_KINDS: Final = ("linear", "logits")
"""Kinds of ops that multiply by weights."""
MIB: Final = 1 << 20


@dataclass(frozen=True, kw_only=True)
class Figure:
    """One number that is held to a target, or told beside those that are.

    Args:
        key: Unique; of a quotient it has ``ratio`` in it.
        value: The number.
        target: What it should be at least, or at most; None for no target.
        is_at_least: Which of the two.
        ours: What stands above the line of a quotient, or the number again.
        theirs: What stands below, or None.
        unit: Of both.
        note: Whose it is.
    """

    key: str
    value: float
    target: float | None
    is_at_least: bool
    ours: float
    theirs: float | None
    unit: str
    note: str

    @property
    def is_met(self) -> bool | None:
        """Whether the target is met; None without one."""
        if self.target is None:
            return None
        return self.value >= self.target if self.is_at_least else self.value <= self.target

    def facts(self) -> dict[str, Any]:
        """Return it as JSON has it."""
        found = asdict(self) | {"met": self.is_met}
        del found["key"]
        return found


class Speeds:
    """Medians of samples.

    Args:
        samples: All answers.
        clock: Seconds that pass, or that this process computed: for machines that others use too,
            and only with one thread.
    """

    def __init__(self, samples: Samples, clock: Clock) -> None:
        self.samples = samples
        self.clock = clock
        self._clock = f"{clock}_s"

    def seconds(self, threads: int, question: str, engine: str) -> list[float]:
        """Return the seconds of each answer."""
        return [one[self._clock] for one in self.samples.answers[threads, question, engine]]

    def tokens_per_s(self, threads: int, question: str, engine: str) -> float:
        """Return the median speed."""
        tokens = self.samples.answers[threads, question, engine][0]["tokens"]
        return float(tokens / statistics.median(self.seconds(threads, question, engine)))

    def spread(self, threads: int, question: str, engine: str) -> float:
        """Return slowest less fastest, as a share of the median."""
        seconds = self.seconds(threads, question, engine)
        return (max(seconds) - min(seconds)) / statistics.median(seconds)

    def bytes_per_token(self, threads: int, question: str, engine: str) -> float:
        """Return what one of our engines reads for a token."""
        one = self.samples.answers[threads, question, engine][0]
        return float(one["read_bytes"] / one["tokens"])

    def fastest(self, threads: int, question: str, family: str) -> str | None:
        """Return the fastest build of a family of engines, or None if there is none."""
        names = [
            engine
            for count, asked, engine in self.samples.answers
            if (count, asked) == (threads, question) and engine.startswith(family)
        ]
        speed = {name: self.tokens_per_s(threads, question, name) for name in names}
        return max(speed, key=lambda name: speed[name]) if speed else None


def speed_figures(speeds: Speeds, threads: int) -> Iterator[Figure]:
    """Yield our speeds over those of the peers."""
    only_one = threads == 1
    pairs = (
        ("decode_int8_over_q8_0", DECODE, INT8, Q8_0, 1.6 if only_one else None),
        ("decode_int4_over_q4_0", DECODE, INT4, Q4_0, 1.8 if only_one else None),
        ("prefill_512_int8_over_q8_0", PREFILL, INT8, Q8_0, 1.6),
        ("prefill_512_int8_over_openvino", PREFILL, INT8, OPENVINO, 0.75),
        ("prefill_512_int4_over_q4_0", PREFILL, INT4, Q4_0, None),
        ("decode_deep_int8_over_q8_0", DEEP, INT8, Q8_0, None),
        ("decode_batch_4_int8_over_q8_0", BATCH, INT8, Q8_0, None),
    )
    for key, question, ours, family, target in pairs:
        peer = speeds.fastest(threads, question, family)
        if peer is None or (threads, question, ours) not in speeds.samples.answers:
            continue
        own, other = (speeds.tokens_per_s(threads, question, name) for name in (ours, peer))
        yield Figure(
            key=f"{key}_ratio_{threads}t",
            value=own / other,
            target=target,
            is_at_least=True,
            ours=own,
            theirs=other,
            unit="tokens/s",
            note=peer,
        )


def own_figures(speeds: Speeds, threads: int) -> Iterator[Figure]:
    """Yield how our engines do beside what the machine allows, and beside themselves."""
    for engine in (INT8, INT4):
        if (threads, DECODE, engine) not in speeds.samples.answers or speeds.clock != "wall":
            continue
        key = engine.removeprefix("sslm ")
        speed = speeds.tokens_per_s(threads, DECODE, engine)
        read = speed * speeds.bytes_per_token(threads, DECODE, engine) / 1e9
        ceiling = statistics.median(speeds.samples.ceilings[threads, engine]) / 1e9
        yield Figure(
            key=f"decode_{key}_read_over_ceiling_ratio_{threads}t",
            value=read / ceiling,
            target=None,
            is_at_least=True,
            ours=read,
            theirs=ceiling,
            unit="GB/s",
            note="a loop that only reads",
        )
    for family in (INT8, INT4, Q8_0, Q4_0):
        yield from _depth_and_batch(speeds, threads, family)


def _depth_and_batch(speeds: Speeds, threads: int, family: str) -> Iterator[Figure]:
    """Yield what a long context costs, and what several sequences together gain."""
    engine = speeds.fastest(threads, DECODE, family)
    if engine is None:
        return
    is_ours = family in (INT8, INT4)
    has_target = threads == 1 and family == INT8
    key = family.replace("llama.cpp ", "llama_cpp_").removeprefix("sslm ").lower()
    answers = speeds.samples.answers
    one = speeds.tokens_per_s(threads, DECODE, engine)
    if (threads, DEEP, engine) in answers:
        deep = speeds.tokens_per_s(threads, DEEP, engine)
        cost = one / deep
        if is_ours:
            cost /= speeds.bytes_per_token(threads, DEEP, engine) / speeds.bytes_per_token(
                threads, DECODE, engine
            )
        yield Figure(
            key=f"context_2000_{key}_{'time_over_bytes' if is_ours else 'time'}_ratio_{threads}t",
            value=cost,
            target=1.08 if has_target else None,
            is_at_least=False,
            ours=1e3 / deep,
            theirs=1e3 / one,
            unit="ms/token",
            note="at a short context",
        )
    if (threads, BATCH, engine) in answers:
        four = speeds.tokens_per_s(threads, BATCH, engine)
        yield Figure(
            key=f"batch_4_over_1_{key}_ratio_{threads}t",
            value=four / one,
            target=2.5 if has_target else None,
            is_at_least=True,
            ours=four,
            theirs=one,
            unit="tokens/s",
            note="one sequence",
        )


def op_figures(samples: Samples, threads: int) -> Iterator[Figure]:
    """Yield shares of the time by kind of op."""
    described = samples.described.get((threads, INT8), {})
    if "prefill_op_ns" not in described:
        return
    total, others = _milliseconds(described["prefill_op_ns"])
    largest = max(others, key=lambda kind: others[kind])
    yield Figure(
        key=f"prefill_512_largest_other_op_ratio_{threads}t",
        value=others[largest] / total,
        target=0.1 if threads == 1 else None,
        is_at_least=False,
        ours=others[largest],
        theirs=total,
        unit="ms",
        note=f"{largest}, of all ops",
    )
    total, others = _milliseconds(described["decode_op_ns"])
    yield Figure(
        key=f"decode_digests_ratio_{threads}t",
        value=others["digests"] / total,
        target=0.01 if threads == 1 else None,
        is_at_least=False,
        ours=others["digests"],
        theirs=total,
        unit="ms",
        note="digests, of all ops",
    )


def _milliseconds(op_ns: dict[str, int]) -> tuple[float, dict[str, float]]:
    """Return the time of all ops, and that of each kind that does not multiply by weights."""
    ms = {kind: ns / 1e6 for kind, ns in op_ns.items()}
    return sum(ms.values()), {kind: one for kind, one in ms.items() if kind not in LINEAR_KINDS}


def large_figures(large: dict[int, dict[str, Any]]) -> Iterator[Figure]:
    """Yield how near decode of a model beyond the caches comes to the ceiling, by threads."""
    for threads, facts in large.items():
        yield Figure(
            key=f"decode_large_read_over_ceiling_ratio_{threads}t",
            value=facts["large_decode_over_ceiling_ratio"],
            # With more threads, what the ceiling of one thread says of them swings with the host.
            target=0.9 if threads == 1 else None,
            is_at_least=True,
            ours=facts["large_decode_gb_per_s"],
            theirs=facts["large_read_gb_per_s"],
            unit="GB/s",
            note=f"reading with one thread, {facts['large_weight_bytes'] / 1e9:.2f} GB of weights",
        )
        yield Figure(
            key=f"context_2000_large_time_over_bytes_ratio_{threads}t",
            value=facts["large_context_time_over_bytes_ratio"],
            target=1.08 if threads == 1 else None,
            is_at_least=False,
            ours=facts["large_context_over_none_ratio"],
            theirs=facts["large_context_bytes_ratio"],
            unit="times",
            note="of bytes read, the same model",
        )


def cost_figures(costs: dict[str, Any]) -> Iterator[Figure]:
    """Yield what opening and running takes besides time."""
    limits: tuple[tuple[str, int, float | None, str, str], ...] = (
        ("plan_bytes", MIB, 16.0, "plan_mib", "workspace and plan, at 64 rows"),
        (
            "generate_beyond_bytes",
            MIB,
            96.0,
            "generate_beyond_mib",
            "peak of `sslm generate` less weights, keys and values",
        ),
        ("open_s", 1, 0.3, "open_s", "the shortest opening in fresh processes"),
        ("hashed_open_s", 1, 0.3, "hashed_open_s", "sslm.load(path, sha256=...)"),
        ("import_s", 1, 0.15, "import_s", "import sslm in a fresh process"),
        ("load_import_s", 1, None, "load_import_s", "what sslm.load imports when first named"),
    )
    for name, divisor, target, key, note in limits:
        if name in costs:
            value = costs[name] / divisor
            yield Figure(
                key=key,
                value=value,
                target=target,
                is_at_least=False,
                ours=value,
                theirs=None,
                unit="s" if divisor == 1 else "MiB",
                note=note,
            )


def all_figures(
    speeds: Speeds,
    threads: tuple[int, ...],
    large: dict[int, dict[str, Any]],
    costs: dict[str, Any],
) -> list[Figure]:
    """Return every figure that the samples allow."""
    found: list[Figure] = []
    for count in threads:
        found += speed_figures(speeds, count)
        found += own_figures(speeds, count)
        found += op_figures(speeds.samples, count)
    return [*found, *large_figures(large), *cost_figures(costs)]
