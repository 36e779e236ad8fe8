"""The one spelling of a value; see docs/schemas.md, "Spelling"."""

import json
from decimal import Decimal

from sslm.schema.document import Json
from sslm.schema.numbers import number_text


def canonical_json(value: Json) -> bytes:
    """Return the spelling of *value*: compact UTF-8, shortest escapes, plain numbers.

    Args:
        value: A value as :func:`sslm.schema.document.read_document` returns it; the keys of its
            objects are written in the order in which they are.
    """
    return "".join(_pieces(value)).encode("utf-8")


def _pieces(value: Json) -> list[str]:
    if isinstance(value, dict):
        found = ["{"]
        for key, item in value.items():
            found += [",", _text(key), ":"] if len(found) > 1 else [_text(key), ":"]
            found += _pieces(item)
        return [*found, "}"]
    if isinstance(value, list):
        found = ["["]
        for index, item in enumerate(value):
            found += [",", *_pieces(item)] if index else _pieces(item)
        return [*found, "]"]
    return [_scalar(value)]


def _scalar(value: bool | int | Decimal | str | None) -> str:
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true" if value else "false"
    return _text(value) if isinstance(value, str) else number_text(value)


def _text(value: str) -> str:
    # The standard library's escapes without ensure_ascii are those that JSON demands; 0x7f is raw.
    return json.dumps(value, ensure_ascii=False)
