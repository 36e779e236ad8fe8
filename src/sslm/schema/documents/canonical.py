"""The one spelling of a value; see docs/schemas.md, "Spelling"."""

import json
from decimal import Decimal

from sslm.schema.documents.document import Json, number_text


def canonical_json(value: Json, *, is_spaced: bool = False) -> bytes:
    """Return the spelling of *value*: UTF-8, shortest escapes, plain numbers.

    Args:
        value: A value as ``document.read_document`` returns it; the keys of its
            objects are written in the order in which they are.
        is_spaced: Whether a blank stands behind each comma and colon.
    """
    blank = " " if is_spaced else ""
    return "".join(_pieces(value, f",{blank}", f":{blank}")).encode("utf-8")


def _pieces(value: Json, comma: str, colon: str) -> list[str]:
    if isinstance(value, dict):
        found = ["{"]
        for key, item in value.items():
            found += [comma, _text(key), colon] if len(found) > 1 else [_text(key), colon]
            found += _pieces(item, comma, colon)
        return [*found, "}"]
    if isinstance(value, list):
        found = ["["]
        for index, item in enumerate(value):
            pieces = _pieces(item, comma, colon)
            found += [comma, *pieces] if index else pieces
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
