"""Schedules from their first operation to the check of everything that was seen."""

import random
import traceback
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from sslm.errors.runtime import ObjectClosedError
from tests.simulation.batches import advance_both, member
from tests.simulation.evidence import Evidence
from tests.simulation.generating import Generator, world_of
from tests.simulation.operations import SEQUENCE_SLOTS, Operation, Schedule
from tests.simulation.oracle import OracleProcess, Question
from tests.simulation.plans import ROWS_MAX
from tests.simulation.scheduling import schedule_both
from tests.simulation.simulation import Simulation, WrongError

Watch = Callable[[Operation, list[str]], None]
"""Called after each operation, with the classes of its refusals."""


@dataclass
class Tally:
    """What was done, by kind, and what was refused, by class."""

    operations: Counter[str] = field(default_factory=Counter)
    refusals: Counter[str] = field(default_factory=Counter)


@dataclass
class Played:
    """A schedule that was run.

    Args:
        schedule: What was done.
        evidence: What was seen, to be compared with the oracle's answers.
        wrong: What was not as it should be, or None so far.
    """

    schedule: Schedule
    evidence: Evidence
    wrong: str | None = None


def play_seed(seed: int, tally: Tally, watch: Watch | None = None) -> Played:
    """Make the schedule of a seed while it runs."""
    chance = random.Random(seed)
    simulation = Simulation(world_of(chance))
    generator = Generator(chance, simulation)
    done: list[Operation] = []

    def operations() -> Iterable[Operation]:
        for _ in range(generator.count):
            done.append(generator.next())
            yield done[-1]

    wrong = _play(simulation, operations(), seed, tally, watch)
    return Played(Schedule(seed, simulation.world, tuple(done)), simulation.evidence, wrong)


def play_schedule(schedule: Schedule, tally: Tally, watch: Watch | None = None) -> Played:
    """Run a schedule again, or part of it."""
    simulation = Simulation(schedule.world)
    wrong = _play(simulation, schedule.operations, schedule.seed, tally, watch)
    return Played(schedule, simulation.evidence, wrong)


def _play(
    simulation: Simulation,
    operations: Iterable[Operation],
    seed: int,
    tally: Tally,
    watch: Watch | None,
) -> str | None:
    """Run operations, then bring everything to its end; return what was wrong."""
    try:
        for operation in operations:
            if perform(simulation, operation):
                tally.operations[operation.kind] += 1
            tally.refusals.update(simulation.refusals)
            if watch is not None:
                watch(operation, simulation.refusals)
        _finish(simulation, random.Random(f"end of {seed}"))
    except WrongError as error:
        return str(error)
    except Exception as error:
        # A seed is worth more than an end with a traceback.
        return "".join(traceback.format_exception(error)[-3:])
    return None


def perform(simulation: Simulation, operation: Operation) -> bool:
    """Do one operation; return whether there was anything to do it on."""
    simulation.refusals = []
    if operation.kind == "advance":
        is_done = advance_both(simulation, **operation.arguments)
    elif operation.kind == "schedule":
        is_done = schedule_both(simulation, **operation.arguments)
    else:
        is_done = simulation.execute(operation)
    simulation.check()
    return is_done


def _finish(simulation: Simulation, chance: random.Random) -> None:
    """Let every sequence go on for some tokens, then let go of everything in some order."""
    for slot in range(len(simulation.hoards)):
        perform(simulation, Operation("unhoard", {"hoard": slot}))
    for slot in range(SEQUENCE_SLOTS + len(simulation.prefixes)):
        for _ in range(3):
            _run(simulation, slot)
            one = simulation.sequences[slot] if slot < SEQUENCE_SLOTS else None
            if one is not None and one.model.progress.selected is not None:
                perform(simulation, Operation("decode_span", {"seq": slot, "most": None}))
    ends = [
        *(("close", "seq", slot) for slot in range(SEQUENCE_SLOTS)),
        *(("release_prefix", "prefix", slot) for slot in range(len(simulation.prefixes))),
        *(("release_snapshot", "snapshot", slot) for slot in range(len(simulation.snapshots))),
    ]
    chance.shuffle(ends)
    for kind, name, slot in ends:
        perform(simulation, Operation(kind, {name: slot}))
    for index, pool in enumerate(simulation.pools):
        if pool.real.held_page_count:
            raise WrongError(f"pool {index} ends with {pool.real.held_page_count} pages held")
        pool.real.close()
        try:
            pool.real.hold()
        except ObjectClosedError:
            continue
        raise WrongError("a closed pool was used")


def _run(simulation: Simulation, slot: int) -> None:
    advance = Operation("advance", {"slots": [slot], "units": 50, "rows": ROWS_MAX})
    while (one := member(simulation, slot)) is not None and one.model.progress.has_work:
        perform(simulation, advance)


def judge(played: Iterable[Played], oracle: OracleProcess) -> None:
    """Have the oracle answer, and note what differs."""
    waiting = [one for one in played if one.wrong is None]
    questions = [one.evidence.questions() for one in waiting]
    oracle.ask([question for some in questions for question in some])
    settle(waiting, questions, oracle)


def settle(waiting: list[Played], questions: list[list[Question]], oracle: OracleProcess) -> None:
    """Take the oracle's answers to what was asked, and note what differs."""
    answers = iter(oracle.take())
    for one, some in zip(waiting, questions, strict=True):
        one.wrong = one.evidence.compare(some, [next(answers) for _ in some])
