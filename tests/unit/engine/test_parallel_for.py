"""A model whose work a host's function shares: the same answers, and what its errors end."""

import os
import pickle
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from benchmarks.determinism_models import wide_subject

import sslm
from sslm.artifact import read_artifact
from sslm.engine.model import Model
from sslm.errors.native import ParallelForBrokenError
from sslm.errors.runtime import NestedCallError, OptionRangeError
from sslm.opening.runner import ALL_UNITS, Runner, open_backend
from sslm.program.parallel_for import SCOPES, ParallelFor
from sslm.runtime.sequences.options import SequenceOptions
from tests.converted import stories_artifact

PROMPT = [5, 6, 7, 8, 9]

Task = Callable[[int], None]


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return wide_subject(tmp_path_factory.mktemp("wide")).path


@pytest.fixture(scope="module")
def expected(path: Path) -> sslm.Completion:
    with Model(path) as model:
        return model.generate(PROMPT, max_tokens=4)


@pytest.fixture
def executor() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor(3) as opened:
        yield opened


def same(found: sslm.Completion, expected: sslm.Completion) -> bool:
    return (found.token_ids, found.digest) == (expected.token_ids, expected.digest)


@pytest.mark.parametrize("scope", SCOPES)
def test_what_is_too_small_is_not_shared(scope: str) -> None:
    """As docs/api.md says: nothing reads 512 KiB of weights for one token of a tiny model."""
    counts: list[int] = []

    def run(task: Task, task_count: int) -> None:
        counts.append(task_count)
        for index in range(task_count):
            task(index)

    with sslm.load(stories_artifact(), parallel_for=sslm.ParallelFor(run, 4, scope)) as model:
        model.generate([1], max_tokens=4)
        assert counts == []
        model.generate([1] * 64, max_tokens=1)
        assert bool(counts) == (scope == "all")


@pytest.mark.parametrize("scope", SCOPES)
def test_a_shared_answer_is_the_same(
    path: Path, expected: sslm.Completion, executor: ThreadPoolExecutor, scope: str
) -> None:
    counts: list[int] = []

    def run(task: Task, task_count: int) -> None:
        counts.append(task_count)
        list(executor.map(task, range(task_count)))

    hook = sslm.ParallelFor(run, max_tasks=3, scope=scope)
    with sslm.load(path, parallel_for=hook) as model:
        assert same(model.generate(PROMPT, max_tokens=4), expected)
        assert model.threads == 1
    # One loop over the head for each of four tokens; five in each layer for three of one row.
    loops = {"finish": 4, "one_row": 4 + 3 * 2 * 5}
    assert set(counts) <= {2, 3}
    assert len(counts) == loops.get(scope, len(counts))
    assert len(counts) >= loops["one_row"] or scope == "finish"


def test_a_prompt_of_one_token_is_a_prefill(path: Path) -> None:
    """It shares each of its seven projections alone: k, v, and down have too few bytes for that."""
    counts: list[int] = []

    def run(task: Task, task_count: int) -> None:
        counts.append(task_count)
        for index in range(task_count):
            task(index)

    with Model(path, parallel_for=ParallelFor(run, max_tasks=7, scope="one_row")) as model:
        model.generate([5], max_tokens=1)
        assert counts == [2, 2, 2, 2, 2] * 2 + [4]
        counts.clear()
        model.generate([5], max_tokens=2)
        # q; k and v; o; gate and up; down.
        assert counts[11:] == [2, 2, 2, 4, 2] * 2 + [4]


class LyingOnce:
    """Leaves a task out in one loop, or raises."""

    def __init__(self, at_loop: int, error: BaseException | None = None) -> None:
        self.at_loop, self.error, self.loop_count = at_loop, error, 0

    def __call__(self, task: Task, task_count: int) -> None:
        self.loop_count += 1
        is_bad = self.loop_count == self.at_loop
        for index in range(int(is_bad), task_count):
            task(index)
        if is_bad and self.error is not None:
            raise self.error


@pytest.mark.parametrize("at_loop", [1, 12, 20])
def test_a_lie_ends_one_request(path: Path, expected: sslm.Completion, at_loop: int) -> None:
    hook = LyingOnce(at_loop)
    with Model(path, parallel_for=ParallelFor(hook, max_tasks=3, scope="all")) as model:
        with pytest.raises(sslm.ParallelForBrokenError, match="omitted task 0 of"):
            model.generate(PROMPT, max_tokens=4)
        assert same(model.generate(PROMPT, max_tokens=4), expected)


