"""Several threads, and interrupts, on the objects of the runtime: nothing may be lost or differ."""

import random
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from types import FrameType
from typing import Final

from sslm.artifact import read_artifact
from sslm.engine.model import Model
from sslm.errors.base import SslmError
from sslm.errors.runtime import (
    ContextLengthError,
    KvPoolExhaustedError,
    NothingChosenError,
    ObjectClosedError,
    PoolInUseError,
    SequenceBusyError,
    SequenceInterruptedError,
    SequenceInUseError,
    SequenceNotFreshError,
    SequenceReleasedError,
)
from sslm.opening.runner import Runner, open_backend
from sslm.opening.shared_pool import SharedPool
from sslm.program.states import StateLayout
from sslm.runtime.saves.saving import restore_into, save
from sslm.runtime.sequences.kv_pool import KvPool
from sslm.runtime.sequences.options import SequenceOptions
from sslm.runtime.sequences.prefix import Prefix
from sslm.runtime.sequences.sequence import Sequence
from sslm.runtime.sequences.snapshot import Snapshot
from tests.converted import stories_artifact

THREADS: Final = 4
CONTEXT_TOKENS: Final = 192
MAX_TOKENS: Final = 3
PAGES: Final = 14
SWITCH_INTERVAL_S: Final = 1e-5
"""How long a thread runs Python before another may: as short as a few lines."""

Answer = tuple[list[int], bytes]


class Stand:
    """A model on a backend, one pool, and what lone sequences answer.

    Args:
        backend: ``native`` or ``reference``.
        threads: Of the plan.
        lengths: Of the prompts, in tokens.
    """

    def __init__(self, backend: str, *, threads: int = 1, lengths: tuple[int, ...]) -> None:
        artifact = read_artifact(stories_artifact())
        opened = open_backend(backend, tier="auto", threads=threads)
        self.runner = Runner(artifact, opened, context_tokens=CONTEXT_TOKENS)
        self.pool = KvPool(self.runner.program.state_layout, PAGES)
        ids = random.Random(1)
        self.prompts = [[ids.randrange(500) for _ in range(length)] for length in lengths]
        self.answers: list[Answer] = []
        for prompt in self.prompts:
            with self.sequence() as sequence:
                sequence.push(prompt)
                self.answers.append(self.answer(sequence, random.Random(0)))

    def sequence(self) -> Sequence:
        """Return a sequence that takes pages of the pool as it needs them."""
        options = SequenceOptions(context_tokens=CONTEXT_TOKENS, reserved_tokens=0)
        return Sequence(self.runner.program, self.pool, self.runner.model_id, options)

    def step(self, sequence: Sequence, dice: random.Random) -> None:
        """Run a slice, mostly short of a chunk."""
        self.runner.advance([sequence], budget_units=dice.choice((1, 2, 100)))

    def answer(self, sequence: Sequence, dice: random.Random) -> Answer:
        """Compute what is pending, then some tokens more."""
        tokens: list[int] = []
        while len(tokens) < MAX_TOKENS:
            while sequence.has_work:
                self.step(sequence, dice)
            tokens.append(sequence.decode())
        return tokens, sequence.digest

    def require_answer(self, index: int, sequence: Sequence, dice: random.Random) -> None:
        """Raise AssertionError unless a sequence answers its prompt as a lone one does."""
        found = self.answer(sequence, dice)
        assert found == self.answers[index], f"prompt {index}: {found} is not {self.answers[index]}"

    def require_rest(self) -> None:
        """Raise AssertionError unless all pages are free, and everything still works."""
        assert self.pool.held_page_count == 0
        for index, prompt in enumerate(self.prompts):
            with self.sequence() as sequence:
                sequence.push(prompt)
                self.require_answer(index, sequence, random.Random(index))


