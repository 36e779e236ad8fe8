"""The bytes that a run must read, and the products that it computes."""

from sslm.bench.cases import Case
from sslm.program import ops
from sslm.program.program import Program
from sslm.program.spans import CHUNK_ROWS_MAX
from sslm.program.states import PAGE_TOKENS
from sslm.program.tensors import Tensors


class Traffic:
    """What the runs of a program read of weights and states at least, each byte once a run.

    Args:
        program: The program.
        tensors: Every tensor that it names.
    """

    def __init__(self, program: Program, tensors: Tensors) -> None:
        self._tensors = tensors
        self._windows: list[tuple[int | None, int]] = []
        self._written_page_bytes = 0
        self.layer_bytes = self.head_bytes = self.embedding_row_bytes = 0
        self.layer_products = self.head_products = 0
        for segment in program.segments:
            for op in segment.ops:
                self._count(op)

    def _count(self, op: ops.Op) -> None:
        sizes = {name: self._tensors[name].data.nbytes for name in op.tensor_names()}
        match op:
            case ops.Embed():
                # Only the rows of the tokens are read.
                self.embedding_row_bytes += sum(sizes.values()) // op.table.out_features
            case ops.Linear():
                self.layer_bytes += sum(sizes.values())
                self.layer_products += op.matrix.out_features * op.matrix.in_features
            case ops.Logits():
                rows = op.last_row - op.first_row
                self.head_bytes += sum(sizes.values()) * rows // op.matrix.out_features
                self.head_products += rows * op.matrix.in_features
            case ops.Attention():
                page = op.keys.size_bytes + op.values.size_bytes
                self._windows.append((op.window, page))
            case ops.Append():
                self._written_page_bytes += op.state.size_bytes
            case _:
                pass

    @property
    def weight_bytes(self) -> int:
        """Bytes of all weights that one token with its logits takes."""
        return self.layer_bytes + self.head_bytes + self.embedding_row_bytes

    def state_bytes(self, first_position: int, rows: int) -> int:
        """Return what a span reads and writes of its sequence's keys and values."""
        visible = first_position + rows
        read = sum(
            min(visible, window + rows - 1 if window else visible) * page
            for window, page in self._windows
        )
        return (read + rows * self._written_page_bytes) // PAGE_TOKENS

    def case_bytes(self, case: Case) -> int:
        """Return the bytes of all runs of a case, the head's for the tokens that are chosen."""
        if case.kind == "prompt":
            starts = range(0, case.tokens, CHUNK_ROWS_MAX)
            states = sum(
                self.state_bytes(case.depth + start, min(CHUNK_ROWS_MAX, case.tokens - start))
                for start in starts
            )
            weights = len(starts) * self.layer_bytes + self.head_bytes
        else:
            states = sum(self.state_bytes(case.depth + step, 1) for step in range(case.tokens))
            weights = case.tokens * (self.layer_bytes + self.head_bytes)
        return weights + case.batch * (states + case.tokens * self.embedding_row_bytes)

    def case_products(self, case: Case) -> int:
        """Return how many weights are multiplied by a number in all runs of a case."""
        scored = 1 if case.kind == "prompt" else case.tokens
        return case.batch * (case.tokens * self.layer_products + scored * self.head_products)
