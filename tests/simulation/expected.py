"""The simulator's own model: who holds what, where everything stands, and what will be refused.

Pages are numbers that are never used twice, and a page is free when no holder lists it. Each method
either raises :class:`RefusedError`, before anything has changed, or does what the call is to do.
"""

from dataclasses import dataclass, field, replace
from typing import Any

from sslm.errors.base import SslmError
from sslm.errors.binding import (
    SchemaBindError,
    SchemaBudgetTokensError,
    SchemaDeadEndError,
    SchemaSpanUnreachableError,
    SchemaUnboundError,
)
from sslm.errors.runtime import (
    ChoiceUnfinishedError,
    ContextLengthError,
    KvPoolExhaustedError,
    NothingChosenError,
    NumericStepRefusedError,
    ObjectClosedError,
    OptionRangeError,
    PoolInUseError,
    PrefixFrozenError,
    PrefixNotFrozenError,
    SequenceBusyError,
    SequenceNotFreshError,
    SnapshotMismatchError,
    TokenIdRangeError,
    TokenIdTypeError,
)
from sslm.errors.saves import (
    SaveChoiceError,
    SaveLogitsError,
    SaveModelError,
    SaveRowsError,
    SaveSchemaError,
    SaveScoresError,
)
from sslm.program.program import Program
from sslm.program.sequence_data import NONE_ALLOWED, SCORE_REFUSED
from sslm.program.states import PAGE_TOKENS
from tests.simulation.answers import START, Bound, Place
from tests.simulation.choices import Rule
from tests.simulation.models import LONGEST

BAD_IDS: dict[str, object] = {"-1": -1, "vocab": 1 << 20, "text": "a", "true": True, "half": 0.5}


class RefusedError(Exception):
    """The call is to be refused with an error of just this class, and with these facts."""

    def __init__(self, error_class: type[SslmError], /, **facts: object) -> None:
        super().__init__(error_class, facts)
        self.error_class = error_class
        self.facts = facts


def page_count_for(tokens: int) -> int:
    return (tokens + PAGE_TOKENS - 1) // PAGE_TOKENS


@dataclass(eq=False)
class Pool:
    """Pages, and everybody who lists some."""

    page_count: int
    holders: list["Holder"] = field(default_factory=list)
    next_page: int = 0

    def held(self) -> set[int]:
        return {page for holder in self.holders for page in holder.pages}

    def free_count(self) -> int:
        return self.page_count - len(self.held())

    def take(self, count: int) -> list[int]:
        free = self.free_count()
        if count > free:
            raise RefusedError(KvPoolExhaustedError, needed_pages=count, free_pages=free)
        self.next_page += count
        return list(range(self.next_page - count, self.next_page))

    def owner_count(self, page: int) -> int:
        return sum(page in holder.pages for holder in self.holders)

    def close(self) -> None:
        if self.held():
            raise RefusedError(PoolInUseError, held_pages=len(self.held()))


class Holder:
    """Somebody who holds pages."""

    def __init__(self, pool: Pool, pages: list[int]) -> None:
        self.pool = pool
        self.pages = pages
        self.is_released = False
        pool.holders.append(self)

    def release(self) -> None:
        self.is_released = True
        self.pages = []
        if self in self.pool.holders:
            self.pool.holders.remove(self)


@dataclass(frozen=True)
class Options:
    context_tokens: int
    chunk_tokens: int
    reserved_tokens: int
    has_all_logits: bool
    identity: int
    chooses: bool = False

    @property
    def reserved_pages(self) -> int:
        return page_count_for(self.reserved_tokens)


@dataclass(frozen=True)
class Chunk:
    ids: tuple[int, ...]
    next_segment: int
    first_logits_row: int

    @property
    def scored_count(self) -> int:
        return len(self.ids) - self.first_logits_row


