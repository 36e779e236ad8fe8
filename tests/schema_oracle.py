"""What another implementation, the ``jsonschema`` package, says of a text."""

import json
import re
from collections.abc import Mapping
from decimal import Decimal
from typing import Any

from jsonschema import Draft202012Validator
from referencing import Registry, Resource
from referencing.jsonschema import DRAFT202012


class Oracle:
    """Judges texts by one schema.

    Args:
        schema: The schema.
        documents: What it may refer to, by URI, as JSON.
        checks_formats: Whether ``format`` is enforced.
    """

    def __init__(
        self, schema: Any, documents: Mapping[str, bytes], *, checks_formats: bool
    ) -> None:
        resources = [
            (uri, Resource.from_contents(_exact(text), default_specification=DRAFT202012))
            for uri, text in documents.items()
        ]
        self._validator = Draft202012Validator(
            schema,
            registry=Registry().with_resources(resources),
            format_checker=Draft202012Validator.FORMAT_CHECKER if checks_formats else None,
        )

    def accepts(self, text: bytes) -> bool:
        """Tell whether *text* is JSON, and its value valid; a repeated key counts as its last."""
        # The package takes no leap second for valid, wherever it stands.
        return self.allows(_exact(re.sub(rb":60(?=[.Zz+-])", b":59", text)))

    def allows(self, value: Any) -> bool:
        """Tell whether a value is valid."""
        valid: bool = self._validator.is_valid(value)
        return valid


def _exact(text: bytes) -> Any:
    """Return the value of a text: its fractions would not be multiples of others as floats."""
    return json.loads(text.decode("utf-8"), parse_float=Decimal)
