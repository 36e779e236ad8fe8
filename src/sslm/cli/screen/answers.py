"""What commands that answer print about an answer, beside its text."""

import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from typing import TYPE_CHECKING, TypeVar

from sslm.cli.screen.output import note, print_json, print_text, progress
from sslm.cli.screen.unmeasured import compiling
from sslm.progress import Progress, StageProgress

if TYPE_CHECKING:
    from sslm.answering.results import Completion
    from sslm.answering.stream import Stream
    from sslm.engine.model import Model
    from sslm.sampling.logprobs import Logprob, TokenLogprob
    from sslm.text.tokenizer import Tokenizer

_Stream = TypeVar("_Stream", bound="Stream")


def logprob_facts(
    logprobs: "Sequence[TokenLogprob] | None", tokenizer: "Tokenizer"
) -> list[dict[str, object]] | None:
    """Return log-probabilities as JSON output carries them; decimals are texts, which are exact."""
    if logprobs is None:
        return None
    return [
        _facts(one, tokenizer) | {"top": [_facts(likely, tokenizer) for likely in one.top]}
        for one in logprobs
    ]


def note_logprobs(completion: "Completion", tokenizer: "Tokenizer") -> None:
    """Write a line for each token of an answer to stderr, if its log-probabilities are there."""
    for one in completion.logprobs or ():
        others = ", ".join(_told(likely, tokenizer) for likely in one.top)
        note(f"logprob {_told(one, tokenizer)}" + (f"; likely: {others}" if others else ""))


def _facts(one: "Logprob", tokenizer: "Tokenizer") -> dict[str, object]:
    return {
        "token_id": one.token_id,
        "token": _text(one.token_id, tokenizer),
        "logprob": str(one.decimal),
        "q20": one.q20,
    }


def _told(one: "Logprob", tokenizer: "Tokenizer") -> str:
    return f"{one.decimal} {_text(one.token_id, tokenizer)!r}"


def _text(token_id: int, tokenizer: "Tokenizer") -> str:
    """Return the text of a token, or the name of one that has none."""
    data = tokenizer.token_bytes(token_id)
    return data.decode("utf-8", "replace") if data else tokenizer.spelling(token_id)


def note_digest(completion: "Completion") -> None:
    """Write the digest line of an answer to stderr, with the seed if tokens were drawn."""
    facts = f"{len(completion.token_ids)} tokens, {completion.finish_reason}"
    if "temperature" in completion.choosing:
        facts += f", seed {completion.seed}"
    note(f"digest {completion.digest} ({facts})")


def note_cut(completion: "Completion") -> None:
    """Say on stderr that an answer is shorter than was asked for, because the context is full."""
    if completion.length_reason == "context":
        count = len(completion.token_ids)
        note(f"the context is full: the answer ends after {count} tokens, before --max-tokens")


def show_end(
    completion: "Completion",
    model: "Model",
    *,
    is_json: bool,
    facts: Mapping[str, object] | None = None,
) -> None:
    """Write what comes after a text that was shown, or all of an answer as JSON.

    Args:
        completion: The answer.
        model: What answered.
        is_json: The option of this name.
        facts: What the JSON has besides.
    """
    # A line's end for a person, but not for a pipe: there stdout is the answer alone.
    if sys.stdout.isatty() and not is_json:
        print_text("\n")
    note_cut(completion)
    if is_json:
        print_json(completion_facts(completion, model) | dict(facts or {}))
    else:
        _note_end(completion, model)


def _note_end(completion: "Completion", model: "Model") -> None:
    note_logprobs(completion, model.tokenizer)
    note_digest(completion)


def show_answers(completions: "Sequence[Completion]", model: "Model", *, is_json: bool) -> None:
    """Write several answers: texts that each end a line, or one object of JSON."""
    if is_json:
        print_json({"answers": [completion_facts(one, model) for one in completions]})
        return
    for one in completions:
        print_text(one.text if one.text.endswith("\n") else one.text + "\n")
        note_cut(one)
        _note_end(one, model)


def keep_silent(text: str) -> None:
    """Print nothing of a text that is part of JSON."""
    del text


def read_answer(
    start: "Callable[[Progress, StageProgress], _Stream]",
    *,
    on_text: Callable[[str], None],
    no_progress: bool,
    on_interrupt: "Callable[[_Stream], None]" = lambda stream: None,
    schema: object = None,
) -> "Completion":
    """Read a stream to its end; until its first piece, show how much of the prompt is taken in.

    Args:
        start: Makes the stream; its arguments are what that tells how much of the prompt is taken
            in, and how far its schema is.
        on_text: Gets the pieces.
        no_progress: The option of this name.
        on_interrupt: Gets the stream after Ctrl-C, before it is closed.
        schema: Of the answer, which is compiled when the stream is made; or None.
    """
    with ExitStack() as prefill:
        report = prefill.enter_context(progress(is_shown=not no_progress))
        with compiling(report, schema) as tell:
            made = start(lambda done, total: report("prompt", done, total), tell)
        with made as stream:
            try:
                for chunk in stream:
                    prefill.close()
                    on_text(chunk.text)
            except KeyboardInterrupt:
                on_interrupt(stream)
                raise
            return stream.result()


def completion_facts(completion: "Completion", model: "Model") -> dict[str, object]:
    """Return an answer as JSON output carries it."""
    usage = completion.usage
    return {
        "text": completion.text,
        "token_ids": completion.token_ids,
        "finish_reason": completion.finish_reason,
        "stop_reason": completion.stop_reason,
        "length_reason": completion.length_reason,
        "digest": completion.digest,
        "seed": completion.seed,
        "logprobs": logprob_facts(completion.logprobs, model.tokenizer),
        "choosing": {name: _plain(value) for name, value in completion.choosing.items()},
        "model_id": model.model_id,
        "backend": model.backend,
        "tier": model.tier,
        "threads": model.threads,
        "usage": {
            "prompt_tokens": usage.prompt_tokens,
            "completion_tokens": usage.completion_tokens,
            "cached_tokens": usage.cached_tokens,
            "computed_tokens": usage.computed_tokens,
            "prefill_ms": usage.prefill_ms,
            "decode_ms": usage.decode_ms,
        },
    }


def _plain(value: object) -> object:
    """Return the value of an option as JSON has it; a decimal is a text, which stays exact."""
    if isinstance(value, dict):
        return {str(key): _plain(one) for key, one in value.items()}
    return value if isinstance(value, int) else str(value)
