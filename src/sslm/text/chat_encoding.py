"""Conversations to token ids, with control tokens that only the template can write.

A rendered prompt is one string, in which a message that spells a control token looks like the
template's own. So the template is rendered a second time with messages in disguise: every
character that control tokens are spelled with is replaced by a stand-in of its own. What is a
control token in that second text is the template's. Undoing the disguise has to give the first
text again, so that the prompt is exactly what the template makes of the real messages.
"""

import datetime
import unicodedata
from collections.abc import Callable, Collection, Iterable, Sequence

from sslm import limits
from sslm.errors.text import TemplateHidesContentError, TemplateWorkError
from sslm.text.message import Message
from sslm.text.special_tokens import SpecialTokenFinder
from sslm.text.templates.chat_template import ChatTemplate
from sslm.text.tokenizer import Tokenizer

_STAND_INS = range(0xF0000, 0xFFFFE)
"""Code points of a private use plane: no letters, digits or spaces, and without upper case."""

_SPACE_STAND_INS = "".join(filter(str.isspace, map(chr, range(1 << 16))))
"""All white space, for white space in the spelling of a control token: templates trim it."""

_BORDER = "\ud800"
"""Between spellings that are searched as one text: no character of any."""


def encode_chat(
    tokenizer: Tokenizer,
    template: ChatTemplate,
    messages: Sequence[Message],
    *,
    add_generation_prompt: bool = True,
    date: datetime.date | None = None,
    require_room: Callable[[str], None] = lambda text: None,
    require_time: Callable[[], None] = lambda: None,
) -> list[int]:
    """Return the ids of the prompt for *messages*; control tokens in messages are plain text.

    Plain text is tokenized across the borders of messages, so that a conversation without control
    tokens in it has exactly the ids of its rendered text. The begin token goes in front if the
    vocabulary asks for it and the template has not written it.

    Args:
        tokenizer: Of the model that the template belongs to.
        template: The model's.
        messages: At least one.
        add_generation_prompt: Whether the prompt ends where the assistant's answer begins.
        date: Today, for templates that mention it.
        require_room: Called with the rendered prompt, and raises if it cannot fit.
        require_time: Called every now and then, and raises one of our errors to stop.

    Raises:
        ContextLengthError: What *require_room* raises.
        TemplateHidesContentError: If the template changes message texts beyond trimming them, or
            looks for parts of control tokens in them, so that they cannot be told from its own.
        TemplateWorkError: If rendering it, or comparing its literals with the control tokens,
            takes too much work.
        SslmError: What :meth:`ChatTemplate.render` and :meth:`Tokenizer.encode` raise.
    """
    vocabulary = tokenizer.vocabulary
    bos_id, eos_id = vocabulary.bos_token_id, vocabulary.eos_token_id
    bos_token = "" if bos_id is None else tokenizer.spelling(bos_id)
    eos_token = "" if eos_id is None else tokenizer.spelling(eos_id)

    def render(conversation: Sequence[Message]) -> str:
        return template.render(
            conversation,
            add_generation_prompt=add_generation_prompt,
            bos_token=bos_token,
            eos_token=eos_token,
            date=date,
            require_time=require_time,
        )

    real = render(messages)
    require_room(real)
    contents = [message.content for message in messages]
    with tokenizer.admitted("the rendered prompt", real):
        disguise = _Disguise(tokenizer.controls, template.literals, contents, template.source)
        disguised = render([Message(one.role, disguise.put_on(one.content)) for one in messages])
        if disguise.take_off(disguised) != real:
            raise TemplateHidesContentError
        parts = tokenizer.split_controls(disguised, require_time)
        ids = tokenizer.encode_parts(
            (part if isinstance(part, int) else disguise.take_off(part) for part in parts),
            require_time,
        )
    if vocabulary.add_bos and bos_id is not None and ids[:1] != [bos_id]:
        return [bos_id, *ids]
    return ids


