"""Every backend and tier gives the vectors that were computed from docs/arithmetic.md alone."""

import json
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from sslm.limits import CONTEXT_TOKENS_MAX
from sslm.program import ops
from sslm.program.buffers import EXPONENT_MAX_GATED, EXPONENT_MAX_INT32, Buffer, BufferKind
from sslm.program.ops import SaturationSite
from sslm.program.program import Program
from sslm.program.states import State, StateKind
from tests.backends.backends import open_named
from tests.backends.single_op import (
    INT32_MAX,
    Memory,
    OneLayer,
    codes_buffer,
    int32_buffer,
    paged_states,
    run_layer,
)

Vector = dict[str, Any]

VECTORS = Path(__file__).parents[1] / "vectors"
ATTENTION_FILES = ("attention", "attention_lengths", "attention_scores")


def vectors(
    *files: str, usable: Callable[[Vector], bool] = lambda vector: True
) -> pytest.MarkDecorator:
    """Parametrize over the vectors of files that a program can be made for, by their names."""
    found = [
        pytest.param(vector, id=f"{file}: {vector['name']}")
        for file in files
        for vector in json.loads((VECTORS / f"{file}.json").read_text())["vectors"]
        if usable(vector)
    ]
    return pytest.mark.parametrize("vector", found)


def check(
    backend_name: str,
    one: OneLayer,
    expected: dict[str, Any],
    site: SaturationSite,
    *,
    position: int = 0,
    token_id: int = 0,
) -> None:
    """Compare the residual of a run, and the counter of a site, with ``{y, saturations}``."""
    memory = Memory(one.program(), positions=position + 1)
    found = run_layer(open_named(backend_name), one, memory, position=position, token_id=token_id)
    assert found == expected["y"]
    counts = {which: int(memory.saturations[which]) for which in SaturationSite}
    assert counts == dict.fromkeys(SaturationSite, 0) | {site: expected["saturations"]}


def check_codes(backend_name: str, one: OneLayer, codes: Buffer, expected: dict[str, Any]) -> None:
    """Compare a row of codes and its exponent, read through a matrix that would shift a wrong one.

    Twice a mantissa of 2**(23 - exponent), at exponent 24, gives each code times two to the power
    of what the exponent is too large. A larger exponent needs no mantissa.
    """
    exponent = expected["exponent"]
    identity = np.eye(codes.width, dtype=np.int8)
    if exponent < 24:
        weights, mantissa, scale = 2 * identity, 1 << (23 - exponent), 24
    else:
        weights, mantissa, scale = identity, 1, exponent
    matrix = one.store.matrix("identity", weights, [mantissa] * codes.width, scale)
    one.layer.append(
        ops.Linear(
            source=codes,
            out=one.residual,
            matrix=matrix,
            accumulates=False,
            site=SaturationSite.GATE_UP,
        )
    )
    check(
        backend_name,
        one,
        {"y": expected["codes"], "saturations": 0},
        SaturationSite.GATE_UP,
    )


@vectors("embed")
def test_embed(backend_name: str, vector: Vector) -> None:
    weights = vector["weights"]
    one = OneLayer(int32_buffer("residual", len(weights[0])), vocab_size=len(weights))
    table = one.store.matrix("table", weights, vector["mantissas"], vector["exponent"])
    one.embed.append(ops.Embed(table=table, out=one.residual))
    site = SaturationSite.RESIDUAL
    check(backend_name, one, vector["expected"], site, token_id=vector["token_id"])


@vectors("rmsnorm")
def test_rmsnorm(backend_name: str, vector: Vector) -> None:
    width = len(vector["x"])
    one = OneLayer(int32_buffer("residual", width, vector["f_out"]))
    source = one.load(int32_buffer("x", width, vector["f_in"]), vector["x"])
    gain = one.store.int32("gain", vector["gain"])
    epsilon = ops.Epsilon(mantissa=vector["epsilon_mantissa"], shift=vector["epsilon_exponent"])
    one.layer.append(
        ops.RmsNorm(
            source=source,
            out=one.residual,
            group_size=len(vector["gain"]),
            gain=gain,
            gain_exponent=vector["gain_exponent"],
            epsilon=epsilon,
        )
    )
    check(backend_name, one, vector["expected"], SaturationSite.NORM)


@vectors("quantize")
def test_quantize(backend_name: str, vector: Vector) -> None:
    width = len(vector["row"])
    one = OneLayer(int32_buffer("residual", width))
    source = one.load(int32_buffer("x", width), vector["row"])
    codes = codes_buffer("codes", width, exponent_max=EXPONENT_MAX_INT32)
    one.layer.append(ops.Quantize(source=source, out=codes))
    check_codes(backend_name, one, codes, vector["expected"])


