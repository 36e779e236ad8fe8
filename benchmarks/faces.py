"""The same answers from every face of the package; prints a table.

    python -m benchmarks.faces MODEL.sslm

Sixty requests go through the Python calls, their twins for coroutines, and the commands. Exit 1
if a text, an id or a digest differs anywhere.
"""

import argparse
import asyncio
import io
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

# Run by its path or as a module, it finds the other folders of the checkout.
sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks.faces_corpus import CONTEXT_TOKENS, Asked, corpus
from sslm.answering.results import Completion
from sslm.cli.app import run
from sslm.engine.model import Model

PROCESSES = 4
"""Requests that are made with a process of their own; each has to start Python."""


@dataclass(frozen=True)
class Answer:
    """What has to be the same from every face; None is what a face does not tell."""

    text: str
    digest: str
    token_ids: tuple[int, ...] | None = None
    ending: tuple[str, int | str | None] | None = None

    @classmethod
    def of(cls, completion: Completion) -> "Answer":
        """Take what has to be the same from what a call returned."""
        ending = completion.finish_reason, completion.stop_reason
        return cls(completion.text, completion.digest, tuple(completion.token_ids), ending)

    def agrees_with(self, told: "Answer") -> bool:
        """Say whether a face told the same, as far as it tells it."""
        return (self.text, self.digest) == (told.text, told.digest) and all(
            theirs is None or mine == theirs
            for mine, theirs in ((self.token_ids, told.token_ids), (self.ending, told.ending))
        )


Face = Callable[[Model, list[Asked]], "list[Answer | None]"]
"""Answers every request, or None where it has no way to ask."""


def by_call(model: Model, requests: list[Asked]) -> list[Answer | None]:
    """Answer with ``generate`` and ``chat``."""
    return [
        Answer.of((model.chat if one.is_chat else model.generate)(one.prompt, **one.options))
        for one in requests
    ]


def by_stream(model: Model, requests: list[Asked]) -> list[Answer | None]:
    """Join what ``stream`` and ``chat_stream`` yield."""
    answers: list[Answer | None] = []
    for one in requests:
        ask = model.chat_stream if one.is_chat else model.stream
        with ask(one.prompt, **one.options) as stream:
            pieces = list(stream)
            answers.append(_joined(pieces, stream.result()))
    return answers


def by_coroutine(model: Model, requests: list[Asked]) -> list[Answer | None]:
    """Await all of ``agenerate`` and ``achat`` at once."""

    async def main() -> list[Answer | None]:
        asks = [(model.achat if one.is_chat else model.agenerate) for one in requests]
        waiting = [ask(one.prompt, **one.options) for ask, one in zip(asks, requests, strict=True)]
        return [Answer.of(one) for one in await asyncio.gather(*waiting)]

    return asyncio.run(main())


def by_async_stream(model: Model, requests: list[Asked]) -> list[Answer | None]:
    """Join what ``astream`` and ``achat_stream`` yield, all of them at once."""

    async def read(one: Asked) -> Answer | None:
        ask = model.achat_stream if one.is_chat else model.astream
        async with ask(one.prompt, **one.options) as stream:
            pieces = [piece async for piece in stream]
            return _joined(pieces, stream.result())

    async def main() -> list[Answer | None]:
        return await asyncio.gather(*map(read, requests))

    return asyncio.run(main())


def by_many(model: Model, requests: list[Asked]) -> list[Answer | None]:
    """Answer with ``generate_many``, all requests with the same options in one call.

    Those that draw are left out, as rows have seeds of their own.
    """
    answers: dict[int, Answer] = {}
    for options in {one.option_key: one.options for one in requests}.values():
        rows = [
            index
            for index, one in enumerate(requests)
            if one.options == options and not (one.is_chat or one.is_drawn)
        ]
        found = model.generate_many([requests[row].prompt for row in rows], **options)
        for row, one in zip(rows, found, strict=True):
            assert isinstance(one, Completion)
            answers[row] = Answer.of(one)
    return [answers.get(index) for index in range(len(requests))]


