"""Threads take turns in order, may stop waiting, and never wait for themselves."""

import threading
import time

import pytest

from sslm.errors.native import RunCancelledError
from sslm.errors.runtime import NestedCallError
from sslm.runtime.guards import Cancellation, Turn, Turns


def in_thread(work: object) -> threading.Thread:
    thread = threading.Thread(target=work)  # type: ignore[arg-type]
    thread.start()
    return thread


def test_turns_come_in_the_order_of_asking() -> None:
    turns, order = Turns(), []
    threads = []
    with turns.turn():
        for index in range(5):

            def work(index: int = index) -> None:
                with turns.turn():
                    order.append(index)

            threads.append(in_thread(work))
            while len(turns._queue) < index + 2:
                time.sleep(0.001)
    for thread in threads:
        thread.join(240)
    assert order == [0, 1, 2, 3, 4]
    assert not turns._queue


def test_who_asks_again_at_once_waits_for_the_others() -> None:
    turns, order = Turns(), []

    def work(name: str) -> None:
        for round_index in range(5):
            with turns.turn():
                order.append(name)
                wait_for(3 if round_index < 4 else 0)

    def wait_for(place_count: int) -> None:
        while len(turns._queue) < place_count:
            time.sleep(0.001)

    threads = []
    with turns.turn():
        for index, name in enumerate("abc"):
            threads.append(in_thread(lambda name=name: work(name)))
            wait_for(index + 2)
    for thread in threads:
        thread.join(240)
    assert "".join(order) == "abc" * 5


def test_one_that_waits_can_be_cancelled() -> None:
    turns, cancellation = Turns(), Cancellation()
    errors: list[Exception] = []

    def work() -> None:
        try:
            with turns.turn(cancellation):
                raise AssertionError("it is not its turn")
        except RunCancelledError as error:
            errors.append(error)

    with turns.turn():
        thread = in_thread(work)
        while len(turns._queue) < 2:
            time.sleep(0.001)
        cancellation.set()
        thread.join(240)
        assert len(errors) == 1
        assert len(turns._queue) == 1
    with turns.turn():
        pass


def test_a_thread_does_not_wait_for_itself() -> None:
    turns = Turns()
    with turns.turn():
        with pytest.raises(NestedCallError), turns.turn():
            pass
        assert len(turns._queue) == 1
    with turns.turn():
        pass


def test_a_place_that_was_lost_holds_nobody_up() -> None:
    turns = Turns()
    # As an interrupt does between the two halves of a with statement.
    turns.turn().__enter__()
    with turns.turn():
        pass
    assert not turns._queue


def test_an_interrupt_between_a_block_and_the_end_of_its_turn(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    turns = Turns()

    def interrupted() -> None:
        with turns.turn():
            pass

    def interrupt(turn: Turn) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(Turn, "leave", interrupt)
        with pytest.raises(KeyboardInterrupt) as caught:
            interrupted()
    # The error holds the turn, and whoever handles it asks for one.
    assert len(turns._queue) == 1
    with turns.turn(), pytest.raises(NestedCallError), turns.turn():
        pass
    assert not turns._queue
    del caught
