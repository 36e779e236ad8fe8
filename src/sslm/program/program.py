"""A whole forward pass: buffers, states, and ops in segments."""

from collections.abc import Iterator
from dataclasses import dataclass, field, fields
from enum import Enum
from typing import Final

from sslm.errors.program import OpShapeError, ProgramArithmeticError
from sslm.errors.runtime import ContextLengthError
from sslm.program.buffers import Buffer
from sslm.program.ops import Choose, Embed, Logits, Op, Rope
from sslm.program.states import State, StateLayout, lay_out_states
from sslm.program.tensors import padded

PROFILE: Final = "int/1"
ARITHMETIC_VERSION: Final = 1
HEAD_BLOCK_SIZE_BYTES: Final = 4 << 20
"""Weights of one head segment: a budget unit of about eight layers of a small model."""


class SegmentKind(Enum):
    """What a segment is for; programs have them in this order."""

    EMBED = "embed"
    LAYER = "layer"
    HEAD = "head"
    SELECT = "select"


@dataclass(frozen=True, slots=True, kw_only=True)
class Segment:
    """A run of ops that is never interrupted. Only the residual and the states outlive it."""

    kind: SegmentKind
    index: int
    """Which of its kind, from 0."""
    ops: tuple[Op, ...]

    @property
    def name(self) -> str:
        """As reports print it: ``embed``, ``layer 7``, ``head``, ``select``."""
        return f"layer {self.index}" if self.kind is SegmentKind.LAYER else self.kind.value

    def tensor_names(self) -> list[str]:
        """Return the tensors that the segment reads, each once, in order of use."""
        return list(dict.fromkeys(name for op in self.ops for name in op.tensor_names()))


