"""JSON that anybody may have written: read within bounds, and without guessing."""

import json
import re
from collections.abc import Mapping, Sequence
from decimal import Decimal
from typing import Final, NoReturn

from sslm import limits
from sslm.errors.batches import BatchLineSyntaxError
from sslm.errors.showing import json_problem
from sslm.json_nesting import nesting_of

JsonValue = None | bool | int | Decimal | str | Sequence["JsonValue"] | Mapping[str, "JsonValue"]

_SURROGATE: Final = re.compile(rb"\\u[dD][89a-fA-F]")
_EXPONENT_MAX: Final = 99
_SHOWN_CHARS: Final = 80


def read_json(place: str, data: bytes) -> JsonValue:
    """Return the value that bytes spell; numbers with a point or an exponent are Decimals.

    Args:
        place: Where they stand, for errors.
        data: Bytes whose size the caller has bounded.

    Raises:
        BatchLineSyntaxError: If they are not UTF-8 or no JSON, a key stands twice in an object, a
            text has half a character, or what they hold is too deep, too much or too long.
    """
    try:
        _require_shallow(data)
        value: JsonValue = _DECODER.decode(data.decode("utf-8"))
        if _SURROGATE.search(data):
            json.dumps(value, ensure_ascii=False, default=str).encode("utf-8")
    except UnicodeDecodeError as error:
        reason = f"it is not UTF-8 from byte {error.start} on"
    except UnicodeEncodeError:
        reason = "an escape stands for half a character"
    except json.JSONDecodeError as error:
        reason = json_problem(error)
    except ValueError as error:
        # One of those below.
        reason = str(error)
    else:
        return value
    raise BatchLineSyntaxError(place, reason)


def _require_shallow(data: bytes) -> None:
    """Refuse what is nested before anything walks it, and containers before they take memory."""
    found = nesting_of(data)
    if found.depth > limits.BATCH_LINE_NESTING_MAX:
        raise ValueError(f"it nests deeper than {limits.BATCH_LINE_NESTING_MAX}")
    if found.containers > limits.BATCH_LINE_CONTAINER_COUNT_MAX:
        most = limits.BATCH_LINE_CONTAINER_COUNT_MAX
        raise ValueError(f"it has more than {most} objects and lists")


def _whole(digits: str) -> int:
    _require_short(digits)
    return int(digits)


def _decimal(digits: str) -> Decimal:
    _require_short(digits)
    number = Decimal(digits)
    if abs(number.adjusted()) > _EXPONENT_MAX:
        raise ValueError(f"the number {digits} is out of all bounds")
    return number


def _require_short(digits: str) -> None:
    if len(digits) > limits.BATCH_NUMBER_SIZE_CHARS_MAX:
        raise ValueError(f"a number has {len(digits)} characters")


def _refuse(word: str) -> NoReturn:
    raise ValueError(f"{word} is no number of JSON")


def _object(pairs: list[tuple[str, JsonValue]]) -> dict[str, JsonValue]:
    found = dict(pairs)
    if len(found) < len(pairs):
        seen: set[str] = set()
        for key, _ in pairs:
            if key in seen:
                raise ValueError(f"the key {key[:_SHOWN_CHARS]!r} stands twice in one object")
            seen.add(key)
    return found


_DECODER: Final = json.JSONDecoder(
    parse_int=_whole, parse_float=_decimal, parse_constant=_refuse, object_pairs_hook=_object
)