class _Disguise:
    """Replaces the characters of control tokens, one to one, by stand-ins found nowhere else.

    So it does with those that could become such a character: a template may change their case.

    Literals that the template may look for in a message, such as ``</think>``, keep their
    characters if they can be no part of a control token, however it continues.
    """

    def __init__(
        self,
        controls: SpecialTokenFinder,
        literals: frozenset[str],
        contents: Sequence[str],
        source: str,
    ) -> None:
        spelled = set().union(*controls.spellings)
        said = set().union(*contents)
        taken = said.union(source, *literals, spelled)
        hidden = sorted(spelled | {one for one in said if not spelled.isdisjoint(_images(one))})
        # White space stays white space: templates trim it.
        spaces = [one for one in hidden if one.isspace()]
        others = [one for one in hidden if not one.isspace()]
        self._stand_ins = _one_to_one(spaces, _SPACE_STAND_INS, taken) | _one_to_one(
            others, map(chr, _STAND_INS), taken
        )
        self._originals = {ord(new): chr(old) for old, new in self._stand_ins.items()}
        self._kept = _unshared(literals, controls)
        self._finder = SpecialTokenFinder({one: index for index, one in enumerate(self._kept)})

    def put_on(self, content: str) -> str:
        """Return *content* in disguise, of the same length."""
        return "".join(
            self._kept[piece] if isinstance(piece, int) else piece.translate(self._stand_ins)
            for piece in self._finder.split(content)
        )

    def take_off(self, text: str) -> str:
        """Return *text* with the real characters back."""
        return text.translate(self._originals)


def _one_to_one(
    characters: Sequence[str], stand_ins: Iterable[str], taken: Collection[str]
) -> dict[int, str]:
    """Return a stand-in for each character, none of which is *taken*."""
    free = (one for one in stand_ins if one not in taken)
    found = dict(zip(map(ord, characters), free, strict=False))
    if len(found) < len(characters):
        raise TemplateHidesContentError
    return found


def _images(character: str) -> set[str]:
    """Return all that a template can make of a character of a message by changes of case.

    Digits of other scripts count too: a template may take a message for a number.
    """
    found: set[str] = set()
    left = [character]
    while left:
        one = left.pop()
        if one in found:
            continue
        found.add(one)
        # A sigma has another lower case at the end of a word.
        left += one.upper() + one.title() + one.lower() + f"a{one}".lower()[1:]
        digit = unicodedata.digit(one, None)
        if digit is not None:
            left.append(str(digit))
    return found


def _unshared(literals: Iterable[str], controls: SpecialTokenFinder) -> list[str]:
    """Return the literals that no text can have at a place overlapping that of a spelling."""
    lookup = _SpellingLookup(controls)
    return [one for one in sorted(literals) if one and not lookup.can_overlap(one)]


class _SpellingLookup:
    """Tells what can overlap a spelling: what is inside one, holds one, or shares an end with one.

    All spellings are searched at once, as one text.
    """

    def __init__(self, finder: SpecialTokenFinder) -> None:
        spellings = finder.spellings
        self._finder = finder
        self._joined = _BORDER + _BORDER.join(spellings) + _BORDER
        self._firsts = frozenset(one[0] for one in spellings)
        self._lasts = frozenset(one[-1] for one in spellings)
        self._longest = max(map(len, spellings), default=0)
        self._searches_left = limits.CHAT_LITERAL_SEARCH_BYTES_MAX // len(self._joined)

    def can_overlap(self, literal: str) -> bool:
        """Return whether some text has *literal* and a spelling at overlapping places.

        Raises:
            TemplateWorkError: If looking for that takes too many searches, all literals together.
        """
        if self._finder.finds_any(literal) or self._is_in_one(literal):
            return True
        for size in range(1, min(len(literal), self._longest) + 1):
            head, tail = literal[:size], literal[-size:]
            if head[-1] in self._lasts and self._is_in_one(head + _BORDER):
                return True
            if tail[0] in self._firsts and self._is_in_one(_BORDER + tail):
                return True
        return False

    def _is_in_one(self, part: str) -> bool:
        self._searches_left -= 1
        if self._searches_left < 0:
            what = "too many comparisons of its literals with control tokens"
            raise TemplateWorkError(what, limits.CHAT_LITERAL_SEARCH_BYTES_MAX)
        return part in self._joined