def by_batch(model: Model, requests: list[Asked]) -> list[Answer | None]:
    """Write a file of all requests, and read what ``sslm batch`` answers, in this process."""
    with tempfile.TemporaryDirectory() as folder:
        source, out = Path(folder, "in.jsonl"), Path(folder, "out.jsonl")
        lines = [json.dumps(one.batch_line(str(index))) for index, one in enumerate(requests)]
        source.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
        options = ["-m", str(model.path), "--context-tokens", str(CONTEXT_TOKENS)]
        _run(["batch", str(source), "-o", str(out), *options], None)
        return [_of_batch(line) for line in out.read_bytes().splitlines()]


def by_answers(model: Model, requests: list[Asked]) -> list[Answer | None]:
    """Take the first of two answers of ``generate_n``, which are computed together."""
    return [
        None if one.is_chat else Answer.of(model.generate_n(one.prompt, 2, **one.options)[0])
        for one in requests
    ]


def by_session(model: Model, requests: list[Asked]) -> list[Answer | None]:
    """Say the last message in a session, take it back, and say it again with all of it saved."""
    answers: list[Answer | None] = []
    with model.session() as session:
        for one in requests:
            if not one.is_chat:
                answers.append(None)
                continue
            *before, last = one.prompt
            session.reset(before)
            first = session.say(last["content"], **one.options)
            session.undo()
            again = session.say(last["content"], **one.options)
            is_same = again == first and again.usage.cached_tokens == again.usage.prompt_tokens
            answers.append(Answer.of(again) if is_same else Answer("another answer", ""))
    return answers


def by_slices(model: Model, requests: list[Asked]) -> list[Answer | None]:
    """Advance all ``sequence`` at once, in slices of milliseconds and of few layers by turns."""
    scheduler = model.scheduler()
    sequences = [
        None if one.is_chat else model.sequence(one.prompt, **one.options) for one in requests
    ]
    asked = [one for one in sequences if one is not None]
    for sequence in asked:
        scheduler.add(sequence)
    while not all(sequence.done for sequence in asked):
        for failure in (*scheduler.run(max_ms=2), *scheduler.run(layers=3)):
            raise failure.error
    answers = [None if one is None else Answer.of(one.result()) for one in sequences]
    for sequence in asked:
        sequence.close()
    return answers


def by_command(model: Model, requests: list[Asked]) -> list[Answer | None]:
    """Read the bytes on stdout of ``sslm generate`` and ``sslm chat``, run in this process."""
    return [_command(model, one) if one.has_command else None for one in requests]


def by_json(model: Model, requests: list[Asked]) -> list[Answer | None]:
    """Read what ``sslm generate --json`` prints, run in this process."""
    return [
        _of_json(_run(one.arguments(model, "--json"), one.stdin)[0])
        if one.has_command and not one.is_chat
        else None
        for one in requests
    ]


