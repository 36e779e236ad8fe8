"""The native tiers give the reference's bits, whatever the shape and however a run is cut."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sslm.native_library import TIERS
from sslm.program.ops import SaturationSite
from tests.backends.backends import MISSING_NAMES, open_named
from tests.backends.random_program import (
    RandomProgram,
    Runner,
    Shape,
    run_together,
    token_ids,
)

HEADS = [(1, 1), (3, 1), (8, 1), (4, 4), (8, 2)]
SHAPES = {
    "odd hidden": Shape(hidden_size=72, intermediate_size=200, head_dim=24, vocab_size=50),
    "wide heads": Shape(head_dim=64, rotary_dim=64, num_attention_heads=8, is_interleaved=False),
    "80 dims": Shape(head_dim=80, rotary_dim=40, num_attention_heads=2, num_key_value_heads=2),
    "128 dims, window": Shape(head_dim=128, rotary_dim=128, window=70, has_head_norm=True),
    "256 dims": Shape(head_dim=256, rotary_dim=256, num_attention_heads=1, num_hidden_layers=1),
    "extreme": Shape(hidden_size=72, is_extreme=True, vocab_size=17),
    "recurrent": Shape(hidden_size=20, head_dim=6, rotary_dim=4, has_average=True),
    "int4": Shape(hidden_size=72, intermediate_size=200, int4_share=1.0, has_bias=False),
    "int4 beside int8": Shape(hidden_size=100, int4_share=0.5, vocab_size=50),
    "extreme int4": Shape(hidden_size=72, is_extreme=True, vocab_size=17, int4_share=0.7),
    "wide rows": Shape(hidden_size=1100, intermediate_size=1030, num_hidden_layers=1, head_dim=32),
}


def outcome(
    backend_name: str,
    model: RandomProgram,
    *,
    count: int,
    chunk_rows: int,
    threads: int = 1,
    neighbours: int = 0,
    budget_units: int = 1 << 20,
) -> dict[str, object]:
    """Run a sequence of `count` tokens beside shorter ones; return all that is seen of it."""
    shape = model.shape
    runners = [
        Runner(model.program, token_ids(seed, shape.vocab_size, count // (seed + 1)))
        for seed in range(neighbours + 1)
    ]
    plan = open_named(backend_name, threads=threads).compile(
        model.program,
        model.tensors,
        row_count_max=64 * len(runners),
        context_tokens=shape.context_tokens,
    )
    run_together(plan, runners, chunk_rows=chunk_rows, budget_units=budget_units)
    plan.close()
    return runners[0].outcome()


@pytest.mark.parametrize("name", SHAPES)
def test_a_tier_equals_the_reference(native_name: str, name: str) -> None:
    model = RandomProgram(SHAPES[name])
    found = outcome(native_name, model, count=130, chunk_rows=64, neighbours=2)
    assert found == outcome("reference", model, count=130, chunk_rows=64)


@pytest.mark.parametrize("chunk_rows", [5, 6, 15, 16, 17, 64])
@pytest.mark.parametrize(
    ("heads", "head_dim", "window"), [((3, 1), 64, None), ((8, 1), 24, 70), ((5, 5), 130, 20)]
)
def test_rows_that_attend_together_equal_the_reference(
    native_name: str,
    chunk_rows: int,
    heads: tuple[int, int],
    head_dim: int,
    window: int | None,
) -> None:
    model = RandomProgram(
        Shape(
            num_attention_heads=heads[0],
            num_key_value_heads=heads[1],
            head_dim=head_dim,
            window=window,
            num_hidden_layers=1,
            query_bits=30,
        )
    )
    found = outcome(native_name, model, count=133, chunk_rows=chunk_rows)
    assert found == outcome("reference", model, count=133, chunk_rows=chunk_rows)


def test_extreme_weights_saturate_wherever_they_can() -> None:
    found = outcome("reference", RandomProgram(SHAPES["extreme"]), count=20, chunk_rows=20)
    counts = found["saturations"]
    assert isinstance(counts, list)
    # The norms' outputs have room for every gain.
    assert [site for site in SaturationSite if counts[site] == 0] == [SaturationSite.NORM]


@pytest.mark.parametrize(
    ("chunk_rows", "threads", "neighbours", "budget_units"),
    [(1, 1, 0, 100), (7, 2, 0, 100), (64, 2, 2, 1), (64, 3, 1, 2), (9, 1, 3, 3)],
)
def test_no_way_of_running_changes_a_bit(
    native_name: str, chunk_rows: int, threads: int, neighbours: int, budget_units: int
) -> None:
    shape = Shape(hidden_size=40, intermediate_size=600, vocab_size=600, has_average=True)
    model = RandomProgram(shape)
    found = outcome(
        native_name,
        model,
        count=70,
        chunk_rows=chunk_rows,
        threads=threads,
        neighbours=neighbours,
        budget_units=budget_units,
    )
    plain = outcome(native_name, model, count=70, chunk_rows=70 - 6)
    # Which rows get logits, and how many final residuals there are, depends on the chunks.
    for name in ("digests", "traces", "states", "fixed", "saturations"):
        assert found[name] == plain[name], name


@st.composite
def shapes(draw: st.DrawFn) -> Shape:
    """Shapes that no kernel was written for."""
    heads, kv_heads = draw(st.sampled_from(HEADS))
    head_dim = draw(st.integers(1, 40)) * 2
    return Shape(
        seed=draw(st.integers(0, 1000)),
        hidden_size=draw(st.integers(1, 90)),
        intermediate_size=draw(st.integers(1, 90)),
        num_attention_heads=heads,
        num_key_value_heads=kv_heads,
        head_dim=head_dim,
        rotary_dim=draw(st.integers(1, head_dim // 2)) * 2,
        vocab_size=draw(st.integers(1, 70)),
        num_hidden_layers=1,
        window=draw(st.none() | st.integers(1, 80)),
        has_bias=draw(st.booleans()),
        has_head_norm=draw(st.booleans()),
        is_interleaved=draw(st.booleans()),
        has_average=draw(st.booleans()),
        is_extreme=draw(st.booleans()),
        int4_share=draw(st.sampled_from([0.0, 0.5, 1.0])),
    )


@pytest.mark.parametrize("tier", [tier for tier in TIERS if tier not in MISSING_NAMES])
@settings(max_examples=12, deadline=None)
@given(
    shape=shapes(),
    count=st.integers(1, 80),
    chunk_rows=st.integers(1, 64),
    ways=st.fixed_dictionaries({"neighbours": st.integers(0, 2), "threads": st.integers(1, 2)}),
)
def test_random_shapes_equal_the_reference(
    tier: str, shape: Shape, count: int, chunk_rows: int, ways: dict[str, int]
) -> None:
    model = RandomProgram(shape)
    found = outcome(tier, model, count=count, chunk_rows=chunk_rows, **ways)
    assert found == outcome("reference", model, count=count, chunk_rows=chunk_rows)
