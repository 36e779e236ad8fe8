"""A model whose answers follow schemas: asked as anybody does, and token by token."""

import json
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import Any

from tests.schema_oracle import Oracle

from sslm.answer_schemas.schema import Schema
from sslm.answer_schemas.vocabulary import schema_vocabulary
from sslm.closing import Closing
from sslm.engine.model import Model
from sslm.opening.runner import Runner, open_backend
from sslm.program.choice import Choice
from sslm.runtime.sequences.options import SequenceOptions
from sslm.runtime.sequences.sequence import Sequence as RunningSequence
from sslm.sampling.options import seeded_choice
from sslm.schema.tokens.bound_schema import START, BoundSchema
from sslm.text.chat_encoding import encode_chat
from sslm.text.message import Message


@dataclass(frozen=True, kw_only=True)
class Asked:
    """How one answer is to be made.

    Args:
        options: How tokens are chosen, as ``generate`` takes it.
        max_tokens: Most tokens of it, into which it is fitted.
    """

    options: dict[str, Any]
    max_tokens: int


@dataclass(frozen=True, kw_only=True)
class Answer:
    """What came of it.

    Args:
        ids: Of its tokens, with the one that ended it if one did.
        digest: Hex.
    """

    ids: tuple[int, ...]
    digest: str


@dataclass(frozen=True)
class AnswerForm:
    """A schema, compiled and bound to the vocabulary.

    Args:
        schema: As callers have it.
        bound: As sequences follow it.
    """

    schema: Schema
    bound: BoundSchema

    def allowed_count(self, state: int) -> int:
        """Return how many tokens a state allows that leaves a choice, ends not counted."""
        tables = self.schema.tables
        return int.from_bytes(tables.masks[tables.mask_indices[state]]).bit_count()

    def forced_count(self, ids: Sequence[int]) -> int:
        """Return before how many of an answer's tokens the schema left no choice."""
        count, state = 0, START
        for token_id in ids:
            if token_id in self.bound.end_ids:
                break
            count += self.bound.only_token(state) is not None
            after = self.bound.step(state, token_id)
            assert after is not None, "an answer follows its schema"
            state = after
        return count


class SchemaModel(Closing):
    """A model file that is opened for answers that follow schemas; a context manager.

    Args:
        path: Of an artifact.
        backend: ``native`` or ``reference``.

    Attributes:
        model: As callers open it.
        runner: Of sequences that are advanced token by token.
    """

    def __init__(self, path: Path, *, backend: str) -> None:
        self.model = Model(path, backend=backend)
        self.tokenizer = self.model.tokenizer
        opened = open_backend(backend, tier="auto", threads=1)
        self.runner = Runner(self.model.artifact, opened, context_tokens=self.model.context_tokens)
        self.end_ids = tuple(sorted(self.model.artifact.vocabulary.end_token_ids))

    def close(self) -> None:
        """Close the model and what runs sequences of it."""
        self.runner.close()
        self.model.close()

    def prompt_ids(self, text: str) -> list[int]:
        """Return a user's message as a prompt, in the model's chat template if it has one."""
        if self.model.artifact.chat_template is None:
            return self.tokenizer.encode(text)
        said, template = [Message("user", text)], self.model.chat_template
        return encode_chat(self.tokenizer, template, said, add_generation_prompt=True)

    def form(self, document: Any, **options: Any) -> AnswerForm:
        """Compile a schema for this model, with options of ``Schema.compile``."""
        schema = Schema.compile(document, tokenizer=self.tokenizer, **options)
        trie, digest = schema_vocabulary(self.tokenizer).trie, schema.prepared.digest
        return AnswerForm(
            schema, BoundSchema(schema.tables, trie, digest=digest, end_ids=self.end_ids)
        )

    def choice(self, asked: Asked) -> Choice:
        """Return how tokens are chosen."""
        options: Any = asked.options
        return seeded_choice(options, self.tokenizer.vocab_size).choice

    @contextmanager
    def sequence(
        self, prompt: Sequence[int], bound: BoundSchema | None, asked: Asked
    ) -> Iterator[RunningSequence]:
        """Make a sequence that is about to answer a prompt, which is pending."""
        context_tokens = len(prompt) + asked.max_tokens + 1
        options = SequenceOptions(context_tokens=context_tokens, chooses=True)
        with self.runner.sequence(options) as sequence:
            if bound is not None:
                sequence.bind(bound, answer_tokens=asked.max_tokens)
            sequence.choose(self.choice(asked), len(prompt))
            sequence.push(prompt)
            yield sequence

    def token_by_token(
        self, prompt: Sequence[int], form: AnswerForm, asked: Sequence[Asked]
    ) -> list[Answer]:
        """Answer a prompt in several ways together; every token is computed and chosen."""
        with ExitStack() as stack:
            running = [
                _Running(stack.enter_context(self.sequence(prompt, form.bound, one)))
                for one in asked
            ]
            while busy := [one.sequence for one in running if one.sequence.has_work]:
                self.runner.advance(busy)
                for one in running:
                    one.go_on(self.end_ids)
            return [one.answer() for one in running]


class _Running:
    def __init__(self, sequence: RunningSequence) -> None:
        self.sequence = sequence
        self._ids: list[int] = []
        self._is_ended = False

    def go_on(self, end_ids: Sequence[int]) -> None:
        """Take the token that was chosen, unless there is still something to compute."""
        if self._is_ended or self.sequence.has_work:
            return
        chosen = self.sequence.chosen()
        self._ids.append(chosen)
        if chosen in end_ids or self.sequence.ending_after(chosen):
            self._is_ended = True
        else:
            self.sequence.decode()

    def answer(self) -> Answer:
        """Return the complete answer."""
        digest = self.sequence.answer_digest(self._ids).hex()
        return Answer(ids=tuple(self._ids), digest=digest)


def is_valid(schema: Any, text: str) -> bool:
    """Tell whether the ``jsonschema`` package parses a text and takes it for valid."""
    # Fractions of the schema are decimals, too, as those of the text are.
    exact = json.loads(json.dumps(schema), parse_float=Decimal)
    try:
        return Oracle(exact, {}, checks_formats=True).accepts(text.encode())
    except ValueError:
        return False
