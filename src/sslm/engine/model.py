"""An open model: what most users talk to."""

import datetime
import os
import re
from collections.abc import Callable, Iterable, Mapping, Sequence, Set
from functools import cached_property
from pathlib import Path
from types import TracebackType
from typing import Final, Self

from sslm import limits
from sslm.artifact import Artifact, read_artifact
from sslm.engine.generation import Generation, Request, stop_strings
from sslm.engine.options import require_int
from sslm.engine.results import Completion, Footprint
from sslm.engine.runner import Runner, open_backend
from sslm.engine.stream import Stream
from sslm.engine.verification import VerifyReport, verify
from sslm.errors.engine import (
    ModelHashMismatchError,
    NoChatTemplateError,
    NoGoldenRunsError,
    NotAnArtifactError,
)
from sslm.errors.runtime import ContextLengthError, ObjectClosedError, OptionRangeError
from sslm.errors.text import TextTypeError
from sslm.runtime.sequence import SequenceOptions
from sslm.text.chat_encoding import encode_chat
from sslm.text.chat_template import ChatTemplate
from sslm.text.message import Message
from sslm.text.tokenizer import Tokenizer

DEFAULT_CONTEXT_TOKENS: Final = 4096
DEFAULT_MAX_TOKENS: Final = 256

MessageLike = Message | Mapping[str, str]


