"""Asking a model many things at once."""

from collections.abc import Generator, Iterable, Iterator
from contextlib import closing
from dataclasses import replace
from functools import partial
from typing import Literal, Unpack, overload

from sslm import limits
from sslm.answering.batch import DEFAULT_BATCH_SIZE, Batch
from sslm.answering.cutoff import Cutoff, require_time
from sslm.answering.prompts import Prompt, bounded_prompts
from sslm.answering.request import AnswerOptions, Request, Wanted
from sslm.answering.results import Completion
from sslm.answering.rows import RowRequest, require_row, row_names
from sslm.arguments import checked_int, require_bool, require_callback
from sslm.engine.async_requests import AsyncRequests
from sslm.engine.sliced_requests import SlicedRequests
from sslm.errors.base import SslmError, StateError, as_value
from sslm.progress import Progress
from sslm.runtime.sequences.token_ids import checked_token_ids
from sslm.sampling.seeds import row_seed


class BatchRequests(AsyncRequests, SlicedRequests):
    """What a model offers to whoever has many prompts."""

    @overload
    def generate_many(
        self,
        prompts: Iterable[Prompt],
        *,
        row_ids: Iterable[str] | None = None,
        return_errors: Literal[False] = False,
        batch_size: int = DEFAULT_BATCH_SIZE,
        on_progress: Progress | None = None,
        deadline_s: float | None = None,
        **options: Unpack[AnswerOptions],
    ) -> list[Completion]: ...

    @overload
    def generate_many(
        self,
        prompts: Iterable[Prompt],
        *,
        row_ids: Iterable[str] | None = None,
        return_errors: Literal[True],
        batch_size: int = DEFAULT_BATCH_SIZE,
        on_progress: Progress | None = None,
        deadline_s: float | None = None,
        **options: Unpack[AnswerOptions],
    ) -> list[Completion | SslmError]: ...

    @overload
    def generate_many(
        self,
        prompts: Iterable[Prompt],
        *,
        row_ids: Iterable[str] | None = None,
        return_errors: bool,
        batch_size: int = DEFAULT_BATCH_SIZE,
        on_progress: Progress | None = None,
        deadline_s: float | None = None,
        **options: Unpack[AnswerOptions],
    ) -> list[Completion | SslmError]: ...

    def generate_many(
        self,
        prompts: Iterable[Prompt],
        *,
        row_ids: Iterable[str] | None = None,
        return_errors: bool = False,
        batch_size: int = DEFAULT_BATCH_SIZE,
        on_progress: Progress | None = None,
        deadline_s: float | None = None,
        **options: Unpack[AnswerOptions],
    ) -> list[Completion] | list[Completion | SslmError]:
        """Continue several prompts, each as :meth:`generate` does, and in their order.

        All prompts are checked before the first one is computed. Several are computed together,
        which takes less time and changes no answer. Each has a seed of its own, derived from the
        option and its row's id: with the seed that it tells, a lone call gives the same answer.

        Args:
            prompts: At most ``limits.PROMPT_COUNT_MAX``.
            row_ids: Names of the rows, each once; None for "0", "1", "2" and so on.
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
            row_ids=row_ids,
            return_errors=return_errors,
            batch_size=batch_size,
            on_progress=on_progress,
        )

    @overload
    async def agenerate_many(
        self,
        prompts: Iterable[Prompt],
        *,
        row_ids: Iterable[str] | None = None,
        return_errors: Literal[False] = False,
        batch_size: int = DEFAULT_BATCH_SIZE,
        on_progress: Progress | None = None,
        deadline_s: float | None = None,
        **options: Unpack[AnswerOptions],
    ) -> list[Completion]: ...

    @overload
    async def agenerate_many(
        self,
        prompts: Iterable[Prompt],
        *,
        row_ids: Iterable[str] | None = None,
        return_errors: Literal[True],
        batch_size: int = DEFAULT_BATCH_SIZE,
        on_progress: Progress | None = None,
        deadline_s: float | None = None,
        **options: Unpack[AnswerOptions],
    ) -> list[Completion | SslmError]: ...

    @overload
    async def agenerate_many(
        self,
        prompts: Iterable[Prompt],
        *,
        row_ids: Iterable[str] | None = None,
        return_errors: bool,
        batch_size: int = DEFAULT_BATCH_SIZE,
        on_progress: Progress | None = None,
        deadline_s: float | None = None,
        **options: Unpack[AnswerOptions],
    ) -> list[Completion | SslmError]: ...

    async def agenerate_many(
        self,
        prompts: Iterable[Prompt],
        *,
        row_ids: Iterable[str] | None = None,
        return_errors: bool = False,
        batch_size: int = DEFAULT_BATCH_SIZE,
        on_progress: Progress | None = None,
        deadline_s: float | None = None,
        **options: Unpack[AnswerOptions],
    ) -> list[Completion] | list[Completion | SslmError]:
        """Continue several prompts; see :meth:`generate_many`.

        *prompts* is iterated in a thread.
        """
        cutoff, wanted = Cutoff(deadline_s), self._wanted(options)
        if wanted.asked_schema is not None:
            going_on = partial(self._require_going_on, cutoff)
            await self._background.run(partial(wanted.asked_schema.made, going_on), cutoff)
        # Only the call itself knows its rows, and so what to return when its time is over.
        cutoff.has_begun = True
        many = partial(
            self._many,
            cutoff,
            prompts,
            wanted,
            row_ids=row_ids,
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
        row_ids: Iterable[str] | None,
        return_errors: bool,
        batch_size: int,
        on_progress: Progress | None,
    ) -> list[Completion | SslmError]:
        require_bool("return_errors", return_errors)
        require_callback("on_progress", on_progress)
        most = limits.BATCH_SIZE_MAX
        batch_size = checked_int("batch_size", batch_size, lowest=1, highest=most)
        taken = bounded_prompts(prompts, partial(require_time, cutoff))
        if wanted.asked_schema is not None:
            # What is wrong with it is wrong with the call, and not with each row.
            wanted.asked_schema.made(partial(self._require_going_on, cutoff))
        names = row_names(row_ids, len(taken))
        rows: list[Request | SslmError] = []
        for index, (prompt, name) in enumerate(zip(taken, names, strict=True)):
            seed = row_seed(wanted.choosing.seed, name)
            own = replace(wanted, choosing=wanted.choosing.with_seed(seed))
            try:
                rows.append(self._checked(self._prompt_request(cutoff, prompt, own)))
            except SslmError as error:
                if isinstance(error, StateError) or not return_errors:
                    # A model that is gone is no row's error.
                    error.add_note(_place(index))
                    raise
                rows.append(as_value(error))
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

    def answer_rows(
        self,
        rows: Iterable[RowRequest | SslmError],
        *,
        batch_size: int = DEFAULT_BATCH_SIZE,
        deadline_s: float | None = None,
    ) -> Generator[Completion | SslmError, None, None]:
        """Answer rows that each have options of their own; give the results in their order.

        Rows are taken as places come free, so that there may be any number of them: of those that
        are done or in the making, at most ``limits.BATCH_WINDOW_ROWS`` are held. What is wrong with
        a row takes its place.

        Args:
            rows: Requests, and errors that stand in the place of one.
            batch_size: As for :meth:`generate_many`.
            deadline_s: As for :meth:`generate_many`.

        Raises:
            OptionRangeError: If an option is out of range.
            StateError: If the model is closed meanwhile.
            BaseException: What *rows* raises.
        """
        cutoff = Cutoff(deadline_s)
        most = limits.BATCH_SIZE_MAX
        batch = Batch(
            self._runner,
            self._maker(),
            self._row_requests(cutoff, rows),
            batch_size=checked_int("batch_size", batch_size, lowest=1, highest=most),
            window=limits.BATCH_WINDOW_ROWS,
            cutoff=cutoff,
        )
        return batch.results()

    def _row_requests(
        self, cutoff: Cutoff, rows: Iterable[RowRequest | SslmError]
    ) -> Iterator[Request | SslmError]:
        for row in rows:
            if isinstance(row, SslmError):
                yield row
                continue
            try:
                yield self._row_request(cutoff, row)
            except StateError:
                raise
            except SslmError as error:
                yield as_value(error)

    def _row_request(self, cutoff: Cutoff, row: RowRequest) -> Request:
        require_row(row)
        wanted = self._wanted(row.options)
        if row.messages is None:
            return self._checked(self._prompt_request(cutoff, row.prompt, wanted))
        return self._checked(self._chat_request(cutoff, row.messages, wanted, date=row.date))

    def _checked(self, request: Request) -> Request:
        """Return a request whose ids are the model's and leave room for an answer."""
        ids, longest = request.prompt_ids, self._runner.context_tokens
        if len(ids) >= longest:
            raise self._runner.program.too_long(len(ids) + 1, longest)
        checked = checked_token_ids(ids, self._runner.program)
        return replace(request, prompt_ids=tuple(checked))


def _place(index: int) -> str:
    return f"in row {index} of the prompts"
