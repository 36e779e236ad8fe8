"""Asking a model many things at once."""

from collections.abc import Iterable, Sequence
from functools import partial
from typing import Literal, overload

from sslm.engine.async_requests import AsyncRequests
from sslm.engine.cutoff import Cutoff
from sslm.engine.options import require_bool
from sslm.engine.prompts import Prompt, bounded_prompts
from sslm.engine.request import DEFAULT_MAX_TOKENS
from sslm.engine.requests import require_time
from sslm.engine.results import Completion
from sslm.engine.stream import Stream
from sslm.errors.base import SslmError, StateError


class BatchRequests(AsyncRequests):
    """What a model offers to whoever has many prompts."""

    @overload
    def generate_many(
        self,
        prompts: Iterable[Prompt],
        *,
        max_tokens: int = DEFAULT_MAX_TOKENS,
        stop: str | Sequence[str] | None = None,
        return_errors: Literal[False] = False,
        deadline_s: float | None = None,
    ) -> list[Completion]: ...

    @overload
    def generate_many(
        self,
        prompts: Iterable[Prompt],
        *,
        max_tokens: int = DEFAULT_MAX_TOKENS,
        stop: str | Sequence[str] | None = None,
        return_errors: Literal[True],
        deadline_s: float | None = None,
    ) -> list[Completion | SslmError]: ...

    @overload
    def generate_many(
        self,
        prompts: Iterable[Prompt],
        *,
        max_tokens: int = DEFAULT_MAX_TOKENS,
        stop: str | Sequence[str] | None = None,
        return_errors: bool,
        deadline_s: float | None = None,
    ) -> list[Completion | SslmError]: ...

    def generate_many(
        self,
        prompts: Iterable[Prompt],
        *,
        max_tokens: int = DEFAULT_MAX_TOKENS,
        stop: str | Sequence[str] | None = None,
        return_errors: bool = False,
        deadline_s: float | None = None,
    ) -> list[Completion] | list[Completion | SslmError]:
        """Continue several prompts, each as :meth:`generate` does, and in their order.

        All prompts are checked before the first one is computed, one after the other.

        Args:
            prompts: At most ``limits.PROMPT_COUNT_MAX``.
            max_tokens: Of each answer.
            stop: Of each answer.
            return_errors: Whether the error of a row takes its place among the answers, so that the
                others are still computed. If not, the first error is raised, with a note that names
                its row.
            deadline_s: Seconds for all of them; rows that come too late have DeadlineExceededError.

        Returns:
            As many answers as prompts; only with *return_errors* are there errors among them.

        Raises:
            OptionRangeError: If *prompts* is itself a text, not iterable, or too many.
            StateError: If the model is closed meanwhile, whatever *return_errors* says.
            SslmError: As :meth:`generate`.
        """
        cutoff = Cutoff(deadline_s)
        return self._many(
            cutoff, prompts, max_tokens=max_tokens, stop=stop, return_errors=return_errors
        )

    @overload
    async def agenerate_many(
        self,
        prompts: Iterable[Prompt],
        *,
        max_tokens: int = DEFAULT_MAX_TOKENS,
        stop: str | Sequence[str] | None = None,
        return_errors: Literal[False] = False,
        deadline_s: float | None = None,
    ) -> list[Completion]: ...

    @overload
    async def agenerate_many(
        self,
        prompts: Iterable[Prompt],
        *,
        max_tokens: int = DEFAULT_MAX_TOKENS,
        stop: str | Sequence[str] | None = None,
        return_errors: Literal[True],
        deadline_s: float | None = None,
    ) -> list[Completion | SslmError]: ...

    @overload
    async def agenerate_many(
        self,
        prompts: Iterable[Prompt],
        *,
        max_tokens: int = DEFAULT_MAX_TOKENS,
        stop: str | Sequence[str] | None = None,
        return_errors: bool,
        deadline_s: float | None = None,
    ) -> list[Completion | SslmError]: ...

    async def agenerate_many(
        self,
        prompts: Iterable[Prompt],
        *,
        max_tokens: int = DEFAULT_MAX_TOKENS,
        stop: str | Sequence[str] | None = None,
        return_errors: bool = False,
        deadline_s: float | None = None,
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
            max_tokens=max_tokens,
            stop=stop,
            return_errors=return_errors,
        )
        return await self._background.run(many, cutoff)

    def _many(
        self,
        cutoff: Cutoff,
        prompts: Iterable[Prompt],
        *,
        max_tokens: int,
        stop: str | Sequence[str] | None,
        return_errors: bool,
    ) -> list[Completion | SslmError]:
        require_bool("return_errors", return_errors)
        wanted = self._wanted({"max_tokens": max_tokens, "stop": stop})
        rows: list[Stream | SslmError] = []
        for index, prompt in enumerate(bounded_prompts(prompts, partial(require_time, cutoff))):
            try:
                rows.append(self._prompt_stream(cutoff, prompt, wanted))
            except SslmError as error:
                rows.append(_row_error(error, index, is_value=return_errors))
        answers: list[Completion | SslmError] = []
        for index, row in enumerate(rows):
            try:
                answers.append(row if isinstance(row, SslmError) else row.read())
            except SslmError as error:
                answers.append(_row_error(error, index, is_value=return_errors))
        return answers


def _row_error(error: SslmError, index: int, *, is_value: bool) -> SslmError:
    """Return a row's error as a value, or raise it; a model that is gone is no row's error."""
    error.add_note(f"in row {index} of the prompts")
    if isinstance(error, StateError) or not is_value:
        raise error
    # A value that holds its traceback would hold what the call used.
    error.__context__ = error.__cause__ = None
    return error.with_traceback(None)
