"""An open model: what most users talk to."""

import logging
import os
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

from sslm import limits
from sslm.answer_schemas.asked import ModelSchemas
from sslm.answering.background import Background
from sslm.answering.results import NANOSECONDS_PER_MS, Footprint
from sslm.arguments import (
    checked_int,
    require_bool,
    require_callback,
)
from sslm.artifact import Artifact
from sslm.closing import Closing
from sslm.engine.session_requests import SessionRequests
from sslm.engine.several_requests import SeveralRequests
from sslm.engine.sliced_requests import SlicedRequests
from sslm.errors.engine import NoChatTemplateError, NoGoldenRunsError
from sslm.errors.runtime import (
    NotCopyableError,
    ObjectClosedError,
)
from sslm.evidence.verification import VerifyReport, verify
from sslm.log import LOGGER
from sslm.opening.model_file import (
    BUFFER_PATH,
    checked_threads,
    context_of,
    model_source,
    open_artifact,
    require_no_spare_workspace,
    require_sha256,
)
from sslm.opening.runner import Runner, open_backend
from sslm.program.parallel_for import ParallelFor
from sslm.progress import Progress, StageProgress
from sslm.runtime.sequences.options import SequenceOptions
from sslm.text.templates.chat_template import ChatTemplate
from sslm.text.text_bounds import TextBounds
from sslm.text.tokenizer import Tokenizer

if TYPE_CHECKING:
    from sslm.answer_schemas.schema import Schema


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelSpec:
    """How a model was opened; small, and what ``pickle`` sends of a model.

    Args:
        path: The file's absolute path.
        sha256: What ``sha256sum`` prints for the file.
        backend: As it was asked for: ``auto`` may choose another one on another machine.
        tier: As it was asked for.
        threads: How many threads compute.
        context_tokens: Most tokens of prompt and answer.
        memory_bytes: The bound on memory, or None.
        text_bytes: The bound on one text, or None.
        mmap: Whether the file is mapped.
    """

    path: str
    sha256: str
    backend: str
    tier: str
    threads: int
    context_tokens: int
    memory_bytes: int | None
    text_bytes: int | None
    mmap: bool

    def load(self) -> "Model":
        """Open the model, and insist that the file is the same one.

        Raises:
            ModelHashMismatchError: If it is not.
            SslmError: As :class:`sslm.Model` does.
        """
        # A model describes itself with a spec, so its module imports this one.
        from sslm.engine.model import Model

        return Model(
            self.path,
            sha256=self.sha256,
            backend=self.backend,
            tier=self.tier,
            threads=self.threads,
            context_tokens=self.context_tokens,
            memory_bytes=self.memory_bytes,
            text_bytes=self.text_bytes,
            mmap=self.mmap,
        )


