"""An answer that is computed slice by slice, whenever its owner says so."""

from collections import deque
from contextlib import suppress
from dataclasses import replace
from typing import Any, Unpack

from sslm.answering.answer import Answer
from sslm.answering.live_prefix import LivePrefix
from sslm.answering.logprobs import last_logprob
from sslm.answering.prompts import Prompt
from sslm.answering.request import (
    AnswerOptions,
    Request,
    RequestMaker,
    followed_schema,
    require_no_prompt_logprobs,
)
from sslm.answering.results import Completion, Usage
from sslm.answering.sliced_work import SlicedWork
from sslm.errors.base import SslmError
from sslm.errors.runtime import SequenceUnfinishedError
from sslm.numerics.digests import answer_digest
from sslm.opening.admission import Lease
from sslm.opening.runner import Runner
from sslm.opening.shared_pool import SharedPool
from sslm.program.states import PAGE_TOKENS
from sslm.runtime.sequences.kv_pool import page_count_for
from sslm.runtime.sequences.options import SequenceOptions
from sslm.runtime.sequences.schema_binding import Ending
from sslm.runtime.sequences.schema_steps import admit_beginning, admit_chosen
from sslm.runtime.sequences.sequence import SequenceStats
from sslm.runtime.sequences.snapshot import Snapshot
from sslm.runtime.sequences.state import Chunk
from sslm.sampling.logprobs import TokenLogprob


