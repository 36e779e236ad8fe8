"""What must hold before the reference runs anything: tensors at compiling, spans at each run."""

from collections.abc import Iterator, Sequence

from sslm.errors.program import OpShapeError, TensorMissingError, TensorShapeError
from sslm.program import ops
from sslm.program.program import Program
from sslm.program.spans import CHUNK_ROWS_MAX, Span, allowed_size_bytes
from sslm.program.states import PAGE_TOKENS
from sslm.program.tensors import Encoding, Tensors, size_bytes

_Expected = tuple[str, Encoding, tuple[int, ...]]


def check_tensors(program: Program, tensors: Tensors) -> None:
    """Raise unless every tensor that the program names is there, as its ops say.

    Raises:
        TensorMissingError: If a tensor is not there.
        TensorShapeError: If one has another shape or encoding than an op says.
    """
    for segment in program.segments:
        for op in segment.ops:
            for name, encoding, shape in _expected(op):
                if name not in tensors:
                    raise TensorMissingError(name)
                tensor = tensors[name]
                if (tensor.encoding, tensor.shape) != (encoding, shape):
                    expected_bytes = size_bytes(encoding, shape)
                    raise TensorShapeError(name, tensor.shape, tensor.data.nbytes, expected_bytes)


def _expected(op: ops.Op) -> Iterator[_Expected]:
    match op:
        case ops.Embed():
            yield from _matrix(op.table)
        case ops.Linear() | ops.Logits():
            yield from _matrix(op.matrix)
        case ops.RmsNorm():
            yield op.gain, Encoding.INT32, (op.group_size,)
        case ops.Rope():
            for name in (op.cos, op.sin):
                yield name, Encoding.INT32, (op.position_count, op.rotary_dim // 2)


def _matrix(matrix: ops.MatrixRef) -> Iterator[_Expected]:
    yield matrix.name, matrix.encoding, (matrix.out_features, matrix.in_features)
    yield matrix.mantissas, Encoding.INT32, (matrix.out_features,)
    if matrix.bias is not None:
        yield matrix.bias, Encoding.INT32, (matrix.out_features,)


def check_spans(program: Program, spans: Sequence[Span]) -> None:
    """Raise unless every span lies within the program and within its sequence's memory.

    Raises:
        OpShapeError: If a span's rows, ids, positions or pages do not fit.
    """
    page_size_bytes = program.state_layout.page_size_bytes
    for index, span in enumerate(spans):
        where, rows = f"span {index}", span.row_count
        _require(where, "the adapter slot", span.adapter_slot, 0, 0)
        _require(where, "rows", rows, 1, CHUNK_ROWS_MAX)
        _require(where, "its first row with logits", span.first_logits_row, 0, rows)
        _require(
            where,
            "its first position",
            span.first_position,
            0,
            program.max_position_embeddings - rows,
        )
        for token_id in span.token_ids:
            _require(where, "a token id", token_id, 0, program.vocab_size - 1)
        if span.allowed is not None:
            least = allowed_size_bytes(program.token_count)
            _require(where, "bytes of allowed ids", span.allowed.nbytes, least, 1 << 31)
        if span.choice is not None and not span.choice.choice.is_plain:
            has_exponents = span.logits is None or span.logit_exponents is not None
            _require(where, "whether it has room for exponents", int(has_exponents), 1, 1)
        if page_size_bytes:
            needed = (span.first_position + rows - 1) // PAGE_TOKENS + 1
            pages = span.memory.pages.tolist()
            _require(where, "pages in its table", len(pages), needed, 1 << 31)
            for page in pages[:needed]:
                _require(where, "a page", page, 0, span.memory.pool.nbytes // page_size_bytes - 1)


def require_row(vocab_size: int, logit_count: int, token_ids: Sequence[int]) -> None:
    """Raise unless a row of logits has all of the vocabulary, and ids are of it.

    Raises:
        OpShapeError: If there are fewer logits, or an id is outside.
    """
    where = "LogProbs"
    _require(where, "logits", logit_count, vocab_size, 1 << 31)
    for token_id in token_ids:
        _require(where, "a token id", token_id, 0, vocab_size - 1)


def _require(where: str, what: str, found: int, lowest: int, highest: int) -> None:
    if not lowest <= found <= highest:
        raise OpShapeError(where, what, str(found), f"{lowest} to {highest}")
