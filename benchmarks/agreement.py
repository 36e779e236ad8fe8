"""How far an artifact's greedy text agrees with that of its float32 source.

    python -m benchmarks.agreement SOURCE.gguf MODEL.sslm [--prompt TEXT] [--expect FILE] [--json]

The source says its text greedily; the artifact says its own, and is then shown the source's text
and asked for the next token at each position. ``--expect`` holds what the source must say, to the
byte. Exit 1 if it does not.
"""

import argparse
import json
import sys
from itertools import takewhile
from pathlib import Path

from sslm.convert.source import GgufModelSource
from sslm.engine.model import Model
from sslm.opening.runner import Runner, open_backend
from sslm.runtime.sequences.options import SequenceOptions


def next_tokens(runner: Runner, token_ids: list[int]) -> list[int]:
    """Return the token that the artifact would choose after each of the given ones."""
    options = SequenceOptions(context_tokens=len(token_ids), has_all_logits=True)
    chosen: list[int] = []
    with runner.sequence(options) as sequence:
        sequence.push(token_ids)
        while sequence.has_work:
            for _, chunk in runner.advance([sequence]):
                assert chunk.span.selected is not None
                chosen += chunk.span.selected.cast("i")[: chunk.span.row_count].tolist()
    return chosen


def main() -> int:
    """Print the facts and return the exit code."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("source", type=Path, help="a GGUF file")
    parser.add_argument("model", type=Path, help="its artifact")
    parser.add_argument("--prompt", default="", help="text to begin with")
    parser.add_argument("--max-tokens", type=int, default=200)
    parser.add_argument("--expect", type=Path, help="what the source must say")
    parser.add_argument("--json", action="store_true", help="print JSON")
    arguments = parser.parse_args()
    with Model(arguments.model) as model, GgufModelSource.open(arguments.source) as source:
        prompt = model.tokenizer.encode(arguments.prompt)
        reference = source.family.float_pass(source).greedy(prompt, max_tokens=arguments.max_tokens)
        text = model.tokenizer.decode(reference)
        answer = model.generate(prompt, max_tokens=arguments.max_tokens).token_ids
        backend = open_backend("auto", tier="auto", threads=1)
        runner = Runner(model.artifact, backend, context_tokens=model.context_tokens)
        told = next_tokens(runner, [*prompt, *reference[:-1]])[len(prompt) - 1 :]
        runner.close()
    pairs = zip(reference, answer, strict=False)
    same_prefix = sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], pairs))
    facts = {
        "tokens": len(reference),
        "same_prefix": same_prefix,
        "same_next_token": sum(a == b for a, b in zip(reference, told, strict=True)),
        "source_as_expected": None,
    }
    if arguments.expect is not None:
        facts["source_as_expected"] = text == arguments.expect.read_text(encoding="utf-8")
    if arguments.json:
        print(json.dumps(facts))
    else:
        for name, value in facts.items():
            print(f"{name:<20} {value}")
    return 1 if facts["source_as_expected"] is False else 0


if __name__ == "__main__":
    sys.exit(main())
