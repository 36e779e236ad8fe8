"""An interrupt leaves an answer's place in its schema as it was, or as it is after the call."""

from collections.abc import Callable
from functools import partial
from itertools import count

import pytest

from sslm.program.plan import Plan
from sslm.schema.tokens.bound_schema import BoundSchema
from tests.bound_schemas import bound, fields, letters_without_end, split
from tests.interrupting import interrupted_at_line
from tests.unit.runtime.test_interrupts import PROMPT, Bench, is_watched, plan

__all__ = ["plan"]


def schemas(plan: Plan) -> tuple[BoundSchema, BoundSchema]:
    vocab_size = plan.program.vocab_size
    return bound(fields(), vocab_size), bound(letters_without_end(), vocab_size)


def fresh(plan: Plan) -> Bench:
    bench = Bench(plan)
    bench.sequence.bind(schemas(plan)[0])
    return bench


def answering(plan: Plan) -> Bench:
    bench = fresh(plan)
    bench.sequence.push(PROMPT)
    bench.run()
    return bench


def speaking(plan: Plan) -> Bench:
    """Return one whose mask is its own, as the next one is: few tokens are left."""
    bench, schema = Bench(plan), schemas(plan)[0]
    bench.sequence.bind(schema, answer_tokens=schema.shortest)
    bench.sequence.push(PROMPT)
    bench.run()
    for _ in range(2):
        bench.sequence.decode()
        bench.run()
    return bench


STEPS: dict[str, tuple[Callable[[Plan], Bench], Callable[[Bench], object]]] = {
    "bind": (fresh, lambda bench: bench.sequence.bind(schemas(bench.plan)[1])),
    "unbind": (fresh, lambda bench: bench.sequence.bind(None)),
    "span": (answering, lambda bench: bench.sequence.decode_span()),
    "next token": (speaking, lambda bench: bench.sequence.decode()),
    "content": (answering, lambda bench: bench.sequence.prefill_content(split("abbagcd"))),
    "reset": (answering, lambda bench: bench.sequence.reset()),
}


def end(bench: Bench) -> tuple[object, ...]:
    """Return all that must be equal, some tokens further on."""
    one = bench.sequence
    if not one.token_ids and not one.pending_count:
        one.push(PROMPT)
    bench.run()
    # By the mask of where the answer stands, whoever wrote another one meanwhile.
    one.rescore()
    bench.run()
    for _ in range(3):
        one.decode_span()
        bench.run()
    schema = one.schema
    return one.token_ids, one.selected, one.digest, one.stats(), schema and schema.digest


@pytest.mark.parametrize("name", STEPS)
def test_an_interrupt_at_any_line_leaves_what_was_or_what_comes(plan: Plan, name: str) -> None:
    begin, act = STEPS[name]
    before, after = begin(plan), begin(plan)
    act(after)
    ends = [end(before), end(after)]
    for line in count(1):
        bench = begin(plan)
        if not interrupted_at_line(line, partial(act, bench), is_watched):
            break
        assert end(bench) in ends, line
        bench.sequence.close()
        assert bench.pool.held_page_count == 0
    assert line > 3


def test_an_interrupt_at_any_line_of_an_adoption(plan: Plan) -> None:
    source = answering(plan)
    source.sequence.prefill_content(split("abbag"))
    source.run()
    snapshot = source.sequence.snapshot()
    expected = end(source)
    for line in count(1):
        bench = Bench(plan)
        bench.pool.close()
        bench.pool = source.pool
        bench.sequence = bench.fresh()
        bench.sequence.bind(schemas(plan)[0])
        if not interrupted_at_line(line, lambda: bench.sequence.adopt(snapshot), is_watched):  # noqa: B023
            break
        if not bench.sequence.pending_count and not bench.sequence.token_ids:
            bench.sequence.adopt(snapshot)
        found = end(bench)
        assert found[:3] == expected[:3], line
        bench.sequence.close()
    assert line > 20
    snapshot.release()