class Model:
    """A converted model, ready to run; a context manager.

    Several threads may use one model: their requests take turns, slice by slice, and none changes
    the tokens of another.

    Args:
        path: A ``.sslm`` file.
        sha256: What ``sha256sum`` prints for the file, to insist on it; costs a pass over it.
        backend: ``auto`` (native), ``native`` or ``reference``.
        tier: A CPU tier by name, or ``auto`` for the best; a forced one is refused, never replaced.
        threads: 1 starts no thread.
        context_tokens: Most tokens of prompt and answer; None for the model's, at most 4,096.
        memory_bytes: Most bytes that weights, scratch and sequences take, or None for no bound.
        mmap: Whether the file is mapped, and so must not change while the model is open, or copied
            and then verified.

    Raises:
        ArtifactError: If the file is not one we accept; one class per cause.
        ModelHashMismatchError: If *sha256* is another file's.
        TierUnavailableError, BackendUnavailableError: If what was forced cannot run here.
        OptionRangeError: If an option is out of range.
        MemoryBudgetError: If the model does not fit *memory_bytes*.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        sha256: str | None = None,
        backend: str = "auto",
        tier: str = "auto",
        threads: int = 1,
        context_tokens: int | None = None,
        memory_bytes: int | None = None,
        mmap: bool = True,
    ) -> None:
        self.path = Path(path)
        require_int("threads", threads, lowest=1, highest=limits.THREAD_COUNT_MAX)
        if backend == "reference" and threads > 1:
            raise OptionRangeError("threads", str(threads), "1: the reference has no more")
        if memory_bytes is not None:
            require_int("memory_bytes", memory_bytes, lowest=1, highest=limits.MEMORY_BYTES_MAX)
        self.threads = threads
        self._is_closed = False
        self._artifact = _open_artifact(self.path, mmap=mmap)
        try:
            if sha256 is not None:
                _require_sha256(self.path, self._artifact, sha256)
            self.context_tokens = _context(self._artifact, context_tokens)
            self._runner = Runner(
                self._artifact,
                open_backend(backend, tier=tier, threads=threads),
                context_tokens=self.context_tokens,
                memory_bytes=memory_bytes,
            )
        except BaseException:
            self._artifact.close()
            raise

    @property
    def artifact(self) -> Artifact:
        """The verified contents of the file."""
        return self._artifact

    @property
    def model_id(self) -> str:
        """Hex name of everything that can change a token."""
        return self._artifact.model_id.hex()

    @cached_property
    def file_sha256(self) -> str:
        """What ``sha256sum`` prints for the file; computed when first asked for.

        Raises:
            ObjectClosedError: If the model is closed, and this was never asked for before.
        """
        self._require_open()
        return self._artifact.file_sha256().hex()

    @property
    def arithmetic_version(self) -> int:
        """Version of the arithmetic that the artifact is for."""
        return self._artifact.arithmetic_version

    @property
    def backend(self) -> str:
        """The backend in use."""
        return self._runner.backend_name

    @property
    def tier(self) -> str:
        """The CPU tier in use."""
        return self._runner.tier

    @cached_property
    def tokenizer(self) -> Tokenizer:
        """The model's tokenizer, built when first needed."""
        return Tokenizer(self._artifact.vocabulary)

    @cached_property
    def chat_template(self) -> ChatTemplate:
        """The model's chat template.

        Raises:
            NoChatTemplateError: If it has none.
        """
        if self._artifact.chat_template is None:
            raise NoChatTemplateError
        return ChatTemplate(self._artifact.chat_template)

    def footprint(self, sequences: int = 1) -> Footprint:
        """Return the bytes that the model and this many full sequences take."""
        self._require_open()
        require_int("sequences", sequences, lowest=0, highest=limits.SEQUENCE_COUNT_MAX)
        options = SequenceOptions(context_tokens=self.context_tokens)
        kv, buffers = self._runner.sequence_sizes_bytes(options)
        return Footprint(
            weights=self._artifact.file_size_bytes,
            kv=kv * sequences,
            scratch=self._runner.scratch_size_bytes + buffers * sequences,
        )

    def generate(
        self,
        prompt: str | Sequence[int],
        *,
        max_tokens: int = DEFAULT_MAX_TOKENS,
        stop: str | Sequence[str] | None = None,
    ) -> Completion:
        """Continue a prompt greedily.

        Args:
            prompt: Text, in which control tokens are literal, or token ids.
            max_tokens: Most ids of the answer, at least 1.
            stop: String or strings at which the answer ends; they are not part of it.

        Raises:
            EmptyPromptError, TokenIdRangeError, ContextLengthError, OptionRangeError: If the
                request cannot be met; nothing was computed.
            MemoryBudgetError: If its sequence does not fit ``memory_bytes`` beside others.
        """
        return _read(self.stream(prompt, max_tokens=max_tokens, stop=stop))

    def stream(
        self,
        prompt: str | Sequence[int],
        *,
        max_tokens: int = DEFAULT_MAX_TOKENS,
        stop: str | Sequence[str] | None = None,
    ) -> Stream:
        """Continue a prompt greedily, piece by piece; see :meth:`generate`."""
        if isinstance(prompt, (bytes, bytearray, Mapping, Set)) or not isinstance(prompt, Iterable):
            raise TextTypeError("the prompt", type(prompt).__name__)
        ids = self.tokenizer.encode(prompt) if isinstance(prompt, str) else list(prompt)
        return self._stream(ids, max_tokens=max_tokens, stop=stop, is_continuation=True)

    def chat(
        self,
        messages: Sequence[MessageLike],
        *,
        max_tokens: int = DEFAULT_MAX_TOKENS,
        stop: str | Sequence[str] | None = None,
        date: datetime.date | None = None,
    ) -> Completion:
        """Answer a conversation greedily.

        Args:
            messages: Mappings with ``role`` and ``content``, or ``Message``; control tokens in
                their content are literal.
            max_tokens: As for :meth:`generate`.
            stop: As for :meth:`generate`.
            date: Today, for chat templates that mention it; the clock is never read.

        Raises:
            NoChatTemplateError: If the model has no chat template.
            SslmError: As :meth:`generate`, and what a bad message or template raises.
        """
        return _read(self.chat_stream(messages, max_tokens=max_tokens, stop=stop, date=date))

    def chat_stream(
        self,
        messages: Sequence[MessageLike],
        *,
        max_tokens: int = DEFAULT_MAX_TOKENS,
        stop: str | Sequence[str] | None = None,
        date: datetime.date | None = None,
    ) -> Stream:
        """Answer a conversation greedily, piece by piece; see :meth:`chat`."""
        checked = [
            one if isinstance(one, Message) else Message.from_mapping(one) for one in messages
        ]
        ids = encode_chat(self.tokenizer, self.chat_template, checked, date=date)
        return self._stream(ids, max_tokens=max_tokens, stop=stop, is_continuation=False)

    def verify(
        self, on_progress: Callable[[int, int], None] = lambda done, total: None
    ) -> VerifyReport:
        """Replay the artifact's golden runs on this machine.

        Args:
            on_progress: Called with golden runs done and in all.

        Raises:
            NoGoldenRunsError: If the artifact has none.
            ContextLengthError: If ``context_tokens`` is too small for them.
        """
        self._require_open()
        golden = self._artifact.golden
        if golden is None or not golden.runs:
            raise NoGoldenRunsError(str(self.path))
        needed = max(len(run.prompt_token_ids) + len(run.token_ids) for run in golden.runs)
        if needed > self.context_tokens:
            raise ContextLengthError(needed, self.context_tokens)
        return verify(
            self._artifact,
            self._runner,
            self.tokenizer,
            threads=self.threads,
            on_progress=on_progress,
        )

    def close(self) -> None:
        """Release plan and file; may be called again."""
        self._is_closed = True
        self._runner.close()
        self._artifact.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def _require_open(self) -> None:
        if self._is_closed:
            raise ObjectClosedError("model")

    def _stream(
        self,
        prompt_ids: Sequence[int],
        *,
        max_tokens: int,
        stop: str | Sequence[str] | None,
        is_continuation: bool,
    ) -> Stream:
        self._require_open()
        request = Request(
            prompt_ids=tuple(prompt_ids),
            max_tokens=max_tokens,
            stop=stop_strings(stop),
            stop_token_ids=frozenset(self._artifact.vocabulary.end_token_ids),
            is_continuation=is_continuation,
        )
        return Stream(Generation(self._runner, self.tokenizer, request))


def _read(stream: Stream) -> Completion:
    with stream:
        for _ in stream:
            pass
        return stream.result()


def _open_artifact(path: Path, *, mmap: bool) -> Artifact:
    if path.suffix.lower() == ".gguf":
        raise NotAnArtifactError(str(path))
    return read_artifact(path, mmap=mmap)


def _require_sha256(path: Path, artifact: Artifact, sha256: str) -> None:
    # The whole line that sha256sum prints will do: the hash, two spaces, the name.
    words = sha256.split() if isinstance(sha256, str) else []
    expected = words[0].lower() if words else ""
    if not re.fullmatch("[0-9a-f]{64}", expected):
        raise OptionRangeError("sha256", repr(sha256), "64 hex digits, as sha256sum prints them")
    found = artifact.file_sha256().hex()
    if found != expected:
        raise ModelHashMismatchError(str(path), found, sha256)


def _context(artifact: Artifact, context_tokens: int | None) -> int:
    limit = artifact.config.max_position_embeddings
    if context_tokens is None:
        return min(limit, DEFAULT_CONTEXT_TOKENS)
    require_int("context_tokens", context_tokens, lowest=1, highest=limit)
    return context_tokens
