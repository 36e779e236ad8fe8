"""Worker processes: answers, endings, and who is left out."""

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from benchmarks.versus.rounds import (
    DECODE,
    INT8,
    Q8_0,
    Question,
    Samples,
    questions,
    run_round,
    warm_up,
)
from benchmarks.versus.workers import FOLDER, Engine, Worker, WorkerError, started

from tests.converted import stories_artifact

ANSWERING = """
import os, signal, sys
sys.path.insert(0, {folder!r})
from serving import peak_memory, serve
print("a library's chatter", flush=True)
count = 0
def decode(tokens, depth, batch):
    global count
    count += 1
    if count == {crash_at}:
        os.kill(os.getpid(), signal.SIGSEGV)
    return {{"wall_s": tokens / 100, "cpu_s": 0.0}}
def describe():
    if {crash_at} == 0:
        sys.exit("no tiles here")
    return {{"version": "1", "load_s": 0.0}}
serve({{"describe": describe, "decode": decode, "memory": peak_memory}})
"""
ASKED = (
    Question(
        name=DECODE,
        do="decode",
        arguments={"tokens": 8, "depth": 4, "batch": 1},
        families=(Q8_0, INT8),
    ),
)


def fake(folder: Path, name: str, crash_at: int = -1) -> Engine:
    script = folder / f"worker{crash_at}.py"
    script.write_text(ANSWERING.format(folder=str(FOLDER), crash_at=crash_at))
    return Engine(name=name, script=str(script), model=folder)


@pytest.fixture
def workers(tmp_path: Path) -> Iterator[list[Worker]]:
    engines = [
        fake(tmp_path, f"{Q8_0}, build 1"),
        fake(tmp_path, f"{Q8_0}, build 2", crash_at=0),
        fake(tmp_path, f"{Q8_0}, build 3", crash_at=3),
    ]
    found = [Worker(engine, 1) for engine in engines]
    yield found
    for worker in found:
        worker.close()


def test_who_ends_is_told_by_name_and_left_out(workers: list[Worker]) -> None:
    samples = Samples()
    usable = warm_up(workers, samples, ASKED)
    assert [worker.engine.name[-1] for worker in usable] == ["1", "3"]
    assert samples.described[1, f"{Q8_0}, build 1"]["peak_bytes"] > 1 << 20
    assert f"build 2 with 1 threads ({sys.executable}) ended at 'describe'" in samples.problems[0]
    assert samples.problems[0].endswith("exit code 1: no tiles here")
    for index in range(3):
        run_round(usable, samples, ASKED, is_backwards=index % 2 == 1)
    assert len(samples.problems) == 2
    assert "build 3" in samples.problems[1]
    assert "ended at 'decode': SIGSEGV" in samples.problems[1]
    counts = {engine[-1]: len(found) for (_, _, engine), found in samples.answers.items()}
    assert counts == {"1": 3, "3": 1}
    assert samples.answers[1, DECODE, f"{Q8_0}, build 1"][0]["tokens"] == 8


def test_our_own_worker_measures() -> None:
    engine = Engine(name=INT8, script="serve_sslm.py", model=stories_artifact())
    samples = Samples()
    with started(engine, 1) as worker:
        assert warm_up([worker], samples, ASKED) == [worker]
        run_round([worker], samples, ASKED, is_backwards=False)
        (answer,) = samples.answers[1, DECODE, INT8]
        assert answer["wall_s"] > 0
        assert answer["read_bytes"] > 0
        assert samples.ceilings[1, INT8][0] > 0
        described = samples.described[1, INT8]
        assert described["weights_bytes"] > 0
        with pytest.raises(WorkerError, match=r"ended at 'prefill': exit code 1: .*OptionRange"):
            worker.ask("prefill", tokens=100_000)


def test_every_question_goes_to_us_and_to_a_peer() -> None:
    for is_quick in (True, False):
        for question in questions(is_quick=is_quick):
            assert INT8 in question.families
            assert Q8_0 in question.families
            assert question.tokens > 0
