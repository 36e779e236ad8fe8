"""Random schemas of everything that is supported, with values that they speak of."""

import json
import random
from collections.abc import Callable
from typing import Any, Final

KEYS: Final = ("a", "b", "cc")
SCALARS: Final = (None, True, False, 0, 1, 2, "", "a", "bb")


class Maker:
    """Makes schemas and values."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)

    def value(self, depth: int = 2) -> Any:
        """Return a value."""
        kind = self._random.random()
        if depth == 0 or kind < 0.3:
            return self._random.choice(SCALARS)
        if kind < 0.5:
            return [self.value(depth - 1) for _ in range(self._random.randrange(4))]
        keys = self._random.sample((*KEYS, "d", "ce"), self._random.randrange(5))
        return {key: self.value(depth - 1) for key in keys}

    def schema(self, depth: int = 3) -> Any:
        """Return a schema."""
        if depth == 0 or self._random.random() < 0.1:
            return self._random.choice((True, {"type": "string"}, {"enum": [1, "a", None]}, False))
        makers = self._random.sample(self._makers(depth - 1), self._random.randint(1, 3))
        return {key: item for make in makers for key, item in make().items()}

    def _makers(self, depth: int) -> list[Callable[[], dict[str, Any]]]:
        choice, number = self._random.choice, self._random.randrange

        def inner() -> Any:
            return self.schema(depth)

        def several() -> list[Any]:
            return [inner() for _ in range(self._random.randint(1, 2))]

        def keys() -> list[str]:
            return self._random.sample(KEYS, self._random.randint(1, 2))

        return [
            lambda: {"type": choice(("object", "array", ["object", "string"], "integer"))},
            lambda: {"properties": {key: inner() for key in keys()}},
            lambda: {"properties": {key: inner() for key in keys()}, "required": keys()},
            lambda: {"additionalProperties": choice((False, False, True, inner()))},
            lambda: {"patternProperties": {"^c": inner()}},
            lambda: {"propertyNames": choice(({"maxLength": 1}, {"enum": ["a", "d"]}))},
            lambda: {"required": keys()},
            lambda: {"minProperties": number(3), "maxProperties": 1 + number(3)},
            lambda: {"dependentRequired": {choice(KEYS): keys()}},
            lambda: {"dependentSchemas": {choice(KEYS): inner()}},
            lambda: {"items": inner()},
            lambda: {"prefixItems": several()},
            lambda: {"prefixItems": several(), "items": inner(), "minItems": number(3)},
            lambda: {"maxItems": number(4)},
            lambda: {"contains": inner()},
            lambda: {"contains": inner(), "minContains": number(3), "maxContains": 1 + number(2)},
            lambda: {"items": {"enum": [0, 1, "a"]}, "uniqueItems": True},
            lambda: {"const": self.value()},
            lambda: {"enum": [self.value(), self.value(), self.value()]},
            lambda: {"allOf": several()},
            lambda: {"anyOf": several()},
            lambda: {"oneOf": several()},
            lambda: {"not": inner()},
            lambda: {"if": inner(), "then": inner(), "else": inner()},
            lambda: {"unevaluatedProperties": choice((False, {"type": "string"}))},
            lambda: {"unevaluatedItems": choice((False, {"type": "string"}))},
        ]

    def repeated(self, value: dict[str, Any]) -> bytes:
        """Return a spelling of an object in which a key that no schema names stands twice."""
        pairs = [(key, item) for key, item in value.items() if key != "d"]
        pairs += [("d", self.value(0)), ("d", self.value(0))]
        texts = (json.dumps(item, separators=(",", ":")) for _, item in pairs)
        parts = (f'"{key}":{text}' for (key, _), text in zip(pairs, texts, strict=True))
        return ("{" + ",".join(parts) + "}").encode()
