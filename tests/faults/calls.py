"""The calls that faults are put into: what each does, and what has to hold behind it.

A case prepares a call, makes it with one fault in it, looks at what it left, and makes it again:
the second time it must give what it gives when nothing ever failed.
"""

import datetime
import hashlib
import json
import os
from abc import ABC, abstractmethod
from collections.abc import Callable
from pathlib import Path
from typing import Final

import sslm
from sslm.artifact.saved_files import write_saved_file
from sslm.catalog.pulling import pull
from sslm.convert.conversion import convert_gguf
from sslm.engine.model import Model
from sslm.serving.batch_input import BatchInput
from sslm.serving.batch_job import BatchJob
from sslm.serving.batch_lines import JobOptions
from sslm.text.tokenizer import Tokenizer

CONTEXT_TOKENS: Final = 128
MEMORY_BYTES: Final = 64 << 20
PROMPT: Final = "Once upon a time"
TOKENS: Final = 6
SCHEMA: Final = {
    "type": "object",
    "properties": {"name": {"type": "string", "maxLength": 4}, "is_ok": {"type": "boolean"}},
    "required": ["name", "is_ok"],
    "additionalProperties": False,
}
ROWS: Final = 4


class Call(ABC):
    """One call under test.

    Args:
        folder: Of this call alone.
        files: The files that all calls share, by name.
    """

    def __init__(self, folder: Path, files: Path) -> None:
        self.folder = folder
        self.files = files

    def prepare(self) -> None:  # noqa: B027 (most have nothing to do)
        """Get ready for one case; nothing fails here."""

    @abstractmethod
    def run(self) -> object:
        """Make the call, and return what :meth:`told` needs."""

    def told(self, result: object) -> str:
        """Return text that stands for a result, files included; nothing fails here."""
        return str(result)

    def wrong(self) -> str | None:
        """Say what the call left that it should not have left, or None."""
        return None

    def left(self) -> str | None:
        """Say what is left even when the call was made again, or None."""
        return None


class _Folder(Call):
    """A call that writes into its folder, which is empty before each case."""

    def prepare(self) -> None:
        for path in sorted(self.folder.rglob("*"), reverse=True):
            path.rmdir() if path.is_dir() and not path.is_symlink() else path.unlink()


class _File(_Folder):
    """A call that writes one file, whole or not at all."""

    name = "out"
    right: bytes | None = None

    @property
    def path(self) -> Path:
        return self.folder / self.name

    def told(self, result: object) -> str:
        found = self.path.read_bytes()
        if self.right is None:
            self.right = found
        return f"{result} {hashlib.sha256(found).hexdigest()}"

    def wrong(self) -> str | None:
        names = sorted(path.name for path in self.folder.iterdir())
        if names not in ([], [self.name]):
            return f"left {names}"
        if names and self.path.read_bytes() != self.right:
            return "left another file under the final name"
        return None


class _OnModel(Call):
    """A call on a model that stays open from case to case."""

    artifact = "talker.sslm"

    def __init__(self, folder: Path, files: Path) -> None:
        super().__init__(folder, files)
        self.model = Model(
            files / self.artifact, context_tokens=CONTEXT_TOKENS, memory_bytes=MEMORY_BYTES
        )
        self.free_bytes = self.model._runner.free_bytes

    def wrong(self) -> str | None:
        free = self.model._runner.free_bytes
        if free != self.free_bytes:
            return f"{self.free_bytes} bytes were free before, and now {free}"
        return None


class _Load(Call):
    def run(self) -> str:
        with Model(self.files / "talker.sslm") as model:
            return model.model_id


class _LoadCopied(Call):
    def run(self) -> str:
        with Model(self.files / "talker.sslm", mmap=False) as model:
            return model.file_sha256


class _FirstAnswer(Call):
    """All that an opened model makes when it is first needed is made within the call."""

    def run(self) -> str:
        with Model(self.files / "talker.sslm", context_tokens=CONTEXT_TOKENS) as model:
            messages = [{"role": "user", "content": "Hello"}]
            return model.chat(messages, max_tokens=2).digest


class _Generate(_OnModel):
    def run(self) -> str:
        return self.model.generate(PROMPT, max_tokens=TOKENS).digest


class _Sampled(_OnModel):
    def run(self) -> str:
        found = self.model.generate(
            PROMPT, max_tokens=TOKENS, temperature=0.8, top_p=0.9, seed=7, logprobs=2, stop=["zq"]
        )
        return found.digest + str([one.q20 for one in found.logprobs or ()])


class _Stream(_OnModel):
    def run(self) -> str:
        with self.model.stream(PROMPT, max_tokens=TOKENS, deadline_s=1000) as stream:
            text = "".join(piece.text for piece in stream)
            return text + stream.result().digest


