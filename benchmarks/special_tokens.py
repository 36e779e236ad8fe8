"""How long a character of text takes to tokenize, whatever special tokens a vocabulary has.

Each vocabulary is as hostile as a file may be: as many special tokens as are allowed, chosen
against one way of looking for them. Each text is tokenized at one size and at four times that, so
that costs which grow with the text's square show.
"""

import argparse
import sys
import time
from collections.abc import Iterator
from itertools import cycle, islice
from pathlib import Path
from typing import Final

# Run by its path or as a module, it finds the other folders of the checkout.
sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from tests.unit.text.vocabularies import byte_level_fields

from sslm import limits
from sslm.text.tokenizer import Tokenizer
from sslm.text.vocabulary import TokenType, Vocabulary

_COUNT: Final = limits.SPECIAL_TOKEN_COUNT_MAX - 16
_LONGEST: Final = limits.SPECIAL_TOKEN_SIZE_CHARS_MAX
_PLAIN: Final = "Hello, world! <b>It's</b> 3.14159 "


def _vocabularies() -> Iterator[tuple[str, list[str]]]:
    """Yield special tokens, with words for what they have in common."""
    yield "4 chat markers", ["<|im_begin|>", "<|im_stop|>", "<think_x>", "</think_x>"]
    pairs = [chr(0x3400 + index // 256) + chr(0x400 + index % 256) for index in range(_COUNT)]
    yield f"{_COUNT} of two characters", pairs
    yield (
        f"{_COUNT} that begin differently",
        [chr(0x20000 + index) + "x" for index in range(_COUNT)],
    )
    yield f"{_COUNT} that begin alike", ["a" + chr(0x20000 + index) for index in range(_COUNT)]
    yield f"{_COUNT} of one character", [chr(0x20000 + index) for index in range(_COUNT)]
    yield "254 of all lengths", ["a" * size + "b" for size in range(2, _LONGEST)]
    yield "255 inside one another", ["a" * size + "." for size in range(1, _LONGEST)]
    yield "a chain of beginnings", ["a" * size for size in range(2, _LONGEST + 1)]


def _texts(special: list[str], size_chars: int) -> Iterator[tuple[str, str]]:
    """Yield texts of one size, with words for what is in them."""
    spelled = islice(cycle(special), size_chars)
    yield "words", (_PLAIN * (size_chars // len(_PLAIN) + 1))[:size_chars]
    yield "one letter", "a" * size_chars
    yield "their beginnings", "".join(one[0] for one in spelled)
    yield "the tokens", "".join(islice(cycle(special), size_chars))[:size_chars]
    between = "".join(f"{one}-" for one in islice(cycle(special), size_chars))
    yield "the tokens with text between", between[:size_chars]


def _tokenizer(special: list[str]) -> Tokenizer:
    fields = byte_level_fields()
    kinds = fields["token_types"] + bytes([TokenType.USER_DEFINED] * len(special))
    return Tokenizer(
        Vocabulary(**fields | {"tokens": (*fields["tokens"], *special), "token_types": kinds})
    )


def _time_us(tokenizer: Tokenizer, text: str) -> float:
    started_ns = time.process_time_ns()
    tokenizer.encode(text)
    return (time.process_time_ns() - started_ns) / 1000 / len(text)


def main() -> int:
    """Print a line for every vocabulary and text."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--size-chars", type=int, default=1 << 16, help="of the shorter text")
    size_chars = parser.parse_args().size_chars
    print("microseconds a character:   short    long")
    for name, special in _vocabularies():
        started_ns = time.process_time_ns()
        tokenizer = _tokenizer(special)
        tokenizer.encode(special[0] * 2)
        built_ms = (time.process_time_ns() - started_ns) // 1_000_000
        print(f"{name}: ready after {built_ms} ms", flush=True)
        longer = dict(_texts(special, 4 * size_chars))
        for what, text in _texts(special, size_chars):
            times = _time_us(tokenizer, text), _time_us(tokenizer, longer[what])
            print(f"  {what:<28} {times[0]:7.2f} {times[1]:7.2f}", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
