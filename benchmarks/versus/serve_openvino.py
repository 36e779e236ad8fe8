"""A worker that runs OpenVINO GenAI on a GGUF file; of its speeds only prefill is asked for.

python serve_openvino.py serve MODEL.gguf THREADS
"""

import os
import sys
import time
from typing import Any

os.environ["OPENVINO_TELEMETRY"] = "0"

import numpy as np
import openvino
import openvino_genai
from serving import peak_memory, serve, timed, token_ids


class Worker:
    """Measures on command.

    Args:
        path: A GGUF file.
        threads: That compute.
    """

    def __init__(self, path: str, threads: int) -> None:
        started_s = time.perf_counter()
        # With its paged attention, the default, it prefills at a third of this speed.
        self._pipeline = openvino_genai.LLMPipeline(
            path, "CPU", INFERENCE_NUM_THREADS=threads, ATTENTION_BACKEND="SDPA"
        )
        self._load_s = time.perf_counter() - started_s
        self._settings = openvino_genai.GenerationConfig()
        self._settings.max_new_tokens = 1
        self._settings.ignore_eos = True
        self._settings.do_sample = False

    def describe(self) -> dict[str, Any]:
        """Return what it is, and how long it took to load the model."""
        return {
            "version": openvino_genai.__version__,
            "system": openvino.__version__,
            "load_s": self._load_s,
        }

    def prefill(self, tokens: int) -> dict[str, Any]:
        """Time a prompt, with the first token of an answer."""
        ids = np.array([token_ids(tokens)], dtype=np.int64)
        inputs = openvino_genai.TokenizedInputs(
            openvino.Tensor(ids), openvino.Tensor(np.ones_like(ids))
        )
        found: dict[str, Any] = timed(lambda: self._pipeline.generate(inputs, self._settings))
        return found


if __name__ == "__main__":
    worker = Worker(sys.argv[2], int(sys.argv[3]))
    serve({"describe": worker.describe, "prefill": worker.prefill, "memory": peak_memory})