def test_a_broken_stream_tells_what_it_had(path: Path, expected: sslm.Completion) -> None:
    hook = LyingOnce(3)
    with Model(path, parallel_for=ParallelFor(hook, max_tasks=3)) as model:
        seen: list[int] = []
        with model.stream(PROMPT, max_tokens=4) as stream, pytest.raises(ParallelForBrokenError):
            seen.extend(token_id for chunk in stream for token_id in chunk.token_ids)
        assert seen == list(expected.token_ids[: len(seen)])
        assert same(model.generate(PROMPT, max_tokens=4), expected)


def test_a_sequence_goes_on_where_a_lie_stopped_it(path: Path, expected: sslm.Completion) -> None:
    """Every loop of a step is spoilt in turn, in slices of one segment."""
    hook = LyingOnce(1)
    parallel_for = ParallelFor(hook, max_tasks=3, scope="one_row")
    backend = open_backend("native", tier="auto", threads=1, parallel_for=parallel_for)
    answer: list[int] = []
    refused = 0
    with (
        read_artifact(path) as artifact,
        closing(Runner(artifact, backend, context_tokens=64)) as runner,
        runner.sequence(SequenceOptions(context_tokens=16)) as sequence,
    ):
        sequence.push(PROMPT)
        while len(answer) < 4:
            hook.at_loop = hook.loop_count + 1 if refused % 3 != 2 else 0
            before = sequence.position, sequence.digest, sequence.saturations
            try:
                runner.advance([sequence], budget_units=1 if len(answer) % 2 else ALL_UNITS)
            except ParallelForBrokenError:
                refused += 1
                assert (sequence.position, sequence.digest, sequence.saturations) == before
                assert sequence.selected is None
                continue
            refused += int(refused % 3 == 2)
            if sequence.selected is not None:
                answer.append(sequence.selected)
                sequence.push(answer[-1:])
        assert answer == list(expected.token_ids)
    assert refused > 20


@pytest.mark.parametrize("error", [ZeroDivisionError("mine"), KeyboardInterrupt("mine")])
def test_what_the_function_raises_ends_one_request(
    path: Path, expected: sslm.Completion, error: BaseException
) -> None:
    hook = LyingOnce(4, error)
    with Model(path, parallel_for=ParallelFor(hook, max_tasks=3, scope="one_row")) as model:
        with pytest.raises(type(error)) as caught:
            model.generate(PROMPT, max_tokens=4)
        assert caught.value is error
        assert same(model.generate(PROMPT, max_tokens=4), expected)


def test_the_function_cannot_ask_its_own_model(path: Path, expected: sslm.Completion) -> None:
    def ask(task: Task, task_count: int) -> None:
        with pytest.raises(NestedCallError):
            model.generate([1], max_tokens=1)
        for index in range(task_count):
            task(index)

    with Model(path, parallel_for=ParallelFor(ask, max_tasks=2)) as model:
        assert same(model.generate(PROMPT, max_tokens=4), expected)


def test_room_for_tasks_is_part_of_the_footprint(path: Path) -> None:
    sizes = []
    for hook in (None, ParallelFor(print, max_tasks=2), ParallelFor(print, max_tasks=256)):
        with Model(path, parallel_for=hook) as model:
            sizes.append(model.footprint().scratch)
    assert sizes == sorted(set(sizes))


@pytest.mark.parametrize(
    ("options", "option"),
    [
        ({"parallel_for": print}, "parallel_for"),
        ({"parallel_for": ParallelFor(print, 2), "threads": 2}, "threads"),
        ({"parallel_for": ParallelFor(print, 2), "backend": "reference"}, "parallel_for"),
    ],
)
def test_what_cannot_share_is_refused(options: dict[str, Any], option: str) -> None:
    for call in (Model, sslm.load):
        with pytest.raises(OptionRangeError, match=f"{option} is"):
            call(stories_artifact(), **options)


def run_each(task: Callable[[int], None], count: int) -> None:
    for index in range(count):
        task(index)


def test_a_hook_stays_here_when_its_model_is_sent(path: Path, expected: sslm.Completion) -> None:
    hook = ParallelFor(run_each, max_tasks=3)
    with Model(path, parallel_for=hook) as model, pickle.loads(pickle.dumps(model)) as other:
        assert other.spec == model.spec
        assert same(other.generate(PROMPT, max_tokens=4), expected)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")
def test_after_a_fork_a_model_with_a_hook_is_refused_as_any_other(path: Path) -> None:
    hook = ParallelFor(run_each, max_tasks=3)
    with Model(path, parallel_for=hook) as model:
        process = os.fork()
        if process == 0:
            code = 1
            try:
                model.generate(PROMPT, max_tokens=1)
            except sslm.ForkedProcessError:
                model.close()
                code = 0
            finally:
                os._exit(code)
        assert os.waitpid(process, 0)[1] == 0
        model.generate(PROMPT, max_tokens=1)
