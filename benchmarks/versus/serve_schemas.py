"""A worker that masks tokens with xgrammar or llguidance, or builds an index with outlines-core.

    python serve_schemas.py serve VOCABULARY.json 1 xgrammar|llguidance|outlines-core

The vocabulary is ``{"tokens": [hexadecimal digits or null], "end_id": id}``; null is a token that
is no content. Texts are compact where an engine can be told so, and every engine has one thread.
"""

import json
import os
import resource
import sys
import time
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path
from typing import Any, Final

from serving import peak_memory, serve

COMPILING_SECONDS_MAX: Final = 20
MEMORY_SIZE_BYTES_MAX: Final = 12 << 30


def xgrammar(tokens: list[bytes | None], end_id: int) -> tuple[Callable[[str], Any], Any]:
    """Return what compiles a schema, and what makes a walker through it."""
    import xgrammar as engine

    info = engine.TokenizerInfo(
        [token or b"" for token in tokens],
        engine.VocabType.RAW,
        vocab_size=len(tokens),
        stop_token_ids=[end_id],
    )
    compiler = engine.GrammarCompiler(info, max_threads=1, cache_enabled=False)
    mask = engine.allocate_token_bitmask(1, len(tokens))

    def compiled(schema: str) -> Any:
        return compiler.compile_json_schema(schema, any_whitespace=False, separators=(",", ":"))

    def walker(grammar: Any) -> tuple[Callable[[int], bool], Callable[[], object]]:
        matcher = engine.GrammarMatcher(grammar)
        return matcher.accept_token, lambda: matcher.fill_next_token_bitmask(mask)

    return compiled, walker


class Words:
    """The vocabulary as llguidance wants it."""

    is_tokenizer_wrapper = True
    bos_token_id = None

    def __init__(self, tokens: list[bytes | None], end_id: int) -> None:
        self.eos_token_id = end_id
        self.tokens = [
            b"<%d>" % index if token is None else token for index, token in enumerate(tokens)
        ]
        self.special_token_ids = [index for index, token in enumerate(tokens) if token is None]
        self._ids = {token: index for index, token in enumerate(tokens) if token is not None}

    def __call__(self, text: str) -> list[int]:
        """Split a text byte by byte: nothing that is measured asks for more."""
        return [self._ids[bytes((byte,))] for byte in text.encode()]


def llguidance(tokens: list[bytes | None], end_id: int) -> tuple[Callable[[str], Any], Any]:
    """Return what compiles a schema, and what makes a walker through it."""
    import llguidance as engine
    import numpy as np

    tokenizer = engine.LLTokenizer(
        Words(tokens, end_id), n_vocab=len(tokens), slices=engine.LLTokenizer.json_slices()
    )
    mask = np.zeros((len(tokens) + 31) // 32, dtype=np.int32)

    def compiled(schema: str) -> Any:
        grammar = engine.LLMatcher.grammar_from_json_schema(
            schema,
            defaults={
                "whitespace_flexible": False,
                "item_separator": ",",
                "key_separator": ":",
            },
        )
        matcher = engine.LLMatcher(tokenizer, grammar)
        if matcher.is_error():
            raise ValueError(matcher.get_error())
        return matcher

    def walker(first: Any) -> tuple[Callable[[int], bool], Callable[[], object]]:
        matcher = first.deep_copy()
        address = mask.ctypes.data
        # The mask's own size keeps it alive.
        return matcher.consume_token, lambda: matcher.unsafe_compute_mask_ptr(address, mask.nbytes)

    return compiled, walker


def outlines_core(tokens: list[bytes | None], end_id: int) -> tuple[Callable[[str], Any], Any]:
    """Return what builds the index of a schema; nobody walks through it here."""
    import outlines_core as engine
    from outlines_core import json_schema

    ids: dict[bytes, list[int]] = {}
    for index, token in enumerate(tokens):
        if token is not None:
            ids.setdefault(token, []).append(index)
    words = engine.Vocabulary(end_id, ids)

    def compiled(schema: str) -> Any:
        return engine.Index(json_schema.build_regex_from_schema(schema, ""), words)

    return compiled, None


ENGINES: Final = {
    "xgrammar": xgrammar,
    "llguidance": llguidance,
    "outlines-core": outlines_core,
}


class Worker:
    """Measures on command.

    Args:
        path: Of the vocabulary.
        name: Of the engine.
    """

    def __init__(self, path: str, name: str) -> None:
        vocabulary = json.loads(Path(path).read_text())
        tokens = [None if text is None else bytes.fromhex(text) for text in vocabulary["tokens"]]
        self._name = name
        self._compiled, self._walker = ENGINES[name](tokens, vocabulary["end_id"])
        self._grammar: Any = None

    def describe(self) -> dict[str, Any]:
        """Return which version it is."""
        return {"version": version(self._name)}

    def compile(self, schema: str) -> dict[str, Any]:
        """Compile a schema, first in a process that may take too much; return CPU seconds."""
        tried = self._tried(schema)
        if "refused" in tried or self._walker is None:
            return tried
        started_s = time.process_time()
        self._grammar = self._compiled(schema)
        return {"cpu_s": time.process_time() - started_s}

    def walk(self, token_ids: list[int]) -> dict[str, Any]:
        """Return how many nanoseconds each token took: to take it in, and to mask what follows.

        The first number is that of the mask before the first token.
        """
        accept, fill = self._walker(self._grammar)
        clock = time.perf_counter_ns
        started_ns = clock()
        fill()
        times = [clock() - started_ns]
        for index, token_id in enumerate(token_ids):
            started_ns = clock()
            if not accept(token_id):
                return {"refused_at": index}
            fill()
            times.append(clock() - started_ns)
        return {"ns": times}

    def _tried(self, schema: str) -> dict[str, Any]:
        reading, writing = os.pipe()
        child = os.fork()
        if child == 0:
            used = resource.getrusage(resource.RUSAGE_SELF)
            seconds = int(used.ru_utime + used.ru_stime) + COMPILING_SECONDS_MAX
            resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds))
            resource.setrlimit(resource.RLIMIT_AS, (MEMORY_SIZE_BYTES_MAX,) * 2)
            os.write(writing, json.dumps(self._timed(schema)).encode())
            os._exit(0)
        os.close(writing)
        with os.fdopen(reading, "rb") as answer:
            text = answer.read()
        os.waitpid(child, 0)
        if not text:
            return {"refused": f"more than {COMPILING_SECONDS_MAX} s, or too much memory"}
        found: dict[str, Any] = json.loads(text)
        return found

    def _timed(self, schema: str) -> dict[str, Any]:
        started_s = time.process_time()
        try:
            self._compiled(schema)
        except BaseException as error:
            return {"refused": " ".join(str(error).split())[:200] or type(error).__name__}
        return {"cpu_s": time.process_time() - started_s}


if __name__ == "__main__":
    worker = Worker(sys.argv[2], sys.argv[4])
    serve(
        {
            "describe": worker.describe,
            "compile": worker.compile,
            "walk": worker.walk,
            "memory": peak_memory,
        }
    )
