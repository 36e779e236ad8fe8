"""Running the model that is being converted over texts, watched."""

from collections.abc import Sequence
from contextlib import ExitStack

from sslm.backends.reference.backend import ReferencePlan
from sslm.backends.reference.rows import Watcher
from sslm.convert.integer_weights import IntegerWeights
from sslm.model.families import build_program
from sslm.model.fraction_bits import FractionBits
from sslm.runtime.sequences.kv_pool import KvPool, page_count_for
from sslm.runtime.sequences.options import SequenceOptions
from sslm.runtime.sequences.sequence import Sequence as TokenSequence
from sslm.runtime.slices.stepper import advance, finished

__all__ = ["Watcher", "run_texts"]


def run_texts(
    weights: IntegerWeights,
    bits: FractionBits,
    texts: Sequence[Sequence[int]],
    watcher: Watcher,
    *,
    has_all_logits: bool = False,
) -> None:
    """Run every text as a sequence of its own on the reference backend.

    Args:
        weights: The model.
        bits: Its fraction bits.
        texts: Token ids, at least one each.
        watcher: Sees what the runs compute.
        has_all_logits: Whether every position goes through the head, and not only the last chunk.
    """
    tensors = weights.tensors(bits)
    program = build_program(weights.config, bits, tensors)
    plan = ReferencePlan(program, tensors, watcher)
    with ExitStack() as stack:
        sequences = []
        for ids in texts:
            options = SequenceOptions(context_tokens=len(ids), has_all_logits=has_all_logits)
            pool = KvPool(program.state_layout, page_count_for(len(ids)))
            sequence = TokenSequence(program, pool, bytes(32), options)
            sequences.append(stack.enter_context(sequence))
            sequence.push(ids)
        # All together, so that each weight is unpacked once for all of them.
        while busy := [sequence for sequence in sequences if sequence.has_work]:
            finished(advance(plan, busy, budget_units=1 << 30, row_count_max=1 << 30))
