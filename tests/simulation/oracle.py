"""Right answers from another process: lone, plain runs of the reference backend.

It knows nothing of sequences, pools and chunks. A run is one span after the other over memory of
its own, in the order of the positions; what it has computed it remembers as a tree of tokens.
"""

import os
import pickle
import subprocess
import sys
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import BinaryIO, NamedTuple, Self
from zlib import crc32

import numpy as np

from sslm.backends.reference.backend import ReferencePlan
from sslm.backends.reference.rows import Rows
from sslm.numerics.digests import first_link, next_link
from sslm.numerics.rounding import Int64Array
from sslm.program.choice_data import ChoiceData, scratch_size_bytes
from sslm.program.ops import SaturationSite
from sslm.program.sequence_data import NONE_ALLOWED
from sslm.program.spans import CHUNK_ROWS_MAX, SequenceMemory, Span, allowed_size_bytes
from tests.simulation.choices import WAYS, Key, Rule
from tests.simulation.models import LONGEST, MODEL_IDS, model_named

NODES_MAX = 400_000
STATES_MAX = 8_000


class Question(NamedTuple):
    """Which tokens, from the first position on."""

    model: str
    identity: int
    token_ids: tuple[int, ...]
    rules: tuple[tuple[int, Rule], ...] = ()
    """How many of the tokens are before a choice, and how that is made."""


class Answer(NamedTuple):
    """What is known after some position.

    The chain of digests, what is chosen by exact logits, how many values were clamped, and the hash
    of the residual behind the last layer.
    """

    digest: bytes
    selected: int
    saturations: tuple[int, ...]
    residual: int


Reply = tuple[list[Answer], list[int]]
"""An answer for each position, and what each rule of the question chooses."""


@dataclass(slots=True)
class _Node:
    answer: Answer | None
    residual: bytes = b""
    chosen: dict[Key, int] = field(default_factory=dict)
    next: dict[int, "_Node"] = field(default_factory=dict)
    state: tuple[bytes, bytes] | None = None
    """The pages and the fixed states behind the position."""


class _CountingRows(Rows):
    """Rows that tell how many values were clamped in each of them."""

    latest: Int64Array

    def count(self, site: SaturationSite, saturated: Int64Array) -> None:
        rows = self.starts[-1]
        if not hasattr(self, "per_row"):
            self.per_row = np.zeros((rows, len(SaturationSite)), dtype=np.int64)
        self.per_row[:, site] += np.asarray(saturated).reshape(rows, -1).sum(axis=1)
        super().count(site, saturated)

    def commit(self) -> None:
        super().commit()
        empty = np.zeros((self.starts[-1], len(SaturationSite)), dtype=np.int64)
        _CountingRows.latest = getattr(self, "per_row", empty)


class Oracle:
    """Answers by running, unless it has done so before."""

    def __init__(self) -> None:
        # The backend's own rows say for a whole span what is asked of each position.
        sys.modules[ReferencePlan.__module__].Rows = _CountingRows  # type: ignore[attr-defined]
        self._plans: dict[str, ReferencePlan] = {}
        self._forget()

    def _forget(self) -> None:
        self._roots: dict[tuple[str, int], _Node] = {}
        self._node_count = self._state_count = 0

    def reply(self, question: Question) -> Reply:
        """Return one answer for each position, and what each rule chooses."""
        if self._node_count > NODES_MAX or self._state_count > STATES_MAX:
            self._forget()
        root = self._roots.setdefault((question.model, question.identity), _Node(None))
        path, ids = [root], question.token_ids
        for token_id in ids:
            if token_id not in path[-1].next:
                break
            path.append(path[-1].next[token_id])
        if len(path) <= len(ids):
            self._run(question, path)
        answers = [node.answer for node in path[1:] if node.answer]
        return answers, [self._chosen(question, path, *rule) for rule in question.rules]

    def _chosen(self, question: Question, path: list[_Node], stop: int, rule: Rule) -> int:
        node, key = path[stop], rule.key()
        if key not in node.chosen:
            run = _Run(self._plan(question.model), None)
            node.chosen[key] = run.choose(question.token_ids[:stop], node.residual, rule)
        return node.chosen[key]

    def _run(self, question: Question, path: list[_Node]) -> None:
        """Append the nodes that are missing; keep the states at the branch and at the end."""
        ids, branch = question.token_ids, len(path) - 1
        start = next((at for at in range(branch, 0, -1) if path[at].state), 0)
        run = _Run(self._plan(question.model), path[start].state)
        stops = {branch, len(ids), *range(start, len(ids), CHUNK_ROWS_MAX)}
        answer = path[start].answer or Answer(
            first_link(run.plan.program.arithmetic_version, MODEL_IDS[question.identity]),
            -1,
            (0,) * len(SaturationSite),
            0,
        )
        at = start
        while at < len(ids):
            stop = min(place for place in stops if place > at)
            for token_id, (added, residual) in zip(
                ids[at:stop], run.answers(at, ids[at:stop], answer), strict=True
            ):
                answer = added
                at += 1
                if at == len(path):
                    path.append(_Node(answer, residual))
                    path[at - 1].next[token_id] = path[at]
                    self._node_count += 1
            if at in (branch, len(ids)):
                self._state_count += path[at].state is None
                path[at].state = run.state()

    def _plan(self, name: str) -> ReferencePlan:
        if name not in self._plans:
            model = model_named(name)
            self._plans[name] = ReferencePlan(model.program, model.tensors)
        return self._plans[name]


