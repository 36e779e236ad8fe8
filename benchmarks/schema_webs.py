"""More schemas that explode elsewhere: one or two for each keyword that can multiply."""

from typing import Any

TEXT = {"type": "string"}
KEYS = tuple(f"key_{at}" for at in range(20))


def webs() -> dict[str, Any]:
    """Return the schemas by name."""
    return _texts() | _numbers_and_constants() | _containers() | _conditions()


def _texts() -> dict[str, Any]:
    words = "|".join(f"word{at}" for at in range(200))
    searches = [{"pattern": f"{one}.*{two}"} for one in "abcde" for two in "vwxyz"]
    return {
        "a counted alternation": {"type": "string", "pattern": f"^({words}){{60}}$"},
        "a letter so far from the end": {"type": "string", "pattern": "^.*a.{30}$"},
        "25 searches at once": {"type": "string", "allOf": searches},
        "any of 25 searches": {"type": "string", "anyOf": searches},
        "one of 25 searches": {"type": "string", "oneOf": searches},
        "a host name under not": {"type": "string", "not": {"format": "hostname"}},
        "a date under not, with a pattern": {
            "allOf": [{"type": "string", "not": {"format": "date-time"}}, {"pattern": "a.{12}b"}]
        },
    }


def _numbers_and_constants() -> dict[str, Any]:
    largest = 10**400 - 3
    return {
        "bounds of 400 digits and a multiple": {
            "type": "number",
            "minimum": -largest,
            "maximum": largest,
            "multipleOf": 0.0375,
        },
        "multiples of several numbers": {"allOf": [{"multipleOf": n} for n in (97, 101, 103)]},
        "enum of 10000 long texts": {"enum": [f"{at:05}" + "x" * 60 for at in range(10_000)]},
        "a huge constant": {"const": [{"key": ["text" * 20, at]} for at in range(5000)]},
        "unique items of a long enum": {
            "type": "array",
            "uniqueItems": True,
            "items": {"enum": [f"name {at}" for at in range(2000)]},
        },
    }


def _containers() -> dict[str, Any]:
    patterns = ("^a", "b$", "c.d", "^.{5}$", "e{3}", "f.*g")
    chain = {
        f"d{at}": {"type": "array", "items": {"$ref": f"#/$defs/d{at + 1}"}} for at in range(40)
    }
    return {
        "overlapping patterns of keys": {
            "type": "object",
            "patternProperties": {one: {"minLength": at} for at, one in enumerate(patterns)},
        },
        "names by patterns": {
            "type": "object",
            "propertyNames": {"allOf": [{"pattern": one} for one in patterns]},
        },
        "contains 50 to 500": {
            "type": "array",
            "contains": {"type": "string", "pattern": "ab"},
            "minContains": 50,
            "maxContains": 500,
        },
        "lists in lists by references": {
            "$ref": "#/$defs/d0",
            "$defs": {**chain, "d40": TEXT},
        },
        "unevaluated keys of many alternatives": {
            "anyOf": [{"properties": {key: TEXT}} for key in KEYS[:12]],
            "unevaluatedProperties": False,
        },
        "minItems and maxItems in each other": {
            "type": "array",
            "items": {"type": "array", "items": {"type": "integer"}, "maxItems": 300},
            "maxItems": 300,
        },
    }


def _conditions() -> dict[str, Any]:
    chain: dict[str, Any] = {"required": ["end"]}
    for key in KEYS[:15]:
        known = {"required": [key]}
        chain = {"if": known, "then": {"properties": {key: {"type": "integer"}}}, "else": chain}
    web = {
        one: {"anyOf": [{"required": [KEYS[at - 1]]}, {"properties": {KEYS[at - 2]: TEXT}}]}
        for at, one in enumerate(KEYS)
    }
    nested: dict[str, Any] = {"pattern": "a.b"}
    for at in range(10):
        nested = {"oneOf": [nested, {"allOf": [{"pattern": f"{at}.c"}, {"not": nested}]}]}
    return {
        "if in else in each other": {"type": "object", **chain},
        "a web of dependent schemas": {"type": "object", "dependentSchemas": web},
        "oneOf, allOf and not in each other": {"type": "string", **nested},
    }
