"""A prompt with what is asked of its answer."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import islice

from sslm import limits
from sslm.arguments import checked_int
from sslm.errors.runtime import EmptyPromptError, OptionRangeError
from sslm.errors.showing import briefly
from sslm.errors.text import TextTypeError
from sslm.text.tokenizer import checked_text


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """A prompt with what is asked of its answer.

    Args:
        prompt_ids: At least one id.
        max_tokens: Most ids of the answer, at least 1; the end of the context may come first.
        stop: Strings that end the answer.
        stop_token_ids: Ids that end the answer.
        is_continuation: Whether the answer's text goes on in the prompt's, so that a leading space
            counts.

    Raises:
        EmptyPromptError: If there is no prompt.
        OptionRangeError: If an option is out of range.
    """

    prompt_ids: tuple[int, ...]
    max_tokens: int
    stop: tuple[str, ...]
    stop_token_ids: frozenset[int]
    is_continuation: bool = True

    def __post_init__(self) -> None:
        if not self.prompt_ids:
            raise EmptyPromptError
        most = limits.CONTEXT_TOKENS_MAX
        max_tokens = checked_int("max_tokens", self.max_tokens, lowest=1, highest=most)
        # As a plain integer, whatever library it came from.
        object.__setattr__(self, "max_tokens", max_tokens)
        count, size = limits.STOP_COUNT_MAX, limits.STOP_SIZE_CHARS_MAX
        if len(self.stop) > count:
            raise OptionRangeError("stop", f"more than {count} strings", f"at most {count}")
        for stop in self.stop:
            if not 1 <= len(checked_text("a stop string", stop)) <= size:
                expected = f"a string of 1 to {size} characters"
                raise OptionRangeError("stop", f"one of {len(stop)} characters", expected)


def stop_strings(stop: str | Sequence[str] | None) -> tuple[str, ...]:
    """Return stops as a tuple, however the caller gave them; at most one too many is taken.

    Raises:
        TextTypeError: If they are bytes.
        OptionRangeError: If they are anything else than a string or several.
    """
    if stop is None:
        return ()
    if isinstance(stop, (bytes, bytearray)):
        raise TextTypeError("a stop string", type(stop).__name__)
    if not isinstance(stop, Iterable):
        raise OptionRangeError("stop", briefly(stop), "a string or several")
    return (stop,) if isinstance(stop, str) else tuple(islice(stop, limits.STOP_COUNT_MAX + 1))
