"""What must be true of a saved place in a schema before an answer goes on from there."""

from sslm.errors.saves import SaveSchemaError, SaveSchemaStateError, SaveSelectionError
from sslm.formats.saves.contents import SavedSequence
from sslm.runtime.sequences.schema_binding import Binding, Place
from sslm.schema.tokens.bound_schema import BoundSchema
from sslm.schema.tokens.step_table import NO_STATE


def require_schema(saved: SavedSequence, schema: BoundSchema | None, token_count: int) -> None:
    """Check where the answer of a save stands.

    Args:
        saved: As it was read; its token ids are in the vocabulary.
        schema: The one at hand, or None.
        token_count: Tokens of all kinds.

    Raises:
        SaveSchemaError: If the save follows another schema.
        SaveSchemaStateError: If an answer cannot stand there.
        SaveSelectionError: If the token that was chosen cannot follow there.
    """
    found = saved.schema
    if found is None:
        return
    if schema is None or schema.digest != found.digest:
        expected = "none" if schema is None else schema.digest.hex()
        raise SaveSchemaError(found.digest.hex(), expected)
    last = schema.state_count - 1
    if found.state > last or schema.distance(found.state) == NO_STATE:
        expected = f"one that answers reach, at most {last}"
        raise SaveSchemaStateError("the state", found.state, expected)
    if found.token_count > token_count:
        expected = f"at most {token_count}, as there are tokens"
        raise SaveSchemaStateError("the number of tokens", found.token_count, expected)
    place = Place(found.state, found.token_count)
    binding = Binding(schema, found.answer_tokens)
    if not binding.fits(place):
        needed = place.token_count + schema.distance(place.state)
        raise SaveSchemaStateError(
            "the most tokens", found.answer_tokens or 0, f"at least {needed}, to complete the text"
        )
    selected = saved.memory.selected if saved.memory else None
    if selected is not None and selected >= 0 and not binding.allows(place, selected):
        raise SaveSelectionError(selected, "one that the schema allows")
