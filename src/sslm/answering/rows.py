"""Rows of a call that asks many things, and their names."""

import datetime
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice

from sslm import limits
from sslm.answering.prompts import MessageLike, Prompt
from sslm.answering.request import AnswerOptions
from sslm.errors.runtime import OptionRangeError
from sslm.errors.showing import briefly
from sslm.text.tokenizer import checked_text


@dataclass(frozen=True, slots=True, kw_only=True)
class RowRequest:
    """What one row asks for.

    Args:
        prompt: Text or ids to continue; without meaning beside messages.
        messages: A conversation to answer, or None.
        options: What is asked of the answer.
        date: Today, for chat templates that mention it.
    """

    prompt: Prompt = ""
    messages: Sequence[MessageLike] | None = None
    options: AnswerOptions
    date: datetime.date | None = None


def require_row(row: object) -> None:
    """Raise OptionRangeError unless a row of an iterator is a request, with options."""
    if not isinstance(row, RowRequest):
        raise OptionRangeError("rows", briefly(row), "requests (RowRequest), or errors")
    if not isinstance(row.options, Mapping):
        raise OptionRangeError("options", briefly(row.options), "a mapping of names to values")


def row_names(row_ids: object, count: int) -> list[str]:
    """Return the ids of so many rows.

    Raises:
        OptionRangeError: If they are not as many, or one is no text, or there twice.
    """
    if row_ids is None:
        return [str(index) for index in range(count)]
    expected = f"{count} texts, one for each prompt"
    if isinstance(row_ids, (str, bytes, bytearray)) or not isinstance(row_ids, Iterable):
        raise OptionRangeError("row_ids", briefly(row_ids), expected)
    names = list(islice(row_ids, count + 1))
    if len(names) != count:
        found = f"more than {count}" if len(names) > count else f"{len(names)} of them"
        raise OptionRangeError("row_ids", found, expected)
    seen: set[str] = set()
    most = limits.BATCH_ROW_ID_SIZE_CHARS_MAX
    for name in names:
        if not 1 <= len(checked_text("a row's id", name)) <= most:
            raise OptionRangeError("row_ids", briefly(name), f"texts of 1 to {most} characters")
        if name in seen:
            raise OptionRangeError("row_ids", f"{briefly(name)} twice", "each once")
        seen.add(name)
    return names
