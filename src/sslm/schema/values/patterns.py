"""Languages of the texts in which a regular expression is found.

An anchor takes no characters but says where it stands: nothing of the text may come before it, or
after it. So what a part of a pattern finds is kept in up to four languages, by whether it has to
begin where the text begins and to end where the text ends; joining parts joins these conditions.
"""

from dataclasses import dataclass
from typing import Final

from sslm.errors.schema import UnsupportedPatternError
from sslm.schema.documents.document import shown
from sslm.schema.regular.language import (
    EMPTY,
    Both,
    Language,
    Repeat,
    Sequence,
    Shortest,
    Whole,
    Without,
    either,
)
from sslm.schema.values.pattern_syntax import (
    Ahead,
    Characters,
    Choice,
    Joined,
    PatternNode,
    TextEnd,
    TextStart,
    Times,
    read_pattern,
)
from sslm.schema.values.strings import any_character, any_text, character_of

_COPIES_MAX: Final = 32
"""Copies that are made of a repeated part which has anchors."""

Ends = tuple[bool, bool]
"""Whether something has to begin where the text begins, and to end where the text ends."""

_FREE: Final = (False, False)


@dataclass(frozen=True, slots=True)
class _Found:
    """Some of what a part finds: a language, and whether the empty text is in it."""

    language: Language
    has_empty: bool


_Finds = dict[Ends, _Found]
_EMPTY_FOUND: Final = _Found(EMPTY, True)


def pattern_language(pattern: str) -> Language:
    """Return the texts in some part of which a pattern is found, as contents of JSON strings.

    Args:
        pattern: As in ECMA-262 with the flag ``u``.

    Raises:
        PatternSyntaxError: If it is no regular expression.
        UnsupportedPatternError: If it has what an automaton cannot decide, or is too long.
    """
    node = read_pattern(pattern)
    alternatives = node.parts if isinstance(node, Choice) else (node,)
    languages: list[Language] = []
    plain: list[PatternNode] = []
    for alternative in alternatives:
        rest, conditions = _split(alternative)
        if conditions:
            languages.append(_found_on_condition(rest, conditions, pattern))
        else:
            plain.append(alternative)
    # Together, so that alternatives are looked for at one time.
    finds = _finds(Choice(tuple(plain)), pattern)
    languages += [_spread(ends, found.language) for ends, found in finds.items()]
    return Whole(either(languages))


def _split(node: PatternNode) -> tuple[PatternNode, list[Ahead]]:
    """Take the looks ahead from the beginning of an alternative."""
    parts = list(node.parts) if isinstance(node, Joined) else [node]
    start = 0
    while start < len(parts) and isinstance(parts[start], TextStart):
        start += 1
    conditions = []
    while start < len(parts) and isinstance(part := parts[start], Ahead):
        conditions.append(part)
        del parts[start]
    return Joined(tuple(parts)), conditions


def _found_on_condition(rest: PatternNode, conditions: list[Ahead], pattern: str) -> Language:
    """Return the texts in which one alternative is found where all its looks ahead hold."""
    later, first = _remainders(_finds(rest, pattern))
    for condition in conditions:
        meant_later, meant_first = _remainders(_finds(condition.part, pattern))
        if condition.is_negative:
            later, first = Without(later, meant_later), Without(first, meant_first)
        else:
            later, first = Both((later, meant_later)), Both((first, meant_first))
    return either((first, Sequence((any_character(), any_text(), later))))


def _spread(ends: Ends, language: Language) -> Language:
    """Return the texts that have a string of *language* where *ends* allow it."""
    at_start, at_end = ends
    if at_end:
        return language if at_start else Sequence((any_text(), language))
    # What follows is free, so the first place where the pattern is found decides.
    language = Shortest(language)
    if not at_start:
        language = Shortest(Sequence((any_text(), language)))
    return Sequence((language, any_text()))


def _remainders(finds: _Finds) -> tuple[Language, Language]:
    """Return the rests of texts that begin with what is found: inside a text, and whole texts."""
    rests = {
        ends: found.language if ends[1] else Sequence((Shortest(found.language), any_text()))
        for ends, found in finds.items()
    }
    later = either(rest for ends, rest in rests.items() if not ends[0])
    return later, either(rests.values())


def _finds(node: PatternNode, pattern: str) -> _Finds:
    """Return what a part of a pattern finds."""
    match node:
        case Characters(allowed):
            return {_FREE: _Found(character_of(allowed), False)} if allowed else {}
        case TextStart():
            return {(True, False): _EMPTY_FOUND}
        case TextEnd():
            return {(False, True): _EMPTY_FOUND}
        case Joined(parts):
            found: _Finds = {_FREE: _EMPTY_FOUND}
            for part in parts:
                found = _joined(found, _finds(part, pattern))
            return found
        case Choice(parts):
            return _united([_finds(part, pattern) for part in parts])
        case Times():
            return _repeated(node, pattern)
        case Ahead():
            hint = "it may only stand at the beginning of a pattern or of its alternatives"
            raise UnsupportedPatternError(shown(pattern), node.position, "a look ahead", hint)


def _united(choices: list[_Finds]) -> _Finds:
    """Return what any of some parts finds."""
    gathered: dict[Ends, list[_Found]] = {}
    for choice in choices:
        for ends, found in choice.items():
            gathered.setdefault(ends, []).append(found)
    return {
        ends: _Found(either(f.language for f in all_found), any(f.has_empty for f in all_found))
        for ends, all_found in gathered.items()
    }


def _joined(left: _Finds, right: _Finds) -> _Finds:
    """Return what is found by two parts, one behind the other."""
    choices: list[_Finds] = []
    for (starts, ends), one in left.items():
        for (starts_late, ends_late), other in right.items():
            # Nothing can have been found before the beginning of the text, or after its end.
            if (starts_late and not one.has_empty) or (ends and not other.has_empty):
                continue
            before = _EMPTY_FOUND if starts_late else one
            after = _EMPTY_FOUND if ends else other
            language = Sequence((before.language, after.language))
            found = _Found(language, before.has_empty and after.has_empty)
            choices.append({(starts or starts_late, ends or ends_late): found})
    return _united(choices)


def _repeated(node: Times, pattern: str) -> _Finds:
    """Return what a repeated part finds."""
    once = _finds(node.part, pattern)
    least, most = node.least, node.most
    if set(once) <= {_FREE}:
        if not once:
            return {} if least else {_FREE: _EMPTY_FOUND}
        part = once[_FREE]
        has_empty = part.has_empty or not least
        return {_FREE: _Found(Repeat(part.language, least, most), has_empty)}
    if max(least, most or 0) > _COPIES_MAX:
        hint = f"put it outside, or repeat at most {_COPIES_MAX} times"
        raise UnsupportedPatternError(
            shown(pattern), node.position, "an anchor in a repetition", hint
        )
    found: _Finds = {_FREE: _EMPTY_FOUND}
    if most is None:
        # Anchored repetitions come first or last, or else they find nothing: then they only
        # narrow where the others stand, who do as well without them.
        free = once.get(_FREE)
        inside = {_FREE: _Found(Repeat(free.language, 0, None), True)} if free else found
        several = _joined(_joined(once, inside), once)
        found = _united([found, once, several])
    else:
        for _ in range(most - least):
            found = _united([{_FREE: _EMPTY_FOUND}, _joined(once, found)])
    for _ in range(least):
        found = _joined(once, found)
    return found
