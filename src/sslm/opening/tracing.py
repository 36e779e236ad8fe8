"""Runs that keep the digest of every segment, to find where two computations part."""

from collections.abc import Sequence as TokenIds
from dataclasses import dataclass

from sslm.formats.records.writer import SHORT_DIGEST_SIZE_BYTES
from sslm.hashes import Sha256
from sslm.numerics.digests import head_digest
from sslm.opening.runner import Runner, run_greedy
from sslm.program.program import Program, SegmentKind
from sslm.program.spans import CHUNK_ROWS_MAX, DIGEST_SIZE_BYTES
from sslm.program.tensors import Tensors
from sslm.runtime.sequences.options import SequenceOptions
from sslm.runtime.sequences.state import Chunk


@dataclass(frozen=True, slots=True, kw_only=True)
class TracedRun:
    """A greedy run and where it went.

    Args:
        token_ids: The answer.
        digest: The answer's digest, 32 bytes.
        segment_digests: For embed, each layer and the head: SHA-256 over that segment's digests
            of all positions.
    """

    token_ids: list[int]
    digest: bytes
    segment_digests: tuple[bytes, ...]


def segment_names(program: Program) -> list[str]:
    """Name what the digests of a traced run stand for: embed, the layers, the head."""
    return [segment.name for segment in program.segments[: program.first_head_index]] + ["head"]


def run_traced(
    runner: Runner,
    prompt: TokenIds[int],
    *,
    max_tokens: int,
    forced: TokenIds[int] | None = None,
) -> TracedRun:
    """Continue a prompt by exactly *max_tokens* ids and digest every segment at every position.

    Args:
        runner: Of the model.
        prompt: At least one id.
        max_tokens: At least 1.
        forced: Ids to go on with instead of the chosen ones, so that one other choice does not
            make every later position another computation.
    """
    program = runner.program
    count = program.first_head_index
    digests = [Sha256() for _ in range(count + 1)]
    row_size_bytes = 8 * program.vocab_size

    def keep(chunk: Chunk) -> None:
        span = chunk.span
        if span.trace is None or span.logits is None:
            raise AssertionError("the sequence was made traced and with all logits")
        stride = span.row_count * DIGEST_SIZE_BYTES
        for segment in range(count):
            digests[segment].update(span.trace.segments[segment * stride : (segment + 1) * stride])
        for row in range(span.row_count):
            logits = span.logits[row * row_size_bytes : (row + 1) * row_size_bytes]
            position = span.first_position + row
            digests[count].update(head_digest(program.arithmetic_version, position, logits))

    options = SequenceOptions(
        context_tokens=len(prompt) + max_tokens - 1,
        chunk_tokens=min(CHUNK_ROWS_MAX, len(prompt)),
        has_all_logits=True,
        is_traced=True,
    )
    with runner.sequence(options) as sequence:
        token_ids = run_greedy(
            runner, sequence, list(prompt), max_tokens=max_tokens, forced=forced, on_chunk=keep
        )
        return TracedRun(
            token_ids=token_ids,
            digest=sequence.answer_digest(token_ids),
            segment_digests=tuple(digest.digest() for digest in digests),
        )


def row_digests(program: Program, chunk: Chunk, row: int) -> list[bytes]:
    """Return the digests of embed and each layer at one row of a traced chunk, 32 bytes each."""
    span, size = chunk.span, DIGEST_SIZE_BYTES
    if span.trace is None:
        raise AssertionError("the sequence was made traced")
    places = (size * (at * span.row_count + row) for at in range(program.first_head_index))
    return [bytes(span.trace.segments[place : place + size]) for place in places]


def last_head_digest(program: Program, chunk: Chunk) -> bytes:
    """Return the digest of the scores of a chunk's last row, which is scored."""
    span, size = chunk.span, 8 * program.vocab_size
    if span.logits is None:
        raise AssertionError("the last row of what was pushed is scored")
    row = span.row_count - 1 - span.first_logits_row
    position = span.first_position + span.row_count - 1
    logits = span.logits[size * row : size * (row + 1)]
    return head_digest(program.arithmetic_version, position, logits)


def short_digests(program: Program, chunk: Chunk) -> list[bytes]:
    """Return the digests of embed, each layer and the head at a chunk's last row, shortened."""
    digests = row_digests(program, chunk, chunk.span.row_count - 1)
    digests.append(last_head_digest(program, chunk))
    return [digest[:SHORT_DIGEST_SIZE_BYTES] for digest in digests]


def weight_digests(program: Program, tensors: Tensors) -> tuple[bytes, ...]:
    """Digest the tensors that embed, each layer and the head read.

    A change too small to move any golden run is found here.
    """
    known: dict[str, bytes] = {}
    for name in {name for segment in program.segments for name in segment.tensor_names()}:
        tensor = tensors[name]
        head = f"{name} {tensor.encoding:d} {tensor.shape} {tensor.exponent} "
        known[name] = Sha256(head.encode() + Sha256(tensor.data).digest()).digest()
    groups: list[list[str]] = []
    for segment in program.segments:
        if segment.kind in (SegmentKind.HEAD, SegmentKind.SELECT) and segment.index > 0:
            continue
        if segment.kind is not SegmentKind.SELECT:
            groups.append(segment.tensor_names())
    return tuple(Sha256(b"".join(known[name] for name in names)).digest() for names in groups)
