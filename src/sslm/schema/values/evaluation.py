"""What the keywords of one schema ask of the evaluation that they are part of."""

from collections.abc import Iterable
from contextlib import AbstractContextManager
from typing import Protocol

from sslm.schema.documents.refusals import Refusals, Unsupported
from sslm.schema.regular.compiler import LanguageCompiler
from sslm.schema.values.keys import KeyLanguages
from sslm.schema.values.places import Place, PlaceTable
from sslm.schema.values.speakers import Member, SpeakerTable
from sslm.schema.values.universe import Universes
from sslm.schema.values.values import Value


class Evaluation(Protocol):
    """Finds the values that schemas allow, which may refer to one another.

    Attributes:
        speakers: Finds the schemas that a schema refers to.
        places: Finds the places inside a place.
        universes: All values of a place.
        patterns: Decides which keys match which patterns.
        compiler: Decides what only an automaton can.
        refusals: Where to note what cannot be exact.
    """

    speakers: SpeakerTable
    places: PlaceTable
    universes: Universes
    patterns: KeyLanguages
    compiler: LanguageCompiler
    refusals: Refusals

    def value(self, member: Member, place: Place) -> Value:
        """Return the values of *place* that a schema allows."""

    def evaluated(self, member: Member, place: Place) -> Value:
        """Return what a schema allows, its ``unevaluated...`` keywords left out."""

    def call(self, member: Member) -> AbstractContextManager[None]:
        """Count a schema that is worked out inside others, while it is."""

    def spend(self, member: Member, parts: int) -> None:
        """Count the parts of values that a schema is asked about."""

    def doubt(self, member: Member, keyword: str, values: Iterable[Value]) -> Unsupported:
        """Return what to note where the complement of one of some sets would be wrong."""
