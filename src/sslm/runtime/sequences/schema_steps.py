"""How sequences follow schemas: bound before the first token, and a place further with each."""

from array import array
from collections.abc import Iterable, Sequence

from sslm.errors.base import SslmError
from sslm.errors.binding import (
    SchemaBindError,
    SchemaBudgetTokensError,
    SchemaSpanUnreachableError,
    SchemaUnboundError,
)
from sslm.errors.runtime import OptionRangeError, PartlyAdmitted
from sslm.errors.showing import int_range
from sslm.runtime.sequences.schema_binding import Binding, Place
from sslm.runtime.sequences.state import SequenceState, begin_answer
from sslm.runtime.sequences.token_ids import admissible_token_ids
from sslm.schema.tokens.bound_schema import ANY_COUNT, BoundSchema
from sslm.schema.tokens.step_table import NO_STATE


def bind(state: SequenceState, schema: BoundSchema | None, answer_tokens: int | None) -> None:
    """Let the answer of a sequence that is as it was made follow a schema, or none.

    Raises:
        SchemaBindError: If the sequence was used.
        OptionRangeError, SchemaBudgetTokensError: As :func:`new_binding` does.
        MemoryRefusedError: If the system has no memory for masks. In each case nothing has changed.
    """
    struct = state.data.staged()
    if struct.is_used or state.token_count:
        raise SchemaBindError(state.token_count)
    binding = None if schema is None else new_binding(state, schema, answer_tokens)
    begin_answer(struct, None if binding is None else binding.first_address)
    state.data.become_bound(struct, state.data.choice, binding)


def new_binding(state: SequenceState, schema: BoundSchema, answer_tokens: int | None) -> Binding:
    """Bind a schema for a sequence.

    Raises:
        OptionRangeError: If the schema is of another vocabulary, the sequence scores every row, or
            the number of tokens is none.
        SchemaBudgetTokensError: If no answer is so short.
        MemoryRefusedError: If the system has no memory for masks.
    """
    if state.options.has_all_logits:
        expected = "False, as a schema allows only what may follow the last token"
        raise OptionRangeError("has_all_logits", "True", expected)
    if schema.vocab_size != state.program.token_count:
        found, expected = f"of {schema.vocab_size} tokens", f"{state.program.token_count}"
        raise OptionRangeError("the schema's vocabulary", found, expected)
    if answer_tokens is not None:
        if not 1 <= answer_tokens < ANY_COUNT:
            expected = int_range(1, ANY_COUNT - 1)
            raise OptionRangeError("answer_tokens", str(answer_tokens), expected)
        if answer_tokens < schema.shortest:
            raise SchemaBudgetTokensError(answer_tokens, schema.shortest)
    return Binding(schema, answer_tokens)


def admit_chosen(state: SequenceState, most: int | None) -> "array[int]":
    """Queue the token that was chosen, and the only ones that may follow it; return them.

    Args:
        state: Of a sequence at rest.
        most: How many, at least 1; None is as many as there are and there is room for.

    Raises:
        OptionRangeError: If *most* is below 1.
        SslmError: As :meth:`SequenceState.chosen` does.
        ContextLengthError, KvPoolExhaustedError: If there is no room for the first; nothing was
            queued.
    """
    if most is not None and most < 1:
        raise OptionRangeError("most", str(most), int_range(1))
    token_id, binding = state.chosen(), state.binding
    ids = array("i", [token_id])
    state.require_room(1)
    if binding is None:
        state.admit(ids)
        return ids
    places = [_taken(binding, state.place, token_id)]
    # A token that ends the answer is followed by none of it.
    if most != 1 and token_id not in binding.schema.end_ids:
        others, behind = _only_span(state, places[0], None if most is None else most - 1)
        ids += others
        places += behind
    if len(ids) > 1:
        count, _ = state.room(len(ids))
        del ids[count:]
    state.admit(ids, place=places[len(ids) - 1], forced_count=len(ids) - 1)
    return ids


