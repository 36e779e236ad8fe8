"""Whether draws come out as often as they should, everywhere alike; and what choosing costs.

    python -m benchmarks.choosing [-m MODEL.sslm] [--seeds 20] [--draws 10000] [--json]

Logits that never change are drawn from at many positions with many seeds, by the reference backend
and by every tier that runs here; the ids must be the same. For each seed, the counts are compared
with the exact probabilities (60 digits, from the logits) by a chi-square test over the ids that are
expected five times or more, all others being one bin. p-values of good draws are spread evenly
between 0 and 1. With a model, choosing from a vocabulary of 151,936 with top k 40 and top p 0.95 is
timed beside a decode step, in turns, on one thread, by the clock of the CPU. Exit 1 if ids differ,
or if the smallest p-value is below 1 in 1,000 for each that there is.
"""

import argparse
import json
import sys
from collections import Counter
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from functools import partial
from pathlib import Path
from statistics import median

import mpmath
import numpy as np

# Run by its path or as a module, it finds the other folders of the checkout.
sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from tests.backends.backends import open_named
from tests.backends.choices import Chooser, compile_choosing

from benchmarks.decode_steps import Steps
from sslm.artifact import read_artifact
from sslm.native_library import available_tiers
from sslm.opening.runner import build_program
from sslm.program.choice import MICRO, Choice, Decoder
from sslm.program.spans import CHUNK_ROWS_MAX

VOCAB_SIZE = 300
LARGE_VOCAB_SIZE = 151_936
EXPONENT = -40
EXPECTED_MIN = 5
P_MIN = 0.001
HISTORY_TOKENS = 1000
_EXAMPLE = "example: python -m benchmarks.choosing -m smollm2.sslm"

SAMPLING = Choice(decoder=Decoder.SAMPLING)
WAYS = {
    "temperature 1": SAMPLING,
    "0.7, top k 40, top p 0.95, min p 0.01": Choice(
        decoder=Decoder.SAMPLING, temperature=700_000, top_k=40, top_p=950_000, min_p=10_000
    ),
}
COSTS = {
    "plain": None,
    "top k 40, top p 0.95": Choice(decoder=Decoder.SAMPLING, top_k=40, top_p=950_000),
    "the same, all penalties": Choice(
        decoder=Decoder.SAMPLING,
        top_k=40,
        top_p=950_000,
        repetition=1_100_000,
        presence=500_000,
        frequency=500_000,
    ),
    "temperature 1": SAMPLING,
    "top p 0.95": Choice(decoder=Decoder.SAMPLING, top_p=950_000),
    "damped": Choice(decoder=Decoder.DAMPED, top_k=6, damping=65536, damping_order=2),
    "log-probabilities": None,
}
"""What is timed; the last one is no choice, but tells 20 ids."""


@dataclass(frozen=True, kw_only=True)
class Draws:
    """One way to sample: the p-values of its seeds, and of all draws together."""

    way: str
    seeds: int
    draws: int
    p_values: list[float]
    p_of_all: float
    differing_backends: list[str]

    @property
    def is_good(self) -> bool:
        """Whether nothing is remarkable."""
        return not self.differing_backends and min(self.p_values) * self.seeds >= P_MIN


@dataclass(frozen=True, kw_only=True)
class Costs:
    """Medians in microseconds, of runs in turns."""

    model: str
    tier: str
    decode_us: float
    choosing_us: dict[str, float] = field(default_factory=dict)

    def share(self, what: str) -> float:
        """Return a part of a decode step, in percent."""
        return 100 * self.choosing_us[what] / self.decode_us