@dataclass(frozen=True)
class Progress:
    """What a sequence is, pages left aside; what a snapshot keeps."""

    ids: tuple[int, ...] = ()
    pending: tuple[int, ...] = ()
    chunk: Chunk | None = None
    selected: int | None = None
    rescoring: int | None = None
    """The segment that runs next to choose anew after the last position, or None."""
    layers_run: int = 0
    chunk_count: int = 0
    place: Place = START
    """Behind all tokens, if a schema is followed."""
    forced_count: int = 0

    @property
    def pending_count(self) -> int:
        return len(self.pending) + (len(self.chunk.ids) if self.chunk else 0)

    @property
    def token_count(self) -> int:
        return len(self.ids) + self.pending_count

    @property
    def has_work(self) -> bool:
        return bool(self.pending_count) or self.rescoring is not None

    def begun(self, program: Program) -> tuple[tuple[int, ...], int] | None:
        """Return the rows that have run through some segments, and which one is next."""
        if self.rescoring is not None:
            is_begun = self.rescoring > program.first_head_index
            return (self.ids[-1:], self.rescoring) if is_begun else None
        return None if self.chunk is None else (self.chunk.ids, self.chunk.next_segment)

    def chosen_anew(self, program: Program) -> "Progress":
        """Let the last position be scored again, if it was."""
        if self.selected is None:
            return self
        return replace(self, selected=None, rescoring=program.first_head_index)

    def frozen(self, program: Program) -> "Progress":
        """A chunk that has not begun is pending, and one in the head is at the head's begin."""
        chunk = self.chunk
        if self.rescoring is not None:
            return replace(self, rescoring=program.first_head_index)
        if chunk is None:
            return self
        if chunk.next_segment == 0:
            return replace(
                self,
                pending=chunk.ids + self.pending,
                chunk=None,
                chunk_count=self.chunk_count - 1,
            )
        segment = min(chunk.next_segment, program.first_head_index)
        return replace(self, chunk=replace(chunk, next_segment=segment))


class Snapshot:
    """What somebody can adopt."""

    def __init__(
        self, holder: Holder, progress: Progress, identity: int, rule: Rule, bound: Bound | None
    ) -> None:
        self.holder = holder
        self.rule = rule
        self.progress = progress
        self.identity = identity
        self.bound = bound

    def unbound(self, program: Program) -> "Snapshot":
        """The same without its schema, and so without what was chosen by it."""
        if self.bound is None:
            return self
        progress = replace(self.progress.chosen_anew(program), place=START)
        return Snapshot(self.holder, progress, self.identity, self.rule, None)


