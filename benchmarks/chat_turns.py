"""A chat of twenty turns in which one message is edited: what each turn computes; prints a table.

    python -m benchmarks.chat_turns -m MODEL.sslm

Every turn is answered by a session, and once more by ``model.chat`` of the same messages, which
begins anew. Exit 1 if an answer is another one in text, ids or digest, or if a token of the
unchanged beginning of a conversation was computed although an earlier turn had computed it.
"""

import argparse
import json
import sys
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from sslm.cli.screen.output import table_lines
from sslm.conversation.session import Session
from sslm.engine.model import Model
from sslm.text.chat_encoding import encode_chat
from sslm.text.message import Message

SYSTEM = "You are a patient librarian who answers briefly."
QUESTIONS = (
    "Hello, who are you?",
    "Which book should I read first about the sea?",
    "Who wrote it?",
    "And is there one for children?",
    "My daughter is seven and likes whales.",
    "Which animals are larger than a whale?",
    "How long can a whale hold its breath?",
    "Please answer in one word: are whales fish?",
    "What do they eat?",
    "Tell me about the library instead.",
    "When does it open?",
    "Can I borrow three books at a time?",
    "What happens if I lose one?",
    "That is fair.",
    "Do you have maps as well?",
    "I am looking for one of the coast of Norway.",
    "Which towns are on it?",
    "Name one that begins with B.",
    "How would I get there by train?",
    "Thank you, goodbye.",
)
EDITED = "Tell me about the museum instead."
EDITED_TURN = 10
HEAD = ("turn", "prompt", "saved", "prefill", "decode", "closing", "again", "first ms", "cold ms")


@dataclass(frozen=True)
class Turn:
    """One answer.

    Attributes:
        name: Which turn.
        prompt_tokens: Tokens of the whole prompt.
        cached_tokens: Of those, saved ones that were not computed.
        prefilled_tokens: The others.
        answer_tokens: Tokens of the answer; all but the last are computed with it.
        closing_tokens: That one and what follows it, computed behind the answer.
        repeated_tokens: Tokens of messages that did not change, computed once more. Must be 0.
        equals_cold: Whether ``model.chat`` answered the same.
        first_ms: Wall time to the first token.
        cold_ms: The same of ``model.chat``.
    """

    name: str
    prompt_tokens: int
    cached_tokens: int
    prefilled_tokens: int
    answer_tokens: int
    closing_tokens: int
    repeated_tokens: int
    equals_cold: bool
    first_ms: float
    cold_ms: float


def common_count(first: Sequence[int], second: Sequence[int]) -> int:
    """Return how many ids two sequences have in common at their beginning."""
    pairs = enumerate(zip(first, second, strict=False))
    return next((at for at, (one, other) in pairs if one != other), min(len(first), len(second)))


class Chat:
    """A session, with the ids that it has computed so far."""

    def __init__(self, model: Model, session: Session, max_tokens: int) -> None:
        self._model = model
        self._session = session
        self._max_tokens = max_tokens
        self._computed: list[list[int]] = []

    def turn(self, name: str, text: str, index: int | None = None) -> Turn:
        """Say something, or say it in place of message *index*, and look at what that took."""
        kept = self._session.messages[:index]
        messages = [*kept, Message("user", text)]
        if index is None:
            answer = self._session.say(text, max_tokens=self._max_tokens)
        else:
            answer = self._session.edit(index, text, max_tokens=self._max_tokens)
        cold = self._model.chat(messages, max_tokens=self._max_tokens)
        ids = self._encode(messages, is_asked=True)
        unchanged = common_count(self._encode(kept, is_asked=False), ids) if kept else 0
        known = max((common_count(one, ids) for one in self._computed), default=0)
        self._computed.append([*ids, *answer.token_ids[:-1]])
        usage = answer.usage
        cached, closing = usage.cached_tokens, usage.computed_tokens - len(ids)
        closing -= len(answer.token_ids) - 1 - cached
        if closing:
            self._computed.append(self._encode(self._session.messages, is_asked=False))
        return Turn(
            name=name,
            prompt_tokens=len(ids),
            cached_tokens=cached,
            prefilled_tokens=len(ids) - cached,
            answer_tokens=len(answer.token_ids),
            closing_tokens=closing,
            repeated_tokens=max(0, min(unchanged, known) - cached),
            equals_cold=answer == cold,
            first_ms=round(usage.prefill_ms or 0, 1),
            cold_ms=round(cold.usage.prefill_ms or 0, 1),
        )

    def _encode(self, messages: Sequence[Message], *, is_asked: bool) -> list[int]:
        model = self._model
        return encode_chat(
            model.tokenizer, model.chat_template, messages, add_generation_prompt=is_asked
        )


def chat_turns(
    model: Model,
    *,
    max_tokens: int,
    questions: Sequence[str] = QUESTIONS,
    checkpoint_bytes: int | None = None,
) -> Iterator[Turn]:
    """Yield the turns of a chat, the edited one twice."""
    options = {"system": SYSTEM, "timings": True, "checkpoint_bytes": checkpoint_bytes}
    with model.session(**options) as session:  # type: ignore[arg-type]
        chat = Chat(model, session, max_tokens)
        for number, question in enumerate(questions, 1):
            yield chat.turn(str(number), question)
            if number == EDITED_TURN:
                at = max(i for i, one in enumerate(session.messages) if one.role == "user")
                yield chat.turn(f"{number} edited", EDITED, at)


def is_right(turn: Turn) -> bool:
    """Return whether a turn answered as a cold run and computed nothing unchanged again."""
    return turn.equals_cold and turn.repeated_tokens == 0


def main() -> int:
    """Print the table, and return whether every turn was right."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("-m", "--model", type=Path, required=True)
    parser.add_argument("--max-tokens", type=int, default=24)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--checkpoint-bytes", type=int, default=None)
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    with Model(arguments.model, threads=arguments.threads) as model:
        turns = list(
            chat_turns(
                model,
                max_tokens=arguments.max_tokens,
                checkpoint_bytes=arguments.checkpoint_bytes,
            )
        )
    if arguments.json:
        print(json.dumps({"turns": [asdict(turn) for turn in turns]}))
    else:
        print_turns(turns)
    return 0 if all(map(is_right, turns)) else 1


def print_turns(turns: Sequence[Turn]) -> None:
    """Print a table with its sums."""
    rows = [
        (
            turn.name,
            str(turn.prompt_tokens),
            str(turn.cached_tokens),
            str(turn.prefilled_tokens),
            str(turn.answer_tokens - 1),
            str(turn.closing_tokens),
            str(turn.repeated_tokens),
            f"{turn.first_ms:.1f}",
            f"{turn.cold_ms:.1f}" + ("" if turn.equals_cold else "  OTHER ANSWER"),
        )
        for turn in turns
    ]
    for line in table_lines(HEAD, rows, right=HEAD):
        print(line)
    prompts = sum(turn.prompt_tokens for turn in turns)
    prefilled = sum(turn.prefilled_tokens for turn in turns)
    repeated = sum(turn.repeated_tokens for turn in turns)
    same = sum(turn.equals_cold for turn in turns)
    print(
        f"{prefilled} of {prompts} prompt tokens computed, {repeated} of unchanged messages again; "
        f"{same} of {len(turns)} answers equal a cold run's in text, ids and digest"
    )


if __name__ == "__main__":
    sys.exit(main())
