"""Where a model's requests get schemas, which most of them never ask for."""

from typing import TYPE_CHECKING

from sslm.opening.admission import Admission
from sslm.text.tokenizer import Tokenizer

if TYPE_CHECKING:
    from sslm.answer_schemas.binder import SchemaBinder
    from sslm.artifact.stored_schemas import StoredSchemas


class ModelSchemas:
    """Makes a model's schema binder when it is first asked for; see there for the arguments."""

    def __init__(
        self,
        stored: "StoredSchemas",
        tokenizer: Tokenizer,
        *,
        end_ids: frozenset[int],
        is_pinned: bool,
        admission: Admission,
    ) -> None:
        self._given = stored, tokenizer, end_ids, is_pinned, admission
        self._binders: dict[str, SchemaBinder] = {}

    def __call__(self) -> "SchemaBinder":
        """Return the binder, the same each time."""
        found = self._binders.get("")
        if found is None:
            # Not with the package: what compiles schemas takes a while to import.
            from sslm.answer_schemas.binder import SchemaBinder

            stored, tokenizer, end_ids, is_pinned, admission = self._given
            made = SchemaBinder(
                stored, tokenizer, end_ids=end_ids, is_pinned=is_pinned, admission=admission
            )
            # In one step, so that threads that come at once get the same.
            found = self._binders.setdefault("", made)
        return found
