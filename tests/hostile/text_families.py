"""Small models that chat in the published ways, with what their prompts have to be."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

from sslm.text.message import Message
from sslm.text.tokenizer import Tokenizer
from sslm.text.vocabulary import PreTokenizer, TokenType
from tests.unit.text.chat_templates import CHATML, GEMMA, LLAMA_3, MISTRAL, QWEN
from tests.unit.text.vocabularies import (
    byte_level_fields,
    byte_level_tokenizer,
    sentencepiece_fields,
    sentencepiece_tokenizer,
)


class Control(str):
    """The spelling of a control token that the template writes."""


Prompt = list[str]
"""What a template writes and what messages say, in order; control tokens as ``Control``."""

_SMOLLM_SYSTEM = "You are a helpful AI assistant named SmolLM, trained by Hugging Face"


@dataclass(frozen=True)
class Family:
    """A tokenizer with a template.

    Args:
        name: Of the family.
        tokenizer: With the family's control tokens.
        source: The template.
        start, end, begin: Control tokens, for attacks to spell.
        prompt: What the prompt of a conversation has to be.
    """

    name: str
    tokenizer: Tokenizer
    source: str
    start: str
    end: str
    begin: str
    prompt: Callable[[Sequence[Message]], Prompt]

    def attack(self, text: str) -> str:
        """Return an attack of the corpus with this family's markers in it."""
        markers = {"START": self.start, "END": self.end, "BOS": self.begin}
        for name, spelling in markers.items():
            text = text.replace(name, spelling)
        return text

    def expected_ids(self, messages: Sequence[Message]) -> list[int]:
        """Return the prompt's ids: control tokens of the template, all else as plain text."""
        parts: list[str | int] = []
        for piece in self.prompt(messages):
            if isinstance(piece, Control):
                parts.append(self.tokenizer.control_ids[piece])
            elif parts and isinstance(parts[-1], str):
                parts[-1] += piece
            else:
                parts.append(piece)
        return self.tokenizer.encode_parts(part for part in parts if part != "")


def _chatml(system: str, messages: Sequence[Message]) -> Prompt:
    start, end = Control("<|im_start|>"), Control("<|im_end|>")
    prompt = [start, f"system\n{system}", end, "\n"]
    for one in messages:
        prompt += [start, f"{one.role}\n", one.content, end, "\n"]
    return [*prompt, start, "assistant\n"]


def _qwen(messages: Sequence[Message]) -> Prompt:
    shown = [
        Message(one.role, one.content.split("</think>")[-1].lstrip("\n"))
        if one.role == "assistant" and "</think>" in one.content
        else one
        for one in messages
    ]
    return _chatml("You are Qwen.", shown)


def _llama_3(messages: Sequence[Message]) -> Prompt:
    def head(role: str) -> Prompt:
        return [Control("<|start_header_id|>"), role, Control("<|end_header_id|>"), "\n\n"]

    end = Control("<|eot_id|>")
    prompt = [Control("<|begin_of_text|>"), *head("system"), "Today Date: 26 Jul 2024\n\n", end]
    for one in messages:
        prompt += [*head(one.role), one.content.strip(), end]
    return [*prompt, *head("assistant")]


def _gemma(messages: Sequence[Message]) -> Prompt:
    start = Control("<start_of_turn>")
    prompt: Prompt = [Control("<bos>")]
    for one in messages:
        role = "model" if one.role == "assistant" else one.role
        prompt += [start, f"{role}\n", one.content.strip(), Control("<end_of_turn>"), "\n"]
    return [*prompt, start, "model\n"]


def _mistral(messages: Sequence[Message]) -> Prompt:
    prompt: Prompt = [Control("<s>")]
    for one in messages:
        is_user = one.role == "user"
        said = [Control("[INST]"), " ", one.content, " ", Control("[/INST]")]
        prompt += said if is_user else [" ", one.content, Control("</s>")]
    return prompt


def _byte_level(rule: PreTokenizer, *controls: str) -> Tokenizer:
    """The small vocabulary with other control tokens, the first of which begins a text."""
    fields = byte_level_fields()
    first = fields["tokens"].index("<|im_start|>")
    tokens = (*fields["tokens"][:first], *controls, "<think>")
    kinds = fields["token_types"][:first] + bytes(
        [*[TokenType.CONTROL] * len(controls), TokenType.USER_DEFINED]
    )
    return byte_level_tokenizer(
        pre_tokenizer=rule,
        tokens=tokens,
        token_types=kinds,
        ignore_merges=rule is PreTokenizer.LLAMA_BPE,
        bos_token_id=first,
        eos_token_id=first + 1,
        end_token_ids=(first + 1,),
    )


def _sentencepiece(*controls: str) -> Tokenizer:
    """The small vocabulary with more control tokens behind ``<s>`` and ``</s>``."""
    fields = sentencepiece_fields()
    return sentencepiece_tokenizer(
        tokens=(*fields["tokens"], *controls),
        token_types=fields["token_types"] + bytes([TokenType.CONTROL] * len(controls)),
        scores=(*fields["scores"], *[0.0] * len(controls)),
        bos_token_id=fields["tokens"].index("<s>") if "<bos>" not in controls else 266,
        add_bos=True,
    )


def families() -> list[Family]:
    """Return one of each; building them takes a tenth of a second."""
    chatml = byte_level_tokenizer()
    llama = _byte_level(
        PreTokenizer.LLAMA_BPE,
        *("<|begin_of_text|>", "<|eot_id|>", "<|start_header_id|>", "<|end_header_id|>"),
    )
    gemma = _sentencepiece("<bos>", "<start_of_turn>", "<end_of_turn>")
    mistral = _sentencepiece("[INST]", "[/INST]")
    chatml_marks = ("<|im_start|>", "<|im_end|>", "<s>")
    llama_marks = ("<|start_header_id|>", "<|eot_id|>", "<|begin_of_text|>")
    gemma_marks = ("<start_of_turn>", "<end_of_turn>", "<bos>")
    return [
        Family("chatml", chatml, CHATML, *chatml_marks, partial(_chatml, _SMOLLM_SYSTEM)),
        Family("qwen", chatml, QWEN, *chatml_marks, _qwen),
        Family("llama-3", llama, LLAMA_3, *llama_marks, _llama_3),
        Family("gemma", gemma, GEMMA, *gemma_marks, _gemma),
        Family("mistral", mistral, MISTRAL, "[INST]", "</s>", "<s>", _mistral),
    ]
