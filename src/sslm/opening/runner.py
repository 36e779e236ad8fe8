"""A program with its plan and the memory that requests take."""

from collections.abc import Callable, Iterator
from collections.abc import Sequence as Ids
from contextlib import contextmanager

from sslm.artifact import Artifact
from sslm.errors.program import BackendUnavailableError
from sslm.errors.runtime import ObjectClosedError
from sslm.model import families
from sslm.model.tensor_shapes import check_tensors
from sslm.opening.admission import Admission, Lease
from sslm.program.parallel_for import ParallelFor
from sslm.program.plan import Backend, LogProbs, Plan
from sslm.program.program import Program
from sslm.program.slice_time import SliceTime
from sslm.program.spans import CHUNK_ROWS_MAX
from sslm.runtime.guards import Cancellation, OwningProcess, Turns
from sslm.runtime.sequences.kv_pool import KvPool, kv_pool_size_bytes, page_count_for
from sslm.runtime.sequences.options import SequenceOptions, sequence_size_bytes
from sslm.runtime.sequences.sequence import Sequence
from sslm.runtime.sequences.state import Chunk
from sslm.runtime.slices.stepper import Outcome, advance, finished
from sslm.runtime.slices.unit_costs import UnitCosts

ALL_UNITS = 1 << 30
"""A budget that no program exhausts."""

BACKENDS = ("reference", "native")


def open_backend(
    backend: str, *, tier: str, threads: int, parallel_for: ParallelFor | None = None
) -> Backend:
    """Open a backend by name; ``auto`` is the native one, which alone shares its work.

    Raises:
        BackendUnavailableError: If there is none of this name.
        TierUnavailableError: If a forced tier does not run on this machine.
    """
    # Imported when chosen: the reference needs NumPy, the native backend does not.
    if backend == "reference":
        from sslm.backends.reference import ReferenceBackend

        return ReferenceBackend(tier)
    if backend in ("auto", "native"):
        from sslm.backends.native import NativeBackend

        return NativeBackend(tier, threads=threads, parallel_for=parallel_for)
    raise BackendUnavailableError(backend, ", ".join(("auto", *BACKENDS)))


def build_program(artifact: Artifact) -> Program:
    """Build the program of an artifact, whose tensors are checked against its architecture."""
    check_tensors(artifact.config, artifact.tensors)
    return families.build_program(
        artifact.config,
        artifact.fraction_bits,
        artifact.tensors,
        padding_count=artifact.padding_count,
    )


