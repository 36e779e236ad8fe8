"""Compare the automata of schemas with other ways to say the same, many at random.

    python -m benchmarks.schema_languages [--count N] [--seed N]

Expressions against all their short strings, patterns against Python's engine, conditions on
numbers against fractions, formats against the standard library. Exits with 1 at any difference.
Then how long typical and large languages take.
"""

import argparse
import random
import re
import sys
import time
from collections.abc import Callable, Iterator
from decimal import Decimal
from fractions import Fraction
from functools import cache
from pathlib import Path
from typing import Final

# Run by its path or as a module, it finds the other folders of the checkout.
sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from tests.unit.schema.format_checks import CHECKS, walk
from tests.unit.schema.languages import ALPHABET, UNIVERSE, strings

from sslm.errors.schema import SchemaBudgetError
from sslm.schema.regular.automaton import Automaton
from sslm.schema.regular.compiler import LanguageCompiler, compile_language
from sslm.schema.regular.language import (
    Both,
    Bytes,
    Either,
    ExactlyOne,
    Language,
    OneOf,
    Repeat,
    Sequence,
    Shortest,
    Whole,
    Without,
)
from sslm.schema.values.decimals import decimals
from sslm.schema.values.patterns import pattern_language
from sslm.schema.values.strings import any_text, quoted, spelled, text_of_length
from sslm.schema.values.text_formats import format_language

_LETTERS: Final = 'ab\n"1'
_TEXTS: Final = [
    "",
    *_LETTERS,
    *(a + b for a in _LETTERS for b in _LETTERS),
    "aab1",
    'b"a\n',
    "1ba",
]
_ATOMS: Final = (
    "a",
    "b",
    "1",
    '"',
    r"\n",
    ".",
    "[ab]",
    "[^a]",
    r"\d",
    r"\s",
    r"\W",
    "ab",
    "^",
    "$",
)
_COUNTS: Final = ("*", "+", "?", "{2}", "{1,}", "{0,2}", "*?")


