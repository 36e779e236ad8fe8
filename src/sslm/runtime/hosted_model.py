"""A model that is closed after everything that lives on it."""

from collections.abc import Callable
from typing import NoReturn
from weakref import WeakSet

from sslm.errors.runtime import (
    ModelHeldError,
    NotCopyableError,
    ObjectClosedError,
    OptionRangeError,
)
from sslm.program.program import Program
from sslm.runtime.guards import OwningProcess, Turn, Turns
from sslm.runtime.saves.saving import restore
from sslm.runtime.sequences.kv_pool import KvPool
from sslm.runtime.sequences.options import SequenceOptions
from sslm.runtime.sequences.prefix import Prefix
from sslm.runtime.sequences.sequence import Sequence


class HostedModel:
    """Makes sequences and prefixes, and is not closed while any of them lives.

    For hosts that free the model's memory themselves, and so must know when they may. What lives is
    counted from the objects: one that was dropped without being closed keeps nothing open. Any
    thread may use it; a process that a fork made can only close it, whatever lives in the parent.

    Args:
        program: The model's.
        model_id: 32 bytes.
        close: Gives back what the model lies in, and its plans; called once, when nothing lives. If
            it raises, the model stays open.
    """

    def __init__(self, program: Program, model_id: bytes, close: Callable[[], object]) -> None:
        self.program = program
        self.model_id = model_id
        self._close = close
        self._owner = OwningProcess("model")
        self._turns = Turns()
        self._sequences: WeakSet[Sequence] = WeakSet()
        self._prefixes: WeakSet[Prefix] = WeakSet()
        self._is_closed = False

    def sequence(self, pool: KvPool, options: SequenceOptions) -> Sequence:
        """Make a sequence.

        Raises:
            ObjectClosedError: If the model is closed.
            ForkedProcessError: If another process made it.
            SslmError: As :class:`sslm.runtime.sequences.sequence.Sequence` raises it.
        """
        return self._keep(lambda: Sequence(self.program, pool, self.model_id, options))

    def restore(self, blob: bytes | memoryview, pool: KvPool, options: SequenceOptions) -> Sequence:
        """Make a sequence that goes on where a saved one stood.

        Raises:
            ObjectClosedError: If the model is closed.
            ForkedProcessError: If another process made it.
            SslmError: As :func:`sslm.runtime.saves.saving.restore` does.
        """
        return self._keep(lambda: restore(blob, self.program, pool, self.model_id, options))

    def prefix(self, sequence: Sequence) -> Prefix:
        """Begin a prefix on a sequence of this model, which is the prefix's from now on.

        Raises:
            ObjectClosedError: If the model is closed.
            ForkedProcessError: If another process made it.
            OptionRangeError: If the sequence is not of this model, or another prefix's.
        """
        with self._turn():
            self._require_open()
            if sequence not in self._sequences:
                expected = "one that this model made, for itself"
                raise OptionRangeError("sequence", "another one", expected)
            prefix = Prefix(sequence)
            self._prefixes.add(prefix)
            self._sequences.discard(sequence)
            return prefix

    def close(self) -> None:
        """Give everything back; may be called again.

        Raises:
            ModelHeldError: If a sequence or prefix lives; nothing was closed.
            PlanBusyError: If a plan runs, for a sequence that was closed meanwhile; nothing was
                closed.
        """
        if not self._owner.is_here:
            # Nobody may be there to give a turn back, and what lives is the parent's.
            self._close_once()
            return
        with self._turn():
            sequences = sum(not sequence.is_closed for sequence in self._sequences)
            prefixes = sum(not prefix.is_released for prefix in self._prefixes)
            if sequences or prefixes:
                raise ModelHeldError(sequences, prefixes)
            self._close_once()

    def _close_once(self) -> None:
        if not self._is_closed:
            self._close()
            self._is_closed = True

    def _turn(self) -> Turn:
        self._owner.require()
        return self._turns.turn()

    def _keep(self, make: Callable[[], Sequence]) -> Sequence:
        with self._turn():
            self._require_open()
            sequence = make()
            self._sequences.add(sequence)
            return sequence

    def _require_open(self) -> None:
        if self._is_closed:
            raise ObjectClosedError("model")

    def __reduce__(self) -> NoReturn:
        raise NotCopyableError("model", "open its file again")
