"""After a fork every object of the runtime says whose it is, whatever other threads were doing."""

import copy
import gc
import os
import pickle
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from sslm.errors.runtime import ForkedProcessError, NotCopyableError
from sslm.program.plan import Plan
from sslm.runtime.hosted_model import HostedModel
from sslm.runtime.saves.saving import restore, save
from sslm.runtime.sequences.kv_pool import KvPool
from sslm.runtime.sequences.options import SequenceOptions
from sslm.runtime.sequences.prefix import Prefix
from tests.forking import in_child
from tests.sequences import PROMPT, end, new_pool, new_sequence, reference_plan, run
from tests.tiny_models import MODEL_ID

FORKS = int(os.environ.get("SSLM_TEST_FORKS", "3"))
"""Forks at random moments; more of them by hand."""

needs_fork = pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")
pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")


@pytest.fixture(scope="module")
def plan(tmp_path_factory: pytest.TempPathFactory) -> Plan:
    return reference_plan("recurrent", Path(tmp_path_factory.mktemp("model")))


@contextmanager
def busy(plan: Plan, pool: KvPool) -> Iterator[None]:
    """Keep other threads in the middle of taking, sharing and giving back."""
    is_done = False

    def work() -> None:
        while not is_done:
            with new_sequence(plan, pool) as sequence:
                sequence.push([1] * 70)
                run(plan, sequence)
                snapshot = sequence.snapshot()
            with new_sequence(plan, pool) as sequence:
                sequence.adopt(snapshot)
                snapshot.release()
                sequence.reset()

    threads = [threading.Thread(target=work) for _ in range(3)]
    for thread in threads:
        thread.start()
    try:
        yield
    finally:
        is_done = True
        for thread in threads:
            thread.join()


@needs_fork
def test_a_child_is_refused_by_name_and_may_let_go(plan: Plan) -> None:
    pool = new_pool(plan, 40)
    sequence, other = new_sequence(plan, pool), new_sequence(plan, pool)
    prefix, unfrozen = Prefix(other), Prefix(new_sequence(plan, pool))
    for one in (sequence, other):
        one.push(PROMPT)
        run(plan, one)
    prefix.freeze()
    snapshot, blob = sequence.snapshot(), save(sequence)
    options = SequenceOptions(context_tokens=200)

    def compute_and_freeze() -> None:
        run(plan, unfrozen.sequence)
        unfrozen.freeze()

    calls: tuple[Callable[[], object], ...] = (
        pool.hold,
        lambda: pool.free_page_count,
        lambda: snapshot.hold.take(1),
        lambda: snapshot.hold.take_free(1),
        lambda: snapshot.hold.share(1),
        lambda: snapshot.hold.keep_own(0),
        snapshot.share,
        sequence.decode,
        sequence.reset,
        sequence.stats,
        sequence.snapshot,
        lambda: sequence.push([1]),
        lambda: sequence.prefill([1]),
        lambda: sequence.adopt(snapshot),
        compute_and_freeze,
        lambda: prefix.adopt_into(sequence),
        lambda: save(sequence),
        lambda: save(snapshot),
        lambda: new_sequence(plan, pool),
        lambda: restore(blob, plan.program, pool, MODEL_ID, options),
    )

    def work() -> None:
        for call in calls:
            with pytest.raises(ForkedProcessError):
                call()
        for let_go in (snapshot.release, prefix.release, sequence.close, pool.close):
            let_go()
            let_go()
        gc.collect()
        # With a pool of its own the child goes on where the parent stood.
        own = new_pool(plan)
        with restore(blob, plan.program, own, MODEL_ID, options) as restored:
            assert end(plan, restored, 80) == expected

    with restore(blob, plan.program, pool, MODEL_ID, options) as lone:
        expected = end(plan, lone, 80)
    with busy(plan, pool):
        for _ in range(FORKS):
            in_child(work)
            time.sleep(0.002)
    assert end(plan, sequence, 80) == expected
    for let_go in (snapshot.release, prefix.release, unfrozen.release, sequence.close, pool.close):
        let_go()
    assert pool.held_page_count == 0


@needs_fork
def test_a_child_may_close_the_model_whatever_lives_in_the_parent(plan: Plan) -> None:
    closings: list[int] = []
    model = HostedModel(plan.program, MODEL_ID, lambda: closings.append(1))
    pool, options = new_pool(plan), SequenceOptions(context_tokens=200)
    with model.sequence(pool, options) as sequence:
        blob = save(sequence)
        calls: tuple[Callable[[], object], ...] = (
            lambda: model.sequence(new_pool(plan), options),
            lambda: model.restore(blob, new_pool(plan), options),
            lambda: model.prefix(sequence),
        )

        def work() -> None:
            for call in calls:
                with pytest.raises(ForkedProcessError):
                    call()
            model.close()
            model.close()
            assert closings == [1]

        with model._turns.turn():
            # Whoever has the turn is not there in the child.
            in_child(work)
        assert closings == []
    model.close()


def test_what_lives_in_one_process_is_not_sent_to_another(plan: Plan) -> None:
    pool = new_pool(plan)
    with new_sequence(plan, pool) as sequence, Prefix(new_sequence(plan, pool)) as prefix:
        snapshot = sequence.snapshot()
        model = HostedModel(plan.program, MODEL_ID, lambda: None)
        for one in (pool, sequence, prefix, snapshot, snapshot.hold, model):
            for send in (pickle.dumps, copy.copy, copy.deepcopy):
                with pytest.raises(NotCopyableError):
                    send(one)
