"""Runs of the reference backend that any machine can replay."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from sslm import limits
from sslm.errors.artifact import ContainerError
from sslm.errors.status import Status
from sslm.formats.sslm.canonical_json import (
    JsonFields,
    JsonValue,
    decode_json,
    encode_json,
    hexadecimal,
)
from sslm.formats.sslm.canonical_json import integer as json_integer
from sslm.model.config import ModelConfig
from sslm.program.spans import DIGEST_SIZE_BYTES


@dataclass(frozen=True, slots=True, kw_only=True)
class GoldenRun:
    """One prompt and what the model answers to it.

    Args:
        text: The prompt as text, or None if it is known as ids alone.
        prompt_token_ids: At least one id.
        token_ids: The answer, chosen greedily; at least one id. With the prompt at most 256,
            and at most the positions of the model.
        digest: The answer's digest.
        segment_digests: For embed, each layer and the head: the SHA-256 of the digests of that
            segment, one after the other over the positions.
    """

    text: str | None
    prompt_token_ids: tuple[int, ...]
    token_ids: tuple[int, ...]
    digest: bytes
    segment_digests: tuple[bytes, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenPair:
    """A text and the ids that the tokenizer makes of it."""

    text: str
    token_ids: tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Golden:
    """The golden runs of one artifact.

    Args:
        runs: At most 16.
        weight_digests: For embed, each layer and the head: a digest of the tensors that the
            segment uses.
        token_pairs: At most 1,024.
    """

    runs: tuple[GoldenRun, ...]
    weight_digests: tuple[bytes, ...]
    token_pairs: tuple[TokenPair, ...]


def encode_golden(golden: Golden) -> bytes:
    """Return the section's bytes."""
    return encode_json(
        {
            "runs": [
                {
                    "digest": run.digest.hex(),
                    "prompt_token_ids": list(run.prompt_token_ids),
                    "segment_digests": [digest.hex() for digest in run.segment_digests],
                    "text": run.text,
                    "token_ids": list(run.token_ids),
                }
                for run in golden.runs
            ],
            "token_pairs": [
                {"text": pair.text, "token_ids": list(pair.token_ids)}
                for pair in golden.token_pairs
            ],
            "weight_digests": [digest.hex() for digest in golden.weight_digests],
        }
    )


def decode_golden(data: memoryview, config: ModelConfig, *, token_count: int) -> Golden:
    """Read and check the section.

    Args:
        data: The section.
        config: Gives the number of segments.
        token_count: Ids are below it.

    Raises:
        ArtifactError: A JSON error, or ContainerError if the digests are not one for each
            segment.
    """
    token_id = partial(json_integer, at_least=0, at_most=token_count - 1)
    fields = JsonFields("golden", decode_json(data, "golden"))
    golden = Golden(
        runs=fields.items(
            "runs",
            partial(_read_run, token_id=token_id, config=config),
            at_most=limits.SSLM_GOLDEN_RUN_COUNT_MAX,
        ),
        weight_digests=_segment_digests(fields, "weight_digests", config),
        token_pairs=fields.items(
            "token_pairs",
            partial(_read_pair, token_id=token_id),
            at_most=limits.SSLM_GOLDEN_PAIR_COUNT_MAX,
        ),
    )
    fields.finish()
    return golden


_ReadTokenId = Callable[[str, JsonValue], int]


def _read_run(
    place: str, value: JsonValue, *, token_id: _ReadTokenId, config: ModelConfig
) -> GoldenRun:
    fields = JsonFields(place, value)
    count = limits.SSLM_GOLDEN_TOKEN_COUNT_MAX
    run = GoldenRun(
        text=fields.text_or_none("text", at_most=limits.SSLM_GOLDEN_TEXT_SIZE_CHARS_MAX),
        prompt_token_ids=fields.items("prompt_token_ids", token_id, at_least=1, at_most=count),
        token_ids=fields.items("token_ids", token_id, at_least=1, at_most=count),
        digest=fields.hexadecimal("digest", size_bytes=DIGEST_SIZE_BYTES),
        segment_digests=_segment_digests(fields, "segment_digests", config),
    )
    fields.finish()
    length = len(run.prompt_token_ids) + len(run.token_ids)
    longest = min(config.max_position_embeddings, limits.SSLM_GOLDEN_RUN_TOKENS_MAX)
    if length > longest:
        raise ContainerError(
            Status.SECTIONS_DISAGREE,
            place=f"{place}, prompt and answer,",
            what="tokens",
            found=length,
            expected=longest,
        )
    return run


def _read_pair(place: str, value: JsonValue, *, token_id: _ReadTokenId) -> TokenPair:
    fields = JsonFields(place, value)
    pair = TokenPair(
        text=fields.text("text", at_most=limits.SSLM_GOLDEN_TEXT_SIZE_CHARS_MAX),
        token_ids=fields.items("token_ids", token_id, at_most=limits.SSLM_GOLDEN_TOKEN_COUNT_MAX),
    )
    fields.finish()
    return pair


def _segment_digests(fields: JsonFields, key: str, config: ModelConfig) -> tuple[bytes, ...]:
    read = partial(hexadecimal, size_bytes=DIGEST_SIZE_BYTES)
    digests = fields.items(key, read, at_most=limits.LAYER_COUNT_MAX + 2)
    expected = config.num_hidden_layers + 2
    if len(digests) != expected:
        raise ContainerError(
            Status.SECTIONS_DISAGREE,
            place=f"{fields.place}.{key}",
            what="digests",
            found=len(digests),
            expected=expected,
        )
    return digests
