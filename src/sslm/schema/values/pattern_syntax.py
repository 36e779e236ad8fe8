"""Reading regular expressions: those of ECMA-262 with the flag ``u``, as JSON Schema has them.

What would mean something else, or nothing, in some dialect is refused rather than guessed;
two things that the flag forbids and that everybody writes are taken for what they can only mean:
a brace or closing bracket that stands alone, and needless escapes of punctuation.
"""

import re
from dataclasses import dataclass
from typing import Final, NoReturn

from sslm import limits
from sslm.errors.schema import PatternSyntaxError, UnsupportedPatternError
from sslm.schema.documents.document import shown
from sslm.schema.values.code_points import (
    ANY_IN_LINE,
    BY_LETTER,
    CODE_POINT_MAX,
    CONTROLS,
    SURROGATES,
    CodePoints,
    all_but,
    code_points,
)
from sslm.schema.values.unicode_properties import property_set

_COUNTS: Final = re.compile(r"\{([0-9]+)(,([0-9]*))?\}")
_GROUP_NAME: Final = re.compile(r"<[^\W\d][\w$]*>")
_POSIX: Final = ("[:", "[.", "[=")
_HEX: Final = re.compile(r"[0-9a-fA-F]+")
_PROPERTY: Final = re.compile(r"\{([A-Za-z0-9_=]+)\}")
_SIMPLE_COUNTS: Final[dict[str, tuple[int, int | None]]] = {
    "*": (0, None),
    "+": (1, None),
    "?": (0, 1),
}


@dataclass(frozen=True, slots=True)
class Characters:
    """One character of a set, which may be empty."""

    allowed: CodePoints


@dataclass(frozen=True, slots=True)
class TextStart:
    """The beginning of the text, ``^``."""


@dataclass(frozen=True, slots=True)
class TextEnd:
    """The end of the text, ``$``."""


@dataclass(frozen=True, slots=True)
class Joined:
    """All parts in their order."""

    parts: tuple["PatternNode", ...]


@dataclass(frozen=True, slots=True)
class Choice:
    """Any of the parts."""

    parts: tuple["PatternNode", ...]


@dataclass(frozen=True, slots=True)
class Times:
    """A part, repeated.

    Attributes:
        part: What is repeated.
        least: Fewest times.
        most: Most times, not below *least*, or None for no bound.
        position: Where in the pattern the repetition is said.
    """

    part: "PatternNode"
    least: int
    most: int | None
    position: int


@dataclass(frozen=True, slots=True)
class Ahead:
    """What has to follow, or must not, without being taken in.

    Attributes:
        part: What is looked for.
        is_negative: Whether it must not follow.
        position: Where in the pattern the look ahead begins.
    """

    part: "PatternNode"
    is_negative: bool
    position: int


PatternNode = Characters | TextStart | TextEnd | Joined | Choice | Times | Ahead
"""Any part of a regular expression."""


