"""Writes the vector files next to this module, or with ``--check`` proves what the page states.

Run from the root of the checkout: ``python -m tests.vectors.generate``.
"""

import argparse
import json
import sys
from collections.abc import Callable, Iterable
from pathlib import Path

from tests.vectors import (
    cases_attention,
    cases_choosing,
    cases_digests,
    cases_matrices,
    cases_primitives,
    cases_rows,
    proofs,
)
from tests.vectors.cases_primitives import Vector

COMMAND = "python -m tests.vectors.generate"
DATE = "2026-11-29"
FILE_SIZE_BYTES_MAX = 200_000
VECTORS_MIN = 20

# The name of a file, the section of docs/arithmetic.md, and what makes the vectors.
FILES: tuple[tuple[str, str, Callable[[], Iterable[Vector]]], ...] = (
    ("rshift_round", "1", cases_primitives.rshift_round_vectors),
    ("scale_shift", "1", cases_primitives.scale_shift_vectors),
    ("div_round", "1", cases_primitives.div_round_vectors),
    ("sat32", "1", cases_primitives.sat32_vectors),
    ("isqrt", "1", cases_primitives.isqrt_vectors),
    ("bfp16", "1", cases_primitives.bfp16_vectors),
    ("tables", "2", cases_primitives.table_vectors),
    ("pow2neg", "2", cases_primitives.pow2neg_vectors),
    ("sigmoid_neg", "2", cases_primitives.sigmoid_neg_vectors),
    ("rope_table", "2", cases_primitives.rope_table_vectors),
    ("embed", "3.1", cases_matrices.embed_vectors),
    ("rmsnorm", "3.2", cases_rows.rmsnorm_vectors),
    ("quantize", "3.3", cases_rows.quantize_vectors),
    ("linear", "3.4", cases_matrices.linear_vectors),
    ("rope", "3.5", cases_rows.rope_vectors),
    ("append", "3.6", cases_rows.append_vectors),
    ("attention", "3.7", cases_attention.attention_vectors),
    ("attention_lengths", "3.7", cases_attention.attention_length_vectors),
    ("attention_scores", "3.7", cases_attention.attention_score_vectors),
    ("gated_activation", "3.8", cases_rows.gated_activation_vectors),
    ("add", "3.9", cases_rows.add_vectors),
    ("logits", "3.10", cases_matrices.logits_vectors),
    ("choose_plain", "3.11", cases_matrices.plain_choice_vectors),
    ("moving_average", "3.12", cases_rows.moving_average_vectors),
    ("segment_digest", "4", cases_digests.segment_digest_vectors),
    ("head_digest", "4", cases_digests.head_digest_vectors),
    ("chain", "4", cases_digests.chain_vectors),
    ("answer_digest", "4", cases_digests.answer_digest_vectors),
    ("choose", "5", cases_choosing.choose_vectors),
    ("choose_damped", "5.9", cases_choosing.damped_vectors),
    ("score", "5.1", cases_choosing.score_vectors),
    ("weight", "5.4", cases_choosing.weight_vectors),
    ("philox", "5.8", cases_choosing.philox_vectors),
    ("logprobs", "5.10", cases_choosing.logprob_vectors),
)


def render(section: str, vectors: Iterable[Vector]) -> str:
    """Return the text of one file: a header, then one vector a line."""
    header = {
        "source": f"docs/arithmetic.md, profile int/1 version 1, section {section}",
        "generator": COMMAND,
        "date": DATE,
    }
    lines = [json.dumps(vector, separators=(",", ":")) for vector in vectors]
    body = ",\n".join(lines)
    return f'{{"header":{json.dumps(header)},\n"vectors":[\n{body}\n]}}\n'


def texts() -> dict[str, str]:
    """Return the text of every vector file by its name."""
    files = {}
    for name, section, vectors_of in FILES:
        vectors = list(vectors_of())
        names = [vector["name"] for vector in vectors]
        assert len(set(names)) == len(names), f"{name}: a name occurs twice"
        assert name == "tables" or len(vectors) >= VECTORS_MIN, f"{name}: {len(vectors)} vectors"
        text = render(section, vectors)
        assert len(text) <= FILE_SIZE_BYTES_MAX, f"{name}: {len(text)} bytes"
        files[f"{name}.json"] = text
    return files


def main() -> int:
    """Write the files, or check them and the page; return the exit status."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true", help="prove the bounds, write nothing")
    folder = Path(__file__).parent
    if not parser.parse_args().check:
        for name, text in texts().items():
            (folder / name).write_text(text, encoding="utf-8")
            sys.stdout.write(f"{name:24} {text.count(chr(10)) - 3:4} vectors {len(text):7} bytes\n")
        return 0
    failures = 0
    for finding in proofs.findings():
        failures += not finding.holds
        sys.stdout.write(f"{'ok  ' if finding.holds else 'FAIL'} {finding.text}\n")
        sys.stdout.flush()
    for name, text in texts().items():
        if (folder / name).read_text(encoding="utf-8") != text:
            failures += 1
            sys.stdout.write(f"FAIL {name} is not what the generator writes\n")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