def _expression(rng: random.Random, size: int) -> Language:
    """Return a random expression of about *size* parts."""
    if size < 2:
        length = rng.randrange(3)
        some = OneOf(((97, rng.choice((97, 98))),))
        return rng.choice((Bytes(bytes(rng.choices(ALPHABET, k=length))), some))
    left, right = _expression(rng, size // 2), _expression(rng, size - size // 2)
    least = rng.randrange(3)
    return rng.choice(
        (
            Sequence((left, right)),
            Either((left, right)),
            Repeat(_expression(rng, size - 1), least, rng.choice((None, least, least + 2))),
            Both((left, right)),
            Without(left, right),
            ExactlyOne((left, right, left)),
            Shortest(Either((left, right))),
            Whole(Sequence((right, left))),
        )
    )


def _pattern(rng: random.Random, size: int) -> str:
    """Return a random pattern of about *size* parts."""
    if size < 2:
        return rng.choice(_ATOMS)
    left, right = _pattern(rng, size // 2), _pattern(rng, size - size // 2)
    return rng.choice(
        (left + right, f"(?:{left}|{right})", f"({left + right}){rng.choice(_COUNTS)}")
    )


def _expressions(rng: random.Random) -> bool:
    language = _expression(rng, rng.randint(1, 12))
    compiler = LanguageCompiler()
    if compiler.is_empty(language):
        return not strings(language)
    automaton = compiler.automaton(language)
    return {text for text in UNIVERSE if automaton.matches(text)} == strings(language)


def _patterns(rng: random.Random) -> bool:
    pattern = _pattern(rng, rng.randint(1, 9))
    looks = "".join(f"(?{rng.choice('=!')}{_pattern(rng, 3)})" for _ in range(rng.randrange(3)))
    pattern = f"{rng.choice(('', '^'))}{looks}(?:{pattern})"
    compiler = LanguageCompiler()
    language = pattern_language(pattern)
    automaton = None if compiler.is_empty(language) else compiler.automaton(language)
    other = re.compile(pattern.replace("$", r"\Z"), re.ASCII)
    return all(
        bool(other.search(text)) == bool(automaton and automaton.matches(spelled(text)))
        for text in _TEXTS
    )


def _numbers(rng: random.Random) -> bool:
    def number() -> Decimal:
        return Decimal(rng.randint(-(10 ** rng.randint(0, 5)), 10**4)).scaleb(-rng.randrange(4))

    low, high = number(), number()
    step = Decimal(rng.randint(1, 600)).scaleb(-rng.randrange(4))
    compiler = LanguageCompiler()
    try:
        language = decimals(exclusive_minimum=low, maximum=high, multiple_of=step)
        automaton = None if compiler.is_empty(language) else compiler.automaton(language)
    except SchemaBudgetError:
        return True
    for factor in (0, 1, -1, *(int(bound / step) + d for bound in (low, high) for d in (-1, 0, 1))):
        for probe in (step * factor, step * factor + Decimal("0.001")):
            is_multiple = (Fraction(probe) / Fraction(step)).denominator == 1
            text = f"{probe:f}"
            text = text.rstrip("0").rstrip(".") if "." in text else text
            spelling = b"0" if text == "-0" else text.encode()
            found = automaton is not None and automaton.matches(spelling)
            if found != (low < probe <= high and is_multiple):
                return False
    return True


@cache
def _format_automaton(name: str) -> Automaton:
    return compile_language(format_language(name))


def _formats(rng: random.Random) -> bool:
    name = rng.choice(list(CHECKS))
    automaton = _format_automaton(name)
    for _ in range(20):
        text = walk(automaton, rng)
        place = rng.randrange(len(text) + 1)
        other = text[:place] + rng.choice("0123456789:.-+TZabfx") + text[place + 1 :]
        if not CHECKS[name](text) or automaton.matches(spelled(other)) > CHECKS[name](other):
            return False
    return True


_KINDS: Final[dict[str, Callable[[random.Random], bool]]] = {
    "expressions": _expressions,
    "patterns": _patterns,
    "numbers": _numbers,
    "formats": _formats,
}


def _timed() -> Iterator[tuple[str, Language]]:
    """Yield languages whose time is shown, in words."""
    yield "a text of up to 1,000 characters", quoted(text_of_length(0, 1000))
    yield "a text of up to 100,000 characters", quoted(text_of_length(0, 100_000))
    key = [Bytes(b'"property_%d":' % index) for index in range(20)]
    fields = [Sequence((name, quoted(any_text()), Bytes(b","))) for name in key]
    yield "20 keys with texts, all needed", Sequence(tuple(fields))
    rest: Language = Bytes(b"}")
    for field in reversed(fields):
        rest = Either((Sequence((field, rest)), rest))
    yield "20 keys with texts, none needed", rest
    item = Sequence((decimals(), Bytes(b",")))
    yield "up to 1,000 numbers", Repeat(item, 0, 1000)
    yield "up to 100,000 numbers", Repeat(item, 0, 100_000)
    yield "a date and a time", format_language("date-time")


def main() -> int:
    """Compare and measure; return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--count", type=int, default=2000)
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    different = 0
    for name, check in _KINDS.items():
        seeds = range(arguments.seed, arguments.seed + arguments.count)
        wrong = [seed for seed in seeds if not check(random.Random(f"{name} {seed}"))]
        different += len(wrong)
        print(
            f"{name}: {len(seeds)} compared, {len(wrong)} different {wrong[:5] or ''}", flush=True
        )
    for name, language in _timed():
        start = time.process_time()
        try:
            found = f"{compile_language(language).state_count} states"
        except SchemaBudgetError as error:
            found = f"refused, more than {error.limit} {error.what}"
        print(f"{name}: {found}, {(time.process_time() - start) * 1000:.0f} ms", flush=True)
    return 1 if different else 0


if __name__ == "__main__":
    sys.exit(main())
