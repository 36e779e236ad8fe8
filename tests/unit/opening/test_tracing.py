"""Traced runs: the digests of every segment."""

import hashlib
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace

import pytest

from sslm.artifact import Artifact, read_artifact
from sslm.engine.model import Model
from sslm.native_library import TIERS, available_tiers
from sslm.opening.runner import Runner, build_program, open_backend
from sslm.opening.tracing import TracedRun, run_traced, segment_names, weight_digests
from tests.converted import stories_artifact

PROMPT = [1, *range(3, 83)]
"""Longer than one chunk."""


@pytest.fixture(scope="module")
def artifact() -> Iterator[Artifact]:
    with read_artifact(stories_artifact()) as opened:
        yield opened


def traced(artifact: Artifact, backend: str, tier: str = "auto", threads: int = 1) -> TracedRun:
    opened = open_backend(backend, tier=tier, threads=threads)
    with closing(Runner(artifact, opened, context_tokens=100)) as runner:
        return run_traced(runner, PROMPT, max_tokens=4)


@pytest.fixture(scope="module")
def expected(artifact: Artifact) -> TracedRun:
    return traced(artifact, "reference")


def test_segments_are_named_in_order(artifact: Artifact) -> None:
    names = ["embed", *(f"layer {index}" for index in range(5)), "head"]
    assert segment_names(build_program(artifact)) == names


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("tier", TIERS)
def test_every_tier_traces_as_the_reference(
    artifact: Artifact, expected: TracedRun, tier: str, threads: int
) -> None:
    if tier not in available_tiers():
        pytest.skip(f"this CPU has no {tier}")
    assert traced(artifact, "native", tier, threads) == expected


def test_a_traced_run_answers_as_any_other(expected: TracedRun) -> None:
    with Model(stories_artifact()) as model:
        answer = model.generate(PROMPT, max_tokens=4)
    assert (answer.token_ids, answer.digest) == (expected.token_ids, expected.digest.hex())


def test_there_is_a_digest_for_each_segment(expected: TracedRun) -> None:
    assert len(expected.segment_digests) == len(set(expected.segment_digests)) == 7


def test_the_first_segment_is_the_embedding_at_every_position(
    artifact: Artifact, expected: TracedRun
) -> None:
    """The digest of embed, from docs/arithmetic.md, 3.1 and 4, with Python integers."""
    codes, mantissas = artifact.tensors["embed"], artifact.tensors["embed.mantissas"]
    columns = codes.shape[1]
    total = hashlib.sha256()
    for position, token_id in enumerate([*PROMPT, *expected.token_ids[:-1]]):
        mantissa = int.from_bytes(mantissas.data[4 * token_id : 4 * token_id + 4], "little")
        row = b""
        for column in range(columns):
            place = (token_id // 16 * (columns // 4) + column // 4) * 64
            code = codes.data[place + token_id % 16 * 4 + column % 4]
            value = (code - 256 * (code > 127)) * mantissa
            half = 1 << mantissas.exponent >> 1
            row += (value + half >> mantissas.exponent).to_bytes(4, "little", signed=True)
        head = (1).to_bytes(4, "little") + bytes(4) + position.to_bytes(8, "little")
        total.update(hashlib.sha256(head + row).digest())
    assert mantissas.exponent >= 0
    assert expected.segment_digests[0] == total.digest()


@pytest.mark.parametrize(
    ("tensor", "segment"),
    [
        ("embed.mantissas", "embed"),
        ("layers.0.q_proj", "layer 0"),
        ("layers.4.down_proj.mantissas", "layer 4"),
        ("layers.2.input_layernorm", "layer 2"),
        ("final_norm", "head"),
        ("lm_head", "head"),
    ],
)
def test_a_changed_tensor_changes_the_digest_of_its_segment_alone(
    artifact: Artifact, tensor: str, segment: str
) -> None:
    program = build_program(artifact)
    before = weight_digests(program, artifact.tensors)
    changed = bytearray(artifact.tensors[tensor].data)
    changed[0] ^= 1
    other = replace(artifact.tensors[tensor], data=memoryview(bytes(changed)))
    after = weight_digests(program, {**artifact.tensors, tensor: other})
    names = segment_names(program)
    different = [name for name, one, two in zip(names, before, after, strict=True) if one != two]
    assert different == [segment]


def test_an_exponent_counts_as_a_weight(artifact: Artifact) -> None:
    program = build_program(artifact)
    norm = artifact.tensors["final_norm"]
    other = replace(norm, exponent=norm.exponent + 1)
    changed = weight_digests(program, {**artifact.tensors, "final_norm": other})
    assert changed[:-1] == weight_digests(program, artifact.tensors)[:-1]
    assert changed[-1] != weight_digests(program, artifact.tensors)[-1]