@dataclass(frozen=True, slots=True, kw_only=True)
class Program:
    """One model's forward pass as data.

    Segments are embed, layer 0 … L-1, head 0 … H-1, select. Segment indices in digests count embed
    as 0 and layer i as i + 1.

    Args:
        residual: The buffer of rows that outlive a segment.
        states: Every declared state.
        segments: In the order above.
        vocab_size: Rows of the embedding and of a row of logits.
        max_position_embeddings: Positions are below it.
        padding_count: Ids at the end of the vocabulary that have no token. Their logits are absent
            (docs/arithmetic.md, 3.10).
        profile: Name of the arithmetic.
        arithmetic_version: Its version.

    Attributes:
        layer_count: How many layer segments there are.
        first_head_index: Index of the first segment after the layers.
        state_layout: Where each declared state lies.

    Raises:
        OpShapeError: If segments are out of order, if buffers of one name differ in kind, width or
            largest exponent, if an op's state is not declared, or written in another segment than
            declared, if a fixed state is not written by exactly one op, or if an embedding, logits
            or rotary tables are of another size than the program.
    """

    residual: Buffer
    states: tuple[State, ...]
    segments: tuple[Segment, ...]
    vocab_size: int
    max_position_embeddings: int
    padding_count: int = 0
    profile: str = PROFILE
    arithmetic_version: int = ARITHMETIC_VERSION
    # They follow from the others; every step and every sequence asks for them.
    layer_count: int = field(init=False, repr=False, compare=False)
    first_head_index: int = field(init=False, repr=False, compare=False)
    state_layout: StateLayout = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        layer_count = sum(segment.kind is SegmentKind.LAYER for segment in self.segments)
        object.__setattr__(self, "layer_count", layer_count)
        object.__setattr__(self, "first_head_index", 1 + layer_count)
        object.__setattr__(self, "state_layout", lay_out_states(self.states))
        if not 0 <= self.padding_count < self.vocab_size:
            expected = f"0 to {self.vocab_size - 1}"
            raise OpShapeError("Program", "ids without a token", str(self.padding_count), expected)
        self._check_segments()
        self._check_buffers()
        self._check_states()
        self._check_writers()
        for segment in self.segments:
            for op in segment.ops:
                self._check_sizes(op)

    @property
    def token_count(self) -> int:
        """How many ids have a token: those below it."""
        return self.vocab_size - self.padding_count

    def too_long(self, needed_tokens: int, context_tokens: int) -> ContextLengthError:
        """Return the error for tokens that a context does not hold, and another one might."""
        return ContextLengthError(needed_tokens, context_tokens, self.max_position_embeddings)

    def _check_sizes(self, op: Op) -> None:
        """Hold an op to the vocabulary and the positions that spans are checked against."""
        match op:
            case Embed():
                what, found = "rows of the embedding", op.table.out_features
            case Logits():
                what, found = "the width of logits", op.out.width
            case Choose():
                what, found = "the width of logits", op.logits.width
            case Rope() if op.position_count < self.max_position_embeddings:
                expected = f"at least {self.max_position_embeddings}"
                raise OpShapeError("Program", "rotary positions", str(op.position_count), expected)
            case _:
                return
        if found != self.vocab_size:
            raise OpShapeError("Program", what, str(found), str(self.vocab_size))

    def _check_segments(self) -> None:
        order = list(SegmentKind)
        kinds = [order.index(segment.kind) for segment in self.segments]
        counts = [kinds.count(kind) for kind in range(len(order))]
        layers = [s.index for s in self.segments if s.kind is SegmentKind.LAYER]
        is_ordered = kinds == sorted(kinds) and layers == list(range(len(layers)))
        # Digests number the layers from 1, as there is one segment before them.
        if not is_ordered or counts[0] != 1 or counts[-1] > 1:
            found = ", ".join(segment.name for segment in self.segments)
            expected = "embed, layer 0 and so on, head, select"
            raise OpShapeError("Program", "the order of segments", found, expected)

    def _check_buffers(self) -> None:
        # Fraction bits differ from layer to layer; the memory behind a name is one, and who reads
        # a row proves sums from the largest exponent that can have been left there.
        shapes: dict[str, str] = {}
        for buffer in (self.residual, *self.buffers()):
            exponents = f", exponents to {buffer.exponent_max}" if buffer.exponent_max else ""
            shape = f"{buffer.kind.value} of width {buffer.width}{exponents}"
            expected = shapes.setdefault(buffer.name, shape)
            if shape != expected:
                raise OpShapeError("Program", f"buffer {buffer.name}", shape, expected)

    def _check_states(self) -> None:
        if len({state.name for state in self.states}) < len(self.states):
            names = ", ".join(state.name for state in self.states)
            raise OpShapeError("Program", "the states' names", names, "each once")
        for index, segment in enumerate(self.segments):
            for op in segment.ops:
                for state in op.states():
                    what = f"state {state.name}"
                    if state not in self.states:
                        raise OpShapeError("Program", what, "not declared", "one of its states")
                    # A segment's digest covers the states that are declared as written there.
                    if op.writes_state and state.segment_index != index:
                        expected = f"written in segment {state.segment_index}"
                        raise OpShapeError("Program", what, f"written in segment {index}", expected)

    def _check_writers(self) -> None:
        # Runs take over what was staged for a fixed state: once, and never what nobody staged.
        all_ops = [op for segment in self.segments for op in segment.ops]
        written = [state.name for op in all_ops if op.writes_state for state in op.states()]
        for state in self.states:
            count = written.count(state.name)
            if not state.is_paged and count != 1:
                found = f"written by {count} ops"
                raise OpShapeError("Program", f"state {state.name}", found, "written by one")

    def buffers(self) -> Iterator[Buffer]:
        """Yield the buffers of every op, with repetitions, in order of use."""
        for segment in self.segments:
            for op in segment.ops:
                for operand in fields(op):
                    value = getattr(op, operand.name)
                    if isinstance(value, Buffer):
                        yield value


def head_blocks(vocab_size: int, hidden_size: int) -> list[tuple[int, int]]:
    """Cut the vocabulary into row ranges of at most 4 MiB of weights, at multiples of 16 rows."""
    # Columns are padded to four, as they lie in the file.
    rows = max(16, HEAD_BLOCK_SIZE_BYTES // padded(max(hidden_size, 1), 4) // 16 * 16)
    return [(first, min(first + rows, vocab_size)) for first in range(0, vocab_size, rows)]


def require_arithmetic(program: Program) -> None:
    """Refuse a program for another arithmetic than every backend of this package computes.

    Raises:
        ProgramArithmeticError: If its profile or version is another.
    """
    found, expected = (
        f"{profile} version {version}"
        for profile, version in (
            (program.profile, program.arithmetic_version),
            (PROFILE, ARITHMETIC_VERSION),
        )
    )
    if found != expected:
        raise ProgramArithmeticError(found, expected)
