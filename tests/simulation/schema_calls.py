"""Operations that follow schemas."""

from sslm.program.program import Program
from sslm.runtime.sequences.prefix import Prefix
from sslm.runtime.sequences.schema_steps import admit_beginning
from sslm.runtime.sequences.snapshot import Snapshot
from sslm.schema.tokens.bound_schema import BoundSchema
from tests.simulation import expected
from tests.simulation.answers import Bound
from tests.simulation.schemas import compiled
from tests.simulation.steps import Both, BothSequences, Step


class SchemaCalls:
    """A method for each of them, as ``tests.simulation.simulation.Simulation`` has."""

    program: Program
    sequences: list[BothSequences | None]
    prefixes: list[Both[Prefix, expected.Prefix] | None]
    snapshots: list[Both[Snapshot, expected.Snapshot] | None]

    def compiled(self, schema: int | None) -> BoundSchema | None:
        """Return a schema for the runtime."""
        return None if schema is None else compiled(schema, self.program.vocab_size)

    def bind(self, seq: int, schema: int | None, answer_tokens: int | None) -> Step | None:
        one, real = self.sequences[seq], self.compiled(schema)
        bound = None if schema is None else Bound(schema, answer_tokens)
        return (
            None
            if one is None
            else Step(
                lambda: one.real.bind(real, answer_tokens=answer_tokens),
                lambda: one.model.bind(bound),
            )
        )

    def bind_prefix(
        self, prefix: int, schema: int | None, answer_tokens: int | None
    ) -> Step | None:
        one, real = self.prefixes[prefix], self.compiled(schema)
        bound = None if schema is None else Bound(schema, answer_tokens)
        return (
            None
            if one is None
            else Step(
                lambda: one.real.bind(real, answer_tokens=answer_tokens),
                lambda: one.model.sequence.bind(bound),
            )
        )

    def decode_span(self, seq: int, most: int | None) -> Step | None:
        one = self.sequences[seq]
        return (
            None
            if one is None
            else Step(lambda: one.real.decode_span(most), lambda: one.model.decode_span(most))
        )

    def begin_answer(self, seq: int, most: int) -> Step | None:
        """Take in what alone an answer can begin with, as requests do."""
        one = self.sequences[seq]

        def real() -> list[int]:
            assert one is not None
            with one.real.begin_use() as state:
                return admit_beginning(state, most).tolist()

        return None if one is None else Step(real, lambda: one.model.begin_answer(most))

    def content(self, seq: int, ids: list[int], bad: str | None = None) -> Step | None:
        one, given = self.sequences[seq], _given(ids, bad)
        return (
            None
            if one is None
            else Step(lambda: one.real.prefill_content(given), lambda: one.model.content(ids, bad))
        )

    def content_prefix(self, prefix: int, ids: list[int], bad: str | None = None) -> Step | None:
        one, given = self.prefixes[prefix], _given(ids, bad)
        return (
            None
            if one is None
            else Step(
                lambda: one.real.prefill_content(given),
                lambda: one.model.sequence.content(ids, bad),
            )
        )

    def unbind_snapshot(self, snapshot: int) -> Step | None:
        """Take the schema from a snapshot, for those who follow none."""
        one = self.snapshots[snapshot]

        def keep(found: Snapshot, wanted: expected.Snapshot) -> None:
            self.snapshots[snapshot] = Both(found, wanted)

        return (
            None
            if one is None
            else Step(one.real.unbound, lambda: one.model.unbound(self.program), keep)
        )


def _given(ids: list[int], bad: str | None) -> list[object]:
    return [*ids] if bad is None else [*ids, expected.BAD_IDS[bad], *ids[:2]]
