"""What commands that answer print about an answer, beside its text."""

from typing import TYPE_CHECKING

from sslm.cli.output import note

if TYPE_CHECKING:
    from sslm.engine.model import Model
    from sslm.engine.results import Completion


def note_digest(completion: "Completion") -> None:
    """Write the digest line of an answer to stderr."""
    count = len(completion.token_ids)
    note(f"digest {completion.digest} ({count} tokens, {completion.finish_reason})")


def completion_facts(completion: "Completion", model: "Model") -> dict[str, object]:
    """Return an answer as JSON output carries it."""
    usage = completion.usage
    return {
        "text": completion.text,
        "token_ids": completion.token_ids,
        "finish_reason": completion.finish_reason,
        "stop_reason": completion.stop_reason,
        "digest": completion.digest,
        "model_id": model.model_id,
        "backend": model.backend,
        "tier": model.tier,
        "threads": model.threads,
        "usage": {
            "prompt_tokens": usage.prompt_tokens,
            "completion_tokens": usage.completion_tokens,
            "prefill_ms": usage.prefill_ms,
            "decode_ms": usage.decode_ms,
        },
    }
