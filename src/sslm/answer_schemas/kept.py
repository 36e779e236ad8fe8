"""Schemas that a model has made of what callers gave, kept for the next request."""

import copy
import weakref
from collections import OrderedDict
from collections.abc import Callable
from functools import cached_property
from typing import Final

from sslm import limits
from sslm.answer_schemas.one_at_a_time import OneAtATime
from sslm.errors.base import ArtifactError, SchemaError
from sslm.errors.runtime import MemoryBudgetError
from sslm.opening.admission import Admission, Lease
from sslm.schema.tokens.bound_schema import BoundSchema
from sslm.threads import new_lock

_REFUSALS: Final = (SchemaError, ArtifactError)
"""Families of errors that the same source has each time."""
_REFUSAL_SIZE_BYTES: Final = 1024
_STATE_SIZE_BYTES: Final = 400


class KeptSchema:
    """A schema of a model, with and without what ends an answer."""

    def __init__(self, schema: BoundSchema, name: str) -> None:
        self.schema = schema
        self.name = name
        self._lease: Callable[[], Lease | None] = lambda: None
        self._is_being_lent = False

    def lent(self, admission: Admission) -> Lease:
        """Return a lease of its bytes, which answers that follow it at one time share.

        Raises:
            MemoryBudgetError: If they do not fit the bound beside what others hold.
        """
        lease = self._lease()
        if lease is None:
            # Otherwise it would be let go of to make room for itself.
            self._is_being_lent = True
            try:
                lease = admission.admit("a compiled schema", self.size_bytes)
            except MemoryBudgetError:
                self._is_being_lent = False
                admission.trim()
                raise
            finally:
                self._is_being_lent = False
            self._lease = weakref.ref(lease)
        return lease

    @property
    def idle_size_bytes(self) -> int:
        """What it takes, or 0 while answers that follow it have that admitted."""
        is_idle = self._lease() is None and not self._is_being_lent
        return self.size_bytes if is_idle else 0

    @cached_property
    def endless(self) -> BoundSchema:
        """The schema by which an answer goes on for as long as it can."""
        return self.schema.ending_with(())

    @property
    def size_bytes(self) -> int:
        """About what it takes: its tables, bound with and without ends, and objects for states."""
        return 3 * self.schema.size_bytes + _STATE_SIZE_BYTES * self.schema.state_count


class KeptSchemas:
    """Makes each schema once; the latest are kept, and refusals with them.

    Several threads may share one.

    Args:
        makers: Lets one thread make what several ask for.
    """

    def __init__(self, makers: OneAtATime) -> None:
        self._makers = makers
        self._kept: OrderedDict[object, KeptSchema | SchemaError | ArtifactError] = OrderedDict()
        self._sizes_bytes: dict[object, int] = {}
        self._lock = new_lock()

    @property
    def count(self) -> int:
        """How many are kept."""
        return len(self._kept)

    def get(
        self,
        key_now: Callable[[], object],
        make: Callable[[], KeptSchema],
        wait: Callable[[], None],
    ) -> KeptSchema:
        """Return what *make* gives, or gave when it was asked for the same before.

        Args:
            key_now: Returns what equal sources have in common, as the source is now; None for one
                that cannot be kept.
            make: Makes it.
            wait: Called while another thread makes it; raises to give up.

        Raises:
            BaseException: What these raise.
        """
        key = key_now()
        if key is None:
            return make()
        return self._recalled(key) or self._makers.run(
            key, lambda: self._recalled(key) or self._made(key, key_now, make), wait
        )

    def _recalled(self, key: object) -> KeptSchema | None:
        with self._lock:
            found = self._kept.get(key)
            if found is not None:
                self._kept.move_to_end(key)
        if found is None or isinstance(found, KeptSchema):
            return found
        raise copy.deepcopy(found)

    def _made(
        self, key: object, key_now: Callable[[], object], make: Callable[[], KeptSchema]
    ) -> KeptSchema:
        found: KeptSchema | SchemaError | ArtifactError
        size = len(key) if isinstance(key, (str, bytes)) else 0
        try:
            found = made = make()
        except _REFUSALS as error:
            # As it was, since callers add notes to theirs.
            self._keep(key, copy.deepcopy(error), size + _REFUSAL_SIZE_BYTES)
            raise
        # A file, or a dict of another thread's, may have changed meanwhile.
        if key_now() == key:
            self._keep(key, found, size + made.size_bytes)
        return made

    def _keep(
        self, key: object, found: KeptSchema | SchemaError | ArtifactError, size_bytes: int
    ) -> None:
        with self._lock:
            self._kept[key] = found
            self._sizes_bytes[key] = size_bytes
            while len(self._kept) > 1 and (
                len(self._kept) > limits.KEPT_SCHEMA_COUNT_MAX
                or sum(self._sizes_bytes.values()) > limits.KEPT_SCHEMAS_SIZE_BYTES_MAX
            ):
                self._drop_oldest()

    def shrink(self, most_bytes: int) -> None:
        """Let go of the oldest until those that no answer follows take at most so many bytes."""
        with self._lock:
            while self._kept and self._idle_bytes() > most_bytes:
                self._drop_oldest()

    def _idle_bytes(self) -> int:
        used = (
            found.size_bytes - found.idle_size_bytes
            for found in self._kept.values()
            if isinstance(found, KeptSchema)
        )
        return sum(self._sizes_bytes.values()) - sum(used)

    def _drop_oldest(self) -> None:
        oldest, _ = self._kept.popitem(last=False)
        del self._sizes_bytes[oldest]
