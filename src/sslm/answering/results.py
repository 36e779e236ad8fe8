"""What calls on a model return."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Final, Literal

from sslm.sampling.logprobs import TokenLogprob
from sslm.sampling.options import ChoosingOptions
from sslm.sampling.seeds import DEFAULT_SEED

NANOSECONDS_PER_MS: Final = 1_000_000

FinishReason = Literal["stop", "length", "dead_end"]
SCHEMA_STOP: Final = "schema"
"""The stop reason of an answer that its schema lets go no further."""
LengthReason = Literal["max_tokens", "context"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Usage:
    """What a request took.

    Args:
        prompt_tokens: Tokens of the prompt.
        completion_tokens: Tokens of the answer, an end token included.
        prefill_ms: Wall time until the first token was chosen; None where nobody measures.
        decode_ms: Wall time from there to the last one, pauses of whoever reads included.
        cached_tokens: Tokens of the prompt that were saved and not computed again.
        computed_tokens: Tokens that were computed: of the prompt, of the answer all but the last,
            and in a session also that one, with what follows it before anybody says more.
        cached_ms: Of ``prefill_ms``, what finding and taking over those took.
        total_ms: Wall time until the answer was kept.
    """

    prompt_tokens: int
    completion_tokens: int
    prefill_ms: float | None
    decode_ms: float | None
    cached_tokens: int = 0
    computed_tokens: int = 0
    cached_ms: float | None = None
    total_ms: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Completion:
    """An answer.

    Args:
        text: The answer's text; an end token and a stop string are not part of it.
        token_ids: Every chosen id, the one that ended the answer included.
        digest: Hex SHA-256 that binds model, prompt, computed states and answer.
        finish_reason: ``stop`` at an end token or stop string, or where a schema lets nothing
            follow; ``length`` at max_tokens or at the end of the context; ``dead_end`` where the
            text satisfies its schema, and none of the tokens that could follow leads to an end
            within max_tokens (only with ``end_of_text="never"``).
        stop_reason: The id or string that ended it, ``"schema"`` where that did, or None.
        length_reason: What kept it from going on, if its finish_reason is ``length``: as many
            tokens as were asked for, or the end of the context, which is never shifted.
        seed: Of the request, also where nothing is drawn.
        choosing: The options by which its tokens were chosen, as they were rounded, without those
            at their defaults; a call that is given them again chooses the same.
        logprobs: Of each of its tokens the log-probability, if that was asked for.
        prompt_logprobs: Of each token of the prompt, None for the first, if that was asked for.
        parser: Of :attr:`parsed`, or None.
        forced_tokens: Ids of the answer that were not chosen, as the schema left no choice.
        usage: Counts and times; two answers are equal whatever it says.
    """

    text: str
    token_ids: list[int] = field(hash=False)
    digest: str
    finish_reason: FinishReason
    stop_reason: int | str | None
    length_reason: LengthReason | None = None
    seed: int = DEFAULT_SEED
    choosing: ChoosingOptions = field(default_factory=ChoosingOptions, hash=False)
    logprobs: list[TokenLogprob] | None = field(default=None, hash=False)
    prompt_logprobs: list[TokenLogprob | None] | None = field(default=None, hash=False)
    parser: Callable[[str], object] | None = field(default=None, compare=False, repr=False)
    forced_tokens: int = field(default=0, compare=False)
    usage: Usage = field(compare=False)

    @property
    def parsed(self) -> Any:
        """What a text says that follows a schema to its end; None of any other one.

        An object of the class that the schema was made of, or else what ``json.loads`` returns.

        Raises:
            Exception: What the class raises if it demands more than its schema says.
        """
        return None if self.parser is None else self.parser(self.text)


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamChunk:
    """A piece of an answer as it comes.

    Args:
        text: Never ends inside a character; may be empty while one is incomplete.
        token_ids: The ids chosen since the last piece.
    """

    text: str
    token_ids: list[int]


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionFootprint:
    """Bytes that a model takes with one session, known before they are allocated.

    Args:
        weights: The artifact's bytes, mapped or copied.
        scratch: The plan's work memory.
        states: What the request in progress may hold: pages of a whole context, the buffers of a
            sequence, and the private copies of its checkpoints until they are kept.
        checkpoints: What is kept between requests, at most.
    """

    weights: int
    scratch: int
    states: int
    checkpoints: int

    @property
    def total(self) -> int:
        """All of it."""
        return self.weights + self.scratch + self.states + self.checkpoints


@dataclass(frozen=True, slots=True, kw_only=True)
class Footprint:
    """Bytes that a model takes, known before they are allocated.

    Args:
        weights: The artifact's bytes, mapped or copied.
        kv: Pages of the sequences.
        scratch: The plan's work memory and the sequences' own buffers.
    """

    weights: int
    kv: int
    scratch: int

    @property
    def total(self) -> int:
        """All of it."""
        return self.weights + self.kv + self.scratch