class _Chat(_OnModel):
    def run(self) -> str:
        messages = [{"role": "system", "content": "Be brief"}, {"role": "user", "content": "Hi"}]
        date = datetime.date(2024, 2, 29)
        return self.model.chat(messages, date=date, max_tokens=TOKENS).digest


class _GenerateMany(_OnModel):
    def run(self) -> str:
        found = self.model.generate_many([PROMPT, "Tim", "Lily"], max_tokens=3, batch_size=2)
        return " ".join(one.digest for one in found)


class _GenerateN(_OnModel):
    def run(self) -> str:
        found = self.model.generate_n(PROMPT, 2, max_tokens=3, temperature=1, seed=3)
        return " ".join(one.digest for one in found)


class _Slices(_OnModel):
    """A prefix, a sequence on top of it, and a scheduler, in a pool of their own."""

    def run(self) -> str:
        with (
            self.model.kv_pool(CONTEXT_TOKENS) as pool,
            self.model.prefix("Once upon", pool=pool) as prefix,
        ):
            while not prefix.done:
                prefix.advance(layers=2)
            with self.model.sequence(" a time", prefix=prefix, pool=pool, max_tokens=3) as one:
                scheduler = self.model.scheduler()
                scheduler.add(one)
                while not one.done:
                    for failure in scheduler.run(layers=3):
                        raise failure.error
                return one.result().digest


class _Session(_OnModel):
    def run(self) -> str:
        with self.model.session(system="Be brief") as session:
            first = session.say("Hi", max_tokens=3).digest
            return first + session.say("And?", max_tokens=3).digest


class _Say(_OnModel):
    """A turn of a conversation that outlives its faults."""

    def __init__(self, folder: Path, files: Path) -> None:
        super().__init__(folder, files)
        self.session = self.model.session(system="Be brief")
        self.session.say("Hi", max_tokens=3)
        self.free_bytes = self.model._runner.free_bytes
        self.messages = self.session.messages

    def prepare(self) -> None:
        while len(self.session.messages) > len(self.messages):
            self.session.undo()

    def run(self) -> str:
        if not self.session.is_accepting:
            self.session.reset(self.messages)
        return self.session.say("And?", max_tokens=3).digest

    def wrong(self) -> str | None:
        if self.session.messages[: len(self.messages)] != self.messages:
            return f"messages are {self.session.messages}"
        if len(self.session.messages) - len(self.messages) not in (0, 2):
            return f"half a turn was kept: {self.session.messages}"
        self.prepare()
        return super().wrong()


class _Save(_File, _OnModel):
    def __init__(self, folder: Path, files: Path) -> None:
        super().__init__(folder, files)
        self.session = self.model.session()
        self.session.say("Hi", max_tokens=3)
        self.free_bytes = self.model._runner.free_bytes

    def run(self) -> None:
        write_saved_file(self.path, self.session.save(kv=True))

    def wrong(self) -> str | None:
        return _File.wrong(self) or _OnModel.wrong(self)


class _Restore(_OnModel):
    def __init__(self, folder: Path, files: Path) -> None:
        super().__init__(folder, files)
        with self.model.session() as session:
            session.say("Hi", max_tokens=3)
            self.blob = session.save(kv=True)

    def run(self) -> str:
        with self.model.restore_session(self.blob) as session:
            return session.say("And?", max_tokens=3).digest


class _Record(_File, _OnModel):
    def run(self) -> str:
        return self.model.generate(PROMPT, max_tokens=TOKENS, record=self.path).digest

    def wrong(self) -> str | None:
        return _File.wrong(self) or _OnModel.wrong(self)


class _Replay(_OnModel):
    def __init__(self, folder: Path, files: Path) -> None:
        super().__init__(folder, files)
        self.model.generate(PROMPT, max_tokens=TOKENS, record=folder / "one.record")

    def run(self) -> str:
        report = sslm.replay(self.folder / "one.record", self.model)
        return f"{report.identical} {report.digest}"


