"""A beginning that many sequences share, computed once."""

from collections.abc import Iterable
from types import TracebackType
from typing import NoReturn, Self

from sslm.errors.runtime import (
    NotCopyableError,
    ObjectClosedError,
    PrefixFrozenError,
    PrefixNotFrozenError,
    SequenceBusyError,
)
from sslm.runtime.sequences.sequence import Sequence
from sslm.runtime.sequences.snapshot import Snapshot
from sslm.schema.tokens.bound_schema import BoundSchema


class Prefix:
    """Takes tokens in, is frozen, and is then adopted by reference, any number of times.

    Adopting shares full pages and copies at most one that is not full. A prefix on top of another
    one begins with a sequence that has adopted that. Several threads may adopt it at the same time.

    Args:
        sequence: Fresh, or one that has adopted another prefix; the prefix's from now on, to be
            advanced like any other until the prefix is frozen.
    """

    def __init__(self, sequence: Sequence) -> None:
        self._sequence = sequence
        self._snapshot: Snapshot | None = None
        self._frozen_tokens: int | None = None
        self._is_released = False

    @property
    def sequence(self) -> Sequence:
        """What computes the prefix.

        Raises:
            PrefixFrozenError: If the prefix is frozen.
            ObjectClosedError: If it is released.
        """
        self._require_open()
        if self.is_frozen:
            raise PrefixFrozenError(self.token_count)
        return self._sequence

    @property
    def token_count(self) -> int:
        """Tokens that were admitted, or once it is frozen, those that adopting saves."""
        if self._frozen_tokens is not None:
            return self._frozen_tokens
        return self._sequence.position + self._sequence.pending_count

    @property
    def is_frozen(self) -> bool:
        """Whether it can be adopted, and takes in nothing more."""
        return self._frozen_tokens is not None

    @property
    def is_released(self) -> bool:
        """Whether it was given up."""
        return self._is_released

    def prefill(self, token_ids: Iterable[object]) -> int:
        """Queue tokens as :meth:`sslm.runtime.sequences.sequence.Sequence.prefill` does.

        Raises:
            PrefixFrozenError: If the prefix is frozen.
            ObjectClosedError: If it is released.
            SslmError: As prefilling a sequence does.
        """
        return self.sequence.prefill(token_ids)

    def prefill_content(self, token_ids: Iterable[object]) -> int:
        """Queue tokens as :meth:`sslm.runtime.sequences.sequence.Sequence.prefill_content` does.

        Raises:
            PrefixFrozenError: If the prefix is frozen.
            ObjectClosedError: If it is released.
            SslmError: As for a sequence.
        """
        return self.sequence.prefill_content(token_ids)

    def bind(self, schema: BoundSchema | None, *, answer_tokens: int | None = None) -> None:
        """Let the answer follow a schema; only sequences that follow the same one adopt it then.

        Raises:
            PrefixFrozenError: If the prefix is frozen.
            ObjectClosedError: If it is released.
            SslmError: As :meth:`sslm.runtime.sequences.sequence.Sequence.bind` does.
        """
        self.sequence.bind(schema, answer_tokens=answer_tokens)

    def freeze(self) -> None:
        """End the prefix, whose sequence is closed; freezing it again changes nothing.

        Raises:
            SequenceBusyError: If tokens are not computed yet.
            ObjectClosedError: If it is released.
        """
        self._require_open()
        if not self.is_frozen:
            pending = self._sequence.pending_count
            if pending:
                raise SequenceBusyError(pending, "none: advance it first")
            snapshot = self._sequence.snapshot()
            self._snapshot, self._frozen_tokens = snapshot, snapshot.token_count
            self._sequence.close()
            if self._is_released:
                # By another thread, which found nothing to give up.
                self.release()

    @property
    def snapshot(self) -> Snapshot:
        """What is adopted; stays the prefix's.

        Raises:
            PrefixNotFrozenError: If the prefix is not frozen.
            ObjectClosedError: If it is released.
        """
        snapshot = self._snapshot
        # Afterwards, as whoever releases it says so first.
        self._require_open()
        if snapshot is None:
            raise PrefixNotFrozenError(self.token_count)
        return snapshot

    def adopt_into(self, sequence: Sequence) -> None:
        """Let a sequence begin where the prefix ends.

        Raises:
            PrefixNotFrozenError: If the prefix is not frozen.
            ObjectClosedError: If it is released.
            SslmError: As :meth:`sslm.runtime.sequences.sequence.Sequence.adopt`.
        """
        sequence.adopt(self.snapshot)

    def release(self) -> None:
        """Give up the pages, which live on with those who adopted them; may be called again."""
        self._is_released = True
        self._sequence.close()
        snapshot, self._snapshot = self._snapshot, None
        if snapshot is not None:
            snapshot.release()

    def _require_open(self) -> None:
        if self._is_released:
            raise ObjectClosedError("prefix")

    def __reduce__(self) -> NoReturn:
        raise NotCopyableError("prefix", "prefill its token ids again")

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.release()