@vectors("gated_activation")
def test_gated_activation(backend_name: str, vector: Vector) -> None:
    width = len(vector["gate"])
    one = OneLayer(int32_buffer("residual", width))
    gate = one.load(int32_buffer("gate", width, vector["f_g"]), vector["gate"])
    up = one.load(int32_buffer("up", width), vector["up"])
    codes = codes_buffer(
        "codes", width, fraction_bits=vector["f_g"], exponent_max=EXPONENT_MAX_GATED
    )
    one.layer.append(ops.GatedActivation(gate=gate, up=up, out=codes))
    check_codes(backend_name, one, codes, vector["expected"])


@vectors("linear")
def test_linear(backend_name: str, vector: Vector) -> None:
    one = OneLayer(int32_buffer("residual", len(vector["mantissas"])))
    exponent, exponent_max = vector["exponent"], vector["exponent_max"]
    # No row of int32 has codes as large as some at their exponent, but products have.
    if max(map(abs, vector["codes"])) << exponent > INT32_MAX and vector["weight_exponent"] >= 24:
        exponent_max = EXPONENT_MAX_GATED
    codes = one.load_codes(vector["codes"], exponent, exponent_max)
    if vector["old"] is not None:
        one.load(one.residual, vector["old"])
    weights = np.array(vector["weights"])
    matrix = one.store.matrix(
        "w",
        np.pad(weights, ((0, 0), (0, codes.width - weights.shape[1]))),
        vector["mantissas"],
        vector["weight_exponent"],
        vector["bias"],
    )
    one.layer.append(
        ops.Linear(
            source=codes,
            out=one.residual,
            matrix=matrix,
            accumulates=vector["old"] is not None,
            site=SaturationSite.GATE_UP,
        )
    )
    check(backend_name, one, vector["expected"], SaturationSite.GATE_UP)


@vectors("rope")
def test_rope(backend_name: str, vector: Vector) -> None:
    width, position = len(vector["x"]), 2
    one = OneLayer(int32_buffer("residual", width), position_count=position + 1)
    one.load(one.residual, vector["x"])
    unused = [7] * len(vector["cos"])
    one.layer.append(
        ops.Rope(
            buffer=one.residual,
            head_dim=vector["head_dim"],
            rotary_dim=vector["rotary_dim"],
            pairing=vector["pairing"],
            cos=one.store.int32("cos", [unused] * position + [vector["cos"]]),
            sin=one.store.int32("sin", [unused] * position + [vector["sin"]]),
            position_count=position + 1,
        )
    )
    check(backend_name, one, vector["expected"], SaturationSite.ROPE, position=position)


