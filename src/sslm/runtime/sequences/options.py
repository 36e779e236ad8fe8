"""What a sequence is made for, which decides how much memory it takes."""

from dataclasses import dataclass
from typing import Final

from sslm.errors.runtime import OptionRangeError
from sslm.errors.showing import int_range
from sslm.memory import HUGE_PAGE_SIZE_BYTES
from sslm.program.choice_data import scratch_size_bytes
from sslm.program.ops import SaturationSite
from sslm.program.program import Program
from sslm.program.spans import CHUNK_ROWS_MAX, DIGEST_SIZE_BYTES
from sslm.program.states import PAGE_TOKENS
from sslm.runtime.sequences.kv_pool import page_count_for

_WORTH_A_HUGE_PAGE_BYTES: Final = 1 << 18
"""From here on what runs need fills a huge page well enough to be given one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SequenceOptions:
    """What a sequence is made for.

    Args:
        context_tokens: Positions that it may compute, at least 1 and at most the program's.
        chunk_tokens: Most rows of one prefill chunk, 1 … 64.
        reserved_tokens: Positions whose pages are taken when the sequence is made, 0 … the context;
            further ones are taken as tokens are admitted, and may then be refused. None is all.
        has_all_logits: Score every position, not only the last of what was pushed.
        chooses: Have room for scores, which every choice needs but plain greedy: that compares
            exact logits.
        is_sliced: Whether what its runs need lies in huge pages of its own, which slices that come
            after a while find sooner: up to 2 MiB more.
        is_traced: Keep the digests of every segment of the chunk in progress.

    Raises:
        OptionRangeError: If a number is out of its range.
    """

    context_tokens: int
    chunk_tokens: int = CHUNK_ROWS_MAX
    reserved_tokens: int | None = None
    has_all_logits: bool = False
    chooses: bool = False
    is_sliced: bool = False
    is_traced: bool = False

    def __post_init__(self) -> None:
        if self.context_tokens < 1:
            raise OptionRangeError("context_tokens", str(self.context_tokens), int_range(1))
        if not 1 <= self.chunk_tokens <= CHUNK_ROWS_MAX:
            expected = int_range(1, CHUNK_ROWS_MAX)
            raise OptionRangeError("chunk_tokens", str(self.chunk_tokens), expected)
        reserved = self.reserved_tokens
        if reserved is not None and not 0 <= reserved <= self.context_tokens:
            expected = int_range(0, self.context_tokens)
            raise OptionRangeError("reserved_tokens", str(reserved), expected)

    @property
    def reserved_page_count(self) -> int:
        """Pages that a sequence has from its beginning to its end."""
        reserved = self.reserved_tokens
        return page_count_for(self.context_tokens if reserved is None else reserved)


def sequence_size_bytes(program: Program, options: SequenceOptions) -> int:
    """Return the bytes of a sequence's own buffers; its pages are the pool's."""
    return sum(buffer_sizes_bytes(program, options).values())


def buffer_sizes_bytes(program: Program, options: SequenceOptions) -> dict[str, int]:
    """Return the bytes of each buffer of a sequence, by name."""
    logits_rows = CHUNK_ROWS_MAX if options.has_all_logits else 1
    traced = CHUNK_ROWS_MAX * DIGEST_SIZE_BYTES * program.first_head_index
    residual = 4 * CHUNK_ROWS_MAX * program.residual.width
    logits = 8 * logits_rows * program.vocab_size
    is_whole = options.is_sliced and residual + logits >= _WORTH_A_HUGE_PAGE_BYTES
    return {
        "pages": 4 * page_count_for(options.context_tokens),
        "token_ids": 4 * PAGE_TOKENS * page_count_for(options.context_tokens),
        "fixed": program.state_layout.fixed_size_bytes,
        "residual": residual,
        "saturations": 8 * len(SaturationSite),
        "digests": CHUNK_ROWS_MAX * DIGEST_SIZE_BYTES,
        "logits": logits,
        "filling": -(residual + logits) % HUGE_PAGE_SIZE_BYTES if is_whole else 0,
        "selected": 4 * logits_rows,
        "logit_exponents": 4 * logits_rows if options.chooses else 0,
        "choice_scratch": scratch_size_bytes(program.vocab_size) if options.chooses else 0,
        "trace": traced if options.is_traced else 0,
    }
