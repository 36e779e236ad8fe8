"""Artifacts that are converted once per test run."""

import atexit
import tempfile
from dataclasses import replace
from functools import cache
from pathlib import Path

from sslm.artifact import ArtifactParts, TensorStream, read_artifact, write_artifact
from sslm.convert.conversion import convert_gguf
from tests.data import shared_data

STORIES_SOURCE = shared_data("stories260K/stories260K-F32.gguf")
TEMPLATE = (
    "{% for message in messages %}{{ message['role'] }}: {{ message['content'] }}\n{% endfor %}"
    "{% if add_generation_prompt %}assistant: {% endif %}"
)


@cache
def stories_artifact() -> Path:
    """Return the path of stories260K as an artifact; tests do not change it."""
    path = _folder() / "stories260K.sslm"
    convert_gguf(STORIES_SOURCE, path)
    return path


@cache
def stories_int4_artifact() -> Path:
    """Return the path of the same model with int4 weights; tests do not change it."""
    path = _folder() / "stories260K-int4.sslm"
    convert_gguf(STORIES_SOURCE, path, weights="int4")
    return path


@cache
def talking_artifact(*, ends_with_a_line: bool = False) -> Path:
    """Return the path of the same model with a chat template that it was not trained on.

    Args:
        ends_with_a_line: Whether the token of a line's end ends an answer too, as it never chooses
            its own end token.
    """
    path = _folder() / "talker.sslm"
    with read_artifact(stories_artifact()) as artifact:
        vocabulary = artifact.vocabulary
        if ends_with_a_line:
            ends = sorted({*vocabulary.end_token_ids, vocabulary.tokens.index("<0x0A>")})
            vocabulary = replace(vocabulary, end_token_ids=tuple(ends))
        parts = ArtifactParts(
            config=artifact.config,
            fraction_bits=artifact.fraction_bits,
            vocabulary=vocabulary,
            provenance=artifact.provenance,
            chat_template=TEMPLATE,
        )
        write_artifact(path, parts, TensorStream.of(artifact.tensors))
    return path


def _folder() -> Path:
    folder = tempfile.TemporaryDirectory(prefix="sslm-tests-")
    atexit.register(folder.cleanup)
    return Path(folder.name)