@pytest.mark.parametrize("position", [0, 63, 64, 65])
@vectors("append")
def test_append(backend_name: str, vector: Vector, position: int) -> None:
    width, head_dim = len(vector["k_row"]), vector["head_dim"]
    one = OneLayer(int32_buffer("residual", 1), position_count=position + 1)
    one.states = paged_states(width // head_dim, head_dim)
    for name, state in zip("kv", one.states, strict=True):
        source = one.load(int32_buffer(name, width), vector[f"{name}_row"])
        one.layer.append(ops.Append(source=source, state=state))
    memory = Memory(one.program(), positions=position + 1)
    run_layer(open_named(backend_name), one, memory, position=position)
    for name, state in zip("kv", one.states, strict=True):
        codes, exponents = memory.paged(state, position)
        assert codes.tolist() == vector["expected"][f"{name}_codes"]
        assert exponents.tolist() == vector["expected"][f"{name}_exponents"]


@vectors(*ATTENTION_FILES)
def test_attention(backend_name: str, vector: Vector) -> None:
    keys, position = vector["k_codes"], vector["position"]
    head_dim = len(keys[0][0])
    width = len(vector["expected"]["y"])
    one = OneLayer(int32_buffer("residual", width), position_count=position + 1)
    one.states = paged_states(len(keys[0]), head_dim, k_bits=vector["f_k"])
    query = one.load(int32_buffer("q", width, vector["f_q"]), np.ravel(vector["q"]))
    one.layer.append(
        ops.Attention(
            query=query,
            out=one.residual,
            keys=one.states[0],
            values=one.states[1],
            num_attention_heads=width // head_dim,
            window=vector["window"],
        )
    )
    memory = Memory(one.program(), positions=position + 1)
    for name, state in zip("kv", one.states, strict=True):
        for index in range(len(keys)):
            codes, exponents = memory.paged(state, vector["first_position"] + index)
            codes[:] = vector[f"{name}_codes"][index]
            exponents[:] = vector[f"{name}_exponents"][index]
    found = run_layer(open_named(backend_name), one, memory, position=position)
    assert found == vector["expected"]["y"]
    assert memory.saturations[SaturationSite.ATTENTION] == vector["expected"]["saturations"]


@vectors("add")
def test_add(backend_name: str, vector: Vector) -> None:
    width = len(vector["a"])
    one = OneLayer(int32_buffer("residual", width))
    one.load(one.residual, vector["a"])
    source = one.load(int32_buffer("b", width), vector["b"])
    one.layer.append(ops.Add(source=source, target=one.residual))
    check(backend_name, one, vector["expected"], SaturationSite.RESIDUAL)


@vectors("logits")
def test_logits(backend_name: str, vector: Vector) -> None:
    vocab_size = len(vector["mantissas"])
    one = OneLayer(int32_buffer("residual", 1), vocab_size=vocab_size)
    codes = one.load_codes(vector["codes"], 0, EXPONENT_MAX_INT32, one.head)
    matrix = one.store.matrix("head", vector["weights"], vector["mantissas"], 0)
    out = Buffer(name="logits", kind=BufferKind.LOGITS, width=vocab_size)
    # Two blocks, so that the second does not start where the logits do.
    cuts = [0, 16, vocab_size] if vocab_size > 16 else [0, vocab_size]
    for first, last in pairwise(cuts):
        one.head.append(
            ops.Logits(source=codes, out=out, matrix=matrix, first_row=first, last_row=last)
        )
    memory = Memory(one.program(), positions=1)
    run_layer(open_named(backend_name), one, memory)
    assert memory.logits[0].tolist() == vector["expected"]


@vectors("choose_plain")
def test_choose_plain(backend_name: str, vector: Vector) -> None:
    vocab_size = len(vector["logits"])
    one = OneLayer(int32_buffer("residual", 1), vocab_size=vocab_size)
    logits = Buffer(name="logits", kind=BufferKind.LOGITS, width=vocab_size)
    out = Buffer(name="selected", kind=BufferKind.TOKENS, width=1)
    one.select.append(ops.Choose(logits=logits, out=out))
    memory = Memory(one.program(), positions=1)
    memory.logits[0] = vector["logits"]
    run_layer(open_named(backend_name), one, memory)
    assert memory.selected.tolist() == [vector["expected"]]


@pytest.mark.parametrize("chunk", [1, 3, 64])
@vectors("moving_average")
def test_moving_average(backend_name: str, vector: Vector, chunk: int) -> None:
    rows = np.array(vector["rows"], dtype=np.int32)
    one = OneLayer(int32_buffer("residual", rows.shape[1]), position_count=len(rows))
    state = State(
        name="average",
        kind=StateKind.FIXED,
        segment_index=1,
        head_count=1,
        head_dim=rows.shape[1],
        fraction_bits=0,
    )
    one.states = [state]
    one.layer.append(ops.MovingAverage(source=one.residual, out=one.residual, state=state))
    program = one.program()
    memory = Memory(program, positions=len(rows), rows=64)
    plan = open_named(backend_name).compile(
        program, one.store.tensors, row_count_max=64, context_tokens=len(rows)
    )
    found = []
    for start in range(0, len(rows), chunk):
        count = len(rows[start : start + chunk])
        memory.residual[:count] = rows[start : start + chunk]
        span = memory.span([0] * count, first_position=start, first_logits_row=count)
        plan.run(1, 2, [span])
        found += memory.residual[:count].tolist()
    assert found == vector["expected"]
    assert memory.fixed_values(state).tolist() == vector["expected"][-1]


@vectors("segment_digest", usable=lambda vector: vector["position"] < CONTEXT_TOKENS_MAX)
def test_segment_digest(backend_name: str, vector: Vector) -> None:
    position = vector["position"]
    one = OneLayer(int32_buffer("residual", len(vector["residual"])), position_count=position + 1)
    one.layer_index = vector["segment"]
    for index, record in enumerate(vector["states"]):
        one.states.append(digested_state(record, index, vector["segment"]))
    program = add_fixed_ops(one, vector["states"])
    memory = Memory(program, positions=position + 1)
    memory.residual[0] = vector["residual"]
    for state, record in zip(one.states, vector["states"], strict=True):
        if state.is_paged:
            codes, exponents = memory.paged(state, position)
            codes[:], exponents[:] = record["codes"], record["exponents"]
        else:
            memory.fixed_values(state)[:] = record["values"]
    run_layer(open_named(backend_name), one, memory, position=position)
    assert memory.trace[vector["segment"], 0].tobytes().hex() == vector["expected"]
    assert memory.digests[0].tobytes().hex() == vector["expected"]


def digested_state(record: dict[str, Any], index: int, segment: int) -> State:
    if record["kind"] == "fixed":
        kind, heads, head_dim = StateKind.FIXED, 1, len(record["values"])
    else:
        kind = StateKind.PAGED_VALUES if index % 2 else StateKind.PAGED_KEYS
        heads, head_dim = len(record["codes"]), len(record["codes"][0])
    return State(
        name=f"state {index}",
        kind=kind,
        segment_index=segment,
        head_count=heads,
        head_dim=head_dim,
        fraction_bits=0,
    )


def add_fixed_ops(one: OneLayer, records: list[dict[str, Any]]) -> Program:
    """Make every fixed state take its values: their average with themselves."""
    for state, record in zip(one.states, records, strict=True):
        if state.is_paged:
            continue
        source = int32_buffer(state.name, state.head_dim)
        one.load(source, record["values"])
        one.layer.append(ops.MovingAverage(source=source, out=source, state=state))
    return one.program()
