"""How an answer follows its schema."""

from sslm.answering.request import Request
from sslm.runtime.transactions.token_request import FollowedSchema


def followed_schema(request: Request, max_tokens: int) -> FollowedSchema | None:
    """Return what an answer follows, which can be completed within its tokens if it is to fit.

    Raises:
        SchemaBudgetTokensError: If it cannot.
    """
    wanted = request.schema
    if wanted is None:
        return None
    wanted.require_room(max_tokens)
    # What stops or is told at each token is looked at where that is chosen.
    has_segments = request.record is not None and request.record.has_segments
    is_watched = has_segments or request.stop or request.stop_token_ids - wanted.own_end_ids
    return FollowedSchema(
        schema=wanted.bound,
        answer_tokens=max_tokens if wanted.is_fitted else None,
        takes_spans=not is_watched and request.logprobs is None,
    )