class Runner:
    """Runs sequences of one model on one backend; safe to share between threads, not with a fork.

    Args:
        artifact: The model; stays the caller's.
        backend: What to run on.
        context_tokens: The longest sequence.
        row_count_max: Rows of one run: 64, or more to advance several sequences together.
        memory_bytes: Most bytes of weights, scratch and sequences, or None for no bound.
        workspace: Memory of the caller's for the scratch, which is then not counted, or None.

    Raises:
        OptionRangeError, MemoryTooSmallError, MisalignedMemoryError, MemoryInUseError: If
            *workspace* cannot be used.
        MemoryBudgetError: If the model alone exceeds the bound; nothing was allocated for it.
    """

    def __init__(
        self,
        artifact: Artifact,
        backend: Backend,
        *,
        context_tokens: int,
        row_count_max: int = CHUNK_ROWS_MAX,
        memory_bytes: int | None = None,
        workspace: object = None,
    ) -> None:
        self.program = build_program(artifact)
        self.model_id = artifact.model_id
        self.context_tokens = context_tokens
        self.backend_name, self.tier = backend.name, backend.tier
        self.row_count_max = row_count_max
        self.costs = UnitCosts()
        """What units took so far, of slices whose time was bounded."""
        self._owner = OwningProcess("model")
        self._turns = Turns()
        self.admission = Admission(memory_bytes)
        """Of all that the model's memory is for."""
        self.scratch_size_bytes = backend.scratch_size_bytes(
            self.program,
            artifact.tensors,
            row_count_max=row_count_max,
            context_tokens=context_tokens,
        )
        # What the caller brings is the caller's to count.
        self.own_scratch_size_bytes = self.scratch_size_bytes if workspace is None else 0
        # Held as long as the runner, as leases end when nobody holds them.
        self._lease = self.admission.admit(
            "weights and scratch", artifact.file_size_bytes + self.own_scratch_size_bytes
        )
        self._plan: Plan | None = backend.compile(
            self.program,
            artifact.tensors,
            row_count_max=row_count_max,
            context_tokens=context_tokens,
            memory=workspace,
        )

    def sequence_sizes_bytes(self, options: SequenceOptions) -> tuple[int, int]:
        """Return the bytes of a sequence's pages and of its own buffers."""
        pages = page_count_for(options.context_tokens)
        kv = kv_pool_size_bytes(self.program.state_layout, pages)
        return kv, sequence_size_bytes(self.program, options)

    @contextmanager
    def sequence(self, options: SequenceOptions) -> Iterator[Sequence]:
        """Make a sequence with pages of its own; both are gone afterwards.

        Raises:
            MemoryBudgetError: If it does not fit the bound beside the others.
            ForkedProcessError: If the model was opened by another process.
        """
        with (
            self.pool(options) as pool,
            Sequence(self.program, pool, self.model_id, options) as sequence,
        ):
            yield sequence

    @contextmanager
    def pool(self, options: SequenceOptions) -> Iterator[KvPool]:
        """Admit what one sequence takes, and map its pages; raises what :meth:`sequence` does."""
        size_bytes = sum(self.sequence_sizes_bytes(options))
        with self.admit("a sequence's states", size_bytes):
            yield KvPool(self.program.state_layout, page_count_for(options.context_tokens))

    def admit(self, what: str, size_bytes: int) -> Lease:
        """Admit bytes for *what*, until the lease ends.

        Raises:
            MemoryBudgetError: If they do not fit the bound beside the others.
            ForkedProcessError: If the model was opened by another process.
        """
        self.require_owner()
        return self.admission.admit(what, size_bytes)

    @property
    def free_bytes(self) -> int | None:
        """Bytes that would still be admitted, or None if there is no bound."""
        return self.admission.free_bytes()

    def run(self, sequence: Sequence, cancellation: Cancellation | None) -> None:
        """Run the next chunk of one sequence; see :meth:`advance`."""
        self.advance([sequence], cancellation=cancellation)

    def advance(
        self,
        sequences: list[Sequence],
        *,
        budget_units: int = ALL_UNITS,
        cancellation: Cancellation | None = None,
    ) -> list[tuple[Sequence, Chunk]]:
        """Run a slice of every sequence, and return the chunks that came to their end.

        Raises:
            SslmError: The first that is in an outcome; see :meth:`advance_each`.
        """
        return finished(
            self.advance_each(sequences, budget_units=budget_units, cancellation=cancellation)
        )

    def advance_each(
        self,
        sequences: list[Sequence],
        *,
        budget_units: int = ALL_UNITS,
        chunk_rows: int | None = None,
        time: SliceTime | None = None,
        cancellation: Cancellation | None = None,
    ) -> list[Outcome]:
        """Run a slice of every sequence; see :func:`sslm.runtime.slices.stepper.advance`.

        Raises:
            ObjectClosedError: If the model was closed.
            ForkedProcessError: If the model was opened by another process.
            RunCancelledError: If the flag was set while other threads had their turns.
        """
        self.require_owner()
        # A turn for each slice, not for each request, so that those of several threads alternate.
        with self._turns.turn(cancellation):
            if self._plan is None:
                raise ObjectClosedError("model")
            return advance(
                self._plan,
                sequences,
                budget_units=budget_units,
                row_count_max=self.row_count_max,
                chunk_rows=chunk_rows,
                time=time,
                cancellation=cancellation,
            )

    def logprobs(
        self, logits: memoryview, exponent: int, token_ids: Ids[int], *, top_count: int
    ) -> LogProbs:
        """Return log-probabilities of a row of logits; see :meth:`sslm.program.plan.Plan.logprobs`.

        Raises:
            ObjectClosedError: If the model was closed.
            LogitRangeError: If the largest logit is beyond what a score can be.
        """
        self.require_owner()
        with self._turns.turn():
            if self._plan is None:
                raise ObjectClosedError("model")
            return self._plan.logprobs(logits, exponent, token_ids, top_count=top_count)

    def require_open(self) -> None:
        """Raise ObjectClosedError or ForkedProcessError if nothing can be run here any more."""
        self.require_owner()
        if self._plan is None:
            raise ObjectClosedError("model")

    def close(self) -> None:
        """Release the plan; waits for a slice in progress. May be called again."""
        if not self.is_owner:
            self._plan = None
            return
        with self._turns.turn():
            if self._plan is not None:
                self._plan.close()
                self._plan = None

    @property
    def is_owner(self) -> bool:
        """Whether this process opened the model.

        A fork copies a lock as it is: if another thread held it, nobody is there to release it.
        """
        return self._owner.is_here

    def require_owner(self) -> None:
        """Raise in a process that a fork brought the model to.

        Raises:
            ForkedProcessError: If the model was opened by another process.
        """
        self._owner.require()


def run_greedy(
    runner: Runner,
    sequence: Sequence,
    prompt: list[int],
    *,
    max_tokens: int,
    forced: Ids[int] | None = None,
    budget_units: int = ALL_UNITS,
    neighbours: tuple[Sequence, ...] = (),
    on_chunk: Callable[[Chunk], None] = lambda chunk: None,
    after_slice: Callable[[], None] = lambda: None,
) -> list[int]:
    """Continue a prompt by exactly *max_tokens* ids, whatever they are; return them.

    Args:
        runner: Of the model.
        sequence: Fresh.
        prompt: At least one id.
        max_tokens: At least 1.
        forced: What to go on with instead of the chosen ids, at least ``max_tokens - 1`` of them.
        budget_units: Units of one slice.
        neighbours: Sequences with tokens pending, advanced in the same runs until they are done.
        on_chunk: Called with each finished chunk of the sequence, whose results are still there.
        after_slice: Called after each slice, wherever the sequence stands then.
    """
    answer: list[int] = []
    sequence.push(prompt)
    while True:
        busy = [one for one in neighbours if one.has_work]
        for one, chunk in runner.advance([sequence, *busy], budget_units=budget_units):
            if one is sequence:
                on_chunk(chunk)
        after_slice()
        if sequence.selected is not None:
            answer.append(sequence.selected)
            if len(answer) == max_tokens:
                return answer
            sequence.push([answer[-1] if forced is None else forced[len(answer) - 1]])
