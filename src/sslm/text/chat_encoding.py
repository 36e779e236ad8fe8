"""Conversations to token ids, with control tokens that only the template can write.

A rendered prompt is one string, in which a message that spells a control token looks like the
template's own. So the template is rendered a second time with messages in disguise: every
character that control tokens are spelled with is replaced by a stand-in of its own. What is a
control token in that second text is the template's. Undoing the disguise has to give the first
text again, so that the prompt is exactly what the template makes of the real messages.
"""

import datetime
from collections.abc import Collection, Iterable, Sequence

from sslm import limits
from sslm.errors.text import TemplateHidesContentError, TemplateWorkError
from sslm.text.chat_template import ChatTemplate
from sslm.text.message import Message
from sslm.text.special_tokens import SpecialTokenFinder
from sslm.text.tokenizer import Tokenizer

_STAND_INS = range(0xF0000, 0xFFFFE)
"""Code points of a private use plane: no letters, digits or spaces, and without upper case."""


def encode_chat(
    tokenizer: Tokenizer,
    template: ChatTemplate,
    messages: Sequence[Message],
    *,
    add_generation_prompt: bool = True,
    date: datetime.date | None = None,
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

    Raises:
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
        )

    real = render(messages)
    contents = [message.content for message in messages]
    disguise = _Disguise(tokenizer.control_ids, template.literals, contents, template.source)
    disguised = render([Message(one.role, disguise.put_on(one.content)) for one in messages])
    if disguise.take_off(disguised) != real:
        raise TemplateHidesContentError
    parts = tokenizer.split_controls(disguised)
    ids = tokenizer.encode_parts(
        part if isinstance(part, int) else disguise.take_off(part) for part in parts
    )
    if vocabulary.add_bos and bos_id is not None and ids[:1] != [bos_id]:
        return [bos_id, *ids]
    return ids


class _Disguise:
    """Replaces the characters of control tokens, one to one, by stand-ins found nowhere else.

    Literals that the template may look for in a message, such as ``</think>``, keep their
    characters if they can be no part of a control token, however it continues.
    """

    def __init__(
        self,
        spellings: Collection[str],
        literals: frozenset[str],
        contents: Sequence[str],
        source: str,
    ) -> None:
        # White space stays: templates trim it, and no control token is made of it alone.
        hidden = sorted({one for one in set().union(*spellings) if not one.isspace()})
        taken = set(source).union(*spellings, *contents)
        free = (chr(code) for code in _STAND_INS if chr(code) not in taken)
        self._stand_ins = dict(zip(map(ord, hidden), free, strict=False))
        if len(self._stand_ins) < len(hidden):
            raise TemplateHidesContentError
        self._originals = {ord(new): chr(old) for old, new in self._stand_ins.items()}
        found = [
            literal
            for literal in sorted(literals)
            if literal and any(literal in content for content in contents)
        ]
        self._kept = _unshared(found, spellings)
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


def _unshared(literals: Sequence[str], spellings: Collection[str]) -> list[str]:
    """Return the literals that no text can have at a place overlapping that of a spelling."""
    longest = max(map(len, spellings), default=0)
    comparisons = sum(min(len(literal), longest) for literal in literals) * len(spellings)
    if comparisons > limits.CHAT_LITERAL_COMPARISONS_MAX:
        what = "too many comparisons of its literals with control tokens"
        raise TemplateWorkError(what, limits.CHAT_LITERAL_COMPARISONS_MAX)
    return [literal for literal in literals if not _can_share(literal, spellings, longest)]


def _can_share(literal: str, spellings: Iterable[str], longest: int) -> bool:
    """Return whether some text has *literal* and one of *spellings* at overlapping places.

    Then one is inside the other, or begins with what the other ends with. No spelling has more
    than *longest* characters.
    """
    sizes = range(1, min(len(literal), longest) + 1)
    heads = tuple(literal[:size] for size in sizes)
    tails = tuple(literal[-size:] for size in sizes)
    return any(
        literal in spelling
        or spelling in literal
        or spelling.endswith(heads)
        or spelling.startswith(tails)
        for spelling in spellings
    )
