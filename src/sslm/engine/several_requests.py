"""Asking a model for several answers to one prompt."""

from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from dataclasses import replace
from functools import partial
from typing import Unpack

from sslm import limits
from sslm.answering.batch import DEFAULT_BATCH_SIZE, Batch
from sslm.answering.cutoff import Cutoff
from sslm.answering.live_prefix import LivePrefix
from sslm.answering.prompts import Prompt
from sslm.answering.request import AnswerOptions, Request, Wanted, require_no_prompt_logprobs
from sslm.answering.results import Completion
from sslm.arguments import checked_int, require_callback
from sslm.engine.batch_requests import BatchRequests
from sslm.errors.base import SslmError
from sslm.errors.native import RunCancelledError
from sslm.errors.runtime import MemoryBudgetError
from sslm.opening.shared_pool import SharedPool
from sslm.program.states import PAGE_TOKENS
from sslm.progress import Progress
from sslm.runtime.sequences.kv_pool import page_count_for
from sslm.sampling.seeds import answer_seed


class SeveralRequests(BatchRequests):
    """What a model offers to whoever wants to choose among answers."""

    def generate_n(
        self,
        prompt: Prompt,
        n: int,
        *,
        on_progress: Progress | None = None,
        deadline_s: float | None = None,
        **options: Unpack[AnswerOptions],
    ) -> list[Completion]:
        """Continue a prompt several times; the prompt is computed once.

        Each answer has a seed of its own, which it tells: :meth:`generate` gives the same answer
        for that seed. The first one has the seed that was asked for. Without a temperature nothing
        is drawn, and all of them are alike.

        Args:
            prompt: As for :meth:`generate`.
            n: How many answers, 1 … ``limits.ANSWER_COUNT_MAX``. Some are computed together, as far
                as ``memory_bytes`` admits them.
            on_progress: Told after each answer how many there are, and how many there will be.
            deadline_s: Seconds for all of them.
            **options: As for :meth:`generate`, but for ``prompt_logprobs``.

        Raises:
            SslmError: As :meth:`generate`; no answer is given then.
        """
        cutoff = Cutoff(deadline_s)
        return self._several(cutoff, prompt, n, self._wanted(options), on_progress)

    async def agenerate_n(
        self,
        prompt: Prompt,
        n: int,
        *,
        on_progress: Progress | None = None,
        deadline_s: float | None = None,
        **options: Unpack[AnswerOptions],
    ) -> list[Completion]:
        """Continue a prompt several times; see :meth:`generate_n`."""
        cutoff = Cutoff(deadline_s)
        several = partial(self._several, cutoff, prompt, n, self._wanted(options), on_progress)
        return await self._background.run(several, cutoff)

    def _several(
        self, cutoff: Cutoff, prompt: Prompt, n: int, wanted: Wanted, on_progress: Progress | None
    ) -> list[Completion]:
        count = checked_int("n", n, lowest=1, highest=limits.ANSWER_COUNT_MAX)
        require_callback("on_progress", on_progress)
        require_no_prompt_logprobs(wanted, "for several answers", "ask model.generate for them")
        request = self._checked(self._prompt_request(cutoff, prompt, wanted))
        # The token behind what is shared is each answer's own, so that it has something to compute.
        *shared_ids, last_id = request.prompt_ids
        seeded = [
            request.choosing.with_seed(answer_seed(request.choosing.seed, index))
            for index in range(count)
        ]
        rows = [replace(request, prompt_ids=(last_id,), choosing=one) for one in seeded]
        answers: list[Completion] = []
        with self._prefixed(cutoff, request, shared_ids, count) as prefix:
            batch = Batch(
                self._runner,
                self._maker(),
                iter(rows),
                batch_size=DEFAULT_BATCH_SIZE,
                window=count,
                cutoff=cutoff,
                on_done=on_progress and (lambda done: on_progress(done, count)),
                prefix=prefix,
            )
            with closing(batch.results()) as results:
                for result in results:
                    if isinstance(result, SslmError):
                        raise result
                    answers.append(result)
        return answers

    @contextmanager
    def _prefixed(
        self, cutoff: Cutoff, request: Request, shared_ids: list[int], count: int
    ) -> Iterator[LivePrefix | None]:
        """Compute what the answers share, until the block ends; None if that is nothing."""
        if not shared_ids:
            yield None
            return
        with ExitStack() as stack:
            pool = stack.enter_context(self._answers_pool(request, count))
            prefix = stack.enter_context(LivePrefix(self._runner, pool, shared_ids))
            try:
                cutoff.begin()
                with cutoff.watched():
                    while prefix.get_ready():
                        cutoff.require_time()
                        self._runner.run(prefix.sequence, cutoff.cancellation)
            except RunCancelledError:
                if cutoff.is_cancelled:
                    raise
                raise cutoff.exceeded(prompt_tokens=prefix.sequence.position) from None
            yield prefix

    def _answers_pool(self, request: Request, count: int) -> SharedPool:
        """Return pages for what is shared, and for as many answers as fit beside each other."""
        prompt_tokens = len(request.prompt_ids)
        # The last token of an answer is not computed.
        longest = min(prompt_tokens + request.max_tokens, self._runner.context_tokens) - 1
        shared = (prompt_tokens - 1) // PAGE_TOKENS
        together = min(count, DEFAULT_BATCH_SIZE)
        while True:
            pages = shared + together * (page_count_for(longest) - shared)
            try:
                return SharedPool(self._runner, PAGE_TOKENS * pages)
            except MemoryBudgetError:
                if together == 1:
                    raise
                together //= 2
