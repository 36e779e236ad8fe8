"""Asking the C library for log-probabilities."""

from collections.abc import Sequence
from typing import Any

from sslm.errors.program import LogitRangeError, OpShapeError
from sslm.native_library import NativeLibrary, borrow
from sslm.program.plan import LogProbs
from sslm.program.spans import NOT_ALLOWED


def tell_logprobs(
    library: NativeLibrary,
    handle: Any,
    logits: memoryview,
    exponent: int,
    token_ids: Sequence[int],
    *,
    vocab_size: int,
    top_count: int,
) -> LogProbs:
    """Return what ``Plan.logprobs`` does; *handle* is the plan's.

    Raises:
        OpShapeError: If there are fewer logits than ids, or an id is not one of the vocabulary's.
        LogitRangeError: If the largest logit is beyond what a score can be.
    """
    ffi, lib = library.ffi, library.lib
    if logits.nbytes < 8 * vocab_size:
        expected = f"at least {8 * vocab_size} bytes"
        raise OpShapeError("LogProbs", "the logits", f"{logits.nbytes} bytes", expected)
    outside = [token_id for token_id in token_ids if not 0 <= token_id < vocab_size]
    if outside:
        expected = f"from 0 to {vocab_size - 1}"
        raise OpShapeError("LogProbs", "a token id", str(outside[0]), expected)
    count, top_count = len(token_ids), min(top_count, vocab_size)
    row = ffi.new("sslm_logprobs *")
    row.logits, view = borrow(ffi, "int64_t *", logits)
    row.scores = scores = ffi.new("int32_t[]", vocab_size)
    row.token_ids = ids = ffi.new("int32_t[]", list(token_ids))
    row.values = values = ffi.new("int64_t[]", count)
    row.top_ids = top_ids = ffi.new("int32_t[]", top_count)
    row.top_values = top_values = ffi.new("int64_t[]", top_count)
    row.exponent, row.id_count, row.top_count = exponent, count, top_count
    status = lib.sslm_native_logprobs(handle, row)
    del view, scores, ids
    if status == lib.SSLM_BAD_LOGITS:
        raise LogitRangeError
    return LogProbs(
        values=tuple(None if value == NOT_ALLOWED else value for value in values),
        top=tuple(zip(top_ids, top_values, strict=True))[: row.top_count],
    )
