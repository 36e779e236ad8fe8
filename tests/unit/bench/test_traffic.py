"""Bytes and products, counted by hand for the small model."""

from collections.abc import Iterator

import pytest

from sslm.artifact import Artifact, read_artifact
from sslm.bench import Case
from sslm.bench.traffic import Traffic
from sslm.opening.runner import build_program
from tests.converted import stories_artifact


@pytest.fixture(scope="module")
def artifact() -> Iterator[Artifact]:
    with read_artifact(stories_artifact(), mmap=True) as opened:
        yield opened


@pytest.fixture(scope="module")
def traffic(artifact: Artifact) -> Traffic:
    return Traffic(build_program(artifact), artifact.tensors)


def products(artifact: Artifact) -> tuple[int, int]:
    """Return the weights of the layers' matrices, and of the head."""
    config = artifact.config
    hidden, heads = config.hidden_size, config.num_attention_heads * config.head_dim
    shared = config.num_key_value_heads * config.head_dim
    layer = 2 * hidden * (heads + shared) + 3 * hidden * config.intermediate_size
    return config.num_hidden_layers * layer, hidden * config.vocab_size


def test_products_are_those_of_the_matrices(artifact: Artifact, traffic: Traffic) -> None:
    layers, head = products(artifact)
    assert traffic.layer_products == layers
    assert traffic.head_products == head
    prompt = Case(kind="prompt", tokens=100)
    assert traffic.case_products(prompt) == 100 * layers + head
    generation = Case(kind="generation", tokens=10, batch=4, depth=30)
    assert traffic.case_products(generation) == 40 * (layers + head)


def test_weights_are_read_once_a_run(artifact: Artifact, traffic: Traffic) -> None:
    layers, head = products(artifact)
    # One byte a weight, four a row's scale; rows here are padded little.
    assert layers < traffic.layer_bytes < layers * 1.2
    assert head < traffic.head_bytes < head * 1.2
    one, four = (
        traffic.case_bytes(Case(kind="generation", tokens=10, batch=batch)) for batch in (1, 4)
    )
    assert one < four < 2 * one
    # 65 rows take two runs.
    short, long = (traffic.case_bytes(Case(kind="prompt", tokens=tokens)) for tokens in (64, 65))
    assert long - short > traffic.layer_bytes


def test_states_grow_with_the_depth(artifact: Artifact, traffic: Traffic) -> None:
    config = artifact.config
    values = 2 * config.num_hidden_layers * config.num_key_value_heads
    position_bytes = values * (2 * config.head_dim + 1)
    # One position is written, and all up to it are read.
    assert traffic.state_bytes(0, 1) == 2 * position_bytes
    assert traffic.state_bytes(99, 1) == 101 * position_bytes
    assert traffic.state_bytes(64, 10) == 84 * position_bytes
