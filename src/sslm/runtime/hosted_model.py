"""A model that is closed after everything that lives on it."""

from collections.abc import Callable
from weakref import WeakSet

from sslm.errors.runtime import ModelHeldError, ObjectClosedError, OptionRangeError
from sslm.program.program import Program
from sslm.runtime.kv_pool import KvPool
from sslm.runtime.prefix import Prefix
from sslm.runtime.saving import restore
from sslm.runtime.sequence import Sequence
from sslm.runtime.sequence_options import SequenceOptions
from sslm.runtime.turns import Turns


class HostedModel:
    """Makes sequences and prefixes, and is not closed while any of them lives.

    For hosts that free the model's memory themselves, and so must know when they may. What lives is
    counted from the objects: one that was dropped without being closed keeps nothing open. Any
    thread may use it.

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
        self._turns = Turns()
        self._sequences: WeakSet[Sequence] = WeakSet()
        self._prefixes: WeakSet[Prefix] = WeakSet()
        self._is_closed = False

    def sequence(self, pool: KvPool, options: SequenceOptions) -> Sequence:
        """Make a sequence.

        Raises:
            ObjectClosedError: If the model is closed.
            SslmError: As :class:`sslm.runtime.sequence.Sequence` raises it.
        """
        return self._keep(lambda: Sequence(self.program, pool, self.model_id, options))

    def restore(self, blob: bytes | memoryview, pool: KvPool, options: SequenceOptions) -> Sequence:
        """Make a sequence that goes on where a saved one stood.

        Raises:
            ObjectClosedError: If the model is closed.
            SslmError: As :func:`sslm.runtime.saving.restore` does.
        """
        return self._keep(lambda: restore(blob, self.program, pool, self.model_id, options))

    def prefix(self, sequence: Sequence) -> Prefix:
        """Begin a prefix on a sequence of this model, which is the prefix's from now on.

        Raises:
            ObjectClosedError: If the model is closed.
            OptionRangeError: If the sequence is not of this model, or another prefix's.
        """
        with self._turns.turn():
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
        with self._turns.turn():
            if self._is_closed:
                return
            sequences = sum(not sequence.is_closed for sequence in self._sequences)
            prefixes = sum(not prefix.is_released for prefix in self._prefixes)
            if sequences or prefixes:
                raise ModelHeldError(sequences, prefixes)
            self._close()
            self._is_closed = True

    def _keep(self, make: Callable[[], Sequence]) -> Sequence:
        with self._turns.turn():
            self._require_open()
            sequence = make()
            self._sequences.add(sequence)
            return sequence

    def _require_open(self) -> None:
        if self._is_closed:
            raise ObjectClosedError("model")