class _Batch(_OnModel):
    """Rows that were written are right, and the same job goes on behind them."""

    right: bytes | None = None

    def __init__(self, folder: Path, files: Path) -> None:
        super().__init__(folder, files)
        self.out = folder / "out.jsonl"
        requests = [
            {
                "custom_id": str(index),
                "method": "POST",
                "url": "/v1/chat/completions",
                "body": {"messages": [{"role": "user", "content": f"{index}?"}], "max_tokens": 3},
            }
            for index in range(ROWS)
        ]
        # One that is refused wherever it is answered.
        requests[1]["body"] = {"messages": [{"role": "user"}], "max_tokens": 3}
        (folder / "in.jsonl").write_text("".join(json.dumps(one) + "\n" for one in requests))

    def prepare(self) -> None:
        self.out.unlink(missing_ok=True)

    def run(self) -> str:
        options = JobOptions(
            seed=1,
            max_tokens=3,
            context_tokens=CONTEXT_TOKENS,
            date=None,
            model="talker",
            is_any_model=False,
            schemas=self.model.schemas_sha256,
        )
        source = BatchInput(self.folder / "in.jsonl")
        return BatchJob(self.model, source, options, batch_size=2).run(self.out).sha256

    def told(self, result: object) -> str:
        found = self.out.read_bytes()
        self.right = found if self.right is None else self.right
        return f"{result} {hashlib.sha256(found).hexdigest()}"

    def wrong(self) -> str | None:
        found = self.out.read_bytes() if self.out.exists() else b""
        if self.right is not None and not self.right.startswith(found):
            return f"wrong rows: {found!r}"
        return super().wrong()


class _Pull(_Folder):
    right: bytes | None = None

    def run(self) -> Path:
        return pull(self.files / "talker.sslm", cache_dir=self.folder).path

    def told(self, result: object) -> str:
        return hashlib.sha256(Path(str(result)).read_bytes()).hexdigest()

    def wrong(self) -> str | None:
        right = (self.files / "talker.sslm").read_bytes()
        for path in self.folder.rglob("*.sslm"):
            if path.read_bytes() != right:
                return f"left another file as {path.name}"
        return None

    def left(self) -> str | None:
        work = self.folder / "work"
        names = sorted(path.name for path in work.iterdir()) if work.exists() else []
        return f"{names} are still in the work folder" if names else None


class _Convert(_File):
    def run(self) -> None:
        convert_gguf(self.files / "tiny.gguf", self.path)


class _Schema(_File):
    """Compiles a schema, writes it, and reads it again."""

    def __init__(self, folder: Path, files: Path) -> None:
        super().__init__(folder, files)
        with Model(files / "talker.sslm") as model:
            self.tokenizer = model.tokenizer

    def run(self) -> str:
        schema = sslm.Schema.compile(SCHEMA, tokenizer=self.tokenizer, name="one")
        schema.save(self.path)
        found = sslm.Schema.load(self.path, tokenizer=self.tokenizer)
        return found.digest


class _SchemaAnswer(_OnModel):
    def run(self) -> str:
        found = self.model.generate(PROMPT, max_tokens=40, schema=SCHEMA)
        return f"{found.digest} {found.parsed}"


class _KeptSchema(_SchemaAnswer):
    """The same where every schema is compiled anew."""

    def prepare(self) -> None:
        self.model._model_schemas = None


class _Tokenizer(Call):
    artifact = "talker.sslm"

    def __init__(self, folder: Path, files: Path) -> None:
        super().__init__(folder, files)
        with Model(files / self.artifact) as model:
            self.vocabulary = model.artifact.vocabulary

    def run(self) -> str:
        tokenizer = Tokenizer(self.vocabulary)
        ids = tokenizer.encode("Once upon a time, ünïcode was \U0001f600 fun.")
        return f"{ids} {tokenizer.decode(ids)}"


class _ByteTokenizer(_Tokenizer):
    """The same for byte-level BPE, whose encoder is a foreign library."""

    artifact = "bytes.sslm"


class _Python(Call):
    """Nothing of the package: what comes of a fault in the language itself."""

    def run(self) -> str:
        try:
            self._deeper(4)
        except FileNotFoundError:
            return "nothing there"
        return "there"

    def _deeper(self, depth: int) -> None:
        if depth:
            self._deeper(depth - 1)
        else:
            os.stat(self.folder / "file")  # noqa: PTH116 (it is what looks for ``__fspath__``)


class _Verify(Call):
    def run(self) -> str:
        with Model(self.files / "stories260K.sslm", context_tokens=512) as model:
            report = model.verify()
            return f"{report.ok} {report.digest}"


CALLS: Final[dict[str, Callable[[Path, Path], Call]]] = {
    "load": _Load,
    "load_copied": _LoadCopied,
    "first_answer": _FirstAnswer,
    "generate": _Generate,
    "sampled": _Sampled,
    "stream": _Stream,
    "chat": _Chat,
    "generate_many": _GenerateMany,
    "generate_n": _GenerateN,
    "slices": _Slices,
    "session": _Session,
    "say": _Say,
    "save": _Save,
    "restore": _Restore,
    "record": _Record,
    "replay": _Replay,
    "batch": _Batch,
    "pull": _Pull,
    "convert": _Convert,
    "schema": _Schema,
    "schema_answer": _SchemaAnswer,
    "new_schema_answer": _KeptSchema,
    "tokenizer": _Tokenizer,
    "byte_tokenizer": _ByteTokenizer,
    "verify": _Verify,
    "python": _Python,
}
"""By the names that the command takes."""