class Model(SessionRequests, SeveralRequests, SlicedRequests, Closing):
    """A converted model, ready to run; a context manager.

    Several threads and coroutines may use one model: their requests take turns, slice by slice,
    and none changes the tokens of another. A model that is dropped without :meth:`close` gives back
    what it holds.

    Args:
        path: A ``.sslm`` file, or the bytes of one: any readable buffer in one piece. A buffer that
            begins at a multiple of 64 is used where it lies, and must not change while the model is
            open; any other one is copied.
        sha256: What ``sha256sum`` prints for the file, to insist on it; costs a pass over it.
        backend: ``auto`` (native), ``native`` or ``reference``.
        tier: A CPU tier by name, or ``auto`` for the best; a forced one is refused, never replaced.
        threads: 1 starts no thread.
        parallel_for: What shares the work on threads of the host's own, or None; not beside
            *threads*, and no part of :attr:`spec`.
        context_tokens: Most tokens of prompt and answer; None for the model's, at most 4,096.
        memory_bytes: Most bytes that weights, scratch and sequences take, and for a moment a text
            of more than 16 KiB that is tokenized; None for no bound.
        text_bytes: Most bytes of UTF-8 of one prompt, or of one conversation as it is rendered;
            None for no bound but that of 2**22 characters.
        workspace: A buffer of the caller's for the scratch, of
            :func:`sslm.workspace_size_bytes` bytes or more that begin at a multiple of 64; it is
            the model's until that is closed, is not counted, and is no part of :attr:`spec`. None
            takes memory of the model's own.
        mmap: Whether the file is mapped, and so must not change while the model is open, or copied
            and then verified.

    Raises:
        ArtifactError: If the file is not one we accept; one class per cause.
        ModelHashMismatchError: If *sha256* is another file's.
        TierUnavailableError, BackendUnavailableError: If what was forced cannot run here.
        OptionRangeError: If an option is out of range.
        MemoryBudgetError: If the model does not fit *memory_bytes*.
        MemoryTooSmallError, MisalignedMemoryError, MemoryInUseError: If *workspace* cannot be used.
    """

    def __init__(
        self,
        path: str | os.PathLike[str] | bytes | bytearray | memoryview,
        *,
        sha256: str | None = None,
        backend: str = "auto",
        tier: str = "auto",
        threads: int = 1,
        parallel_for: ParallelFor | None = None,
        context_tokens: int | None = None,
        memory_bytes: int | None = None,
        text_bytes: int | None = limits.TEXT_BYTES_DEFAULT,
        workspace: object = None,
        mmap: bool = True,
    ) -> None:
        source = model_source("path", path)
        self.path = source if isinstance(source, Path) else BUFFER_PATH
        require_bool("mmap", mmap)
        self._threads = checked_threads(backend, tier, threads, parallel_for)
        require_no_spare_workspace(backend, workspace)
        if memory_bytes is not None:
            most = limits.MEMORY_BYTES_MAX
            memory_bytes = checked_int("memory_bytes", memory_bytes, lowest=1, highest=most)
        if text_bytes is not None:
            most = limits.TEXT_BYTES_MAX
            text_bytes = checked_int("text_bytes", text_bytes, lowest=1, highest=most)
        self._text_bytes = text_bytes
        started_ns = time.perf_counter_ns()
        self._asked = (str(self.path.absolute()), backend, tier, memory_bytes, mmap)
        self._is_closed = False
        self._file_sha256: str | None = None
        self._tokenizer: Tokenizer | None = None
        self._chat_template: ChatTemplate | None = None
        self._is_pinned = sha256 is not None
        self._model_schemas: ModelSchemas | None = None
        self._artifact = open_artifact(source, mmap=mmap, copy_at_most_bytes=memory_bytes)
        try:
            if sha256 is not None:
                self._file_sha256 = require_sha256(self.path, self._artifact, sha256)
            self._context_tokens = context_of(self._artifact, context_tokens)
            self._runner = Runner(
                self._artifact,
                open_backend(backend, tier=tier, threads=self._threads, parallel_for=parallel_for),
                context_tokens=self._context_tokens,
                memory_bytes=memory_bytes,
                workspace=workspace,
            )
        except BaseException:
            self._artifact.close()
            raise
        # Of the runner alone, as a cycle would keep a dropped model from being freed at once.
        self._background = Background(self._runner.require_owner)
        self._weights_size_bytes = self._artifact.file_size_bytes
        self._stop_token_ids = self._artifact.end_token_ids()
        LOGGER.info(
            "opened %s: model_id %s, backend %s, tier %s, threads %d, in %d ms",
            self.path,
            self.model_id,
            self.backend,
            self.tier,
            self._threads,
            (time.perf_counter_ns() - started_ns) // NANOSECONDS_PER_MS,
        )
        if LOGGER.isEnabledFor(logging.INFO):
            huge_bytes = self._artifact.huge_page_bytes()
            LOGGER.info("in huge pages: %s of %d bytes", huge_bytes, self._artifact.file_size_bytes)

    @property
    def artifact(self) -> Artifact:
        """The verified contents of the file."""
        return self._artifact

    @property
    def model_id(self) -> str:
        """Hex name of everything that can change a token."""
        return self._artifact.model_id.hex()

    @property
    def file_sha256(self) -> str:
        """What ``sha256sum`` prints for the file; computed when first asked for.

        Raises:
            ObjectClosedError: If the model is closed, and this was never asked for before.
        """
        if self._file_sha256 is None:
            self._require_open()
            self._file_sha256 = self._artifact.file_sha256().hex()
        return self._file_sha256

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

    @property
    def threads(self) -> int:
        """How many threads compute."""
        return self._threads

    @property
    def context_tokens(self) -> int:
        """Most tokens of prompt and answer."""
        return self._context_tokens

    @property
    def spec(self) -> ModelSpec:
        """How to open this model again; hashes the file when first asked for.

        Raises:
            NotCopyableError: If it was opened from a buffer, which nobody else can open.
            ObjectClosedError: If the model is closed, and its hash was never asked for before.
        """
        if self.path is BUFFER_PATH:
            raise NotCopyableError("model of a buffer", "open it from a path to send it elsewhere")
        path, backend, tier, memory_bytes, mmap = self._asked
        return ModelSpec(
            path=path,
            sha256=self.file_sha256,
            backend=backend,
            tier=tier,
            threads=self.threads,
            context_tokens=self.context_tokens,
            memory_bytes=memory_bytes,
            text_bytes=self._text_bytes,
            mmap=mmap,
        )

    @property
    def tokenizer(self) -> Tokenizer:
        """The model's tokenizer, built when first needed."""
        # Without a lock, which a fork could copy while it is held: at worst it is built twice.
        if self._tokenizer is None:
            admit = self._runner.admission.admit
            bounds = TextBounds(text_bytes=self._text_bytes, admit=admit)
            self._tokenizer = self._artifact.tokenizer(bounds)
        return self._tokenizer

    @property
    def chat_template(self) -> ChatTemplate:
        """The model's chat template.

        Raises:
            NoChatTemplateError: If it has none.
        """
        if self._artifact.chat_template is None:
            raise NoChatTemplateError
        if self._chat_template is None:
            self._chat_template = ChatTemplate(self._artifact.chat_template)
        return self._chat_template

    @property
    def schema_names(self) -> tuple[str, ...]:
        """Names of the compiled schemas in the file, ascending."""
        return tuple(self._artifact.schemas)

    @property
    def schemas_sha256(self) -> str | None:
        """Hex of the compiled schemas in the file, which ``model_id`` leaves out; None of none."""
        return self._artifact.schemas.sha256() if self._artifact.schemas else None

    def schema(self, name: str, *, on_progress: StageProgress | None = None) -> "Schema":
        """Return a compiled schema of the file; whoever asks again gets an equal one.

        When a schema is first asked for it is checked, and compiled again and compared, unless the
        model was opened with ``sha256=``: then the file is the one that was meant. *on_progress* is
        told how far that is, as by :meth:`sslm.Schema.compile`.

        Raises:
            UnknownSchemaError: If the file has none of this name; says which it has.
            SchemaTablesError: If it is not what its JSON Schema gives.
            ArtifactError: If it is not what compiling writes; one class per defect.
        """
        require_callback("on_progress", on_progress)
        return self._schemas()().named(name, on_progress)

    def _schemas(self) -> ModelSchemas:
        if self._model_schemas is None:
            self._model_schemas = ModelSchemas(
                self._artifact.schemas,
                self.tokenizer,
                end_ids=self._stop_token_ids,
                is_pinned=self._is_pinned,
                admission=self._runner.admission,
            )
        return self._model_schemas

    def footprint(self, sequences: int = 1) -> Footprint:
        """Return the bytes that the model and this many full sequences take.

        A workspace of the caller's is not among them.
        """
        self._require_open()
        most = limits.SEQUENCE_COUNT_MAX
        sequences = checked_int("sequences", sequences, lowest=0, highest=most)
        options = SequenceOptions(context_tokens=self.context_tokens, chooses=True)
        kv, buffers = self._runner.sequence_sizes_bytes(options)
        return Footprint(
            weights=self._artifact.file_size_bytes,
            kv=kv * sequences,
            scratch=self._runner.own_scratch_size_bytes + buffers * sequences,
        )

    def verify(self, on_progress: Progress | None = None) -> VerifyReport:
        """Replay the artifact's golden runs on this machine.

        Args:
            on_progress: Called with golden runs done and in all, or None.

        Raises:
            NoGoldenRunsError: If the artifact has none.
            ContextLengthError: If ``context_tokens`` is too small for them.
        """
        require_callback("on_progress", on_progress)
        self._require_open()
        golden = self._artifact.golden
        if golden is None or not golden.runs:
            raise NoGoldenRunsError(str(self.path))
        needed = max(len(run.prompt_token_ids) + len(run.token_ids) for run in golden.runs)
        if needed > self.context_tokens:
            raise self._runner.program.too_long(needed, self.context_tokens)
        return verify(
            self._artifact,
            self._runner,
            self.tokenizer,
            threads=self.threads,
            on_progress=on_progress or (lambda done, total: None),
        )

    def close(self) -> None:
        """Release plan, threads and file; may be called again.

        Waits for a slice in progress; the requests of other threads fail with ObjectClosedError.
        """
        if not self._is_closed:
            LOGGER.debug("closing %s", self.path)
        self._is_closed = True
        self._runner.close()
        if self._runner.is_owner:
            self._background.close()
        self._artifact.close()

    def __repr__(self) -> str:
        state = "closed" if self._is_closed else "open"
        return f"<sslm.Model {str(self.path)!r}, tier {self.tier}, {state}>"

    def __reduce__(self) -> tuple[Callable[[ModelSpec], "Model"], tuple[ModelSpec]]:
        """Send the spec; whoever receives it opens the same file."""
        return ModelSpec.load, (self.spec,)

    def __copy__(self) -> NoReturn:
        raise NotCopyableError(
            "model", "model.spec.load() opens the file again, as unpickling it does"
        )

    def __deepcopy__(self, memo: dict[int, object]) -> NoReturn:
        self.__copy__()

    def _require_usable(self) -> None:
        self._require_open()
        self._runner.require_owner()

    def _require_open(self) -> None:
        if self._is_closed:
            raise ObjectClosedError("model")