def exact_probabilities(logits: np.ndarray, choice: Choice) -> dict[int, mpmath.mpf]:
    """Return the probabilities of ids, as the options are meant in real numbers."""
    temperature = mpmath.mpf(choice.temperature) / MICRO
    powers = [mpmath.exp(mpmath.mpf(int(x)) * 2**EXPONENT / temperature) for x in logits]
    order = sorted(range(len(powers)), key=lambda i: (-logits[i], i))
    order = order[: choice.top_k or len(order)]
    goal = mpmath.fsum(powers[i] for i in order) * choice.top_p / MICRO
    kept: list[int] = []
    for token_id in order:
        if choice.top_p < MICRO and mpmath.fsum(powers[i] for i in kept) >= goal:
            break
        kept.append(token_id)
    kept = [i for i in kept if powers[i] * MICRO >= powers[order[0]] * choice.min_p]
    total = mpmath.fsum(powers[i] for i in kept)
    return {i: powers[i] / total for i in kept}


def draw(name: str, logits: np.ndarray, choice: Choice, draws: int) -> list[int]:
    """Return what a backend draws after the positions 0 … draws - 1."""
    rows = np.tile(logits, (CHUNK_ROWS_MAX, 1))
    ids = [0] * (draws + CHUNK_ROWS_MAX)
    chooser = Chooser(
        logits=rows, exponents=np.full(len(rows), EXPONENT), choice=choice, token_ids=ids
    )
    plan, found = compile_choosing(open_named(name), len(logits)), list[int]()
    span, last = chooser.span(), len(compile_choosing(open_named(name), 1).program.segments)
    for first in range(0, draws, CHUNK_ROWS_MAX):
        span.first_position = first
        plan.run(last - 1, last, [span])
        found += chooser.memory.selected.tolist()
    plan.close()
    return found[:draws]


def p_value(counts: Counter[int], probabilities: dict[int, mpmath.mpf]) -> float:
    """Return how likely counts as far off, or farther, would be."""
    draws = counts.total()
    if set(counts) - set(probabilities):
        return 0
    bins, rest_found, rest_expected = [], 0, mpmath.mpf(0)
    for token_id, probability in probabilities.items():
        expected = probability * draws
        if expected >= EXPECTED_MIN:
            bins.append((counts[token_id], expected))
        else:
            rest_found, rest_expected = rest_found + counts[token_id], rest_expected + expected
    if rest_expected >= EXPECTED_MIN:
        bins.append((rest_found, rest_expected))
    elif rest_expected:
        found, expected = bins.pop()
        bins.append((found + rest_found, expected + rest_expected))
    distance = mpmath.fsum((found - expected) ** 2 / expected for found, expected in bins)
    freedom = mpmath.mpf(len(bins) - 1)
    return float(mpmath.gammainc(freedom / 2, distance / 2, mpmath.inf, regularized=True))


def measure_draws(seeds: int, draws: int, *, is_quiet: bool) -> Iterator[Draws]:
    """Draw in every way, with every backend."""
    random = np.random.default_rng(1)
    logits = np.round(random.normal(0, 2, VOCAB_SIZE) * 2**-EXPONENT).astype(np.int64)
    names = ("reference", *available_tiers())
    for way, choice in WAYS.items():
        probabilities = exact_probabilities(logits, choice)
        p_values, together, differing = [], Counter[int](), set[str]()
        for seed in range(seeds):
            seeded = Choice(**{**asdict(choice), "seed": seed})
            ids = draw(names[0], logits, seeded, draws)
            differing |= {name for name in names[1:] if draw(name, logits, seeded, draws) != ids}
            counts = Counter(ids)
            p_values.append(p_value(counts, probabilities))
            together += counts
            _progress(f"{way}: seed {seed + 1} of {seeds}", is_quiet=is_quiet)
        yield Draws(
            way=way,
            seeds=seeds,
            draws=draws,
            p_values=p_values,
            p_of_all=p_value(together, probabilities),
            differing_backends=sorted(differing),
        )