class LiveSequence(SlicedWork):
    """One prompt and its answer, computed slice by slice, and then the next one.

    Made by ``model.sequence``. However it is sliced, the answer is that of ``model.generate`` for
    :attr:`prompt_token_ids`: text, ids, digest and reasons. All memory is taken when it is made,
    and kept until it is closed: no later call lacks any.

    Args:
        runner: Of the model.
        maker: Makes requests of what callers give.
        request: The first one.
        prefix: What every prompt goes on from, or None.
        pool: Whose pages it takes, that of the prefix if there is one; None for pages of its own.
        context_tokens: Most tokens of prefix, prompt and answer; None for what the first request
            needs.

    Raises:
        ContextLengthError: If prefix, prompt and answer do not fit.
        PrefixNotFrozenError: If *prefix* is not done.
        ObjectClosedError: If *prefix* or *pool* is closed.
        MemoryBudgetError, KvPoolExhaustedError: If there is not enough memory; nothing was taken.
    """

    _KIND = "sequence"
    _INSTEAD = "pass on its prompt and the model"
    _MEND = "reset it"

    def __init__(
        self,
        runner: Runner,
        maker: RequestMaker,
        request: Request,
        *,
        prefix: LivePrefix | None = None,
        pool: SharedPool | None = None,
        context_tokens: int | None = None,
    ) -> None:
        _require_own_logprobs(request)
        self._maker = maker
        self._prefix_ids = prefix.token_ids if prefix else ()
        self._limit_tokens = self._tokens_of(request) if context_tokens is None else context_tokens
        self._require_room(request)
        # One of its own, so that a reset needs the prefix no more.
        self._base: Snapshot | None = None
        self._base_lease: Lease | None = None
        if prefix is not None:
            self._base, self._base_lease = prefix.shared()
        try:
            super().__init__(runner, self._options(self._base), pool)
        except BaseException:
            # The error's traceback would hold it.
            self._leave_base()
            raise
        try:
            self._unread: deque[str] = deque()
            self._completion: Completion | None = None
            self._begin(request)
        except BaseException:
            self.close()
            raise

    # What there is to see, also by other threads while one computes. Whether it is done is told
    # last, so that whoever sees it sees all of the answer.

    @property
    def done(self) -> bool:
        """Whether the answer is complete."""
        return self._completion is not None

    @property
    def text(self) -> str:
        """The answer's text that is certain so far."""
        return self._answer.text

    @property
    def partial(self) -> Any:
        """What the answer says so far, with a schema; see :attr:`sslm.Stream.partial`."""
        return self._answer.partial

    @property
    def token_ids(self) -> list[int]:
        """The answer's ids so far."""
        return list(self._answer.token_ids)

    @property
    def prompt_token_ids(self) -> list[int]:
        """The ids of prefix and prompt."""
        return [*self._prefix_ids, *self._request.prompt_ids]

    def new_text(self) -> str:
        """Return the text that has become certain since the last call.

        Never refused: any thread may read while another one computes. Each piece is handed out
        once.
        """
        unread, pieces = self._unread, []
        with suppress(IndexError):
            while True:
                pieces.append(unread.popleft())
        return "".join(pieces)

    def stats(self) -> SequenceStats:
        """Return what it has computed since it was made or reset, and what it holds.

        Raises:
            SequenceInUseError: If another call uses it.
            ObjectClosedError: If it is closed.
        """
        with self._used(is_mended=True):
            return self.sequence.stats()

    def result(self) -> Completion:
        """Return the whole answer.

        Raises:
            SequenceUnfinishedError: If it is not complete.
        """
        completion = self._completion
        if completion is None:
            raise SequenceUnfinishedError(len(self._answer.token_ids))
        return replace(completion, token_ids=list(completion.token_ids))

    # What it can be told.

    def reset(self, prompt: Prompt, **options: Unpack[AnswerOptions]) -> None:
        """Begin with another prompt behind the same prefix, from any state and in the same memory.

        Args:
            prompt: As for ``model.sequence``.
            **options: As for ``model.sequence``.

        Raises:
            ArgumentError: If the request cannot be met, or needs more tokens than it was made for;
                nothing has changed.
            SequenceInUseError: If another call uses it; nothing has changed.
            KvPoolExhaustedError: If other threads took pages meanwhile; reset it again.
            ObjectClosedError: If it is closed.
        """
        with self._used(is_mended=True):
            wanted, is_continued = self._maker.wanted(options), bool(self._prefix_ids)
            request = self._maker.request(prompt, wanted, is_continued=is_continued)
            _require_own_logprobs(request)
            self._require_room(request)
            before, self._is_intact = self._is_intact, False
            try:
                self.sequence.reset()
            except SslmError:
                self._is_intact = before
                raise
            self._begin(request)
            self._is_intact = True

    def close(self) -> None:
        """Give its memory back; any thread may call this, and again."""
        super().close()
        self._leave_base()

    def _leave_base(self) -> None:
        base, self._base = self._base, None
        if base is not None:
            base.release()
        # It ends with the last one who holds it.
        self._base_lease = None

    def _begin(self, request: Request) -> None:
        """Begin a request that fits, in a fresh sequence."""
        base = self._base
        max_tokens = self._most_tokens(request)
        followed = followed_schema(request, max_tokens)
        if followed is None:
            self.sequence.bind(None)
        else:
            self.sequence.bind(followed.schema, answer_tokens=followed.answer_tokens)
        if base is not None:
            self.sequence.adopt(base, reserved_tokens=self._limit_tokens - 1)
        answer_start = len(self._prefix_ids) + len(request.prompt_ids)
        self.sequence.choose(request.choosing.choice, answer_start)
        self.sequence.push(request.prompt_ids)
        self._completion = None
        self._request = request
        self._span_tokens = max_tokens if followed and followed.takes_spans else 1
        self._answer = Answer(self._maker.tokenizer, request, max_tokens=max_tokens)
        self._unread = deque()
        with self.sequence.begin_use() as state:
            for token_id in admit_beginning(state, self._span_tokens - 1):
                self._take(token_id)

    def get_ready(self) -> bool:
        """Take the token that was chosen, and go on with it; return whether anything is pending."""
        if self.done:
            return False
        # One use of both steps, so that nobody comes between them.
        with self.sequence.begin_use() as state:
            if state.has_work:
                return True
            selected, digest = state.chosen(), self.sequence.digest
            logprob = self._logprob(state.last_chunk(), selected)
            self._is_intact = False
            self._take(selected, logprob, ending=self.sequence.ending_after(selected))
            if self._answer.is_complete:
                self._completion = self._complete(answer_digest(digest, self._answer.token_ids))
            else:
                most = max(1, self._span_tokens - len(self._answer.token_ids))
                for token_id in admit_chosen(state, most)[1:]:
                    self._take(token_id)
            self._is_intact = True
        return not self.done

    def _take(
        self, token_id: int, logprob: TokenLogprob | None = None, *, ending: Ending | None = None
    ) -> None:
        pieces = self._answer.take(token_id, logprob, ending=ending)
        self._unread.extend([piece.text for piece in pieces])

    def _most_tokens(self, request: Request) -> int:
        """Return how many tokens an answer may have: as many as are asked for, or have room."""
        prompt_tokens = len(self._prefix_ids) + len(request.prompt_ids)
        return min(request.max_tokens, self._maker.context_tokens - prompt_tokens)

    def _logprob(self, chunk: Chunk, token_id: int) -> TokenLogprob | None:
        top_count = self._request.logprobs
        if top_count is None:
            return None
        return last_logprob(self.runner, chunk, token_id, top_count=top_count)

    def _complete(self, digest: bytes) -> Completion:
        usage = Usage(
            prompt_tokens=len(self.prompt_token_ids),
            completion_tokens=len(self._answer.token_ids),
            cached_tokens=len(self._prefix_ids),
            prefill_ms=None,
            decode_ms=None,
        )
        forced = self.sequence.state.data.struct.forced_count
        return self._answer.completion(digest, usage, forced_tokens=forced)

    def _tokens_of(self, request: Request) -> int:
        """Return how many tokens prefix, prompt and answer have at most."""
        count = len(self._prefix_ids) + len(request.prompt_ids)
        longest = self._maker.context_tokens
        if count >= longest:
            raise self._maker.program.too_long(count + 1, longest)
        return min(count + request.max_tokens, longest)

    def _require_room(self, request: Request) -> None:
        needed = self._tokens_of(request)
        if needed > self._limit_tokens:
            raise self._maker.program.too_long(needed, self._limit_tokens)
        followed_schema(request, self._most_tokens(request))

    def _options(self, base: Snapshot | None) -> SequenceOptions:
        """Return options by which a sequence reserves all pages but those that it shares."""
        # The last token of an answer is not computed.
        positions = self._limit_tokens - 1
        shared = PAGE_TOKENS * len(base.hold.pages) if base else 0
        own = PAGE_TOKENS * page_count_for(positions) - shared
        return SequenceOptions(
            context_tokens=positions,
            reserved_tokens=min(own, positions),
            chooses=True,
            is_sliced=True,
        )

    def __repr__(self) -> str:
        state = "done" if self.done else "not done"
        return f"<sslm.LiveSequence, {len(self._answer.token_ids)} tokens, {state}>"


def _require_own_logprobs(request: Request) -> None:
    advice = "ask model.generate for them"
    require_no_prompt_logprobs(request, "for an answer that is computed slice by slice", advice)
