"""A worker that runs llama.cpp, through the functions of llama-cpp-python's C library.

    python serve_llama_cpp.py serve MODEL.gguf THREADS
    python serve_llama_cpp.py quantize SOURCE.gguf TARGET.gguf Q8_0|Q4_0

Prompts go in as one batch of up to 512 tokens, as in llama-bench; answers token by token, without
anything that chooses them, which is in llama.cpp's favour.
"""

import ctypes
import sys
import time
from typing import Any

import llama_cpp as llama
from serving import peak_memory, serve, timed, token_ids

PROMPT_TOKENS_MAX = 512
ROOM_STEP = 256
"""Positions of a context are a multiple of this."""


def quiet() -> Any:
    """Let the library log nothing; keep what is returned alive."""
    callback = llama.llama_log_callback(lambda level, text, data: None)
    llama.llama_log_set(callback, ctypes.c_void_p(0))
    return callback


class Context:
    """Sequences of one length.

    Args:
        model: Loaded.
        threads: That compute.
        tokens: Positions of all sequences together.
        sequences: How many there are.
    """

    def __init__(self, model: Any, threads: int, tokens: int, sequences: int) -> None:
        parameters = llama.llama_context_default_params()
        parameters.n_ctx = tokens
        parameters.n_batch = parameters.n_ubatch = PROMPT_TOKENS_MAX
        parameters.n_seq_max = sequences
        parameters.n_threads = parameters.n_threads_batch = threads
        parameters.no_perf = True
        parameters.kv_unified = sequences == 1
        self.handle = llama.llama_init_from_model(model, parameters)
        if not self.handle:
            raise SystemExit("llama.cpp makes no context of this size")
        self.batch = llama.llama_batch_init(PROMPT_TOKENS_MAX, 0, sequences)
        self._sequences = sequences

    def run(self, rows: list[tuple[int, int, int, bool]]) -> None:
        """Compute rows of (token id, position, sequence, whether its logits are wanted)."""
        batch = self.batch
        batch.n_tokens = len(rows)
        for index, (token_id, position, sequence, is_scored) in enumerate(rows):
            batch.token[index] = token_id
            batch.pos[index] = position
            batch.n_seq_id[index] = 1
            batch.seq_id[index][0] = sequence
            batch.logits[index] = is_scored
        if llama.llama_decode(self.handle, batch) != 0:
            raise SystemExit("llama.cpp does not compute")
        llama.llama_synchronize(self.handle)

    def rewind(self, depth: int) -> None:
        """Forget every sequence's positions from *depth* on."""
        memory = llama.llama_get_memory(self.handle)
        for sequence in range(self._sequences):
            llama.llama_memory_seq_rm(memory, sequence, depth, -1)

    def take_in(self, first: int, count: int, sequence: int = 0) -> None:
        """Compute a prompt's tokens in batches, with the logits of the last."""
        ids = token_ids(count, first)
        for start in range(0, count, PROMPT_TOKENS_MAX):
            stop = min(start + PROMPT_TOKENS_MAX, count)
            self.run([(ids[i], first + i, sequence, i == count - 1) for i in range(start, stop)])

    def decode(self, first: int, count: int, sequences: int = 1) -> None:
        """Compute tokens one after the other, for several sequences at once."""
        for position, token_id in enumerate(token_ids(count, first), first):
            self.run([(token_id, position, sequence, True) for sequence in range(sequences)])


class Worker:
    """Measures on command.

    Args:
        path: A GGUF file.
        threads: That compute.
    """

    def __init__(self, path: str, threads: int) -> None:
        self._log = quiet()
        started_s = time.perf_counter()
        parameters = llama.llama_model_default_params()
        parameters.n_gpu_layers = 0
        self._model = llama.llama_model_load_from_file(path.encode(), parameters)
        if not self._model:
            raise SystemExit(f"llama.cpp does not load {path}")
        self._threads = threads
        self._prompts = Context(self._model, threads, 1024, 1)
        self._load_s = time.perf_counter() - started_s
        self._deep: dict[tuple[int, int, int], Context] = {}

    def describe(self) -> dict[str, Any]:
        """Return how the library was built, and how long it took to load the model."""
        return {
            "version": llama.__version__,
            "system": llama.llama_print_system_info().decode().strip(),
            "load_s": self._load_s,
        }

    def prefill(self, tokens: int) -> dict[str, Any]:
        """Time a prompt."""
        self._prompts.rewind(0)
        found: dict[str, Any] = timed(lambda: self._prompts.take_in(0, tokens))
        return found

    def decode(self, tokens: int, depth: int, batch: int) -> dict[str, Any]:
        """Time the tokens after *depth* others, of *batch* sequences together."""
        key = (tokens, depth, batch)
        if key not in self._deep:
            room = ROOM_STEP * (-(-(depth + tokens) // ROOM_STEP))
            self._deep[key] = Context(self._model, self._threads, room * batch, batch)
            for sequence in range(batch):
                self._deep[key].take_in(0, depth, sequence)
        self._deep[key].rewind(depth)
        found: dict[str, Any] = timed(lambda: self._deep[key].decode(depth, tokens, batch))
        return found


def quantize(source: str, target: str, kind: str) -> None:
    """Write a GGUF file of another type, from whatever type the source has."""
    log = quiet()
    parameters = llama.llama_model_quantize_default_params()
    parameters.ftype = {
        "Q8_0": llama.LLAMA_FTYPE_MOSTLY_Q8_0,
        "Q4_0": llama.LLAMA_FTYPE_MOSTLY_Q4_0,
    }[kind]
    parameters.allow_requantize = True
    if llama.llama_model_quantize(source.encode(), target.encode(), ctypes.byref(parameters)) != 0:
        raise SystemExit(f"llama.cpp does not quantize {source}")
    del log


if __name__ == "__main__":
    if sys.argv[1] == "quantize":
        quantize(*sys.argv[2:5])
    else:
        worker = Worker(sys.argv[2], int(sys.argv[3]))
        serve(
            {
                "describe": worker.describe,
                "prefill": worker.prefill,
                "decode": worker.decode,
                "memory": peak_memory,
            }
        )