class _Reader:
    """A pattern and how far it has been read."""

    def __init__(self, pattern: str) -> None:
        self._pattern = pattern
        self._at = 0

    def whole(self) -> PatternNode:
        """Return the whole pattern."""
        for index, character in enumerate(self._pattern):
            if SURROGATES[0] <= ord(character) <= SURROGATES[1]:
                self._refuse("a lone surrogate", "no valid text has one", index)
        found = self._choice(limits.PATTERN_NESTING_MAX)
        if self._at < len(self._pattern):
            self._wrong("a closing parenthesis without an opening one")
        return found

    def _choice(self, levels: int) -> PatternNode:
        parts = [self._joined(levels)]
        while self._take("|"):
            parts.append(self._joined(levels))
        return parts[0] if len(parts) == 1 else Choice(tuple(parts))

    def _joined(self, levels: int) -> PatternNode:
        parts: list[PatternNode] = []
        while self._at < len(self._pattern) and self._peek() not in "|)":
            start = self._at
            part = self._atom(levels)
            parts.append(self._repeated(part, start))
        return parts[0] if len(parts) == 1 else Joined(tuple(parts))

    def _repeated(self, part: PatternNode, start: int) -> PatternNode:
        """Return *part*, which begins at *start*, with the count that follows it, if any."""
        position = self._at
        counts = self._counts()
        if counts is None:
            return part
        self._take("?")  # Taking as few as possible finds the same texts.
        if self._pattern.startswith(("^", "$", "(?=", "(?!"), start):
            self._wrong("a count behind what takes no characters", position)
        position = self._at
        if self._counts() is not None:
            self._wrong("a count behind a count", position)
        return Times(part, *counts, start)

    def _counts(self) -> tuple[int, int | None] | None:
        """Return the fewest and most times that are said here, if any."""
        position = self._at
        simple = _SIMPLE_COUNTS.get(self._peek())
        if simple is not None:
            self._at += 1
            return simple
        found = _COUNTS.match(self._pattern, self._at)
        if found is None:
            return None
        self._at = found.end()
        if max(map(len, found.groups(""))) > limits.PATTERN_COUNT_DIGITS_MAX:
            self._refuse("a very large count", "use a smaller one", position)
        least = int(found[1])
        most = least if found[2] is None else int(found[3]) if found[3] else None
        if most is not None and most < least:
            self._wrong("a count whose bounds are the wrong way round", position)
        return least, most

    def _atom(self, levels: int) -> PatternNode:
        position = self._at
        if self._counts() is not None:
            self._wrong("a count with nothing before it", position)
        character = self._next()
        if character == "^":
            return TextStart()
        if character == "$":
            return TextEnd()
        if character == "(":
            return self._group(levels)
        return Characters(self._characters(character))

    def _characters(self, character: str) -> CodePoints:
        """Return the characters that are meant by what *character* begins."""
        if character == ".":
            return ANY_IN_LINE
        if character == "[":
            return self._set()
        return self._escape(in_set=False) if character == "\\" else _one(ord(character))

    def _group(self, levels: int) -> PatternNode:
        position = self._at - 1
        if not levels:
            self._refuse("groups in one another beyond the limit", "nest fewer", position)
        is_ahead = is_negative = False
        if self._take("?"):
            if self._take("=") or self._take("!"):
                is_ahead, is_negative = True, self._pattern[self._at - 1] == "!"
            elif self._pattern.startswith(("<=", "<!"), self._at):
                self._refuse("a look behind", "say what the whole text is instead", position)
            elif name := _GROUP_NAME.match(self._pattern, self._at):
                self._at = name.end()
            elif not self._take(":"):
                self._wrong("a group of an unknown kind", position)
        inner = self._choice(levels - 1)
        if not self._take(")"):
            self._wrong("a group that does not end", position)
        return Ahead(inner, is_negative, position) if is_ahead else inner

    def _set(self) -> CodePoints:
        position = self._at - 1
        is_negative = self._take("^")
        ranges: list[tuple[int, int]] = []
        while not self._take("]"):
            if self._at == len(self._pattern):
                self._wrong("a set that does not end", position)
            start = self._at
            if self._pattern[start : start + 2] in _POSIX:
                # Read as ECMA-262 says, it is a set of these characters, which nobody means.
                hint = "name the characters or a property, as in [A-Za-z] or \\p{L}; a [ is \\["
                self._refuse("a class of POSIX", hint, start)
            low = self._member()
            if self._peek() == "-" and self._pattern[self._at + 1 : self._at + 2] not in ("]", ""):
                self._at += 1
                high = self._member()
                if len({low[0][0], low[-1][1]}) > 1 or len({high[0][0], high[-1][1]}) > 1:
                    self._wrong("a range between what are no single characters", start)
                if low > high:
                    self._wrong("a range whose ends are the wrong way round", start)
                ranges.append((low[0][0], high[0][0]))
            else:
                ranges += low
        found = code_points(ranges)
        return all_but(found) if is_negative else found

    def _member(self) -> CodePoints:
        character = self._next()
        return self._escape(in_set=True) if character == "\\" else _one(ord(character))

    def _escape(self, *, in_set: bool) -> CodePoints:
        position = self._at - 1
        if self._at == len(self._pattern):
            self._wrong("an escape of nothing", position)
        letter = self._next()
        if letter in BY_LETTER:
            return BY_LETTER[letter]
        if letter in "pP":
            return self._property(position, is_negative=letter == "P")
        code_point = self._escaped_code_point(letter, position, in_set=in_set)
        if code_point is not None:
            return _one(code_point)
        if letter in "bB":
            self._refuse("a word boundary", "say which characters stand there", position)
        if letter == "k" or letter in "123456789":
            self._refuse("a reference to a group", "an automaton cannot count alike", position)
        if letter.isascii() and not letter.isalnum():
            return _one(ord(letter))
        return self._wrong(f"the escape of {letter!r}, which means nothing", position)

    def _escaped_code_point(self, letter: str, position: int, *, in_set: bool) -> int | None:
        """Return the one character that an escape stands for, if it is of that kind."""
        if letter in CONTROLS:
            return CONTROLS[letter]
        if letter == "b" and in_set:
            return 0x08
        if letter == "0" and not self._peek().isdigit():
            return 0
        if letter == "c" and re.match("[a-zA-Z]", self._peek()):
            return ord(self._next()) % 32
        if letter == "x":
            return self._hex(2, position)
        return self._unicode(position) if letter == "u" else None

    def _unicode(self, position: int) -> int:
        if self._take("{"):
            found = _HEX.match(self._pattern, self._at)
            digits = found[0].lstrip("0") if found else ""
            self._at = found.end() if found else self._at
            if not found or not self._take("}") or len(digits) > 6:
                self._wrong("a code point that is none", position)
            code_point = int(digits or "0", 16)
            if code_point > CODE_POINT_MAX:
                self._wrong("a code point that is none", position)
        else:
            code_point = self._hex(4, position)
            if 0xD800 <= code_point < 0xDC00 and self._pattern.startswith("\\u", self._at):
                self._at += 2
                low = self._hex(4, position)
                if not 0xDC00 <= low <= 0xDFFF:
                    self._refuse("a lone surrogate", "no valid text has one", position)
                return 0x10000 + (code_point - 0xD800) * 0x400 + low - 0xDC00
        if SURROGATES[0] <= code_point <= SURROGATES[1]:
            self._refuse("a lone surrogate", "no valid text has one", position)
        return code_point

    def _hex(self, count: int, position: int) -> int:
        digits = self._pattern[self._at : self._at + count]
        if len(digits) < count or not _HEX.fullmatch(digits):
            self._wrong(f"an escape without its {count} hexadecimal digits", position)
        self._at += count
        return int(digits, 16)

    def _property(self, position: int, *, is_negative: bool) -> CodePoints:
        found = _PROPERTY.match(self._pattern, self._at)
        if found is None:
            self._wrong("a property without a name in braces", position)
        self._at = found.end()
        members = property_set(found[1])
        if members is None:
            hint = "general categories are there: write \\p{L}, \\p{Lu}, \\p{Nd}"
            self._refuse(f"the property {found[1]}", hint, position)
        return all_but(members) if is_negative else members

    def _peek(self) -> str:
        return self._pattern[self._at : self._at + 1]

    def _next(self) -> str:
        self._at += 1
        return self._pattern[self._at - 1]

    def _take(self, text: str) -> bool:
        is_there = self._pattern.startswith(text, self._at)
        self._at += len(text) if is_there else 0
        return is_there

    def _wrong(self, problem: str, position: int | None = None) -> NoReturn:
        at = self._at if position is None else position
        raise PatternSyntaxError(shown(self._pattern), at, problem)

    def _refuse(self, what: str, hint: str, position: int) -> NoReturn:
        raise UnsupportedPatternError(shown(self._pattern), position, what, hint)


def _one(code_point: int) -> CodePoints:
    return ((code_point, code_point),)


def read_pattern(pattern: str) -> PatternNode:
    """Read a regular expression.

    Raises:
        PatternSyntaxError: If it is none.
        UnsupportedPatternError: If it has what an automaton cannot decide, or is too long.
    """
    if len(pattern) > limits.PATTERN_SIZE_CHARS_MAX:
        hint = f"the limit is {limits.PATTERN_SIZE_CHARS_MAX}"
        what = f"{len(pattern)} characters"
        raise UnsupportedPatternError(shown(pattern), 0, what, hint)
    return _Reader(pattern).whole()
