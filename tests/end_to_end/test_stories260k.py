"""A trained model, quantized in memory, on the reference: the ids and digest that it must give."""

import pytest

from sslm.backends.reference.backend import ReferencePlan
from sslm.convert.source import GgufModelSource
from sslm.runtime.sequences.kv_pool import KvPool
from tests.data import shared_data
from tests.tiny_models import Outcome, TinyModel, generate, quantized

MODEL = "stories260K/stories260K-F32.gguf"
BOS = 1
CALIBRATION = [BOS, 403, 407, 261, 378]

GOLDEN_IDS = (
    *(403, 407, 261, 378, 432, 383, 286, 261, 376, 298, 315, 421, 395, 317, 426),
    *(338, 401, 396, 267, 337, 410, 408, 419, 292, 411, 322, 265, 282, 295, 433),
)
GOLDEN_DIGEST = "c5b97d0301b622f806720a0d16d1407d8e5a3fcd3f029244409141dbf7040bfc"


@pytest.fixture(scope="module")
def model() -> TinyModel:
    return quantized(shared_data(MODEL), [CALIBRATION])


@pytest.fixture(scope="module")
def answer(model: TinyModel) -> Outcome:
    plan = ReferencePlan(model.program, model.tensors)
    (outcome,) = generate(plan, [[BOS]], max_tokens=len(GOLDEN_IDS))
    return outcome


def spelled(token_ids: tuple[int, ...]) -> str:
    with GgufModelSource.open(shared_data(MODEL)) as source:
        tokens = source.file.metadata.strings("tokenizer.ggml.tokens", at_most=512)
    return "".join(tokens[token_id] for token_id in token_ids).replace("▁", " ").lstrip()


def test_greedy_ids_and_digest(answer: Outcome) -> None:
    assert answer.token_ids == GOLDEN_IDS
    assert answer.digest == GOLDEN_DIGEST
    assert set(answer.saturations.values()) == {0}


def test_the_text_begins_as_the_float_models(answer: Outcome) -> None:
    golden = shared_data("stories260K/greedy200.txt").read_text(encoding="utf-8")
    text = spelled(answer.token_ids)
    assert len(text) > 80
    assert golden.startswith(text)


def test_given_back_as_a_prompt_it_has_the_same_digest(model: TinyModel) -> None:
    """Nothing in the chain tells a prompt from an answer, or decode from prefill."""
    plan = ReferencePlan(model.program, model.tensors)
    pool = KvPool(model.program.state_layout, 2)
    prompt = [BOS, *GOLDEN_IDS[:-1]]
    (whole,) = generate(plan, [prompt], max_tokens=1, pool=pool)
    (sliced,) = generate(plan, [prompt], max_tokens=1, chunk_tokens=7, budget_units=1, pool=pool)
    assert whole == sliced
    assert whole.token_ids == GOLDEN_IDS[-1:]
