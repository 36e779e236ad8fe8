"""Token ids as callers give them."""

import operator
from collections.abc import Iterable
from typing import SupportsIndex, cast

from sslm.errors.base import as_value
from sslm.errors.runtime import PaddingTokenIdError, TokenIdRangeError, TokenIdTypeError
from sslm.errors.showing import briefly
from sslm.program.program import Program


def checked_token_ids(token_ids: Iterable[object], program: Program) -> list[int]:
    """Return token ids, for sequences of *program*, as a list of plain integers.

    Raises:
        TokenIdTypeError: If one is not an integer.
        TokenIdRangeError: If one is not in the vocabulary.
        PaddingTokenIdError: If one has no token.
    """
    return [_checked_id(index, found, program) for index, found in enumerate(token_ids)]


def admissible_token_ids(
    token_ids: Iterable[object], program: Program
) -> tuple[list[int], TokenIdTypeError | TokenIdRangeError | None]:
    """Return the ids before the first one that is none, and why that one is refused."""
    ids: list[int] = []
    try:
        for index, found in enumerate(token_ids):
            ids.append(_checked_id(index, found, program))
    except (TokenIdTypeError, TokenIdRangeError) as refusal:
        return ids, as_value(refusal)
    return ids, None


def _checked_id(index: int, found: object, program: Program) -> int:
    # Integers of other libraries are welcome; a truth value is no id, though Python counts it.
    # Asking whether there is an index takes far longer than taking it.
    if isinstance(found, bool):
        raise TokenIdTypeError(briefly(found), index, type(found).__name__)
    try:
        token_id = operator.index(cast(SupportsIndex, found))
    except TypeError as error:
        raise TokenIdTypeError(briefly(found), index, type(found).__name__) from error
    if not 0 <= token_id < program.token_count:
        last_id = program.token_count - 1
        if last_id < token_id < program.vocab_size:
            raise PaddingTokenIdError(token_id, index, last_id, program.vocab_size)
        raise TokenIdRangeError(token_id, index, last_id)
    return token_id
