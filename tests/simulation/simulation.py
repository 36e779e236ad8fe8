"""Runs one schedule on the runtime and on the simulator's model of it, and compares the two."""

from collections.abc import Callable
from typing import Any

from sslm.errors.base import SslmError
from sslm.errors.runtime import MemoryRefusedError
from sslm.runtime.saves.saving import restore, restore_into, save
from sslm.runtime.sequences.kv_pool import KvPool, PageHold
from sslm.runtime.sequences.options import SequenceOptions
from sslm.runtime.sequences.prefix import Prefix
from sslm.runtime.sequences.sequence import Sequence
from sslm.runtime.sequences.snapshot import Snapshot
from tests.simulation import expected
from tests.simulation.allocations import failing_allocation
from tests.simulation.choices import WAYS, Rule
from tests.simulation.evidence import Evidence
from tests.simulation.expected import RefusedError
from tests.simulation.models import MODEL_IDS, model_named
from tests.simulation.observing import all_of_sequence, all_of_snapshot, difference
from tests.simulation.operations import (
    HOARD_SLOTS,
    PREFIX_SLOTS,
    SAVE_SLOTS,
    SEQUENCE_SLOTS,
    SNAPSHOT_SLOTS,
    Operation,
    World,
)
from tests.simulation.plans import plan_of
from tests.simulation.schema_calls import SchemaCalls
from tests.simulation.steps import Both, BothSequences, Step

STATISTICS_PERIOD = 16
"""Checks of which one asks for statistics too."""


class WrongError(AssertionError):
    """The runtime did something else than the simulator's model of it."""


