"""A request becomes part of the conversation, or leaves nothing: wherever it is ended."""

import gc
import itertools
import pickle
import threading
import weakref
from array import array
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from sslm import limits
from sslm.backends.native import NativeBackend
from sslm.errors.native import RunCancelledError
from sslm.errors.runtime import (
    ContextLengthError,
    EmptyPromptError,
    NotCopyableError,
    ObjectClosedError,
    SequenceBusyError,
    TokenIdRangeError,
)
from sslm.errors.sessions import AnswerUnfinishedError, SessionNotAcceptingError
from sslm.program.plan import Plan
from sslm.runtime.guards import Cancellation
from sslm.runtime.sequences.kv_pool import KvPool
from sslm.runtime.sequences.sequence import Sequence
from sslm.runtime.sequences.snapshot import Snapshot
from sslm.runtime.slices.stepper import advance, finished
from sslm.runtime.transactions.checkpoints import CheckpointBudget
from sslm.runtime.transactions.token_request import TokenRequest
from sslm.runtime.transactions.token_session import TokenSession
from tests.interrupting import interrupted_at_line, is_code_of_package
from tests.sequences import LONGEST, MODELS, PROMPT, new_sequence, reference_plan, run
from tests.tiny_models import ALL_UNITS, MODEL_ID, tiny_llama

FIRST = PROMPT
"""75 tokens; the marks of a request lie at 10 and 70."""
MARKS = (10, 70)


class StopError(Exception):
    """What a reader or a callback raises."""


class Steps:
    """The callable that advances, which can be told to fail at its n-th call."""

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        self.count = 0
        self.tokens = 0
        self.fail_at: int | None = None
        self.error: BaseException = StopError()

    def __call__(self, sequence: Sequence, cancellation: Cancellation | None) -> None:
        if self.count == self.fail_at:
            raise self.error
        self.count += 1
        before = sequence.position
        outcomes = advance(
            self.plan,
            [sequence],
            budget_units=ALL_UNITS,
            row_count_max=64,
            cancellation=cancellation,
        )
        finished(outcomes)
        self.tokens += sequence.position - before


class Owner:
    """A session with all that a test looks at."""

    def __init__(self, plan: Plan, *, pages: int = 8, **options: Any) -> None:
        self.steps = Steps(plan)
        self.pool = KvPool(plan.program.state_layout, pages)
        budget = options.pop("budget", CheckpointBudget(size_bytes=1 << 30))
        self.session: TokenSession[str] = TokenSession(
            plan.program,
            self.pool,
            MODEL_ID,
            advance=self.steps,
            context_tokens=LONGEST,
            budget=budget,
            note="nothing yet",
        )

    def state(self) -> tuple[Any, ...]:
        """Return everything that rolling back has to restore."""
        committed = self.session.committed
        saved = [
            (tuple(one.token_ids), one.link, one.selected, one.counters, bytes(one.tail))
            for one in committed.checkpoints.saved
        ]
        facts = committed.token_ids, committed.digest, committed.note
        size = committed.checkpoints.size_bytes
        return *facts, saved, size, self.pool.held_page_count, self.session.is_accepting

    def answer(self, ids: list[int], count: int = 3, **options: Any) -> tuple[list[int], bytes]:
        with self.session.begin(ids, answer_tokens=count, marks=MARKS, **options) as request:
            tokens = [request.next_token() for _ in range(count)]
            digest = request.digest()
            request.commit(f"{len(ids)} tokens")
            return tokens, digest

    def close(self) -> None:
        self.session.close()
        assert self.pool.held_page_count == 0
        self.pool.close()


