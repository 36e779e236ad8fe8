"""Requests made of what callers give, without anything being computed."""

from dataclasses import dataclass

from sslm.answer_schemas.model_schemas import ModelSchemas
from sslm.answering.prompts import Prompt, prompt_ids
from sslm.answering.request import AnswerOptions, Request, Wanted, wanted
from sslm.program.program import Program
from sslm.runtime.sequences.token_ids import checked_token_ids
from sslm.text.tokenizer import Tokenizer


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestMaker:
    """What a model knows about requests.

    Args:
        tokenizer: Of the model.
        stop_token_ids: Ids that end an answer.
        context_tokens: Most tokens of prompt and answer.
        program: Of the model; says which ids have a token.
        schemas: Where schemas come from.
    """

    tokenizer: Tokenizer
    stop_token_ids: frozenset[int]
    context_tokens: int
    program: Program
    schemas: ModelSchemas

    def ids(self, prompt: Prompt, *, is_continued: bool = False) -> tuple[int, ...]:
        """Return the checked ids of a prompt, which *is_continued* behind others or comes first.

        Raises:
            SslmError: What :func:`sslm.answering.prompts.prompt_ids` raises.
            TokenIdTypeError, TokenIdRangeError: If one is none of the vocabulary.
        """
        ids = prompt_ids(
            self.tokenizer,
            prompt,
            self.context_tokens,
            self.program.max_position_embeddings,
            is_continued=is_continued,
        )
        return tuple(checked_token_ids(ids, self.program))

    def wanted(self, options: AnswerOptions) -> Wanted:
        """Return what options ask for; see :func:`sslm.answering.request.wanted`."""
        return wanted(
            options,
            end_token_ids=self.stop_token_ids,
            vocab_size=self.program.token_count,
            schemas=self.schemas,
        )

    def request(self, prompt: Prompt, wanted: Wanted, *, is_continued: bool) -> Request:
        """Return a request to continue a prompt; raises what :meth:`ids` and Request raise."""
        return wanted.of(self.ids(prompt, is_continued=is_continued))
