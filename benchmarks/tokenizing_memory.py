"""How much memory tokenizing a text takes at most, for each byte of it.

Each text is tokenized in a process of its own, whose largest address space is read afterwards. Only
Linux tells it.
"""

import argparse
import random
import subprocess
import sys
from pathlib import Path
from typing import Final

# Run by its path or as a module, it finds the other folders of the checkout.
sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from tests.unit.text.vocabularies import (
    PUBLISHED,
    byte_level_tokenizer,
    published_tokenizer,
    sentencepiece_tokenizer,
)

from sslm.text.tokenizer import Tokenizer

_REPEATED: Final = {
    "spaces": " ",
    "line ends": "\n",
    "one letter": "a",
    "digits": "1",
    "digits and letters": "1a",
    "signs and letters": "!a",
    "letters and spaces": " a",
    "words": "Hello, world! ",
    "zero bytes": "\0",
    "accents": "\u0301",
    "accents and letters": "\u0301a",
    "emoji": "\U0001f600",
}
_DRAWN: Final = {"ASCII": (32, 127), "Chinese": (0x4E00, 0x9000), "rare": (0x10000, 0x1FFFF)}
_SMALL: Final = {"small byte-level": byte_level_tokenizer, "small pieces": sentencepiece_tokenizer}


def _text(kind: str, size_bytes: int) -> str:
    if kind in _REPEATED:
        part = _REPEATED[kind]
        return part * (size_bytes // len(part.encode()))
    first, last = _DRAWN[kind]
    draw = random.Random(1)
    count = size_bytes // len(chr(first).encode())
    return "".join(chr(draw.randrange(first, last)) for _ in range(count))


def _tokenizer(name: str) -> Tokenizer:
    return _SMALL[name]() if name in _SMALL else published_tokenizer(name)


def _bytes_of(name: str) -> int:
    """Return a number of bytes that Linux tells of this process."""
    lines = Path("/proc/self/status").read_text(encoding="ascii").splitlines()
    return next(int(line.split()[1]) << 10 for line in lines if line.startswith(f"{name}:"))


def _measure(name: str, kind: str, size_bytes: int) -> int:
    """Return the bytes of address space that tokenizing took in this process."""
    tokenizer, text = _tokenizer(name), _text(kind, size_bytes)
    tokenizer.encode("begin")
    before = _bytes_of("VmSize")
    tokenizer.encode(text)
    return _bytes_of("VmPeak") - before


def main() -> int:
    """Print the worst text of each vocabulary, or measure one."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--size-bytes", type=int, default=1 << 20, help="of each text")
    parser.add_argument("--one", nargs=2, metavar=("VOCABULARY", "KIND"), help="measure only this")
    arguments = parser.parse_args()
    size_bytes = arguments.size_bytes
    if arguments.one:
        name, kind = arguments.one
        print(_measure(name, kind, size_bytes))
        return 0
    worst = 0.0
    for name in (*_SMALL, *PUBLISHED):
        found = {}
        for kind in (*_REPEATED, *_DRAWN):
            command = [sys.executable, "-m", "benchmarks.tokenizing_memory", "--one", name, kind]
            command += ["--size-bytes", str(size_bytes)]
            ended = subprocess.run(command, capture_output=True, text=True, check=True)
            found[kind] = int(ended.stdout) / size_bytes
        most = max(found, key=found.__getitem__)
        worst = max(worst, found[most])
        print(f"{name:<18} {min(found.values()):6.1f} to {found[most]:6.1f}: {most}", flush=True)
    print(f"at most {worst:.1f} bytes of memory for each byte of text")
    return 0


if __name__ == "__main__":
    sys.exit(main())