class Sequence:
    """What a sequence is to be."""

    def __init__(self, program: Program, pool: Pool, options: Options) -> None:
        if options.context_tokens > LONGEST:
            raise RefusedError(OptionRangeError, option="context_tokens")
        self.program = program
        self.options = options
        self.progress = Progress()
        self.rule = Rule()
        self.bound: Bound | None = None
        self.is_used = False
        self.is_closed = False
        self.holder = Holder(pool, pool.take(options.reserved_pages))

    @property
    def pool(self) -> Pool:
        return self.holder.pool

    def require_open(self) -> None:
        if self.is_closed:
            raise RefusedError(ObjectClosedError, kind="sequence")

    def stats(self) -> dict[str, Any]:
        self.require_open()
        pages = self.holder.pages
        return {
            "positions": len(self.progress.ids),
            "pending_tokens": self.progress.pending_count,
            "layers_run": self.progress.layers_run,
            "layers_ceiling": self.progress.chunk_count * self.program.layer_count,
            "forced_tokens": self.progress.forced_count,
            "is_accepting": self.bound is not None and self.bound.is_accepting(self.progress.place),
            "resident_pages": len(pages),
            "shared_pages": sum(self.pool.owner_count(page) > 1 for page in pages),
        }

    # Tokens.

    def push(self, ids: list[int], bad: str | None) -> None:
        self.require_open()
        if bad is not None:
            raise RefusedError(_bad_class(bad), index=len(ids))
        self._require_room(len(ids))
        self._admit(ids)

    def prefill(self, ids: list[int], bad: str | None) -> int:
        self.require_open()
        refusal = None if bad is None else RefusedError(_bad_class(bad), index=len(ids))
        return self._admit_some(ids, refusal)

    def _admit_some(
        self, ids: list[int], refusal: RefusedError | None, places: list[Place] | None = None
    ) -> int:
        count, shortage = self._room(len(ids))
        refusal = shortage if count < len(ids) else refusal
        if count or refusal is None:
            self._admit(ids[:count], places[count] if places else None, forced=count)
        if refusal is not None:
            refusal.facts["consumed_tokens"] = count
            raise refusal
        return count

    def _room(self, wanted_count: int) -> tuple[int, RefusedError | None]:
        """Take pages for some more tokens; return for how many, and why there are no more."""
        refusal, progress = None, self.progress
        longest = self.options.context_tokens
        wanted = progress.token_count + wanted_count
        if wanted > longest:
            facts = {"needed_tokens": wanted, "limit_tokens": longest, "model_tokens": LONGEST}
            refusal = RefusedError(ContextLengthError, **facts)
        missing = page_count_for(min(wanted, longest)) - len(self.holder.pages)
        free = self.pool.free_count()
        if missing > free:
            refusal = RefusedError(KvPoolExhaustedError, needed_pages=missing, free_pages=free)
        self.holder.pages = self.holder.pages + self.pool.take(max(0, min(missing, free)))
        room = min(longest, len(self.holder.pages) * PAGE_TOKENS) - progress.token_count
        return min(room, wanted_count), refusal

    def decode(self) -> int:
        return self.decode_span(1)[0]

    def decode_span(self, most: int | None) -> list[int]:
        self.require_open()
        if most is not None and most < 1:
            raise RefusedError(OptionRangeError, option="most")
        token_id = self._chosen()
        self._require_room(1)
        if self.bound is None:
            self._admit([token_id])
            return [token_id]
        span = self.bound.span(self.progress.place, token_id, most)
        if len(span) > 1:
            span = span[: self._room(len(span))[0]]
        ids = [token_id for token_id, _ in span]
        self._admit(ids, span[-1][1], forced=len(span) - 1)
        return ids

    def begin_answer(self, most: int) -> list[int]:
        self.require_open()
        span = self.bound.only_span(self.progress.place, most) if self.bound else []
        if span:
            span = span[: self._room(len(span))[0]]
        ids = [token_id for token_id, _ in span]
        if ids:
            self._admit(ids, span[-1][1], forced=len(ids))
        return ids

    def _chosen(self) -> int:
        progress, last = self.progress, len(self.progress.ids) - 1
        if progress.pending_count:
            raise RefusedError(SequenceBusyError, pending=progress.pending_count)
        if progress.rescoring is not None:
            raise RefusedError(ChoiceUnfinishedError, position=last)
        if progress.selected is None:
            raise RefusedError(NothingChosenError, position=len(progress.ids))
        if progress.selected == SCORE_REFUSED:
            raise RefusedError(NumericStepRefusedError, position=last)
        if progress.selected == NONE_ALLOWED:
            raise RefusedError(SchemaDeadEndError, position=last)
        return progress.selected

    # A schema.

    def bind(self, bound: Bound | None) -> None:
        self.require_open()
        if self.is_used:
            raise RefusedError(SchemaBindError, token_count=self.progress.token_count)
        if bound is not None:
            self._require_bindable(bound)
        self.bound = bound

    def _require_bindable(self, bound: Bound) -> None:
        if self.options.has_all_logits:
            raise RefusedError(OptionRangeError, option="has_all_logits")
        most, needed = bound.answer_tokens, bound.automaton.shortest(0)
        if most is not None and most < 1:
            raise RefusedError(OptionRangeError, option="answer_tokens")
        if most is not None and needed is not None and most < needed:
            facts = {"budget_tokens": most, "needed_tokens": needed}
            raise RefusedError(SchemaBudgetTokensError, **facts)

    def content(self, ids: list[int], bad: str | None) -> int:
        self.require_open()
        if self.bound is None:
            raise RefusedError(SchemaUnboundError)
        refusal = None if bad is None else RefusedError(_bad_class(bad), index=len(ids))
        places = [self.progress.place]
        for index, token_id in enumerate(ids):
            after = self.bound.after_content(places[-1], token_id)
            if after is None:
                refusal = RefusedError(SchemaSpanUnreachableError, token_id=token_id, index=index)
                break
            places.append(after)
        return self._admit_some(ids[: len(places) - 1], refusal, places)

    def allowed(self) -> tuple[int, ...] | None:
        """Return what the schema lets follow, or None if there is none."""
        return None if self.bound is None else self.bound.allowed(self.progress.place)

    def _require_room(self, count: int) -> None:
        needed, longest = self.progress.token_count + count, self.options.context_tokens
        if needed > longest:
            raise RefusedError(
                ContextLengthError, needed_tokens=needed, limit_tokens=longest, model_tokens=LONGEST
            )
        missing = page_count_for(needed) - len(self.holder.pages)
        if missing > 0:
            self.holder.pages = self.holder.pages + self.pool.take(missing)

    def _admit(self, ids: list[int], place: Place | None = None, *, forced: int = 0) -> None:
        self.is_used = True
        if ids:
            pending = self.progress.pending + tuple(ids)
            self.progress = replace(self.progress, pending=pending, selected=None, rescoring=None)
        if place is not None:
            count = self.progress.forced_count + forced
            self.progress = replace(self.progress, place=place, forced_count=count)

    def choose(self, rule: Rule) -> None:
        self.require_open()
        if rule.answer_start > self.options.context_tokens:
            raise RefusedError(OptionRangeError, option="answer_start")
        if not (rule.is_plain or self.options.chooses):
            raise RefusedError(OptionRangeError, option="chooses")
        if rule.key() != self.rule.key():
            self.progress = self.progress.chosen_anew(self.program)
        self.rule = rule

    # Running.

    def next_row_count(self, chunk_rows: int | None = None) -> int:
        """Rows of the chunk in progress, or of the next one."""
        self.require_open()
        if self.progress.rescoring is not None:
            return 1
        if self.progress.chunk is not None:
            return len(self.progress.chunk.ids)
        if not self.progress.pending:
            raise RefusedError(SequenceBusyError, pending=0)
        most = self.options.chunk_tokens
        return min(len(self.progress.pending), most, chunk_rows or most)

    def begin_chunk(self, chunk_rows: int | None = None) -> None:
        progress = self.progress
        if progress.chunk is not None or progress.rescoring is not None:
            return
        ids = progress.pending[: self.next_row_count(chunk_rows)]
        rest = progress.pending[len(ids) :]
        first_row = len(ids) if rest else len(ids) - 1
        chunk = Chunk(ids, 0, 0 if self.options.has_all_logits else first_row)
        self.progress = replace(
            progress, pending=rest, chunk=chunk, chunk_count=progress.chunk_count + 1
        )

    def put_back(self) -> None:
        """Let a chunk that has not run be none."""
        if self.progress.chunk is not None and self.progress.chunk.next_segment == 0:
            self.progress = self.progress.frozen(self.program)

    def stage(self) -> tuple[int, int]:
        """Where the chunk stands, and where it ends."""
        chunk, program = self.progress.chunk, self.program
        if self.progress.rescoring is not None:
            return self.progress.rescoring, len(program.segments)
        assert chunk is not None
        stop = len(program.segments) if chunk.scored_count else program.first_head_index
        return chunk.next_segment, stop

    def slice_end(self, units: int) -> int:
        """Count off units: layers and head blocks cost one, embedding and selection nothing."""
        at, stop = self.stage()
        select = len(self.program.segments) - 1
        while at < stop:
            costs = int(at not in (0, select))
            if costs > units:
                break
            units -= costs
            at += 1
        return at

    def move(self, last: int, selected: int) -> bool:
        """Let the chunk have run up to segment *last*; tell whether that was its end."""
        progress = self.progress
        chunk, (first, stop) = progress.chunk, self.stage()
        if progress.rescoring is not None:
            is_finished = last == stop
            self.progress = replace(
                progress,
                rescoring=None if is_finished else last,
                selected=selected if is_finished else None,
            )
            return is_finished
        assert chunk is not None
        layers = range(1, self.program.first_head_index)
        ran = progress.layers_run + sum(segment in layers for segment in range(first, last))
        if last < stop:
            moved = replace(chunk, next_segment=last)
            self.progress = replace(progress, chunk=moved, layers_run=ran)
            return False
        is_scored = chunk.scored_count > 0 and not progress.pending
        self.progress = replace(
            progress,
            ids=progress.ids + chunk.ids,
            chunk=None,
            layers_run=ran,
            selected=selected if is_scored else None,
        )
        return True

    # Freezing.

    def snapshot(self) -> Snapshot:
        self.require_open()
        full = len(self.progress.ids) // PAGE_TOKENS
        holder = Holder(self.pool, self.holder.pages[:full])
        progress = self.progress.frozen(self.program)
        return Snapshot(holder, progress, self.options.identity, self.rule, self.bound)

    def adopt(self, snapshot: Snapshot) -> None:
        self.require_open()
        token_count = snapshot.progress.token_count
        if self.progress.token_count:
            raise RefusedError(SequenceNotFreshError, token_count=self.progress.token_count)
        if snapshot.identity != self.options.identity:
            raise RefusedError(SnapshotMismatchError, what="the model")
        if snapshot.holder.pool is not self.pool:
            raise RefusedError(SnapshotMismatchError, what="the KV pool")
        _require_within(self.options, token_count)
        chunk = snapshot.progress.chunk
        if chunk is not None and len(chunk.ids) > self.options.chunk_tokens:
            raise RefusedError(SnapshotMismatchError, what="the rows of a chunk")
        if chunk is not None and chunk.scored_count > 1 and not self.options.has_all_logits:
            raise RefusedError(SnapshotMismatchError, what="the rows that are scored")
        self._require_same_schema(snapshot)
        if snapshot.holder.is_released:
            raise RefusedError(ObjectClosedError, kind="snapshot")
        shared = snapshot.holder.pages
        own = max(page_count_for(token_count), self.options.reserved_pages) - len(shared)
        taken = self.pool.take(max(0, own - len(self.holder.pages)))
        self.holder.pages = shared + self.holder.pages[:own] + taken
        self.progress, self.is_used = snapshot.progress, True
        if (snapshot.rule.key(), snapshot.bound) != (self.rule.key(), self.bound):
            self.progress = self.progress.chosen_anew(self.program)

    def _require_same_schema(self, snapshot: Snapshot) -> None:
        theirs, own, place = snapshot.bound, self.bound, snapshot.progress.place
        if theirs is None:
            return
        if own is None or own.schema != theirs.schema:
            raise RefusedError(SnapshotMismatchError, what="the schema")
        if not own.fits(place):
            shortest = own.automaton.shortest(place.state) or 0
            facts = {"budget_tokens": own.answer_tokens, "needed_tokens": place.count + shortest}
            raise RefusedError(SchemaBudgetTokensError, **facts)

    def restore_into(self, save: "Save", schema: int | None = None) -> None:
        if schema is None and self.bound is not None:
            schema = self.bound.schema
        require_restorable(self.options, save, schema)
        self.require_open()
        if self.progress.token_count:
            raise RefusedError(SequenceNotFreshError, token_count=self.progress.token_count)
        if save.bound is not None:
            self._require_bindable(save.bound)
        self._require_room(save.progress.token_count)
        self.progress, self.rule = save.progress, save.rule
        self.bound, self.is_used = save.bound, True

    def reset(self) -> None:
        self.require_open()
        reserved = self.options.reserved_pages
        own = [page for page in self.holder.pages if self.pool.owner_count(page) == 1][:reserved]
        self.holder.pages = own + self.pool.take(reserved - len(own))
        self.progress, self.is_used = Progress(), False

    def close(self) -> None:
        self.is_closed = True
        self.holder.release()
        # What is computed can still be asked for.
        self.progress = replace(self.progress, pending=(), chunk=None, rescoring=None)