class Simulation(SchemaCalls):
    """A world, and one method for each kind of operation.

    A method returns the call to make, or None if there is nothing to make it on.

    Args:
        world: What to begin with.
    """

    def __init__(self, world: World) -> None:
        model = model_named(world.model)
        self.world = world
        self.model = model
        self.program = model.program
        self.plan = plan_of(world.model, world.backend, world.threads)
        self.evidence = Evidence(world.model)
        layout = self.program.state_layout
        self.pools = [
            Both(KvPool(layout, count), expected.Pool(count)) for count in world.page_counts
        ]
        self.sequences: list[BothSequences | None] = [None] * SEQUENCE_SLOTS
        self.prefixes: list[Both[Prefix, expected.Prefix] | None] = [None] * PREFIX_SLOTS
        self.snapshots: list[Both[Snapshot, expected.Snapshot] | None] = [None] * SNAPSHOT_SLOTS
        self.saves: list[Both[bytes, expected.Save] | None] = [None] * SAVE_SLOTS
        self.hoards: list[Both[PageHold, expected.Holder] | None] = [None] * HOARD_SLOTS
        self._check_count = 0
        self.refusals: list[str] = []
        """The classes of the latest operation's refusals."""

    def execute(self, operation: Operation) -> bool:
        """Do one operation and compare everything; return whether there was anything to do.

        Raises:
            WrongError: If the runtime did something else than it was to do.
        """
        step = getattr(self, operation.kind)(**operation.arguments)
        if step is None:
            return False
        self._perform(step, operation.fails_at)
        return True

    # Comparing.

    def _perform(self, step: Step, fails_at: int | None) -> None:
        if fails_at is not None:
            before = self.everything()
            with failing_allocation(fails_at) as allocations:
                result, error = self.outcome(step.real)
            if allocations.has_failed:
                self.require_error(error, MemoryRefusedError, {})
                self.require_unchanged(before)
                return
        refusal, wanted = None, None
        try:
            wanted = step.model()
        except RefusedError as refused:
            refusal = refused.with_traceback(None)
        if fails_at is None:
            before = self.everything() if refusal else {}
            result, error = self.outcome(step.real)
        if refusal is not None:
            self.require_error(error, refusal.error_class, refusal.facts)
            if not refusal.facts.get("consumed_tokens"):
                self.require_unchanged(before)
            return
        if error is not None:
            raise WrongError(f"unexpected {type(error).__name__}: {error}")
        if step.keep is not None:
            step.keep(result, wanted)
        elif result != wanted:
            raise WrongError(f"returned {result!r}, expected {wanted!r}")

    def outcome(self, real: Callable[[], Any]) -> tuple[Any, SslmError | None]:
        """Make a call; return its result, or how it was refused."""
        try:
            return real(), None
        except SslmError as error:
            error.__context__ = error.__cause__ = None
            return None, error.with_traceback(None)
        except WrongError:
            raise
        except Exception as error:
            found = f"a bare {type(error).__name__}: {error}"
            raise WrongError(f"{found}, expected one of the package's") from None

    def require_error(
        self, error: SslmError | None, kind: type[SslmError], facts: dict[str, object]
    ) -> None:
        """Compare a refusal with what was expected."""
        self.refusals.append(kind.__name__)
        if type(error) is not kind:
            found = f"{type(error).__name__}: {error}" if error else "no refusal"
            raise WrongError(f"{found}; expected {kind.__name__} {facts}")
        for name, value in facts.items():
            if getattr(error, name) != value:
                raise WrongError(
                    f"{kind.__name__}.{name} is {getattr(error, name)}, expected {value}"
                )

    def everything(self) -> dict[str, object]:
        """Return all that can be seen."""
        seen: dict[str, object] = {}
        for name, one in self._all_sequences().items():
            seen[name] = all_of_sequence(one.real)
        for name, snapshot in self._all_snapshots().items():
            seen[name] = all_of_snapshot(snapshot)
        for index, pool in enumerate(self.pools):
            seen[f"held pages of pool {index}"] = pool.real.held_page_count
        return seen

    def require_unchanged(self, before: dict[str, object] | None) -> None:
        """Compare all that can be seen with what could be seen before."""
        after = self.everything()
        for name, value in (before or {}).items():
            if after.get(name) != value:
                raise WrongError(f"a refused call changed {name}: {value} became {after[name]}")

    def _all_sequences(self) -> dict[str, BothSequences]:
        found = {f"sequence {i}": one for i, one in enumerate(self.sequences) if one is not None}
        for index, prefix in enumerate(self.prefixes):
            if prefix is not None:
                pair = Both(prefix.real._sequence, prefix.model._sequence)
                found[f"sequence of prefix {index}"] = pair
        return found

    def open_prefix_sequence(self, slot: int) -> BothSequences | None:
        """Return what computes a prefix, if it is neither frozen nor released."""
        prefix = self.prefixes[slot]
        if prefix is None or prefix.model.is_released or prefix.model.snapshot is not None:
            return None
        return Both(prefix.real.sequence, prefix.model.sequence)

    def _all_snapshots(self) -> dict[str, Snapshot]:
        found = {f"snapshot {i}": one.real for i, one in enumerate(self.snapshots) if one}
        for index, prefix in enumerate(self.prefixes):
            if prefix is not None and prefix.real._snapshot is not None:
                found[f"snapshot of prefix {index}"] = prefix.real._snapshot
        return found

    def check(self) -> None:
        """Compare what is cheap to compare, after every operation."""
        self._check_pages()
        # Asking for statistics counts anew who holds which page, so it is not done every time: what
        # is counted wrongly is to have its consequences.
        self._check_count += 1
        has_stats = self._check_count % STATISTICS_PERIOD == 0
        for name, one in self._all_sequences().items():
            differs = difference(one.real, one.model, has_stats=has_stats)
            if differs:
                raise WrongError(f"{name}: {differs}")
            if not one.model.is_closed:
                self.evidence.note(one.real, one.model)

    def _check_pages(self) -> None:
        for index, pool in enumerate(self.pools):
            found, wanted = pool.real.held_page_count, len(pool.model.held())
            if found != wanted:
                raise WrongError(f"pool {index} has {found} pages held, expected {wanted}")
            self._check_counters(pool)
        holds = [(one.real.state.hold, one.model.holder) for one in self._all_sequences().values()]
        for snapshot in (*self.snapshots, *(p and _frozen(p) for p in self.prefixes)):
            if snapshot:
                holds.append((snapshot.real.hold, snapshot.model.holder))
        holds += [(one.real, one.model) for one in self.hoards if one]
        names: dict[tuple[object, int], int] = {}
        for hold, holder in holds:
            if len(hold.pages) != len(holder.pages):
                raise WrongError(f"holds {len(hold.pages)} pages, expected {len(holder.pages)}")
            for page, known in zip(hold.pages, holder.pages, strict=True):
                if names.setdefault((holder.pool, page), known) != known:
                    raise WrongError(f"page {page} is held by two who do not share it")
        if len({(pool, known) for (pool, _), known in names.items()}) != len(names):
            raise WrongError("a page that is to be shared was copied")

    def _check_counters(self, both: Both[KvPool, expected.Pool]) -> None:
        """Look whether a page that is held may be given to somebody else, or is listed twice."""
        pool, held = both.real, {page for hold in both.real._holds for page in hold.pages}
        if held & set(pool._free) or len(set(pool._free)) < len(pool._free):
            raise WrongError(f"pages {pool._free} are free, and {sorted(held)} are held")

    # Sequences.

    def options(self, **given: Any) -> tuple[SequenceOptions, expected.Options]:
        """Return the runtime's and the model's options."""
        own = expected.Options(**given)
        reserved = None if own.reserved_tokens == own.context_tokens else own.reserved_tokens
        real = SequenceOptions(
            context_tokens=own.context_tokens,
            chunk_tokens=own.chunk_tokens,
            reserved_tokens=reserved,
            has_all_logits=own.has_all_logits,
            chooses=own.chooses,
        )
        return real, own

    def create(self, seq: int, pool: int, **given: Any) -> Step:
        real, own = self.options(**given)
        both = self.pools[pool]
        return Step(
            lambda: Sequence(self.program, both.real, MODEL_IDS[own.identity], real),
            lambda: expected.Sequence(self.program, both.model, own),
            lambda found, wanted: self.put_sequence(seq, Both(found, wanted)),
        )

    def put_sequence(self, slot: int, both: BothSequences | None) -> None:
        """Put a sequence where another one may have been, which is dropped."""
        earlier, self.sequences[slot] = self.sequences[slot], both
        if earlier is not None:
            earlier.model.holder.release()

    def drop(self, seq: int) -> Step | None:
        if self.sequences[seq] is None:
            return None
        return Step(lambda: self.put_sequence(seq, None), lambda: None)

    def push(self, seq: int, **tokens: Any) -> Step | None:
        one = self.sequences[seq]
        ids, given = self._tokens(**tokens)
        return (
            None
            if one is None
            else Step(lambda: one.real.push(given), lambda: one.model.push(ids, tokens.get("bad")))
        )

    def prefill(self, seq: int, **tokens: Any) -> Step | None:
        one = self.sequences[seq]
        ids, given = self._tokens(**tokens)
        return (
            None
            if one is None
            else Step(
                lambda: one.real.prefill(given), lambda: one.model.prefill(ids, tokens.get("bad"))
            )
        )

    def _tokens(
        self, text: int, start: int, count: int, bad: str | None = None
    ) -> tuple[list[int], list[object]]:
        """Return the ids before a bad one, and all that is given: the bad one and some after it."""
        ids = self.model.text(text, start, count)
        if bad is None:
            return ids, [*ids]
        return ids, [*ids, expected.BAD_IDS[bad], *ids[:3]]

    def decode(self, seq: int) -> Step | None:
        one = self.sequences[seq]
        return None if one is None else Step(one.real.decode, one.model.decode)

    def choose(self, seq: int, way: int, start: int) -> Step | None:
        one = self.sequences[seq]
        return (
            None
            if one is None
            else Step(
                lambda: one.real.choose(WAYS[way].choice, start),
                lambda: one.model.choose(Rule(way, start)),
            )
        )

    def reset(self, seq: int) -> Step | None:
        one = self.sequences[seq]
        return None if one is None else Step(one.real.reset, one.model.reset)

    def close(self, seq: int) -> Step | None:
        one = self.sequences[seq]
        return None if one is None else Step(one.real.close, one.model.close)

    # Snapshots and saves.

    def snapshot(self, seq: int, snapshot: int) -> Step | None:
        one = self.sequences[seq]
        return (
            None
            if one is None
            else Step(
                one.real.snapshot,
                one.model.snapshot,
                lambda found, wanted: self._keep_snapshot(snapshot, Both(found, wanted)),
            )
        )

    def _keep_snapshot(self, slot: int, both: Both[Snapshot, expected.Snapshot]) -> None:
        self.evidence.note_snapshot(both.real, both.model)
        self.put_snapshot(slot, both)

    def put_snapshot(self, slot: int, both: Both[Snapshot, expected.Snapshot] | None) -> None:
        """Put a snapshot where another one may have been, which is dropped."""
        earlier, self.snapshots[slot] = self.snapshots[slot], both
        if earlier is not None:
            earlier.model.holder.release()

    def drop_snapshot(self, snapshot: int) -> Step | None:
        if self.snapshots[snapshot] is None:
            return None
        return Step(lambda: self.put_snapshot(snapshot, None), lambda: None)

    def release_snapshot(self, snapshot: int) -> Step | None:
        one = self.snapshots[snapshot]
        return None if one is None else Step(one.real.release, one.model.holder.release)

    def adopt(self, seq: int, snapshot: int) -> Step | None:
        one, other = self.sequences[seq], self.snapshots[snapshot]
        if one is None or other is None:
            return None
        return Step(lambda: one.real.adopt(other.real), lambda: one.model.adopt(other.model))

    def save(self, seq: int, save_slot: int, kv: bool) -> Step | None:
        one = self.sequences[seq]
        return None if one is None else self._save(one, save_slot, kv=kv)

    def save_snapshot(self, snapshot: int, save_slot: int, kv: bool) -> Step | None:
        one = self.snapshots[snapshot]
        return None if one is None else self._save(one, save_slot, kv=kv)

    def _save(self, one: Both[Any, Any], slot: int, *, kv: bool) -> Step:
        def keep(found: bytes, wanted: expected.Save) -> None:
            self.saves[slot] = Both(found, wanted)

        return Step(lambda: save(one.real, kv=kv), lambda: expected.save_of(one.model, kv=kv), keep)

    def restore(
        self, save_slot: int, seq: int, pool: int, schema: int | None = None, **given: Any
    ) -> Step | None:
        saved, both = self.saves[save_slot], self.pools[pool]
        real, own = self.options(**given)
        if saved is None:
            return None
        identity, hand = MODEL_IDS[own.identity], self.compiled(schema)
        return Step(
            lambda: restore(saved.real, self.program, both.real, identity, real, schema=hand),
            lambda: expected.restored(self.program, both.model, own, saved.model, schema),
            lambda found, wanted: self.put_sequence(seq, Both(found, wanted)),
        )

    def restore_into(self, save_slot: int, seq: int, schema: int | None = None) -> Step | None:
        saved, one, hand = self.saves[save_slot], self.sequences[seq], self.compiled(schema)
        if saved is None or one is None:
            return None
        return Step(
            lambda: restore_into(one.real, saved.real, schema=hand),
            lambda: one.model.restore_into(saved.model, schema),
        )

    # Prefixes.

    def begin_prefix(self, seq: int, prefix: int) -> Step | None:
        """Give a sequence to a new prefix; the slot's earlier one is dropped."""
        one = self.sequences[seq]

        def keep(found: Prefix, wanted: expected.Prefix) -> None:
            earlier, self.prefixes[prefix] = self.prefixes[prefix], Both(found, wanted)
            self.sequences[seq] = None
            if earlier is not None:
                earlier.model.release()

        return (
            None
            if one is None
            else Step(lambda: Prefix(one.real), lambda: expected.Prefix(one.model), keep)
        )

    def drop_prefix(self, prefix: int) -> Step | None:
        one = self.prefixes[prefix]
        if one is None:
            return None
        one.model.release()

        def drop() -> None:
            self.prefixes[prefix] = None

        del one
        return Step(drop, lambda: None)

    def prefill_prefix(self, prefix: int, **tokens: Any) -> Step | None:
        one = self.prefixes[prefix]
        ids, given = self._tokens(**tokens)
        return (
            None
            if one is None
            else Step(
                lambda: one.real.prefill(given),
                lambda: one.model.sequence.prefill(ids, tokens.get("bad")),
            )
        )

    def freeze(self, prefix: int) -> Step | None:
        one = self.prefixes[prefix]
        return None if one is None else Step(one.real.freeze, one.model.freeze)

    def adopt_prefix(self, seq: int, prefix: int) -> Step | None:
        one, other = self.sequences[seq], self.prefixes[prefix]
        if one is None or other is None:
            return None
        return Step(
            lambda: other.real.adopt_into(one.real), lambda: other.model.adopt_into(one.model)
        )

    def release_prefix(self, prefix: int) -> Step | None:
        one = self.prefixes[prefix]
        return None if one is None else Step(one.real.release, one.model.release)

    # Pools.

    def hoard(self, hoard: int, pool: int, count: int) -> Step | None:
        """Take pages away from everybody."""
        if self.hoards[hoard] is not None:
            return None
        both = self.pools[pool]
        hold = both.real.hold()

        def keep(_: None, pages: list[int]) -> None:
            self.hoards[hoard] = Both(hold, expected.Holder(both.model, pages))

        return Step(lambda: hold.take(count), lambda: both.model.take(count), keep)

    def unhoard(self, hoard: int) -> Step | None:
        one, self.hoards[hoard] = self.hoards[hoard], None
        return None if one is None else Step(one.real.release, one.model.release)

    def close_pool(self, pool: int) -> Step | None:
        """Try to close a pool that is in use."""
        both = self.pools[pool]
        return Step(both.real.close, both.model.close) if both.model.held() else None


def _frozen(prefix: Both[Prefix, expected.Prefix]) -> Both[Snapshot, expected.Snapshot] | None:
    real, model = prefix.real._snapshot, prefix.model.snapshot
    if prefix.real.is_frozen != (model is not None):
        raise WrongError("a prefix is frozen or not, other than expected")
    return Both(real, model) if real is not None and model is not None else None
