"""What commands that answer print about an answer, beside its text."""

import sys
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from typing import TYPE_CHECKING, TypeVar

from sslm.cli.output import note, print_json, print_text, progress

if TYPE_CHECKING:
    from sslm.engine.model import Model
    from sslm.engine.results import Completion
    from sslm.engine.stream import Stream

_Stream = TypeVar("_Stream", bound="Stream")


def note_digest(completion: "Completion") -> None:
    """Write the digest line of an answer to stderr."""
    count = len(completion.token_ids)
    note(f"digest {completion.digest} ({count} tokens, {completion.finish_reason})")


def note_cut(completion: "Completion", max_tokens: int) -> None:
    """Say on stderr that an answer is shorter than was asked for, because the context is full."""
    count = len(completion.token_ids)
    if completion.length_reason == "context":
        note(f"the context is full: the answer ends after {count} of at most {max_tokens} tokens")


def show_end(
    completion: "Completion",
    model: "Model",
    *,
    max_tokens: int,
    is_json: bool,
    facts: Mapping[str, object] | None = None,
) -> None:
    """Write what comes after a text that was shown, or all of an answer as JSON.

    Args:
        completion: The answer.
        model: What answered.
        max_tokens: Most tokens that were asked for.
        is_json: The option of this name.
        facts: What the JSON has besides.
    """
    # A line's end for a person, but not for a pipe: there stdout is the answer alone.
    if sys.stdout.isatty() and not is_json:
        print_text("\n")
    note_cut(completion, max_tokens)
    if is_json:
        print_json(completion_facts(completion, model) | dict(facts or {}))
    else:
        note_digest(completion)


def keep_silent(text: str) -> None:
    """Print nothing of a text that is part of JSON."""
    del text


def read_answer(
    start: "Callable[[Callable[[int, int], None]], _Stream]",
    *,
    on_text: Callable[[str], None],
    no_progress: bool,
    on_interrupt: "Callable[[_Stream], None]" = lambda stream: None,
) -> "Completion":
    """Read a stream to its end; until its first piece, show how much of the prompt is taken in.

    Args:
        start: Makes the stream; its argument is what the stream tells its progress to.
        on_text: Gets the pieces.
        no_progress: The option of this name.
        on_interrupt: Gets the stream after Ctrl-C, before it is closed.
    """
    with ExitStack() as prefill:
        report = prefill.enter_context(progress(is_shown=not no_progress))
        with start(lambda done, total: report("prompt", done, total)) as stream:
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
