"""Which tokens a chat template writes beside a role or the content of a message.

The source is taken apart into words, and what may be written is taken in the order of the source.
Nothing is compiled or rendered.
"""

import re
from collections.abc import Callable, Collection, Iterator, Sequence
from enum import Enum
from typing import Final

from sslm import limits
from sslm.text.special_tokens import SpecialTokenFinder

_OTHER_TAGS: Final = re.compile(
    "think|thought|reason|channel|tool|function|parameter|argument|python|fim|prefix|suffix|middle|"
    "file|repo|image|img|vision|video|audio|media|cite|document",
    re.IGNORECASE,
)
"""Words in the names of tags inside turns: of reasoning, tools, filling in, and other media."""

_ROLES: Final = "(?:system|developer|user|human|assistant|model|chatbot|bot|gpt|ai)"
_ROLE_BEHIND: Final = re.compile(rf"{_ROLES}\b", re.IGNORECASE)
_ROLE_BEFORE: Final = re.compile(rf"\b{_ROLES}\Z", re.IGNORECASE)
_ROLE_WITHIN: Final = re.compile(f"(?<![a-z]){_ROLES}(?![a-z])", re.IGNORECASE)
_ROLE_SIZE_CHARS_MAX: Final = 16
_CONTENT_NAME: Final = re.compile("content|text|prompt|instruction|system_message|query", re.I)
_ESCAPE: Final = re.compile(r"\\(?:x([0-9A-Fa-f]{2})|u([0-9A-Fa-f]{4})|([^xu]))", re.DOTALL)
_CONTROL_ESCAPES: Final = {"n": "\n", "r": "\r", "t": "\t"}
_PAIRED_TAG: Final = re.compile("</?([^<>/]+)>")
_MARKER_SIZE_CHARS_MIN: Final = 3

_Word = tuple[str, str]
"""Kind and text, as Jinja's lexer has them."""


_CONDITIONS: Final[tuple[list[_Word], ...]] = ([("name", "if")], [("name", "endif")])
"""First words of blocks that leave what is written before and behind them side by side."""


class _Value(Enum):
    """Something that a template writes, other than text of its own."""

    ROLE = "role"
    CONTENT = "content"
    OTHER = "other"


def written_markers(source: str, spellings: Collection[str]) -> dict[str, bool]:
    """Return the tokens that frame turns, and of each whether it ends them.

    A token frames turns if the template writes it next to a role (a value so named, or the word for
    one) or to the content of a message, with nothing but white space between. It ends a turn if it
    comes behind content, and never before a role or content.

    Args:
        source: Of the template, whatever is in it; read as far as it can be taken apart.
        spellings: Of the tokens to look for. Those without a letter or a sign are passed over, and
            so are tags of reasoning, tools, filling in and media, and tags that are closed as
            ``<name>`` is by ``</name>``.
    """
    if len(source) > limits.CHAT_TEMPLATE_SIZE_CHARS_MAX:
        return {}
    sought = _spelled_in(_unescaped(source), spellings)
    if not sought:
        return {}
    finder = _finder(sought)
    parts = [
        piece
        for part in _texts_and_values(source)
        for piece in ([part] if isinstance(part, _Value) else finder.split(part))
        if not (isinstance(piece, str) and piece.isspace())
    ]
    framing: set[int] = set()
    opening: set[int] = set()
    ending: set[int] = set()
    for index, part in enumerate(parts):
        if not isinstance(part, int):
            continue
        before = _side(parts[index - 1] if index else "", _is_role_before)
        behind = _side(parts[index + 1] if index + 1 < len(parts) else "", _is_role_behind)
        if behind is not _Value.OTHER:
            opening.add(part)
        elif before is _Value.CONTENT:
            ending.add(part)
        if not before is behind is _Value.OTHER:
            framing.add(part)
    return {
        sought[one]: one in ending - opening and not _is_named_after_role(sought[one])
        for one in framing
    }


def _spelled_in(text: str, spellings: Collection[str]) -> list[str]:
    """Return the spellings in a text that may be markers, in time that grows with neither alone."""
    size = _MARKER_SIZE_CHARS_MIN
    threes = {text[place : place + size] for place in range(len(text) - size + 1)}
    likely = [
        one
        for one in spellings
        if one[:size] in threes and one[-size:] in threes and _is_marker(one)
    ]
    found = {likely[one] for one in _finder(likely).split(text) if isinstance(one, int)}
    return sorted(one for one in found if not _is_paired(one, text))


def _finder(spellings: Sequence[str]) -> SpecialTokenFinder:
    return SpecialTokenFinder({one: index for index, one in enumerate(spellings)})


def _is_paired(spelling: str, text: str) -> bool:
    tag = _PAIRED_TAG.fullmatch(spelling)
    return tag is not None and f"</{tag[1]}>" in text


