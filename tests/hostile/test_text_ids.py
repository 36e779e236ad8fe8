"""Ids that a model has and its tokenizer lacks: an error by name, wherever they come in or out."""

from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from sslm.answering.cutoff import Cutoff
from sslm.answering.generation import Generation
from sslm.answering.request import Request
from sslm.artifact import TokenPair, read_artifact
from sslm.artifact.golden import encode_golden
from sslm.artifact.tokenizer_section import encode_vocabulary
from sslm.convert.conversion import convert_gguf
from sslm.engine.model import Model
from sslm.errors.model import SourceTensorShapeError
from sslm.errors.runtime import TokenIdRangeError, TokenIdTypeError
from sslm.errors.status import Status
from sslm.errors.text import TokenizerIdError
from sslm.formats.sslm.container import SectionType
from sslm.opening.runner import Runner, open_backend
from sslm.text.detokenizer import Detokenizer
from sslm.text.tokenizer import Tokenizer
from tests.causes import Kind, raises
from tests.converted import stories_artifact
from tests.gguf_files import byte_level_vocabulary, random_llama_gguf
from tests.unit.artifact.tiny_artifact import GOLDEN, VOCABULARY, read, tiny_file, with_section
from tests.unit.text.vocabularies import byte_level_tokenizer


@pytest.fixture(scope="module")
def model() -> Iterator[Model]:
    with Model(stories_artifact()) as opened:
        yield opened


def test_a_source_with_more_tokens_than_rows_is_refused(tmp_path: Path) -> None:
    """The other way round is a padded vocabulary, which opens."""
    tokens, merges = byte_level_vocabulary(vocab_size=270, seed=4)
    source = random_llama_gguf(
        tmp_path / "short.gguf",
        seed=4,
        hidden_size=24,
        num_hidden_layers=1,
        num_attention_heads=3,
        num_key_value_heads=1,
        head_dim=8,
        intermediate_size=20,
        vocab_size=260,
        extra_metadata={
            "tokenizer.ggml.tokens": tokens,
            "tokenizer.ggml.token_type": [3] * 3 + [1] * 267,
            "tokenizer.ggml.merges": merges[:1],
        },
    )
    with pytest.raises(SourceTensorShapeError):
        convert_gguf(source, tmp_path / "out.sslm")


def test_an_artifact_with_more_tokens_than_rows_is_refused(tmp_path: Path) -> None:
    more = replace(
        VOCABULARY,
        tokens=(*VOCABULARY.tokens, *(f"more{index}" for index in range(64))),
        token_types=VOCABULARY.token_types + bytes([1] * 64),
    )
    file = with_section(tiny_file(tmp_path), SectionType.TOKENIZER, encode_vocabulary(more))
    with raises(Status.SECTIONS_DISAGREE):
        read(file)


def test_a_golden_run_of_padding_is_refused(tmp_path: Path) -> None:
    """Where there are more rows than tokens, recorded ids are held to the tokens."""
    fewer = replace(VOCABULARY, tokens=VOCABULARY.tokens[:4], token_types=bytes([1] * 4),
                    eos_token_id=None, end_token_ids=())  # fmt: skip
    file = with_section(tiny_file(tmp_path), SectionType.TOKENIZER, encode_vocabulary(fewer))
    with raises(Status.JSON_RANGE, match="from 0 to 3"):
        read(file)


def test_a_golden_pair_with_such_an_id_is_refused(tmp_path: Path) -> None:
    pair = TokenPair(text="a", token_ids=(len(VOCABULARY.tokens),))
    content = encode_golden(replace(GOLDEN, token_pairs=(pair,)))
    with raises(Status.JSON_RANGE):
        read(with_section(tiny_file(tmp_path), SectionType.GOLDEN, content))


@pytest.mark.parametrize(
    ("token_id", "error"),
    [
        (512, TokenIdRangeError),
        (-1, TokenIdRangeError),
        (1 << 70, TokenIdRangeError),
        (True, TokenIdTypeError),
        ("a", TokenIdTypeError),
        (1.0, TokenIdTypeError),
        (None, TokenIdTypeError),
    ],
)
def test_such_an_id_in_a_prompt(model: Model, token_id: Any, error: Kind) -> None:
    with raises(error):
        model.generate([1, token_id], max_tokens=1)


@pytest.mark.parametrize(
    ("token_id", "error"),
    [(263, TokenizerIdError), (-1, TokenizerIdError), (1 << 70, TokenizerIdError)]
    + [(one, TokenIdTypeError) for one in (True, "a", 1.0, None, b"a", [1])],
)
def test_such_an_id_becomes_no_text(token_id: Any, error: Kind) -> None:
    tokenizer = byte_level_tokenizer()
    with raises(error):
        tokenizer.decode([97, token_id])
    with raises(error):
        tokenizer.spelling(token_id)
    detokenizer = Detokenizer(tokenizer)
    detokenizer.push(0xC3)
    with raises(error):
        detokenizer.push(token_id)
    assert detokenizer.push(0xA9) == "é"


def test_the_index_of_what_is_no_id_is_named() -> None:
    with pytest.raises(TokenIdTypeError, match="token id 'a' at index 2 is of type str"):
        byte_level_tokenizer().decode([97, 98, "a"])  # type: ignore[list-item]


def test_such_an_id_that_a_model_chooses() -> None:
    """A tokenizer of a few tokens beside a model of 512: no artifact has this."""
    small = Tokenizer(VOCABULARY)
    with read_artifact(stories_artifact()) as artifact:
        backend = open_backend("native", tier="auto", threads=1)
        with closing(Runner(artifact, backend, context_tokens=8)) as runner:
            request = Request(
                prompt_ids=(1, 403), max_tokens=4, stop=(), stop_token_ids=frozenset()
            )
            with pytest.raises(TokenizerIdError):
                list(Generation(runner, small, request, Cutoff()).pieces())