def by_process(model: Model, requests: list[Asked]) -> list[Answer | None]:
    """Read what ``sslm generate --json`` prints, run as a program, for some of the requests."""
    usable = [one for one in requests if one.has_command and not one.is_chat and one.is_argument]
    chosen = usable[:: max(1, len(usable) // PROCESSES)]
    return [
        _of_json(_start(one.arguments(model, "--json"))) if one in chosen else None
        for one in requests
    ]


FACES: dict[str, Face] = {
    "generate, chat": by_call,
    "stream, chat_stream, joined": by_stream,
    "agenerate, achat, all at once": by_coroutine,
    "astream, achat_stream, all at once": by_async_stream,
    "generate_many": by_many,
    "sslm generate, sslm chat: bytes of stdout": by_command,
    "sslm generate --json": by_json,
    "sslm generate --json, own process": by_process,
    "sslm batch": by_batch,
    "session.say, all of it saved": by_session,
    "sequence, all at once in slices": by_slices,
    "generate_n, the first of two": by_answers,
}


@dataclass(frozen=True)
class Row:
    """How often a face told what the first one told."""

    face: str
    count: int
    seconds: float
    differing: list[str]


def compare(path: Path) -> Iterator[Row]:
    """Send the corpus through every face."""
    with Model(path, context_tokens=CONTEXT_TOKENS) as model:
        requests = corpus(model)
        expected: list[Answer | None] = []
        for name, face in FACES.items():
            started_s = time.perf_counter()
            told = face(model, requests)
            seconds = time.perf_counter() - started_s
            expected = expected or told
            asked = [
                (one, mine, theirs)
                for one, mine, theirs in zip(requests, expected, told, strict=True)
                if theirs is not None
            ]
            differing = [
                one.name for one, mine, theirs in asked if not (mine and mine.agrees_with(theirs))
            ]
            yield Row(name, len(asked), seconds, differing)


def _joined(pieces: list[Any], completion: Completion) -> Answer:
    token_ids = tuple(token_id for piece in pieces for token_id in piece.token_ids)
    ending = completion.finish_reason, completion.stop_reason
    return Answer("".join(piece.text for piece in pieces), completion.digest, token_ids, ending)


def _command(model: Model, one: Asked) -> Answer:
    out, notes = _run(one.arguments(model), one.stdin)
    text = out.decode("utf-8")
    digest = notes.splitlines()[-1].split()[1]
    return Answer(text.removesuffix("\n") if one.is_chat else text, digest)


def _of_json(out: bytes) -> Answer:
    facts = json.loads(out)
    ending = facts["finish_reason"], facts["stop_reason"]
    return Answer(facts["text"], facts["digest"], tuple(facts["token_ids"]), ending)


def _of_batch(line: bytes) -> Answer:
    (choice,) = json.loads(line)["response"]["body"]["choices"]
    told = choice["sslm"]
    text = choice["text"] if "text" in choice else choice["message"]["content"]
    ending = choice["finish_reason"], told["stop_reason"]
    return Answer(text, told["digest"], tuple(told["token_ids"]), ending)


def _run(arguments: list[str], stdin: str | None) -> tuple[bytes, str]:
    with _standard_streams(stdin) as (out, error):
        code = run(arguments)
    if code != 0:
        raise AssertionError(f"{arguments} gave {code}: {error.getvalue()}")
    return out.getvalue(), error.getvalue()


@contextmanager
def _standard_streams(stdin: str | None) -> Iterator[tuple[io.BytesIO, io.StringIO]]:
    before = sys.stdin, sys.stdout, sys.stderr
    out, error = io.BytesIO(), io.StringIO()
    sys.stdin = io.TextIOWrapper(io.BytesIO((stdin or "").encode("utf-8")), encoding="utf-8")
    sys.stdout = io.TextIOWrapper(out, encoding="utf-8", newline="", write_through=True)
    sys.stderr = error
    try:
        yield out, error
    finally:
        # A wrapper that is dropped would close the bytes with it.
        sys.stdout.detach()
        sys.stdin, sys.stdout, sys.stderr = before


def _start(arguments: list[str]) -> bytes:
    return subprocess.check_output([sys.executable, "-m", "sslm", *arguments])


def main() -> int:
    """Print the table of one model."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.faces")
    parser.add_argument("model", type=Path, help="a .sslm file")
    model = parser.parse_args().model
    is_same = True
    print(f"{'face':<42} {'same':>7} {'seconds':>8}")
    for row in compare(model):
        same = f"{row.count - len(row.differing)}/{row.count}"
        print(f"{row.face:<42} {same:>7} {row.seconds:>8.1f}", *row.differing, sep="  ")
        is_same &= not row.differing
    return 0 if is_same else 1


if __name__ == "__main__":
    sys.exit(main())