class _Run:
    def __init__(self, plan: ReferencePlan, state: tuple[bytes, bytes] | None) -> None:
        program, layout = plan.program, plan.program.state_layout
        page_count = -(-LONGEST // CHUNK_ROWS_MAX)
        self.plan = plan
        self.memory = SequenceMemory(
            pool=memoryview(bytearray(page_count * layout.page_size_bytes)),
            pages=np.arange(page_count, dtype=np.int32).data,
            fixed=memoryview(bytearray(layout.fixed_size_bytes)),
            residual=memoryview(bytearray(4 * CHUNK_ROWS_MAX * program.residual.width)),
            saturations=memoryview(bytearray(8 * len(SaturationSite))),
            digests=memoryview(bytearray(32 * CHUNK_ROWS_MAX)),
        )
        if state is not None:
            self.memory.pool[:], self.memory.fixed[:] = state

    def state(self) -> tuple[bytes, bytes]:
        return bytes(self.memory.pool), bytes(self.memory.fixed)

    def answers(
        self, position: int, token_ids: tuple[int, ...], before: Answer
    ) -> Iterable[tuple[Answer, bytes]]:
        """Run one span through all segments; yield answers, each with the residual."""
        program, rows = self.plan.program, len(token_ids)
        selected = np.zeros(rows, dtype=np.int32)
        span = Span(
            memory=self.memory,
            first_position=position,
            token_ids=np.array(token_ids, dtype=np.int32).data,
            first_logits_row=0,
            logits=memoryview(bytearray(8 * rows * program.vocab_size)),
            selected=selected.data.cast("B"),
        )
        self.plan.run(0, len(program.segments), [span])
        link, total = before.digest, np.array(before.saturations)
        size = 4 * program.residual.width
        for row, token_id in enumerate(token_ids):
            link = next_link(link, token_id, self.memory.digests[32 * row : 32 * row + 32])
            total = total + _CountingRows.latest[row]
            residual = bytes(self.memory.residual[size * row : size * (row + 1)])
            yield Answer(link, int(selected[row]), tuple(total.tolist()), crc32(residual)), residual

    def choose(self, token_ids: tuple[int, ...], residual: bytes, rule: Rule) -> int:
        """Run the last position through the head, and choose after it."""
        program, ids = self.plan.program, np.array(token_ids, dtype=np.int32).data
        selected = np.zeros(1, dtype=np.int32)
        logits = np.zeros(program.vocab_size, dtype=np.int64)
        self.memory.residual[: len(residual)] = residual
        choice = ChoiceData(
            WAYS[rule.way].choice,
            answer_start=rule.answer_start,
            token_ids=ids,
            scratch=memoryview(bytearray(scratch_size_bytes(program.vocab_size))),
            vocab_size=program.vocab_size,
        )
        span = Span(
            memory=self.memory,
            first_position=len(ids) - 1,
            token_ids=ids[-1:],
            first_logits_row=0,
            logits=logits.data.cast("B"),
            selected=selected.data.cast("B"),
            logit_exponents=memoryview(bytearray(4)),
            choice=None if rule.is_plain else choice,
            allowed=None if rule.is_plain else _mask(rule.allowed, program.vocab_size),
        )
        self.plan.run(program.first_head_index, len(program.segments), [span])
        if not rule.is_plain:
            return int(selected[0])
        # The largest of all logits that are allowed, and the lowest id of several.
        return max(rule.allowed or (), key=lambda i: (logits[i], -i), default=NONE_ALLOWED)


def _mask(allowed: tuple[int, ...] | None, vocab_size: int) -> memoryview | None:
    if allowed is None:
        return None
    bits = sum(1 << token_id for token_id in allowed)
    return memoryview(bits.to_bytes(allowed_size_bytes(vocab_size), "little"))


class OracleProcess:
    """The oracle in a process of its own; one batch of questions may be under way."""

    def __init__(self) -> None:
        command = [sys.executable, "-c", "from tests.simulation.oracle import main; main()"]
        self._process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env=os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
        )

    def ask(self, questions: list[Question]) -> None:
        """Begin to have a batch answered; the last one's answers must have been taken."""
        stream = _open(self._process.stdin)
        pickle.dump(questions, stream)
        stream.flush()

    def take(self) -> list[Reply]:
        """Return the replies of the batch, one for each question."""
        answers: list[Reply] = pickle.load(_open(self._process.stdout))
        return answers

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        """End the process, whatever it is at."""
        self._process.kill()
        self._process.wait()
        _open(self._process.stdin).close()
        _open(self._process.stdout).close()


def _open(stream: object) -> BinaryIO:
    assert stream is not None
    return stream  # type: ignore[return-value]


def main() -> None:
    """Answer batches until there are no more."""
    oracle = Oracle()
    while True:
        try:
            questions = pickle.load(sys.stdin.buffer)
        except EOFError:
            return
        pickle.dump([oracle.reply(question) for question in questions], sys.stdout.buffer)
        sys.stdout.buffer.flush()