def measure_costs(path: Path, turns: int, *, is_quiet: bool) -> Costs:
    """Time decode steps and choosing in turns."""
    artifact = read_artifact(path)
    random = np.random.default_rng(1)
    logits = np.round(random.normal(0, 3, LARGE_VOCAB_SIZE) * 2**-EXPONENT).astype(np.int64)
    ids = random.integers(0, LARGE_VOCAB_SIZE, HISTORY_TOKENS).tolist()
    program = build_program(artifact)
    with Steps(program, artifact.tensors, tier="auto", threads=1, context_tokens=300) as steps:
        sequence = steps.sequence(100)
        plan = compile_choosing(open_named(steps.tier), LARGE_VOCAB_SIZE)
        choosers = {
            what: Chooser(
                logits=logits[None], exponents=np.array([EXPONENT]), choice=choice, token_ids=ids
            )
            for what, choice in COSTS.items()
        }

        spans = {what: [chooser.span()] for what, chooser in choosers.items()}
        last = len(plan.program.segments)

        def run(what: str) -> None:
            if what == "log-probabilities":
                plan.logprobs(logits.data, EXPONENT, ids[:1], top_count=20)
            else:
                plan.run(last - 1, last, spans[what])

        decode: list[int] = []
        choosing: dict[str, list[int]] = {what: [] for what in COSTS}
        for turn in range(turns):
            for what, times in choosing.items():
                decode.append(steps.step([sequence]))
                # The first one of a kind brings its memory into the caches, as the head would.
                run(what)
                times.append(steps.timed(partial(run, what)))
            _progress(f"turn {turn + 1} of {turns}", is_quiet=is_quiet)
        plan.close()
        return Costs(
            model=path.name,
            tier=steps.tier,
            decode_us=median(decode) / 1000,
            choosing_us={what: median(times) / 1000 for what, times in choosing.items()},
        )


def _progress(text: str, *, is_quiet: bool) -> None:
    if not is_quiet:
        sys.stderr.write(f"\r{text}   ")
        sys.stderr.flush()


def main() -> int:
    """Print the results and return the exit code."""
    parser = argparse.ArgumentParser(
        description=(__doc__ or "").partition("\n")[0], epilog=_EXAMPLE
    )
    parser.add_argument("-m", "--model", type=Path, help="an artifact, to compare costs with")
    parser.add_argument("--seeds", type=int, default=20, help="default: 20; 0 draws nothing")
    parser.add_argument("--draws", type=int, default=10_000, help="of each seed; default: 10000")
    parser.add_argument("--turns", type=int, default=60, help="of timing; default: 60")
    parser.add_argument("--json", action="store_true", help="print JSON")
    options = parser.parse_args()
    if not 0 <= options.seeds <= 1000 or not 1000 <= options.draws <= 16_000 or options.turns < 1:
        parser.error("--seeds is 0 to 1000, --draws 1000 to 16000, --turns at least 1")
    mpmath.mp.dps = 60
    is_quiet = options.json
    draws, costs = [], None
    if options.seeds:
        draws = list(measure_draws(options.seeds, options.draws, is_quiet=is_quiet))
    if options.model:
        costs = measure_costs(options.model, options.turns, is_quiet=is_quiet)
    if options.json:
        found = {"draws": [asdict(one) for one in draws], "costs": costs and asdict(costs)}
        sys.stdout.write(json.dumps(found, indent=2) + "\n")
    else:
        sys.stderr.write("\n")
        _print(draws, costs)
    return 0 if all(one.is_good for one in draws) else 1


def _print(draws: list[Draws], costs: Costs | None) -> None:
    for one in draws:
        shown = " ".join(f"{p:.3f}" for p in sorted(one.p_values))
        others = ", ".join(one.differing_backends) or "none"
        sys.stdout.write(
            f"{one.way}: {one.seeds} seeds of {one.draws} draws; p-values {shown}; "
            f"smallest {min(one.p_values):.4f}; all draws together {one.p_of_all:.3f}; "
            f"backends that differ: {others}\n"
        )
    if costs is not None:
        where = f"{costs.model}, {costs.tier}, one thread"
        sys.stdout.write(f"{where}: a decode step {costs.decode_us:.0f} µs\n")
        for what, taken in costs.choosing_us.items():
            sys.stdout.write(f"{what:28} {taken:8.0f} µs {costs.share(what):6.2f} %\n")


if __name__ == "__main__":
    sys.exit(main())
