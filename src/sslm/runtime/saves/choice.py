"""Choices of tokens in the form that is written."""

from sslm.formats.choice import SavedChoice
from sslm.program.choice import Choice, Decoder


def saved_choice(choice: Choice) -> SavedChoice:
    """Return a choice as it is written."""
    names = SavedChoice.__slots__
    return SavedChoice(**{name: getattr(choice, name) for name in names})


def choice_of(saved: SavedChoice) -> Choice:
    """Return a choice that was read, whose every number is in its range."""
    fields = {name: getattr(saved, name) for name in SavedChoice.__slots__}
    return Choice(**fields | {"decoder": Decoder(saved.decoder)})
