"""Measurements: what is derived from the seconds, and what running the cases leaves."""

from collections.abc import Iterator

import pytest

from sslm.artifact import Artifact, read_artifact
from sslm.bench import Case, Measurement, measure
from sslm.bench.ceiling import ReadCeiling
from sslm.bench.measuring import bench
from sslm.bench.workload import workload
from sslm.errors.commands import BenchContextError
from sslm.errors.program import TierUnavailableError
from tests.converted import stories_artifact

GENERATION = Case(kind="generation", tokens=4, batch=2)


@pytest.fixture(scope="module")
def artifact() -> Iterator[Artifact]:
    with read_artifact(stories_artifact(), mmap=True) as opened:
        yield opened


def test_figures_follow_from_the_seconds() -> None:
    one = Measurement(
        case=GENERATION,
        seconds=(0.5, 0.2, 0.4),
        mapped_ceilings=(1e9, 3e9, 2e9),
        huge_ceilings=(4e9, 5e9, 3e9),
        read_bytes=800_000_000,
        products=1800,
        op_ns={"linear": 300, "attention": 0, "logits": 600, "add": 100},
    )
    assert (one.tokens, one.median_s, one.tokens_per_s, one.ms_per_token) == (8, 0.4, 20, 50)
    assert one.spread == pytest.approx(0.75)
    assert (one.bytes_per_token, one.bytes_per_s) == (1e8, 2e9)
    assert (one.ceiling, one.share_of_ceiling) == (4e9, 0.5)
    # In the 900 ns of linear and logits.
    assert one.linear_products_per_s == pytest.approx(2e9)
    assert list(one.op_shares.items()) == [("logits", 0.6), ("linear", 0.3), ("add", 0.1)]


def test_every_case_is_measured_and_reported_between_repetitions(artifact: Artifact) -> None:
    cases = (Case(kind="prompt", tokens=70), GENERATION, Case(kind="prompt", tokens=2, threads=2))
    told: list[tuple[int, int]] = []
    found = measure(artifact, cases, repetitions=2, on_progress=lambda *two: told.append(two))
    assert [one.case for one in found] == list(cases)
    assert told == [(done, 12) for done in range(13)]
    for one in found:
        assert len(one.seconds) == len(one.mapped_ceilings) == len(one.huge_ceilings) == 2
        assert min(one.seconds) > 0
        assert one.ceiling > 0
        assert one.op_ns["linear"] > 0
    # Only generations choose tokens.
    assert found[1].op_ns["choose"] > 0


def test_a_repetition_computes_what_the_first_one_did(artifact: Artifact) -> None:
    case = Case(kind="generation", tokens=6, batch=3, depth=70)
    with bench(artifact, [case]) as opened, workload(opened.runner, case) as work:
        seen = []
        for _ in range(2):
            work.repeat()
            seen.append([list(one.token_ids) for one in work._sequences])
    assert seen[0] == seen[1]
    assert seen[0][0] == seen[0][1] == seen[0][2]
    assert len(seen[0][0]) == 76


def test_what_does_not_fit_is_refused_before_anything_runs(artifact: Artifact) -> None:
    limit = artifact.config.max_position_embeddings
    told: list[tuple[int, int]] = []
    with pytest.raises(BenchContextError) as caught:
        measure(
            artifact,
            [GENERATION, Case(kind="prompt", tokens=limit, depth=1)],
            on_progress=lambda *two: told.append(two),
        )
    assert (caught.value.needed_tokens, caught.value.limit_tokens) == (limit + 1, limit)
    assert told == []
    with pytest.raises(TierUnavailableError):
        measure(artifact, [GENERATION], tier="sse9")


@pytest.mark.parametrize("threads", [1, 3])
def test_the_ceiling_is_a_speed(threads: int) -> None:
    views = [memoryview(bytes(100_000)), memoryview(bytes(7))]
    mapped, huge = ReadCeiling(views, threads=threads).sample()
    # Slower than a disk, or faster than any cache: neither is reading memory.
    assert 1e6 < mapped < 1e13
    assert 1e6 < huge < 1e13
