"""Which tokens of a vocabulary stand for structure, and which of them end an answer.

Files often call chat markers user-defined, as if they were text. Nothing of that is stored: it is
worked out whenever a tokenizer is built, from the vocabulary and the source of the chat template.
"""

from dataclasses import dataclass
from itertools import chain
from typing import Final

from sslm.text.vocabulary import TokenType, Vocabulary
from sslm.text.written_markers import written_markers

TURN_ENDS: Final = frozenset(
    {
        *("</s>", "<eos>", "<|eos|>", "[EOS]", "<seed:eos>"),
        *("<|endoftext|>", "<|end_of_text|>", "<｜end▁of▁sentence｜>", "<|end_of_sentence|>"),
        *("<|im_end|>", "<|end|>", "<|return|>", "<|call|>", "<|calls|>", "<|flush|>"),
        *("<|eot_id|>", "<|eom_id|>", "<|eot|>", "<|eom|>", "<EOT>", "_<EOT>", "[EOT]"),
        *("<end_of_turn>", "<turn|>", "<|end_of_turn|>", "<|turn_end|>", "<|endofturn|>"),
        *("[|endofturn|]", "<|END_OF_TURN_TOKEN|>", "<end_of_utterance>"),
        *("<|assistant_end|>", "<|endofresponse|>", "<|message_sep|>", "<|role_end|>"),
        *("<|separator|>", "<eoa>", "[e~["),
    }
)
"""Spellings that end a turn or a sequence, and so an answer."""

TURN_BEGINNINGS: Final = frozenset(
    {
        *("<s>", "<bos>", "<|bos|>", "[BOS]", "<seed:bos>", "[gMASK]", "<sop>", "]~!b["),
        *("<|begin_of_text|>", "<|startoftext|>", "<｜begin▁of▁sentence｜>"),
        "<|begin_of_sentence|>",
        *("<|im_start|>", "<|im_sep|>", "<|im_middle|>"),
        *("<|im_system|>", "<|im_user|>", "<|im_assistant|>"),
        *("<|start_header_id|>", "<|end_header_id|>", "<|header_start|>", "<|header_end|>"),
        *("<start_of_turn>", "<|turn>", "<|start_of_turn|>", "<|START_OF_TURN_TOKEN|>"),
        *("<|SYSTEM_TOKEN|>", "<|USER_TOKEN|>", "<|CHATBOT_TOKEN|>"),
        *("<|start_of_role|>", "<|end_of_role|>", "<|role_start|>", "<|role_sep|>", "]~b]"),
        *("<|start|>", "<|begin|>", "<|message|>", "<|channel|>", "<|content|>"),
        *("[INST]", "[/INST]", "<<SYS>>", "<</SYS>>", "[SYSTEM_PROMPT]", "[/SYSTEM_PROMPT]"),
        *("<|system|>", "<|user|>", "<|assistant|>", "<|developer|>", "<|human|>", "<|model|>"),
        *("<|bot|>", "<|observation|>", "<|prompter|>", "<|prompt|>", "<|answer|>"),
        *("<|System|>", "<|User|>", "<|Assistant|>", "<|Human|>", "<|Bot|>", "<eoh>"),
        *("<｜System｜>", "<｜User｜>", "<｜Assistant｜>"),
        *("<｜hy_User｜>", "<｜hy_Assistant｜>", "<｜hy_begin▁of▁sentence｜>"),
        *("[|system|]", "[|user|]", "[|assistant|]"),
        *("<|system_start|>", "<|user_start|>", "<|assistant_start|>", "<|developer_start|>"),
        *("<|system_end|>", "<|user_end|>", "<|developer_end|>"),
        *("<|begin_system|>", "<|begin_user|>", "<|begin_assistant|>", "<|begin_content|>"),
        *("<|endofsystem|>", "<|userprompt|>", "<|endofuserprompt|>", "<|response|>"),
    }
)
"""Spellings that begin a turn or a sequence, or frame a role; they end nothing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Structure:
    """The tokens of one vocabulary that stand for structure.

    Attributes:
        control_ids: Never ids of text that is spelled alike, ascending.
        end_token_ids: Those that end an answer: what the file says, and markers of ends that it
            calls user-defined.
    """

    control_ids: tuple[int, ...]
    end_token_ids: frozenset[int]


def structure_of(vocabulary: Vocabulary, chat_template: str | None) -> Structure:
    """Return which tokens stand for structure.

    These are the control tokens, and what a file calls user-defined although it has the spelling of
    a chat marker, although the template frames turns with it, or although a sequence begins or ends
    with it. The last is not said of white space, nor of what merges make of text.

    Args:
        vocabulary: Of the model.
        chat_template: Its source, which is read but neither compiled nor rendered; or None.
    """
    tokens = vocabulary.tokens
    controls = set(vocabulary.ids_of_type(TokenType.CONTROL))
    ends = set(vocabulary.end_token_ids)
    called_text = {tokens[one]: one for one in vocabulary.ids_of_type(TokenType.USER_DEFINED)}
    called_text.pop("", None)
    if called_text:
        controls |= _framing_ids(vocabulary, called_text)
        known = called_text.keys() & (TURN_ENDS | TURN_BEGINNINGS)
        written = written_markers(chat_template or "", called_text.keys() - known)
        controls.update(called_text[one] for one in (*known, *written))
        ends.update(called_text[one] for one in known & TURN_ENDS)
        ends.update(called_text[one] for one, ends_turns in written.items() if ends_turns)
    return Structure(control_ids=tuple(sorted(controls)), end_token_ids=frozenset(ends))


def _framing_ids(vocabulary: Vocabulary, called_text: dict[str, int]) -> set[int]:
    """Return the ids of user-defined tokens that the file says begin or end a sequence."""
    tokens, merges = vocabulary.tokens, vocabulary.merges
    framing = {vocabulary.bos_token_id, *vocabulary.end_token_ids}
    found = {one for spelling, one in called_text.items() if one in framing}
    found = {one for one in found if not tokens[one].isspace()}
    if found:
        merged = {tokens[left] + tokens[right] for left, right in merges}
        found = {one for one in found if tokens[one] not in merged}
        found -= set(chain.from_iterable(merges))
    return found
