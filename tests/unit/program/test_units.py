"""No unit of work is more than a layer of 64 rows, or reads more than 4 MiB of a head's weights."""

from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sslm import limits
from sslm.artifact import read_artifact
from sslm.errors.runtime import OptionRangeError
from sslm.opening.runner import build_program
from sslm.program import ops
from sslm.program.program import HEAD_BLOCK_SIZE_BYTES, Program, SegmentKind, head_blocks
from sslm.program.tensors import padded
from sslm.runtime.sequences.kv_pool import KvPool
from sslm.runtime.sequences.options import SequenceOptions
from sslm.runtime.sequences.sequence import Sequence
from tests.converted import stories_artifact, stories_int4_artifact
from tests.tiny_models import MODEL_ID, tiny_llama
from tests.toy_programs import moving_average_model


def programs(folder: Path) -> dict[str, Program]:
    """Return one program of each kind that there is."""
    found = {
        "odd llama": tiny_llama(folder).program,
        "recurrent": moving_average_model().program,
    }
    for name, path in (("int8", stories_artifact()), ("int4", stories_int4_artifact())):
        with read_artifact(path) as artifact:
            found[name] = build_program(artifact)
    return found


def weights_size_bytes(op: ops.Logits) -> int:
    """Return the bytes of the codes that one block of the head reads, as int8."""
    return (op.last_row - op.first_row) * padded(op.matrix.in_features, 4)


@pytest.mark.parametrize("block_size_bytes", [HEAD_BLOCK_SIZE_BYTES, 6000])
def test_every_unit_of_every_program(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, block_size_bytes: int
) -> None:
    """With blocks of the size that they have, and so small that each head has several."""
    monkeypatch.setattr("sslm.program.program.HEAD_BLOCK_SIZE_BYTES", block_size_bytes)
    for name, program in programs(tmp_path).items():
        for segment in program.segments:
            layers = {name.split(".")[1] for name in segment.tensor_names() if "layers." in name}
            heads = [op for op in segment.ops if isinstance(op, ops.Logits)]
            matrices = [op for op in segment.ops if isinstance(op, ops.Linear)]
            if segment.kind is SegmentKind.LAYER:
                assert layers <= {str(segment.index)}, name
                assert heads == []
            else:
                # The embedding reads a row for each token, and the choice no weights at all.
                assert matrices == [], name
                assert sum(map(weights_size_bytes, heads)) <= block_size_bytes, name
                assert len(heads) == int(segment.kind is SegmentKind.HEAD)
        blocks = [segment.kind for segment in program.segments].count(SegmentKind.HEAD)
        assert blocks > 1 or block_size_bytes == 4 << 20


@given(
    vocab_size=st.integers(1, limits.VOCAB_SIZE_MAX),
    hidden_size=st.integers(1, limits.HIDDEN_SIZE_MAX),
)
def test_blocks_of_any_head(vocab_size: int, hidden_size: int) -> None:
    blocks = head_blocks(vocab_size, hidden_size)
    assert (blocks[0][0], blocks[-1][1]) == (0, vocab_size)
    assert all(before[1] == after[0] for before, after in pairwise(blocks))
    for first, last in blocks:
        assert first % 16 == 0
        assert (last - first) * padded(hidden_size, 4) <= HEAD_BLOCK_SIZE_BYTES


def test_a_chunk_has_at_most_64_rows() -> None:
    program = moving_average_model().program
    with pytest.raises(OptionRangeError, match="chunk_tokens"):
        SequenceOptions(context_tokens=200, chunk_tokens=65)
    pool = KvPool(program.state_layout, 4)
    with Sequence(program, pool, MODEL_ID, SequenceOptions(context_tokens=200)) as sequence:
        sequence.push([1] * 200)
        for rows, expected in ((None, 64), (1000, 64), (64, 64), (7, 7), (None, 64)):
            sequence.state.limit_chunk(rows)
            assert sequence.state.next_row_count == expected