@dataclass(frozen=True)
class Save:
    """What a blob says."""

    progress: Progress
    identity: int
    rule: Rule
    bound: Bound | None


def require_restorable(options: Options, save: Save, schema: int | None) -> None:
    """Look at everything about a save that does not depend on a sequence's tokens and pages."""
    chunk = save.progress.chunk
    if save.identity != options.identity:
        raise RefusedError(SaveModelError)
    _require_within(options, save.progress.token_count)
    if save.rule.answer_start > options.context_tokens:
        raise RefusedError(SaveChoiceError, option="answer_start")
    if not (save.rule.is_plain or options.chooses):
        raise RefusedError(SaveScoresError)
    if chunk is not None and len(chunk.ids) > options.chunk_tokens:
        raise RefusedError(SaveRowsError)
    if chunk is not None and chunk.scored_count > 1 and not options.has_all_logits:
        raise RefusedError(SaveLogitsError)
    if save.bound is not None and save.bound.schema != schema:
        raise RefusedError(SaveSchemaError)


def _require_within(options: Options, token_count: int) -> None:
    longest = options.context_tokens
    if token_count > longest:
        raise RefusedError(
            ContextLengthError,
            needed_tokens=token_count,
            limit_tokens=longest,
            model_tokens=LONGEST,
        )