def _is_marker(spelling: str) -> bool:
    signs = [one for one in spelling if not one.isalnum() and not one.isspace()]
    return (
        len(spelling) >= _MARKER_SIZE_CHARS_MIN
        and bool(signs)
        and any(map(str.isalnum, spelling))
        and not _OTHER_TAGS.search(spelling)
    )


def _is_named_after_role(spelling: str) -> bool:
    return _ROLE_WITHIN.search(spelling) is not None and "end" not in spelling.lower()


def _side(part: str | int | _Value, is_role: Callable[[str], bool]) -> _Value:
    """Return what stands on one side of a token."""
    if isinstance(part, _Value):
        return part
    return _Value.ROLE if isinstance(part, str) and is_role(part) else _Value.OTHER


def _is_role_before(text: str) -> bool:
    return _ROLE_BEFORE.search(text.rstrip()[-_ROLE_SIZE_CHARS_MAX:]) is not None


def _is_role_behind(text: str) -> bool:
    return _ROLE_BEHIND.match(text.lstrip()) is not None


def _unescaped(text: str) -> str:
    """Return a text with the escapes of its string constants put in."""
    if "\\" not in text:
        return text

    def put_in(match: re.Match[str]) -> str:
        digits = match[1] or match[2]
        return chr(int(digits, 16)) if digits else _CONTROL_ESCAPES.get(match[3], match[3])

    return _ESCAPE.sub(put_in, text)


def _texts_and_values(source: str) -> Iterator[str | _Value]:
    """Yield what a template may write, as it stands in its source; texts side by side as one."""
    text = ""
    for part in _parts(source):
        if isinstance(part, str):
            text += part
            continue
        if text:
            yield text
            text = ""
        yield part
    if text:
        yield text


def _parts(source: str) -> Iterator[str | _Value]:
    from jinja2 import Environment, TemplateSyntaxError

    words: list[_Word] = []
    texts: dict[str, str] = {}
    try:
        lexed = Environment(trim_blocks=True, lstrip_blocks=True).lex(source)
        for _, kind, text in lexed:
            if kind == "data":
                yield text
            elif kind == "variable_end":
                yield from _written(words, texts)
            elif kind == "block_end" and words[:1] not in _CONDITIONS:
                yield _Value.OTHER
                yield from _set(words, texts)
            if kind in {"variable_begin", "variable_end", "block_begin", "block_end"}:
                words = []
            elif kind not in {"data", "whitespace"}:
                words.append((kind, text))
    except TemplateSyntaxError:
        return


def _set(words: Sequence[_Word], texts: dict[str, str]) -> Iterator[str | _Value]:
    """Yield what a variable is set to, which may be written later; note texts by their names."""
    if not words or words[0] != ("name", "set"):
        return
    kinds = [kind for kind, _ in words]
    if kinds == ["name", "name", "operator", "string"]:
        texts[words[1][1]] = _unescaped(words[3][1][1:-1])
        return
    assigned = next((i for i, word in enumerate(words) if word == ("operator", "=")), len(words))
    yield from _written(words[assigned + 1 :], texts)
    yield _Value.OTHER


def _written(words: Sequence[_Word], texts: dict[str, str]) -> Iterator[str | _Value]:
    """Yield what an expression may write."""
    ignored_depth = depth = 0
    for index, (kind, text) in enumerate(words):
        before = words[index - 1] if index else ("", "")
        behind = words[index + 1] if index + 1 < len(words) else ("", "")
        if kind == "operator" and text in "([{":
            depth += 1
            # Of a method or filter: what it is told is not written.
            called = before[0] == "name" and index > 1 and words[index - 2][1] in {".", "|"}
            if called and not ignored_depth:
                ignored_depth = depth
        elif kind == "operator" and text in ")]}":
            ignored_depth = 0 if ignored_depth == depth else ignored_depth
            depth -= 1
        elif ignored_depth:
            continue
        elif kind == "string" and before[1] == "[" and index > 1:
            yield from _named(_unescaped(text[1:-1]))
        elif kind == "string" and before[1] not in {"==", "!=", "in"}:
            yield _unescaped(text[1:-1])
        elif kind == "name" and before[1] != "|":
            is_looked_into = behind[1] in {".", "["} or (before[1] == "." and behind[1] == "(")
            if text in texts:
                yield texts[text]
            elif not is_looked_into or _is_value(text):
                yield from _named(text)


def _is_value(name: str) -> bool:
    return "role" in name.lower() or _CONTENT_NAME.search(name) is not None


def _named(name: str) -> Iterator[_Value]:
    """Yield the value that a name stands for, as far as it tells."""
    if "role" in name.lower():
        yield _Value.ROLE
    elif _CONTENT_NAME.search(name):
        yield _Value.CONTENT
    else:
        yield _Value.OTHER
