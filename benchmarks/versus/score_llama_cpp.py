"""Scores windows of token ids with llama.cpp.

    python score_llama_cpp.py MODEL.gguf THREADS < WINDOWS.json > SCORES.json

Takes a list of windows and gives, for each, the summed log-likelihood in nats of all of its tokens
but the first, each window read from an empty context.
"""

import json
import sys

import numpy as np
from serve_llama_cpp import PROMPT_TOKENS_MAX, Context, llama, quiet


def score(context: Context, vocab_size: int, window: list[int]) -> float:
    """Return the log-likelihood of one window, from the logits of llama.cpp in float64."""
    context.rewind(0)
    total = 0.0
    for start in range(0, len(window), PROMPT_TOKENS_MAX):
        stop = min(start + PROMPT_TOKENS_MAX, len(window))
        context.run([(window[i], i, 0, True) for i in range(start, stop)])
        for row in range(stop - start):
            if start + row + 1 == len(window):
                break
            pointer = llama.llama_get_logits_ith(context.handle, row)
            logits = np.ctypeslib.as_array(pointer, (vocab_size,)).astype(np.float64)
            logits -= logits.max()
            total += logits[window[start + row + 1]] - np.log(np.exp(logits).sum())
    return float(total)


def main() -> None:
    """Score what stdin holds."""
    log = quiet()
    parameters = llama.llama_model_default_params()
    parameters.n_gpu_layers = 0
    model = llama.llama_model_load_from_file(sys.argv[1].encode(), parameters)
    if not model:
        raise SystemExit(f"llama.cpp does not load {sys.argv[1]}")
    windows = json.load(sys.stdin)
    room = max(PROMPT_TOKENS_MAX, *(len(window) for window in windows))
    context = Context(model, int(sys.argv[2]), room, 1)
    vocab_size = llama.llama_vocab_n_tokens(llama.llama_model_get_vocab(model))
    print(json.dumps([score(context, vocab_size, window) for window in windows]))
    del log


if __name__ == "__main__":
    main()
