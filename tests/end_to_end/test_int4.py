"""A trained model with int4 weights, from conversion to answers, the same everywhere."""

import hashlib
from pathlib import Path

import pytest

import sslm
from sslm.artifact import read_artifact
from sslm.convert.artifact_evaluation import evaluate_artifact
from sslm.convert.conversion import convert_gguf
from sslm.convert.source import GgufModelSource
from sslm.native_library import available_tiers
from sslm.opening.runner import Runner, open_backend
from sslm.program.tensors import Encoding
from tests.converted import STORIES_SOURCE, stories_artifact, stories_int4_artifact
from tests.data import shared_data
from tests.gguf_files import random_llama_gguf

PROMPT = "Once upon a time"
MAX_TOKENS = 48


@pytest.fixture(scope="module")
def expected() -> tuple[list[int], str]:
    with sslm.load(stories_int4_artifact(), backend="reference") as model:
        answer = model.generate(PROMPT, max_tokens=MAX_TOKENS)
    return answer.token_ids, answer.digest


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("tier", available_tiers())
def test_every_tier_answers_as_the_reference(
    tier: str, threads: int, expected: tuple[list[int], str]
) -> None:
    artifact = stories_int4_artifact()
    with sslm.load(artifact, backend="native", tier=tier, threads=threads) as model:
        assert model.verify().ok
        answer = model.generate(PROMPT, max_tokens=MAX_TOKENS)
    assert (answer.token_ids, answer.digest) == expected


def test_the_text_begins_as_the_float_models() -> None:
    golden = shared_data("stories260K/greedy200.txt").read_text(encoding="utf-8")
    with sslm.load(stories_int4_artifact()) as model:
        text = model.generate(PROMPT, max_tokens=MAX_TOKENS).text
    assert golden.startswith(PROMPT)
    assert golden[len(PROMPT) :].startswith(text[:12])


def test_the_layers_have_int4_and_the_vocabulary_int8() -> None:
    with read_artifact(stories_int4_artifact()) as artifact:
        widths = {
            name: tensor.encoding
            for name, tensor in artifact.tensors.items()
            if tensor.encoding.is_matrix
        }
        assert artifact.provenance.options == {"weights": "int4", "head_weights": "int8"}
    for name in ("embed", "lm_head"):
        assert widths.pop(name) is Encoding.PANEL_INT8
    assert len(widths) == 5 * 7
    assert set(widths.values()) == {Encoding.PANEL_INT4}
    assert stories_int4_artifact().stat().st_size < 0.75 * stories_artifact().stat().st_size


def test_the_bytes_are_pinned() -> None:
    """Other bytes for this source and version are another conversion than other machines have."""
    found = hashlib.sha256(stories_int4_artifact().read_bytes()).hexdigest()
    assert found == "6e9aa09421e94c19a8fa5681dcef5a4f8e91239d9ecb4c47fd51806452188491"


@pytest.mark.parametrize("tied", [True, False])
@pytest.mark.parametrize("weights", ["int8", "int4"])
def test_the_vocabulary_may_have_int4_too(tmp_path: Path, *, tied: bool, weights: str) -> None:
    source = random_llama_gguf(
        tmp_path / "source.gguf",
        seed=4,
        hidden_size=40,
        num_hidden_layers=1,
        num_attention_heads=3,
        num_key_value_heads=1,
        head_dim=8,
        intermediate_size=70,
        vocab_size=270,
        tied=tied,
    )
    out = tmp_path / "out.sslm"
    convert_gguf(source, out, weights=weights, head_weights="int4")
    with read_artifact(out) as artifact:
        for name in ("embed",) if tied else ("embed", "lm_head"):
            assert artifact.tensors[name].encoding is Encoding.PANEL_INT4
        of_layer = artifact.tensors["layers.0.down_proj"].encoding
    assert of_layer is (Encoding.PANEL_INT4 if weights == "int4" else Encoding.PANEL_INT8)
    with sslm.load(out) as model:
        assert model.verify().ok


def test_eval_measures_int4() -> None:
    golden = shared_data("stories260K/greedy200.txt").read_text(encoding="utf-8")
    with (
        read_artifact(stories_int4_artifact()) as artifact,
        GgufModelSource.open(STORIES_SOURCE) as source,
    ):
        backend = open_backend("auto", tier="auto", threads=1)
        runner = Runner(artifact, backend, context_tokens=128)
        found = evaluate_artifact(artifact, runner, source, golden, context=128, stride=128)
        runner.close()
    # Four bits cost this model something, and random weights would cost it everything.
    assert 0.001 < found.kl < 0.1