def restored(
    program: Program, pool: Pool, options: Options, save: Save, schema: int | None
) -> Sequence:
    """Return the sequence that a save becomes."""
    require_restorable(options, save, schema)
    sequence = Sequence(program, pool, options)
    try:
        sequence.restore_into(save, schema)
    except RefusedError:
        sequence.close()
        raise
    return sequence


def save_of(source: Sequence | Snapshot, *, kv: bool) -> Save:
    if isinstance(source, Sequence):
        source.require_open()
        progress = source.progress.frozen(source.program)
        identity, rule, bound = source.options.identity, source.rule, source.bound
    else:
        if source.holder.is_released:
            raise RefusedError(ObjectClosedError, kind="snapshot")
        progress, identity = source.progress, source.identity
        rule, bound = source.rule, source.bound
    if not kv:
        begun = progress.chunk.ids if progress.chunk else ()
        progress = Progress(
            pending=progress.ids + begun + progress.pending,
            place=progress.place,
            forced_count=progress.forced_count,
        )
    return Save(progress, identity, rule, bound)


class Prefix:
    """What a prefix is to be."""

    def __init__(self, sequence: Sequence) -> None:
        self._sequence = sequence
        self.snapshot: Snapshot | None = None
        self.is_released = False

    @property
    def sequence(self) -> Sequence:
        self.require_open()
        if self.snapshot is not None:
            raise RefusedError(PrefixFrozenError, token_count=self.snapshot.progress.token_count)
        return self._sequence

    def require_open(self) -> None:
        if self.is_released:
            raise RefusedError(ObjectClosedError, kind="prefix")

    def freeze(self) -> None:
        self.require_open()
        if self.snapshot is not None:
            return
        if self._sequence.progress.pending_count:
            raise RefusedError(SequenceBusyError, pending=self._sequence.progress.pending_count)
        self.snapshot = self._sequence.snapshot()
        self._sequence.close()

    def adopt_into(self, sequence: Sequence) -> None:
        self.require_open()
        if self.snapshot is None:
            raise RefusedError(
                PrefixNotFrozenError, token_count=self._sequence.progress.token_count
            )
        sequence.adopt(self.snapshot)

    def release(self) -> None:
        self.is_released = True
        self._sequence.close()
        if self.snapshot is not None:
            self.snapshot.holder.release()


def _bad_class(bad: str) -> type[SslmError]:
    return TokenIdRangeError if bad in {"-1", "vocab"} else TokenIdTypeError
