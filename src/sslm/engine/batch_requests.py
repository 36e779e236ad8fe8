"""Asking a model many things at once."""

from collections.abc import Iterable
from contextlib import closing
from dataclasses import replace
from functools import partial
from typing import Literal, Unpack, overload

from sslm import limits
from sslm.arguments import checked_int
from sslm.engine.async_requests import AsyncRequests
from sslm.engine.batch import DEFAULT_BATCH_SIZE, Batch, row_value
from sslm.engine.cutoff import Cutoff
from sslm.engine.options import require_bool, require_callback
from sslm.engine.prompts import Prompt, bounded_prompts, prompt_ids
from sslm.engine.request import AnswerOptions, Request, Wanted
from sslm.engine.requests import require_time
from sslm.engine.results import Completion
from sslm.engine.sliced_requests import SlicedRequests
from sslm.engine.token_source import Report
from sslm.errors.base import SslmError, StateError
from sslm.errors.runtime import ContextLengthError
from sslm.runtime.token_ids import checked_token_ids


class BatchRequests(AsyncRequests, SlicedRequests):
    """What a model offers to whoever has many prompts."""

    @overload
    def generate_many(
        self,
        prompts: Iterable[Prompt],
        *,
        return_errors: Literal[False] = False,
        batch_size: int = DEFAULT_BATCH_SIZE,
        on_progress: Report | None = None,
        deadline_s: float | None = None,
        **options: Unpack[AnswerOptions],
    ) -> list[Completion]: ...

    @overload
    def generate_many(
        self,
        prompts: Iterable[Prompt],
        *,
        return_errors: Literal[True],
        batch_size: int = DEFAULT_BATCH_SIZE,
        on_progress: Report | None = None,
        deadline_s: float | None = None,
        **options: Unpack[AnswerOptions],
    ) -> list[Completion | SslmError]: ...

    @overload
    def generate_many(
        self,
        prompts: Iterable[Prompt],
        *,
        return_errors: bool,
        batch_size: int = DEFAULT_BATCH_SIZE,
        on_progress: Report | None = None,
        deadline_s: float | None = None,
        **options: Unpack[AnswerOptions],
    ) -> list[Completion | SslmError]: ...

    def generate_many(
        self,
        prompts: Iterable[Prompt],
        *,
        return_errors: bool = False,
        batch_size: int = DEFAULT_BATCH_SIZE,
        on_progress: Report | None = None,
        deadline_s: float | None = None,
        **options: Unpack[AnswerOptions],
    ) -> list[Completion] | list[Completion | SslmError]:
        """Continue several prompts, each as :meth:`generate` does, and in their order.

        All prompts are checked before the first one is computed. Several are computed together,
        which takes less time and changes no answer.

        Args:
            prompts: At most ``limits.PROMPT_COUNT_MAX``.
            return_errors: Whether the error of a row takes its place among the answers, so that the
                others are still computed. If not, the first error is raised, with a note that names
                its row.
            batch_size: How many are computed at one time, 1 … ``limits.BATCH_SIZE_MAX``, as far as
                ``memory_bytes`` admits them beside each other.
            on_progress: Told after each prompt how many are answered or refused, and how many there
                are.
            deadline_s: Seconds for all of them; rows that come too late have DeadlineExceededError.
            **options: What is asked of each answer; see :class:`AnswerOptions`.

        Returns:
            As many answers as prompts; only with *return_errors* are there errors among them.

        Raises:
            OptionRangeError: If *prompts* is itself a text, not iterable, or too many.
            StateError: If the model is closed meanwhile, whatever *return_errors* says.
            SslmError: As :meth:`generate`.
        """
        return self._many(
            Cutoff(deadline_s),
            prompts,
            self._wanted(options),
            return_errors=return_errors,
            batch_size=batch_size,
            on_progress=on_progress,
        )

    @overload
    async def agenerate_many(
        self,
        prompts: Iterable[Prompt],
        *,
        return_errors: Literal[False] = False,
        batch_size: int = DEFAULT_BATCH_SIZE,
        on_progress: Report | None = None,
        deadline_s: float | None = None,
        **options: Unpack[AnswerOptions],
    ) -> list[Completion]: ...

    @overload
    async def agenerate_many(
        self,
        prompts: Iterable[Prompt],
        *,
        return_errors: Literal[True],
        batch_size: int = DEFAULT_BATCH_SIZE,
        on_progress: Report | None = None,
        deadline_s: float | None = None,
        **options: Unpack[AnswerOptions],
    ) -> list[Completion | SslmError]: ...

    @overload
    async def agenerate_many(
        self,
        prompts: Iterable[Prompt],
        *,
        return_errors: bool,
        batch_size: int = DEFAULT_BATCH_SIZE,
        on_progress: Report | None = None,
        deadline_s: float | None = None,
        **options: Unpack[AnswerOptions],
    ) -> list[Completion | SslmError]: ...

    async def agenerate_many(
        self,
        prompts: Iterable[Prompt],
        *,
        return_errors: bool = False,
        batch_size: int = DEFAULT_BATCH_SIZE,
        on_progress: Report | None = None,
        deadline_s: float | None = None,
        **options: Unpack[AnswerOptions],
    ) -> list[Completion] | list[Completion | SslmError]:
        """Continue several prompts; see :meth:`generate_many`.

        *prompts* is iterated in a thread.
        """
        cutoff = Cutoff(deadline_s)
        # Only the call itself knows its rows, and so what to return when its time is over.
        cutoff.has_begun = True
        many = partial(
            self._many,
            cutoff,
            prompts,
            self._wanted(options),
            return_errors=return_errors,
            batch_size=batch_size,
            on_progress=on_progress,
        )
        return await self._background.run(many, cutoff)

    def _many(
        self,
        cutoff: Cutoff,
        prompts: Iterable[Prompt],
        wanted: Wanted,
        *,
        return_errors: bool,
        batch_size: int,
        on_progress: Report | None,
    ) -> list[Completion | SslmError]:
        require_bool("return_errors", return_errors)
        require_callback("on_progress", on_progress)
        most = limits.BATCH_SIZE_MAX
        batch_size = checked_int("batch_size", batch_size, lowest=1, highest=most)
        rows: list[Request | SslmError] = []
        for index, prompt in enumerate(bounded_prompts(prompts, partial(require_time, cutoff))):
            try:
                rows.append(self._row(cutoff, prompt, wanted))
            except SslmError as error:
                if isinstance(error, StateError) or not return_errors:
                    # A model that is gone is no row's error.
                    error.add_note(_place(index))
                    raise
                rows.append(row_value(error))
        batch = Batch(
            self._runner,
            self._maker(),
            iter(rows),
            batch_size=batch_size,
            window=max(1, len(rows)),
            cutoff=cutoff,
            on_done=on_progress and (lambda done: on_progress(done, len(rows))),
        )
        answers: list[Completion | SslmError] = []
        with closing(batch.results()) as results:
            for index, result in enumerate(results):
                if isinstance(result, SslmError):
                    result.add_note(_place(index))
                    if not return_errors:
                        raise result
                answers.append(result)
        return answers

    def _row(self, cutoff: Cutoff, prompt: Prompt, wanted: Wanted) -> Request:
        """Return a checked request to continue one of several prompts."""
        self._require_usable()
        has_time = partial(require_time, cutoff)
        has_time()
        maker = self._maker()
        ids = prompt_ids(maker.tokenizer, prompt, maker.context_tokens, has_time)
        has_time()
        request = wanted.of(ids)
        if len(ids) >= maker.context_tokens:
            raise ContextLengthError(len(ids) + 1, maker.context_tokens)
        return replace(request, prompt_ids=tuple(checked_token_ids(ids, maker.vocab_size)))


def _place(index: int) -> str:
    return f"in row {index} of the prompts"