@contextmanager
def fast_switching() -> Iterator[None]:
    """Let threads alternate as often as they can."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(SWITCH_INTERVAL_S)
    try:
        yield
    finally:
        sys.setswitchinterval(before)


def in_threads(
    work: Callable[[random.Random], object],
    seconds: float,
    seed: int,
    is_enough: Callable[[], bool] = lambda: True,
) -> int:
    """Do work again and again in several threads; return how often, or raise what one raised.

    A slow machine takes longer, until each thread has done it twice and it is enough.
    """
    stop = time.monotonic() + seconds
    errors: list[BaseException] = []
    counts = [0] * THREADS

    def loop(index: int) -> None:
        dice = random.Random(seed * THREADS + index)
        try:
            while not errors and (time.monotonic() < stop or counts[index] < 2 or not is_enough()):
                work(dice)
                counts[index] += 1
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=loop, args=(index,)) for index in range(THREADS)]
    with fast_switching():
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(seconds + 240)
    if any(thread.is_alive() for thread in threads):
        # Also tells those that do not hang to end.
        errors.append(AssertionError("a thread hangs, or it is never enough"))
    if errors:
        raise errors[0]
    return sum(counts)


# What there is to do. Each returns how often it was done.


def different_sequences(stand: Stand, seconds: float, seed: int) -> int:
    """Sequences of one pool, each of one thread, that come, fork, go and run out of pages."""

    def work(dice: random.Random) -> None:
        index = dice.randrange(len(stand.prompts))
        # Others have the pages; they will give them back.
        with suppress(KvPoolExhaustedError), stand.sequence() as sequence:
            sequence.push(stand.prompts[index])
            if dice.random() < 0.3:
                stand.step(sequence, dice)
                sequence.reset()
                sequence.push(stand.prompts[index])
            for _ in range(dice.randrange(3)):
                if sequence.pending_count:
                    stand.step(sequence, dice)
            if dice.random() < 0.5:
                go_on_elsewhere(sequence, index, dice)
            if dice.random() < 0.8:
                stand.require_answer(index, sequence, dice)

    def go_on_elsewhere(sequence: Sequence, index: int, dice: random.Random) -> None:
        with stand.sequence() as other:
            if dice.random() < 0.5:
                restore_into(other, save(sequence))
            else:
                snapshot = sequence.snapshot()
                try:
                    other.adopt(snapshot)
                finally:
                    snapshot.release()
            stand.require_answer(index, other, dice)

    return in_threads(work, seconds, seed)


def pages_alone(seconds: float, seed: int) -> int:
    """Pages that are taken, shared and given back, each of which one thread alone may write."""
    layout = StateLayout((), (), page_size_bytes=64, fixed_size_bytes=0)
    pool = KvPool(layout, 2 * THREADS)
    writers = [0] * pool.page_count

    def work(dice: random.Random) -> None:
        hold = pool.hold()
        with suppress(KvPoolExhaustedError):
            hold.take(dice.randrange(1, 4))
            me = threading.get_ident()
            pages = list(hold.pages)
            for page in pages:
                assert writers[page] == 0, "a page has two owners"
                writers[page] = me
            shared = hold.share(1)
            other = pool.hold()
            other.put_first(shared, 1)
            assert pool.held_page_count >= len(pages)
            for page in pages:
                assert writers[page] == me, "a page has two owners"
                writers[page] = 0
            for one in (other, shared):
                one.release()
        hold.release()

    count = in_threads(work, seconds, seed)
    assert (pool.held_page_count, len(pool._free)) == (0, pool.page_count)
    pool.close()
    return count


ALLOWED: Final = (
    ContextLengthError,
    KvPoolExhaustedError,
    NothingChosenError,
    ObjectClosedError,
    SequenceBusyError,
    SequenceInUseError,
    SequenceNotFreshError,
    SequenceReleasedError,
)
"""What calls in an order that nobody has chosen may be refused with."""


def one_sequence(stand: Stand, seconds: float, seed: int) -> int:
    """One sequence that all threads call, close and replace."""
    place = [stand.sequence()]
    met: set[type[SslmError]] = set()

    def work(dice: random.Random) -> None:
        sequence = place[0]
        index = dice.randrange(len(stand.prompts))
        calls: tuple[Callable[[], object], ...] = (
            lambda: sequence.push(stand.prompts[index]),
            lambda: sequence.prefill(stand.prompts[index]),
            sequence.decode,
            lambda: stand.step(sequence, dice),
            lambda: stand.step(sequence, dice),
            lambda: sequence.snapshot().release(),
            lambda: save(sequence),
            sequence.stats,
            sequence.reset,
            lambda: adopt_from(sequence),
        )
        try:
            if dice.random() < 0.05:
                sequence.close()
                place[0] = stand.sequence()
            else:
                dice.choice(calls)()
        except ALLOWED as refusal:
            met.add(type(refusal))

    def adopt_from(sequence: Sequence) -> None:
        snapshot = sequence.snapshot()
        try:
            sequence.adopt(snapshot)
        finally:
            snapshot.release()

    count = in_threads(work, seconds, seed, lambda: SequenceInUseError in met)
    place[0].reset()
    place[0].push(stand.prompts[0])
    stand.require_answer(0, place[0], random.Random(seed))
    place[0].close()
    return count


def released_prefixes(stand: Stand, seconds: float, seed: int) -> int:
    """Prefixes that one thread replaces while the others adopt them, and go on."""
    index = max(range(len(stand.prompts)), key=lambda number: len(stand.prompts[number]))
    prompt = stand.prompts[index]

    def frozen() -> Prefix:
        prefix = Prefix(stand.sequence())
        prefix.prefill(prompt[:-1])
        while prefix.sequence.has_work:
            stand.step(prefix.sequence, random.Random(seed))
        prefix.freeze()
        return prefix

    place = [frozen()]

    def work(dice: random.Random) -> None:
        prefix = place[0]
        if dice.random() < 0.2:
            with suppress(KvPoolExhaustedError):
                place[0] = frozen()
                prefix.release()
            return
        with suppress(ObjectClosedError, KvPoolExhaustedError), stand.sequence() as sequence:
            prefix.adopt_into(sequence)
            sequence.push(prompt[-1:])
            stand.require_answer(index, sequence, dice)
            with suppress(PoolInUseError):
                stand.pool.close()
                raise AssertionError("a pool was closed of which pages are held")

    count = in_threads(work, seconds, seed)
    place[0].release()
    # Two threads may have replaced one prefix at the same time: then nobody has the other one.
    del place[:]
    return count


def models_that_close(seconds: float, seed: int) -> int:
    """Models that are opened, used by several threads and closed in the middle of it."""
    dice = random.Random(seed)
    stop = time.monotonic() + seconds
    count = 0
    while time.monotonic() < stop or count < 4:
        model = Model(stories_artifact(), threads=dice.choice((1, 2)), context_tokens=256)
        errors: list[BaseException] = []
        pool = model.kv_pool(1024)

        calls = (
            partial(_answer_on, model),
            partial(_answer_on, model),
            partial(_slice_on, model, pool),
        )
        threads = [threading.Thread(target=_until_refused, args=(call, errors)) for call in calls]
        with fast_switching():
            for thread in threads:
                thread.start()
            time.sleep(dice.random() * 0.01)
            model.close()
            for thread in threads:
                thread.join(240)
        assert not any(thread.is_alive() for thread in threads), "a thread hangs"
        assert [type(error) for error in errors] == [ObjectClosedError] * 3, errors
        assert pool.free_tokens == pool.tokens
        pool.close()
        count += 1
    return count


def _until_refused(call: Callable[[], object], errors: list[BaseException]) -> None:
    try:
        while True:
            call()
    except BaseException as error:
        errors.append(error)


def _answer_on(model: Model) -> None:
    model.generate([1] * 100, max_tokens=3)


def _slice_on(model: Model, pool: SharedPool) -> None:
    with model.sequence([1] * 50, max_tokens=50, pool=pool) as sequence:
        for length in range(1, 40):
            sequence.advance(layers=1)
            sequence.reset([2] * length, max_tokens=50)


def interrupts(stand: Stand, seconds: float, seed: int) -> int:
    """Signals at random moments of every call, in the thread that handles them."""
    dice = random.Random(seed)
    stop = time.monotonic() + seconds
    is_armed = False

    def handle(number: int, frame: FrameType | None) -> None:
        nonlocal is_armed
        if is_armed:
            is_armed = False
            raise KeyboardInterrupt

    def interrupted(act: Callable[[], object]) -> bool:
        nonlocal is_armed
        try:
            try:
                is_armed = True
                signal.setitimer(signal.ITIMER_REAL, dice.random() ** 3 * 0.003 + 1e-6)
                act()
            finally:
                is_armed = False
        except KeyboardInterrupt:
            is_armed = False
            return True
        return False

    before = signal.signal(signal.SIGALRM, handle)
    count = 0
    try:
        while time.monotonic() < stop or count < 4:
            index = dice.randrange(len(stand.prompts))
            count += _interrupted_life(stand, index, dice, interrupted)
            assert stand.pool.held_page_count == 0
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    return count


def _interrupted_life(
    stand: Stand,
    index: int,
    dice: random.Random,
    interrupted: Callable[[Callable[[], object]], bool],
) -> int:
    """Bring one prompt to its answer through interrupts; return how many there were."""
    snapshots: list[Snapshot] = []
    count = 0
    with stand.sequence() as sequence:
        while not sequence.token_ids and not sequence.pending_count:
            count += interrupted(lambda: sequence.push(stand.prompts[index]))
        for _ in range(dice.randrange(6)):
            with suppress(SequenceBusyError):
                count += interrupted(lambda: stand.step(sequence, dice))
        count += interrupted(lambda: snapshots.append(sequence.snapshot()))
        with stand.sequence() as other:
            if snapshots:
                while not other.token_ids and not other.pending_count:
                    count += interrupted(lambda: other.adopt(snapshots[0]))
                stand.require_answer(index, other, dice)
            for _ in range(2):
                with suppress(KvPoolExhaustedError):
                    count += interrupted(other.reset)
            other.reset()
            other.push(stand.prompts[0])
            stand.require_answer(0, other, dice)
        try:
            stand.require_answer(index, sequence, dice)
        except SequenceInterruptedError:
            # Results of the reference are handed over in several steps.
            sequence.reset()
            sequence.push(stand.prompts[index])
            stand.require_answer(index, sequence, dice)
        count += interrupted(sequence.close)
    for snapshot in snapshots:
        count += interrupted(snapshot.release)
        snapshot.release()
    return count
