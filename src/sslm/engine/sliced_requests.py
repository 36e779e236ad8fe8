"""Asking a model for answers that are computed slice by slice."""

from abc import ABC, abstractmethod
from typing import Unpack

from sslm.answer_schemas.asked import ModelSchemas
from sslm.answering.live_prefix import LivePrefix
from sslm.answering.live_scheduler import LiveScheduler
from sslm.answering.live_sequence import LiveSequence
from sslm.answering.prompts import Prompt
from sslm.answering.request import AnswerOptions, RequestMaker
from sslm.arguments import checked_int
from sslm.errors.runtime import OptionRangeError
from sslm.errors.showing import briefly
from sslm.opening.runner import Runner
from sslm.opening.shared_pool import SharedPool, pool_size_bytes
from sslm.text.tokenizer import Tokenizer


class SlicedRequests(ABC):
    """What a model offers to hosts that have little time at once, such as a game in a frame."""

    _runner: Runner
    _stop_token_ids: frozenset[int]

    @property
    @abstractmethod
    def tokenizer(self) -> Tokenizer:
        """The model's tokenizer."""

    @abstractmethod
    def _schemas(self) -> ModelSchemas:
        """Return where schemas come from."""

    @abstractmethod
    def _require_usable(self) -> None:
        """Raise if the model is closed, or of another process."""

    def sequence(
        self,
        prompt: Prompt,
        *,
        prefix: LivePrefix | None = None,
        pool: SharedPool | None = None,
        context_tokens: int | None = None,
        **options: Unpack[AnswerOptions],
    ) -> LiveSequence:
        """Return an answer to a prompt that is computed whenever its owner says so.

        Args:
            prompt: Text, in which control tokens are literal, or token ids. Behind a prefix, text
                is tokenized by itself and without a begin token.
            prefix: What the prompt goes on from, or None; it must be done.
            pool: Whose pages it takes; that of the prefix if there is one, or else None for pages
                of its own.
            context_tokens: Most tokens of prefix, prompt and answer, if later prompts are to need
                more than this one; None for what this one needs.
            **options: What is asked of the answer, as for ``generate``.

        Raises:
            ArgumentError: If the request cannot be met, one class per cause.
            PrefixNotFrozenError: If *prefix* is not done.
            MemoryBudgetError: If its memory does not fit ``memory_bytes`` beside others.
            KvPoolExhaustedError: If the pool has too few pages.
        """
        self._require_usable()
        maker = self._maker()
        if context_tokens is not None:
            highest = maker.context_tokens
            context_tokens = checked_int(
                "context_tokens", context_tokens, lowest=2, highest=highest
            )
        pool = self._pool_of(pool, prefix)
        is_continued = prefix is not None
        request = maker.request(prompt, maker.wanted(options), is_continued=is_continued)
        return LiveSequence(
            self._runner,
            maker,
            request,
            prefix=prefix,
            pool=pool,
            context_tokens=context_tokens,
        )

    def prefix(
        self,
        prompt: Prompt,
        *,
        pool: SharedPool | None = None,
        prefix: LivePrefix | None = None,
    ) -> LivePrefix:
        """Return a beginning that several sequences will share, computed whenever one says so.

        Args:
            prompt: As for :meth:`sequence`.
            pool: Whose pages it takes, and those of the sequences.
            prefix: What it goes on from, which gives the pool; or None, and then *pool* is needed.

        Raises:
            SslmError: As :meth:`sequence`.
        """
        self._require_usable()
        pool = self._pool_of(pool, prefix)
        if pool is None:
            raise OptionRangeError("pool", "None", "what model.kv_pool returns")
        ids = self._maker().ids(prompt, is_continued=prefix is not None)
        return LivePrefix(self._runner, pool, ids, prefix)

    def kv_pool(self, tokens: int, *, memory: object = None) -> SharedPool:
        """Return memory for the states of several sequences, fixed from now on.

        Args:
            tokens: For how many there is room, in pages of 64: of a sequence those of its prefix,
                which all share, its prompt and its answer.
            memory: A buffer of the caller's with :meth:`kv_pool_size_bytes` bytes, which begins at
                a multiple of 64; None takes memory of its own.

        Raises:
            OptionRangeError: If *tokens* is out of range, or *memory* no writable buffer.
            MemoryTooSmallError, MisalignedMemoryError: If *memory* cannot be used.
            MemoryBudgetError: If own memory does not fit ``memory_bytes`` beside others.
        """
        self._require_usable()
        return SharedPool(self._runner, tokens, memory)

    def kv_pool_size_bytes(self, tokens: int) -> int:
        """Return the bytes that :meth:`kv_pool` takes for so many tokens."""
        return pool_size_bytes(self._runner, tokens)

    def scheduler(self) -> LiveScheduler:
        """Return what gives many sequences fair turns within one budget."""
        self._require_usable()
        return LiveScheduler(self._runner)

    def _maker(self) -> RequestMaker:
        return RequestMaker(
            tokenizer=self.tokenizer,
            stop_token_ids=self._stop_token_ids,
            context_tokens=self._runner.context_tokens,
            program=self._runner.program,
            schemas=self._schemas(),
        )

    def _pool_of(self, pool: SharedPool | None, prefix: LivePrefix | None) -> SharedPool | None:
        """Return whose pages to take, checked as what callers give."""
        for name, value, kind in (("pool", pool, SharedPool), ("prefix", prefix, LivePrefix)):
            is_own = isinstance(value, kind) and value.runner is self._runner
            if value is not None and not is_own:
                raise OptionRangeError(name, briefly(value), "one of this model's, or None")
        if prefix is None:
            return pool
        if pool is not None and pool is not prefix.pool:
            raise OptionRangeError("pool", "another one than the prefix's", "the same, or None")
        return prefix.pool
