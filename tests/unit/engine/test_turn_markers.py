"""Models whose file calls the end of a turn user-defined."""

from dataclasses import replace
from pathlib import Path

import pytest

from sslm import Model
from sslm.artifact import Artifact, ArtifactParts, TensorStream, read_artifact, write_artifact
from sslm.text.vocabulary import TokenType
from tests.converted import stories_artifact

PROMPT = "Once upon a time"
PLACE = 9


def write_with_marker(path: Path, spelling: str, template: str | None) -> list[int]:
    """Write stories260K with an answer's token as a marker that its file calls user-defined.

    Returns:
        The ids of the answer, of which the tenth is the marker.
    """
    with Model(stories_artifact()) as model:
        ids = model.generate(PROMPT, max_tokens=PLACE + 9).token_ids
    marker = ids[PLACE]
    assert marker not in ids[:PLACE]
    with read_artifact(stories_artifact()) as artifact:
        kinds = bytearray(artifact.vocabulary.token_types)
        kinds[marker] = TokenType.USER_DEFINED
        tokens = list(artifact.vocabulary.tokens)
        tokens[marker] = spelling
        vocabulary = replace(artifact.vocabulary, tokens=tuple(tokens), token_types=bytes(kinds))
        _write(path, replace(artifact, vocabulary=vocabulary, chat_template=template))
    return ids


def _write(path: Path, artifact: Artifact) -> None:
    parts = ArtifactParts(
        config=artifact.config,
        fraction_bits=artifact.fraction_bits,
        vocabulary=artifact.vocabulary,
        provenance=artifact.provenance,
        chat_template=artifact.chat_template,
        golden=artifact.golden,
    )
    write_artifact(path, parts, TensorStream.of(artifact.tensors))


@pytest.mark.parametrize(
    ("spelling", "template"),
    [("<|im_end|>", None), ("<|stop_x|>", "{% for m in messages %}{{ m.content }}<|stop_x|>")],
)
def test_an_answer_ends_at_the_end_of_a_turn(
    spelling: str, template: str | None, tmp_path: Path
) -> None:
    ids = write_with_marker(tmp_path / "model.sslm", spelling, template)
    with Model(tmp_path / "model.sslm") as model:
        answer = model.generate([1, *model.tokenizer.encode(PROMPT)[1:]], max_tokens=PLACE + 9)
        assert answer.finish_reason == "stop"
        assert answer.token_ids == ids[: PLACE + 1]
        assert spelling not in answer.text


def test_an_answer_goes_on_behind_the_beginning_of_a_turn(tmp_path: Path) -> None:
    ids = write_with_marker(tmp_path / "model.sslm", "<|im_start|>", None)
    with Model(tmp_path / "model.sslm") as model:
        answer = model.generate(PROMPT, max_tokens=PLACE + 9)
        assert answer.token_ids == ids
        assert "<|im_start|>" in answer.text


def test_pairs_recorded_before_fail_verification(tmp_path: Path) -> None:
    """The recorded texts spell <|endoftext|>, which was a token of text when they were."""
    with read_artifact(stories_artifact()) as artifact:
        vocabulary, golden = artifact.vocabulary, artifact.golden
        assert golden is not None
        tokens, kinds = list(vocabulary.tokens), bytearray(vocabulary.token_types)
        tokens[511], kinds[511] = "<|endoftext|>", TokenType.USER_DEFINED
        vocabulary = replace(vocabulary, tokens=tuple(tokens), token_types=bytes(kinds))
        text = "a<|endoftext|>"
        matched = [*artifact.tokenizer().encode("a"), 511]
        pair = replace(golden.token_pairs[0], text=text, token_ids=tuple(matched))
        golden = replace(golden, token_pairs=(pair,))
        _write(tmp_path / "model.sslm", replace(artifact, vocabulary=vocabulary, golden=golden))
    with Model(tmp_path / "model.sslm") as model:
        report = model.verify()
    expected = "the tokenizer makes other ids of 'a<|endoftext|>' than were recorded; convert again"
    assert (report.ok, report.first_difference) == (False, expected)
