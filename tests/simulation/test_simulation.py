"""Random schedules run as they are to, and bugs made on purpose are found."""

import json
from collections.abc import Iterator

import pytest

from tests.simulation.__main__ import main
from tests.simulation.injections import INJECTIONS, injected
from tests.simulation.operations import Operation, Schedule, World
from tests.simulation.oracle import OracleProcess
from tests.simulation.running import Tally, judge, play_schedule, play_seed
from tests.simulation.shrinking import shrunk

SCHEDULES = 200
FOUND_WITHIN = 100


@pytest.fixture(scope="module")
def oracle() -> Iterator[OracleProcess]:
    with OracleProcess() as process:
        yield process


def test_schedules_run_as_they_are_to(capsys: pytest.CaptureFixture[str]) -> None:
    status = main(["--json", "--schedules", str(SCHEDULES)])
    result = json.loads(capsys.readouterr().out)
    assert "failure" not in result, json.dumps(result["failure"], indent=2)
    assert (status, result["schedules"]) == (0, SCHEDULES)
    # Nothing that schedules are made for is rare enough to be left out.
    assert len(result["operations"]) == 34
    assert len(result["refusals"]) > 15


def test_a_seed_always_makes_the_same_schedule() -> None:
    tallies = [Tally(), Tally()]
    first, second = (play_seed(3, tally) for tally in tallies)
    assert (first.schedule, tallies[0]) == (second.schedule, tallies[1])
    again = Tally()
    assert play_schedule(first.schedule, again).evidence.questions() == first.evidence.questions()
    assert again == tallies[0]


@pytest.mark.parametrize("name", INJECTIONS)
def test_a_bug_is_found(name: str, oracle: OracleProcess) -> None:
    with injected(name):
        for seed in range(1, FOUND_WITHIN + 1):
            played = play_seed(seed, Tally())
            judge([played], oracle)
            if played.wrong is not None:
                # It is the bug that is found, and not that there is no such place any more.
                assert "a bare" not in played.wrong
                assert "Traceback" not in played.wrong
                return
    pytest.fail(f"{FOUND_WITHIN} schedules do not show {name}")


def test_what_a_schedule_fails_without_is_left_out() -> None:
    operations = tuple(Operation(kind) for kind in "abcdefghij")
    schedule = Schedule(0, World("llama", "reference", 1, (1, 1)), operations)

    def fails(one: Schedule) -> bool:
        kinds = "".join(operation.kind for operation in one.operations)
        return "c" in kinds and "h" in kinds

    assert [one.kind for one in shrunk(schedule, fails).operations] == ["c", "h"]


def test_a_failure_tells_how_to_see_it_again(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--inject", "shared-tail", "--schedules", "5"]) == 1
    told = capsys.readouterr().out.splitlines()
    (wrong,) = (line for line in told if line.startswith("seed "))
    (again,) = (line for line in told if line.startswith("again with: "))
    command = "again with: python -m tests.simulation "
    assert main(again.removeprefix(command).split()) == 1
    replayed = capsys.readouterr().out.splitlines()
    assert replayed[-1] == wrong.replace(" fails", "")
    # What is left of the schedule is part of what was replayed.
    kept = told[told.index(again) + 2 :]
    assert 1 < len(kept) < len(replayed) - 2
