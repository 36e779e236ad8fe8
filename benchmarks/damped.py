"""How much greedy answers repeat themselves, and how much damped ones do; prints a table.

    python -m benchmarks.damped MODEL.sslm [--damping 2] [--order 2] [--top-k 6] [--tokens 200]
        [--prompts 40] [--threads 1] [--json]

Both decoders continue the same prompts. Of each answer it tells which part of its trigrams of
tokens occurred in it before, and whether it ends in a loop: its last 60 tokens repeat themselves
with a period of at most 20, that is each of them is the one a period before, as far as that is
among the 60. Of all answers together it tells the digest, which is the same on every machine.
"""

import argparse
import hashlib
import json
import sys
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Final

# Run by its path or as a module, it finds the other folders of the checkout.
sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from sslm.answering.request import AnswerOptions
from sslm.answering.results import Completion
from sslm.cli.screen.output import print_table, progress
from sslm.engine.model import Model

LOOP_TOKENS = 60
"""Tokens at the end of an answer that make a loop, if they are periodic."""
PERIOD_MAX = 20
"""Longest period, so that a loop goes round three times at least."""
PROMPTS: Final = (
    "Once upon a time, in a village by the sea,",
    "The history of the bicycle begins",
    "Dear editor, I am writing to you about",
    "A recipe for lentil soup:\n\n1.",
    "The three most important causes of the war were",
    "def fibonacci(n):\n",
    "Question: Why is the sky blue?\nAnswer:",
    "The committee met on Tuesday to discuss",
    "My grandmother always told me that",
    "In the year 2150, people on Mars",
    "The capital of France is",
    "To install the program, first",
    "Photosynthesis is the process by which",
    "The detective opened the door and saw",
    "Here is a list of animals that live in the forest:\n- ",
    "The stock market fell sharply today because",
    "She looked at the old photograph and",
    "A prime number is",
    "Review: This phone is",
    "The river flows through",
    "It was a dark and stormy night, and",
    "The main difference between cats and dogs is",
    "In this paper we show that",
    "Breaking news:",
    "Chapter 1\n\n",
    "The recipe calls for two cups of",
    "Learning to play the piano",
    "The first rule of the house is",
    "Q: What do bees eat?\nA:",
    "The mountain has been climbed by",
    "Minutes of the meeting, 4 March:\n",
    "A good teacher",
    "The ship left the harbour at dawn with",
    "Water boils at",
    "Tips for saving money:\n\n1.",
    "The robot said:",
    "When I was ten years old,",
    "The theory of evolution explains",
    "SELECT name, age FROM",
    "The poem begins with the words",
)
"""Beginnings of texts of many kinds, for answers that go on for long."""


@dataclass(frozen=True)
class Repetition:
    """How much the answers of one decoder repeat themselves.

    Args:
        decoder: Its name.
        answers: How many there are.
        tokens: Of all of them.
        trigrams: Of all of them, those within one answer.
        repeated: Of those, how many occurred earlier in their answer.
        loops: Answers that end in a loop.
        digest: SHA-256 over the digests of the answers, in their order.
    """

    decoder: str
    answers: int
    tokens: int
    trigrams: int
    repeated: int
    loops: int
    digest: str

    @property
    def rate(self) -> float:
        """Part of the trigrams that occurred before."""
        return self.repeated / max(1, self.trigrams)


def repeated_trigrams(token_ids: Sequence[int]) -> tuple[int, int]:
    """Return how many trigrams of an answer occurred in it before, and how many there are."""
    trigrams = list(zip(token_ids, token_ids[1:], token_ids[2:], strict=False))
    return len(trigrams) - len(set(trigrams)), len(trigrams)


def is_loop(token_ids: Sequence[int]) -> bool:
    """Return whether an answer ends in a loop."""
    end = token_ids[-LOOP_TOKENS:]
    return len(end) == LOOP_TOKENS and any(
        end[period:] == end[:-period] for period in range(1, PERIOD_MAX + 1)
    )


def measure(decoder: str, answers: Sequence[Completion]) -> Repetition:
    """Count what the answers of a decoder repeat."""
    counts = [repeated_trigrams(answer.token_ids) for answer in answers]
    return Repetition(
        decoder=decoder,
        answers=len(answers),
        tokens=sum(len(answer.token_ids) for answer in answers),
        trigrams=sum(total for _, total in counts),
        repeated=sum(repeated for repeated, _ in counts),
        loops=sum(is_loop(answer.token_ids) for answer in answers),
        digest=hashlib.sha256("".join(answer.digest for answer in answers).encode()).hexdigest(),
    )


def compare(
    model: Model,
    prompts: Sequence[str],
    *,
    tokens: int,
    damping: AnswerOptions,
    on_progress: Callable[[str, int, int], None],
) -> list[Repetition]:
    """Let both decoders continue the prompts."""
    greedy: AnswerOptions = {"max_tokens": tokens}
    decoders: dict[str, AnswerOptions] = {"greedy": greedy, "damped": {**damping, **greedy}}
    return [
        measure(
            name,
            model.generate_many(prompts, on_progress=partial(on_progress, name), **options),
        )
        for name, options in decoders.items()
    ]


def main() -> int:
    """Print the table of one model."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.damped")
    parser.add_argument("model", type=Path, help="a .sslm file")
    parser.add_argument("--damping", default="2", help="alpha")
    parser.add_argument("--order", type=int, default=2)
    parser.add_argument("--top-k", type=int, default=6)
    parser.add_argument("--tokens", type=int, default=200, help="of each answer")
    parser.add_argument("--prompts", type=int, default=len(PROMPTS), help="how many of them")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--json", action="store_true")
    chosen = parser.parse_args()
    damping: AnswerOptions = {
        "damping": chosen.damping,
        "damping_order": chosen.order,
        "damping_top_k": chosen.top_k,
    }
    with (
        Model(chosen.model, threads=chosen.threads) as model,
        progress(is_shown=not chosen.json) as report,
    ):
        prompts = PROMPTS[: chosen.prompts]
        rows = compare(model, prompts, tokens=chosen.tokens, damping=damping, on_progress=report)
    if chosen.json:
        print(json.dumps({row.decoder: asdict(row) | {"rate": round(row.rate, 4)} for row in rows}))
        return 0
    head = ("decoder", "answers", "tokens", "repeated trigrams", "loops", "digest")
    table = [
        (row.decoder, row.answers, row.tokens, f"{row.rate:.1%}", row.loops, row.digest[:16])
        for row in rows
    ]
    print_table(head, [tuple(map(str, row)) for row in table], right=head[1:-1])
    return 0


if __name__ == "__main__":
    sys.exit(main())