def admit_beginning(state: SequenceState, most: int) -> "array[int]":
    """Queue the only tokens with which an answer can begin, right behind its prompt; return them.

    Token by token, choosing comes to the same ones, and would compute the prompt before.

    Args:
        state: Of a sequence that has no token of its answer; its prompt may be pending.
        most: How many, at least 0.
    """
    ids, places = _only_span(state, state.place, most)
    if ids:
        count, _ = state.room(len(ids))
        del ids[count:]
    if ids:
        state.admit(ids, place=places[len(ids) - 1], forced_count=len(ids))
    return ids


def _only_span(
    state: SequenceState, place: Place, most: int | None
) -> tuple["array[int]", list[Place]]:
    """Return the only tokens that may follow a place, and where each of them leads.

    One that completes the answer, or leads to a dead end, is not among them: the last token of an
    answer is chosen, and not computed.
    """
    ids, places, binding = array("i"), [], state.binding
    only = None if binding is None else binding.only_token(place)
    while binding and only is not None and (most is None or len(ids) < most):
        place = _taken(binding, place, only)
        if binding.ending(place, state.data.struct.span.allowed):
            break
        ids.append(only)
        places.append(place)
        only = binding.only_token(place)
    return ids, places


def _taken(binding: Binding, place: Place, token_id: int) -> Place:
    after = binding.after(place, token_id)
    assert after is not None, "what a mask allows is taken"
    return after


def admit_content(state: SequenceState, token_ids: Iterable[object]) -> int:
    """Queue tokens of the schema's content up to the first that cannot be taken in.

    Returns:
        How many there are.

    Raises:
        SchemaUnboundError: If no schema is bound; nothing was queued.
        SchemaSpanUnreachableError: If the schema does not take one of them there.
        TokenIdTypeError, TokenIdRangeError, ContextLengthError, KvPoolExhaustedError: As prefilling
            does. In each case but the first ``consumed_tokens`` were queued, and stay so.
    """
    binding = state.binding
    if binding is None:
        raise SchemaUnboundError
    refusal: SslmError | None
    admissible, refusal = admissible_token_ids(token_ids, state.program)
    ids, places = array("i"), [state.place]
    for token_id in admissible:
        after = None if token_id in binding.schema.end_ids else binding.after(places[-1], token_id)
        if after is None:
            reason = _reason(binding, places[-1], token_id)
            refusal = SchemaSpanUnreachableError(token_id, len(ids), reason)
            break
        ids.append(token_id)
        places.append(after)
    try:
        return admit_some(state, ids, refusal, places)
    finally:
        # What a raised error holds must not hold the error.
        del refusal


def admit_some(
    state: SequenceState,
    ids: "array[int]",
    refusal: SslmError | None,
    places: Sequence[Place] = (),
) -> int:
    """Queue as many ids as there is room for, and say what keeps the rest out.

    Args:
        state: Of the sequence.
        ids: int32.
        refusal: Why there are no more of them, or None.
        places: Of content: where the answer stands before each, and behind the last.

    Returns:
        How many there are.

    Raises:
        ContextLengthError, KvPoolExhaustedError: If there is no room for all.
        SslmError: The refusal. In each case ``consumed_tokens`` were queued, and stay so.
    """
    count, shortage = state.room(len(ids))
    stopped = shortage if count < len(ids) else refusal
    # A call that was refused as a whole is no use of the sequence.
    if count or stopped is None:
        place = places[count] if places else None
        state.admit(memoryview(ids)[:count], place=place, forced_count=count)
    if stopped is not None:
        # What comes first is what is told: a bad id may lie behind the end of the context.
        if isinstance(stopped, PartlyAdmitted):
            stopped.consumed_tokens = count
        try:
            raise stopped
        finally:
            # What a raised error holds must not hold the error.
            del stopped, shortage, refusal
    return count


def _reason(binding: Binding, place: Place, token_id: int) -> str:
    if token_id in binding.schema.end_ids:
        return "it ends an answer, and is no content"
    state = binding.schema.step(place.state, token_id)
    if state is None:
        return "the schema has no text that goes on so"
    if binding.schema.distance(state) == NO_STATE:
        return "no tokens complete a text that goes on so"
    return "the answer could not be completed within its tokens"