@pytest.fixture(scope="module", params=MODELS)
def plan(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Plan:
    folder = tmp_path_factory.mktemp("model")
    if request.param == "recurrent":
        return reference_plan(request.param, folder)
    model = tiny_llama(folder)
    backend = NativeBackend("auto", threads=1)
    return backend.compile(model.program, model.tensors, row_count_max=64, context_tokens=LONGEST)


@pytest.fixture
def owner(plan: Plan) -> Iterator[Owner]:
    made = Owner(plan)
    yield made
    made.close()


def cold(plan: Plan, ids: list[int], count: int = 3) -> tuple[list[int], bytes]:
    """Return what a lone sequence answers."""
    pool = KvPool(plan.program.state_layout, 4)
    with new_sequence(plan, pool) as sequence:
        sequence.push(ids)
        tokens: list[int] = []
        while True:
            run(plan, sequence)
            assert sequence.selected is not None
            tokens.append(sequence.selected)
            if len(tokens) == count:
                return tokens, sequence.answer_digest(tokens)
            sequence.decode()


def test_what_follows_computes_only_what_is_new(plan: Plan, owner: Owner) -> None:
    tokens, digest = owner.answer(FIRST)
    assert (tokens, digest) == cold(plan, FIRST)
    assert owner.session.committed.token_ids == (*FIRST, *tokens)
    assert owner.session.committed.digest == digest
    assert owner.session.committed.note == "75 tokens"
    # Checkpoints after both marks, the prompt, and the answer but for its last token.
    saved = [len(one.token_ids) for one in owner.session.committed.checkpoints.saved]
    assert saved == [10, 70, 75, 77]
    second = [*FIRST, *tokens, 5, 6, 7]
    for ids, cached in ((second, 77), ([*FIRST[:70], 9, 9], 70), ([*FIRST[:69], 9, 9], 10)):
        before = owner.steps.tokens
        with owner.session.begin(ids, answer_tokens=3, marks=MARKS) as request:
            found = [request.next_token() for _ in range(3)], request.digest()
            assert (request.cached_count, request.position) == (cached, len(ids) + 2)
            assert request.computed_count == owner.steps.tokens - before == len(ids) + 2 - cached
            request.commit("")
        assert found == cold(plan, ids)


def test_a_prompt_that_is_saved_is_not_computed_again(plan: Plan, owner: Owner) -> None:
    expected = owner.answer(FIRST, 1)
    steps = owner.steps.count
    before = owner.state()
    assert owner.answer(FIRST, 1) == expected == cold(plan, FIRST, 1)
    assert owner.steps.count == steps
    assert owner.state()[4:] == before[4:]
    # And one that continues there decodes only.
    assert owner.answer(FIRST, 4) == cold(plan, FIRST, 4)
    assert owner.steps.tokens == len(FIRST) + 3


def prepared(plan: Plan) -> tuple[Owner, list[int]]:
    """Return a session after one turn, and the prompt of a second that goes on behind it."""
    owner = Owner(plan)
    tokens, _ = owner.answer(FIRST)
    return owner, [*FIRST, *tokens, *range(20)]


SECOND_MARKS = (80, 90)
ANSWER = 4


def try_second(owner: Owner, ids: list[int], **options: Any) -> tuple[list[int], bytes]:
    given: dict[str, Any] = {"answer_tokens": ANSWER, "marks": SECOND_MARKS} | options
    with owner.session.begin(ids, **given) as request:
        tokens = [request.next_token() for _ in range(ANSWER)]
        digest = request.digest()
        request.commit("second")
        return tokens, digest


def require_rollback(
    plan: Plan, owner: Owner, ids: list[int], before: tuple[Any, ...], expected: object
) -> None:
    """Check that nothing of a failed request is left, and that repeating it comes to its bits."""
    assert owner.state() == before
    assert try_second(owner, ids) == expected
    assert owner.session.committed.note == "second"
    owner.close()


@pytest.mark.parametrize("error", [StopError, KeyboardInterrupt, RunCancelledError, MemoryError])
def test_a_failing_step_leaves_nothing(plan: Plan, error: type[BaseException]) -> None:
    owner, ids = prepared(plan)
    expected = cold(plan, ids, ANSWER)
    first = owner.steps.count
    assert try_second(owner, ids) == expected
    step_count = owner.steps.count - first
    owner.close()
    # The two marks, the prompt's end, and a step for each but the first token.
    assert step_count == 3 + ANSWER - 1
    for step in range(step_count):
        owner, ids = prepared(plan)
        before = owner.state()
        owner.steps.fail_at, owner.steps.error = owner.steps.count + step, error()
        with pytest.raises(error):
            try_second(owner, ids)
        owner.steps.fail_at = None
        require_rollback(plan, owner, ids, before, expected)


def failing(calls: int) -> Callable[..., Any]:
    left = iter(range(calls))

    def call(*facts: object) -> int:
        if next(left, None) is None:
            raise StopError
        return 0

    return call


@pytest.mark.parametrize(
    ("callback", "calls"), [("require_time", 6), ("on_progress", 3), ("clock_ns", 7)]
)
def test_a_failing_callback_leaves_nothing(plan: Plan, callback: str, calls: int) -> None:
    owner, ids = prepared(plan)
    expected = cold(plan, ids, ANSWER)
    assert try_second(owner, ids, **{callback: failing(calls)}) == expected
    owner.close()
    # The last look at the clock comes after the commit.
    for call in range(calls - (callback == "clock_ns")):
        owner, ids = prepared(plan)
        before = owner.state()
        with pytest.raises(StopError):
            try_second(owner, ids, **{callback: failing(call)})
        require_rollback(plan, owner, ids, before, expected)


@pytest.mark.parametrize("tokens_read", range(ANSWER + 1))
@pytest.mark.parametrize("ending", ["close", "drop", "raise"])
def test_a_reader_that_leaves_rolls_back(plan: Plan, tokens_read: int, ending: str) -> None:
    owner, ids = prepared(plan)
    expected, before = cold(plan, ids, ANSWER), owner.state()

    def read() -> None:
        request = owner.session.begin(ids, answer_tokens=ANSWER, marks=SECOND_MARKS)
        assert [request.next_token() for _ in range(tokens_read)] == expected[0][:tokens_read]
        if ending == "close":
            request.close()
            request.close()
        elif ending == "raise":
            with pytest.raises(OSError, match="disk is full"), request:
                raise OSError("the disk is full")

    read()
    require_rollback(plan, owner, ids, before, expected)


@pytest.mark.parametrize("snapshot", range(4))
@pytest.mark.parametrize("error", [MemoryError, StopError, KeyboardInterrupt])
def test_a_checkpoint_that_cannot_be_taken(
    plan: Plan, snapshot: int, error: type[BaseException], monkeypatch: pytest.MonkeyPatch
) -> None:
    owner, ids = prepared(plan)
    expected, before = cold(plan, ids, ANSWER), owner.state()
    take, left = Sequence.snapshot, iter(range(snapshot))

    def fail(sequence: Sequence) -> Snapshot:
        if next(left, None) is None:
            raise error
        return take(sequence)

    with monkeypatch.context() as patched:
        patched.setattr(Sequence, "snapshot", fail)
        if error is MemoryError:
            # An answer does not depend on checkpoints; those from before are still there.
            assert try_second(owner, ids) == expected
            kept = owner.session.committed.checkpoints.saved
            assert [tuple(one.token_ids) for one in kept][:3] == [one[0] for one in before[3]][:3]
        else:
            with pytest.raises(error):
                try_second(owner, ids)
    if error is not MemoryError:
        require_rollback(plan, owner, ids, before, expected)
    else:
        assert try_second(owner, ids) == expected
        owner.close()


def test_a_sequence_that_cannot_be_made_leaves_nothing(
    plan: Plan, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("push", "adopt", "decode_span"):
        owner, ids = prepared(plan)
        expected, before = cold(plan, ids, ANSWER), owner.state()
        with monkeypatch.context() as patched:
            patched.setattr(Sequence, name, failing(0))
            with pytest.raises(StopError):
                try_second(owner, ids)
        require_rollback(plan, owner, ids, before, expected)


def test_an_early_commit_keeps_what_was_shown(plan: Plan, owner: Owner) -> None:
    with owner.session.begin(FIRST, answer_tokens=9) as request:
        tokens = [request.next_token() for _ in range(3)]
        request.commit("shown")
        assert not request.is_open
        for call in (request.next_token, request.digest, lambda: request.commit("again")):
            with pytest.raises(ObjectClosedError):
                call()
    assert (tokens, owner.session.committed.digest) == cold(plan, FIRST, 3)
    assert owner.session.committed.note == "shown"
    second = [*FIRST, *tokens, 1]
    with owner.session.begin(second, answer_tokens=1) as request:
        assert request.next_token() == cold(plan, second, 1)[0][0]
        assert request.cached_count == len(FIRST) + 2


def test_what_closes_an_answer_is_computed_behind_it(plan: Plan, owner: Owner) -> None:
    closing = [4, 5]
    with owner.session.begin(FIRST, answer_tokens=3) as request:
        tokens = [request.next_token() for _ in range(3)]
        request.commit("", closing)
    assert request.computed_count == len(FIRST) + 3 + len(closing)
    assert (tokens, owner.session.committed.digest) == cold(plan, FIRST)
    assert owner.session.committed.token_ids == (*FIRST, *tokens)
    saved = [len(one.token_ids) for one in owner.session.committed.checkpoints.saved]
    assert saved == [75, 77, 80]
    second = [*FIRST, *tokens, *closing, 6]
    with owner.session.begin(second, answer_tokens=2) as request:
        assert [request.next_token() for _ in range(2)] == cold(plan, second, 2)[0]
        assert request.cached_count == 80


def test_without_what_closes_it_an_answer_is_kept_all_the_same(plan: Plan) -> None:
    for error in (RunCancelledError(), MemoryError()):
        owner, ids = prepared(plan)
        with owner.session.begin(ids, answer_tokens=1) as request:
            request.next_token()
            owner.steps.fail_at, owner.steps.error = owner.steps.count, error
            request.commit("kept", [1])
        owner.steps.fail_at = None
        assert owner.session.committed.note == "kept"
        assert owner.answer([*ids, 1]) == cold(plan, [*ids, 1])
        owner.close()
    # A defect is none of these: it takes the answer with it, whole.
    owner, ids = prepared(plan)
    before = owner.state()
    request = owner.session.begin(ids, answer_tokens=1)
    request.next_token()
    owner.steps.fail_at, owner.steps.error = owner.steps.count, StopError()
    with pytest.raises(StopError):
        request.commit("kept", [1])
    assert owner.state() == before
    owner.close()


def test_before_a_token_there_is_nothing_to_commit(owner: Owner) -> None:
    before = owner.state()
    request = owner.session.begin(FIRST, answer_tokens=1)
    with pytest.raises(ObjectClosedError):
        request.commit("")
    assert not request.is_open
    assert owner.state() == before


def test_one_request_at_a_time(owner: Owner) -> None:
    request = owner.session.begin(FIRST, answer_tokens=2)
    for call in (
        lambda: owner.session.begin(FIRST, answer_tokens=2),
        lambda: owner.session.keep_note("other"),
    ):
        with pytest.raises(AnswerUnfinishedError):
            call()
    request.next_token()
    request.next_token()
    with pytest.raises(ContextLengthError):
        request.next_token()
    assert not request.is_open
    owner.session.keep_note("other")
    assert owner.session.committed.note == "other"


def test_what_cannot_be_met_is_refused_at_once(owner: Owner) -> None:
    before = owner.state()
    refusals: tuple[tuple[list[int], int, type[Exception]], ...] = (
        ([], 1, EmptyPromptError),
        ([1] * LONGEST, 2, ContextLengthError),
        ([1, 1 << 20], 1, TokenIdRangeError),
    )
    for ids, count, error in refusals:
        with pytest.raises(error):
            owner.session.begin(ids, answer_tokens=count)
    assert owner.state() == before
    for copy in (owner.session, owner.session.begin([1], answer_tokens=1)):
        with pytest.raises(NotCopyableError):
            pickle.dumps(copy)


def test_a_doubtful_restore_closes_admission_until_a_reset(plan: Plan, owner: Owner) -> None:
    owner.answer(FIRST)
    committed = owner.session.committed
    # Somebody gave the pages of the saved states to others.
    for one in committed.checkpoints.saved:
        one.release()
    with pytest.raises(ObjectClosedError):
        owner.answer([*FIRST, 1])
    assert not owner.session.is_accepting
    with pytest.raises(SessionNotAcceptingError, match="snapshot is closed"):
        owner.answer([1, 2])
    assert owner.session.committed == committed
    owner.session.reset("new")
    assert owner.session.committed.note == "new"
    assert owner.session.committed.token_ids == ()
    assert owner.answer(FIRST) == cold(plan, FIRST)


def test_a_failed_reset_closes_admission_until_one_succeeds(
    plan: Plan, owner: Owner, monkeypatch: pytest.MonkeyPatch
) -> None:
    owner.answer(FIRST)
    committed = owner.session.committed
    with monkeypatch.context() as patched:
        patched.setattr(Snapshot, "release", failing(1))
        with pytest.raises(StopError):
            owner.session.reset("new")
    with pytest.raises(SessionNotAcceptingError):
        owner.answer(FIRST)
    assert owner.session.committed == committed
    owner.session.reset("new")
    assert owner.pool.held_page_count == 0
    assert owner.answer(FIRST) == cold(plan, FIRST)


def test_a_reset_rolls_an_open_request_back(owner: Owner) -> None:
    request = owner.session.begin(FIRST, answer_tokens=3)
    request.next_token()
    owner.session.reset("")
    with pytest.raises(ObjectClosedError):
        request.next_token()
    assert owner.pool.held_page_count == 0


def test_a_lack_of_pages_is_no_reason_to_doubt(plan: Plan) -> None:
    # Pages for one context only, where the session is promised those of its checkpoints, too.
    owner = Owner(plan, pages=4)
    tokens, _ = owner.answer(FIRST)
    hold = owner.pool.hold()
    hold.take(owner.pool.free_page_count)
    with pytest.raises(Exception, match="pages of 64 tokens"):
        owner.answer([*FIRST, *tokens, *([1] * 60)])
    hold.release()
    ids = [*FIRST, *tokens, *([1] * 60)]
    assert owner.answer(ids) == cold(plan, ids)
    owner.close()


def test_the_budget_holds_at_every_turn(plan: Plan) -> None:
    layout = plan.program.state_layout
    budget = CheckpointBudget(size_bytes=2 * layout.page_size_bytes + 6000, count=3)
    owner = Owner(plan, budget=budget)
    ids: list[int] = [3]
    for turn in range(8):
        tokens, digest = owner.answer(ids, 2)
        assert (tokens, digest) == cold(plan, ids, 2)
        checkpoints = owner.session.committed.checkpoints
        assert checkpoints.size_bytes <= budget.size_bytes
        assert len(checkpoints.saved) <= 3
        ids += [*tokens, *[turn] * 19]
    owner.close()


@pytest.mark.parametrize(
    "budget", [CheckpointBudget(size_bytes=0), CheckpointBudget(size_bytes=1 << 30, count=0)]
)
def test_without_a_budget_nothing_is_kept(
    plan: Plan, budget: CheckpointBudget, monkeypatch: pytest.MonkeyPatch
) -> None:
    owner = Owner(plan, budget=budget)
    # Not even copied.
    monkeypatch.setattr(Sequence, "snapshot", failing(0))
    for _ in range(2):
        assert owner.answer(FIRST) == cold(plan, FIRST)
    assert owner.pool.held_page_count == 0
    owner.close()


def test_a_snapshot_from_elsewhere_can_be_kept(plan: Plan, owner: Owner) -> None:
    with new_sequence(plan, owner.pool) as sequence:
        sequence.push(FIRST)
        run(plan, sequence)
        assert owner.session.keep(sequence.snapshot())
        assert not owner.session.keep(sequence.snapshot())
        sequence.push([1])
        waiting = sequence.snapshot()
    with pytest.raises(SequenceBusyError):
        owner.session.keep(waiting)
    waiting.release()
    steps = owner.steps.count
    assert owner.answer(FIRST, 1) == cold(plan, FIRST, 1)
    assert owner.steps.count == steps


def test_receipts_are_made_only_on_request(owner: Owner) -> None:
    times = iter([100, 130, 200, 1000, 3000, 7777])

    def clock() -> int:
        return next(times)

    with owner.session.begin(FIRST, answer_tokens=3, clock_ns=clock) as request:
        assert request.receipt() is None
        for _ in range(3):
            request.next_token()
        request.commit("")
    receipt = request.receipt()
    assert receipt is not None
    assert (receipt.cached_ns, receipt.prefill_ns) == (30, 70)
    assert (receipt.decode_ns, receipt.total_ns) == (2800, 7677)
    with owner.session.begin([1], answer_tokens=1) as request:
        request.next_token()
        assert request.receipt() is None


def test_a_flag_ends_a_request_within_a_run(owner: Owner) -> None:
    before = owner.state()
    cancellation = Cancellation()
    request = owner.session.begin(FIRST, answer_tokens=3, cancellation=cancellation)
    request.next_token()
    cancellation.set()
    with pytest.raises(RunCancelledError):
        request.next_token()
    assert owner.state() == before


def test_closing_frees_everything_at_any_time(plan: Plan) -> None:
    owner, ids = prepared(plan)
    request = owner.session.begin(ids, answer_tokens=3)
    request.next_token()
    owner.close()
    owner.session.close()
    assert owner.session.is_closed
    calls: tuple[Callable[[], object], ...] = (
        request.next_token,
        lambda: request.commit(""),
        lambda: owner.session.begin(ids, answer_tokens=3),
        lambda: owner.session.reset(""),
        lambda: owner.session.keep_note(""),
    )
    for call in calls:
        with pytest.raises(ObjectClosedError):
            call()


def test_closing_while_another_thread_computes(plan: Plan) -> None:
    owner, ids = prepared(plan)
    is_running, may_go_on = threading.Event(), threading.Event()
    ends: list[BaseException] = []

    def pause(*facts: object) -> None:
        is_running.set()
        may_go_on.wait(240)

    def work() -> None:
        try:
            try_second(owner, ids, on_progress=pause)
        except BaseException as error:
            ends.append(error)

    thread = threading.Thread(target=work)
    thread.start()
    is_running.wait(240)
    owner.close()
    may_go_on.set()
    thread.join(240)
    assert [type(error) for error in ends] == [ObjectClosedError]
    assert owner.pool.held_page_count == 0


def test_a_dropped_session_gives_everything_back(plan: Plan) -> None:
    gc.collect()
    gc.disable()
    try:
        owner, ids = prepared(plan)
        request: TokenRequest[str] | None = owner.session.begin(ids, answer_tokens=3)
        assert request is not None
        request.next_token()
        pool, session = owner.pool, weakref.ref(owner.session)
        del owner, request
        assert session() is None
        assert pool.held_page_count == 0
        pool.close()
    finally:
        gc.enable()


def test_only_so_many_marks_are_kept_inside_a_prompt(owner: Owner) -> None:
    marks = range(2, 40, 2)
    with owner.session.begin(FIRST, answer_tokens=1, marks=marks) as request:
        request.next_token()
        request.commit("")
    saved = [len(one.token_ids) for one in owner.session.committed.checkpoints.saved]
    assert saved == [*list(marks)[-limits.CHECKPOINT_MARK_COUNT_MAX :], len(FIRST)]
    found = owner.session.committed.checkpoints.longest_prefix(
        MODEL_ID, bytes(32), array("i", FIRST[:30])
    )
    assert found is not None
    assert len(found.token_ids) == 30


# The thousands of lines of the reference tell nothing more of a session.
@pytest.mark.parametrize("plan", ["odd llama"], indirect=True)
def test_an_interrupt_at_any_line_leaves_all_or_nothing(plan: Plan) -> None:
    owner, ids = prepared(plan)
    expected, before = cold(plan, ids, ANSWER), owner.state()[:5]
    assert try_second(owner, ids) == expected
    after = owner.state()[:5]
    owner.close()
    commits = []
    for line in itertools.count(1, 37):
        owner, ids = prepared(plan)
        if not interrupted_at_line(
            line,
            lambda: try_second(owner, ids),  # noqa: B023
            is_code_of_package,
        ):
            break
        assert owner.state()[:5] in (before, after), line
        commits.append(owner.state()[:5] == after)
        assert try_second(owner, ids) == expected
        assert owner.state()[:5] == after
        if line % 8 == 1:
            owner.session.reset("")
            # What was just being given back goes with the error that has interrupted it.
            gc.collect()
            assert owner.pool.held_page_count == 0
    owner.close()
    assert len(commits) > 30
    assert commits == sorted(commits)
