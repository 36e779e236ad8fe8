"""The commands that measure speed and footprint run, and say what they should."""

from pathlib import Path

from benchmarks import decode, digests, footprint
from benchmarks.decode_steps import Steps
from benchmarks.large_model import CONTEXT_TOKENS, large_model

from sslm.artifact import read_artifact
from sslm.program.ops import SaturationSite
from tests.converted import stories_artifact


def test_decode_of_a_file_is_measured() -> None:
    with read_artifact(stories_artifact()) as artifact:
        facts = decode.model_facts(artifact, threads=1, tier="scalar", rounds=2)
        # All matrices with their scales, but one row of the embedding, which is not the head here.
        expected = sum(
            tensor.data.nbytes
            for name, tensor in artifact.tensors.items()
            if (tensor.encoding.is_matrix or name.endswith(".mantissas"))
            and not name.startswith("embed")
        )
    assert facts["tier"] == "scalar"
    assert facts["context_tokens"] == 511
    assert 0 <= facts["weight_bytes"] - expected < 1000
    assert all(value > 0 for name, value in facts.items() if "ratio" in name)


def test_a_large_model_keeps_its_rows_within_their_format() -> None:
    """Otherwise the large model would measure saturation."""
    model = large_model(1)
    assert b"\x80" not in bytes(model.memory[: 1 << 20])
    with Steps(
        model.program, model.tensors, tier="auto", threads=1, context_tokens=CONTEXT_TOKENS
    ) as steps:
        sequence = steps.sequence(4, room=2)
        assert steps.step([sequence]) > 0
        assert len(sequence.token_ids) == 4
        assert sum(sequence.saturations[site] for site in sequence.saturations) == 0
        assert len(sequence.saturations) == len(SaturationSite)
        assert len(set(sequence.memory.residual.cast("B")[:4096])) > 16


def test_what_opening_costs_is_measured(tmp_path: Path) -> None:
    path = stories_artifact()
    facts = footprint.open_facts(path)
    assert facts["weights_bytes"] == path.stat().st_size
    assert facts["context_tokens"] == 512
    assert 0 < facts["plan_bytes"] < 16 << 20
    assert footprint.cycle_facts(path, 3)["left_open"] == 0


def test_what_digests_cost_is_measured() -> None:
    with read_artifact(stories_artifact()) as artifact:
        config = artifact.config
        heads, head_dim = config.num_key_value_heads, config.head_dim
        found = digests.shares(artifact, tier="scalar", repetitions=2)
    assert [one.step for one in found] == ["tg1 @ d64", "pp64 @ d64"]
    for one in found:
        assert one.digest_bytes == 16 + 4 * config.hidden_size + 2 * heads * (2 * head_dim + 1)
        assert 0 < one.digests_us < one.step_us
        assert 0 < one.share < 1
        assert 0 < one.portable_share < 1
