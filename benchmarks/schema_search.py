"""Masks of random schemas against a search through a whole vocabulary; prints how many differ.

    python -m benchmarks.schema_search MODEL.sslm [--count N] [--states N] [--seed N] [--json]

Random schemas, and those of tests/schemas that have few enough states, are compiled for the model's
vocabulary: compact, spaced, flexible, with canonical spans and without. At random places of each,
an id must be allowed exactly if its bytes, and the fewest tokens that complete the text after it,
make a text of the automaton that fits, and the rule of spans permits it
(``tests/mask_search.py``): without a bound, with just enough tokens, and with some more. Of what is
allowed, some ids are completed; the text must be valid for the ``jsonschema`` package. Exit 1 if
anything differs.
"""

import argparse
import ctypes
import json
import random
import sys
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from decimal import Decimal
from itertools import count
from pathlib import Path
from typing import Any, Final

# Run by its path or as a module, it finds the other folders of the checkout.
sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import numpy as np
from tests.mask_search import BoolArray, MaskSearch
from tests.schema_maker import Maker
from tests.schema_oracle import Oracle

import sslm
from sslm.answer_schemas.vocabulary import schema_vocabulary, split_continuation
from sslm.errors.base import SslmError
from sslm.errors.schema import UnspellableSchemaError
from sslm.schema.documents.options import SchemaOptions
from sslm.schema.regular.spacing import Spacing
from sslm.schema.schema_compiler import compile_schema
from sslm.schema.tokens.bound_schema import ANY_COUNT, BoundSchema
from sslm.schema.tokens.step_table import StepTable
from sslm.schema.tokens.tables import build_token_tables
from sslm.schema.tokens.trie import TokenTrie
from sslm.text.tokenizer import Tokenizer

LIBRARY: Final = Path("tests/schemas")
SPACINGS: Final[tuple[Spacing, ...]] = ("compact", "compact", "spaced", "flexible")
COMPLETED: Final = 3
"""Ids of each mask whose texts are completed."""


@dataclass
class Tally:
    """What was looked at, and what was wrong."""

    outcomes: Counter[str] = field(default_factory=Counter)
    schemas: int = 0
    masks: int = 0
    ids: int = 0
    allowed: int = 0
    unfitting: int = 0
    only: int = 0
    completions: int = 0
    wrong: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class Vocabulary:
    """A tokenizer with its content, and what ends answers.

    Args:
        tokenizer: Whose splits of spans are the ones.
        trie: Its content.
        end_ids: What ends an answer.
    """

    tokenizer: Tokenizer
    trie: TokenTrie
    end_ids: tuple[int, ...]

    def split(self, text: str) -> list[int]:
        """Split a text that goes on behind another one."""
        return split_continuation(self.tokenizer, text)


def documents(seed: int) -> Iterator[tuple[str, Any, int]]:
    """Yield names, schemas and seeds: those that are written down, then random ones for ever."""
    for path in sorted(LIBRARY.glob("*.json")):
        # Fractions as they are written: the other implementation divides by them.
        text = path.read_text(encoding="utf-8")
        yield path.stem, json.loads(text, parse_float=Decimal), seed
    for index in count(seed):
        yield f"seed {index}", Maker(index).schema(2 + index % 2), index


def judge(
    name: str, document: Any, seed: int, vocabulary: Vocabulary, limits: argparse.Namespace
) -> tuple[str, Tally]:
    """Compile one schema in one of the ways, and return that and what came of it."""
    chance, tally = random.Random(f"{name} {seed}"), Tally()
    spacing, has_spans = chance.choice(SPACINGS), chance.random() < 0.8
    options = SchemaOptions(free_levels=1, spacing=spacing)
    try:
        compiled = compile_schema(document, options)
        if compiled.automaton.state_count > limits.states_max:
            tally.outcomes["more states than are searched"] += 1
        else:
            split = vocabulary.split if has_spans else None
            table, trie = StepTable(compiled.automaton), vocabulary.trie
            tables = build_token_tables(table, trie, split, leaves_blank=options.leaves_blank)
            schema = BoundSchema(tables, trie, digest=bytes(32), end_ids=vocabulary.end_ids)
            tally.schemas += 1
            tally.outcomes[f"{spacing}, {'one spelling' if has_spans else 'any'} of spans"] += 1
            search = MaskSearch(
                compiled.automaton,
                vocabulary.trie.tokens,
                vocabulary.trie.vocab_size,
                split=split,
                end_ids=vocabulary.end_ids,
                leaves_blank=options.leaves_blank,
            )
            texts = Texts(search, Oracle(document, {}, checks_formats=False), chance)
            tally.wrong += differences(schema, texts, limits.states, tally)
    except SslmError as error:
        tally.outcomes[error.cause] += 1
        if isinstance(error, UnspellableSchemaError):
            tally.wrong.append("a vocabulary with all bytes spells everything")
    return f"{name} ({spacing}, {has_spans})", tally


@dataclass(frozen=True)
class Texts:
    """What is searched, who judges texts, and where choices come from."""

    search: MaskSearch
    oracle: Oracle
    chance: random.Random


def differences(schema: BoundSchema, texts: Texts, state_count: int, tally: Tally) -> Iterator[str]:
    """Yield where masks differ from what the search finds, at random states."""
    search, chance = texts.search, texts.chance
    begun = search.beginnings()
    for state in sorted(chance.sample(sorted(begun), min(state_count, len(begun)))):
        distance = int(search.distances[state])
        if distance == search.far:
            # Nothing completes it, and no mask leads there.
            continue
        if distance != schema.distance(state):
            yield f"state {state}: {schema.distance(state)} tokens, the search finds {distance}"
        only, targets = search.only_token(state), search.targets(state)
        tally.only += only is not None
        if schema.only_token(state) != only:
            yield f"state {state}: the only token is {schema.only_token(state)}, expected {only}"
        unbounded = search.allowed(state, targets, None)
        for remaining in (None, distance, distance + chance.randint(1, 4)):
            found, right = (
                _mask(schema, state, remaining),
                search.allowed(state, targets, remaining),
            )
            tally.masks += 1
            tally.ids += len(right)
            tally.allowed += int(right.sum())
            tally.unfitting += int((unbounded & ~right).sum())
            for token_id in np.flatnonzero(found != right)[:3]:
                is_allowed = bool(found[token_id])
                yield f"state {state}, {remaining} left: id {token_id} is allowed: {is_allowed}"
        ids = np.flatnonzero(search.distances[targets] < search.far).tolist()
        for token_id in chance.sample(ids, min(COMPLETED, len(ids))):
            rest = search.bytes_of(token_id) + search.completion(int(targets[token_id]))
            tally.completions += 1
            if not texts.oracle.accepts(begun[state] + rest):
                yield f"state {state}, id {token_id}: {begun[state] + rest!r} is not valid"


def _mask(schema: BoundSchema, state: int, remaining: int | None) -> BoolArray:
    scratch = memoryview(bytearray(schema.scratch_size_bytes))
    address = schema.mask_address(state, ANY_COUNT if remaining is None else remaining, scratch)
    content = np.frombuffer(ctypes.string_at(address, schema.mask_size_bytes), dtype=np.uint8)
    bits = np.unpackbits(content, bitorder="little")
    found: BoolArray = bits[: schema.vocab_size] != 0
    return found


def _add(total: Tally, name: str, tally: Tally) -> None:
    total.outcomes.update(tally.outcomes)
    for fact in ("schemas", "masks", "ids", "allowed", "unfitting", "only", "completions"):
        setattr(total, fact, getattr(total, fact) + getattr(tally, fact))
    total.wrong += [f"{name}: {one}" for one in tally.wrong]


def main() -> int:
    """Print what was found and return the exit code."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("model", help="path of a model file")
    parser.add_argument("--count", type=int, default=300, help="schemas to search in")
    parser.add_argument("--states", type=int, default=30, help="places to look at in each")
    parser.add_argument("--states-max", type=int, default=400, help="of a schema's automaton")
    parser.add_argument("--seed", type=int, default=0, help="of the first; each has its own")
    parser.add_argument("--json", action="store_true", help="print JSON")
    arguments = parser.parse_args()
    total = Tally()
    with sslm.load(str(Path(arguments.model).resolve())) as model:
        tokenizer = model.tokenizer
        ends = tuple(sorted(model.artifact.vocabulary.end_token_ids))
        vocabulary = Vocabulary(tokenizer, schema_vocabulary(tokenizer).trie, ends)
        for name, document, seed in documents(arguments.seed):
            _add(total, *judge(name, document, seed, vocabulary, arguments))
            if total.schemas == arguments.count:
                break
    facts = vars(total) | {"vocabulary": vocabulary.trie.vocab_size}
    print(json.dumps(facts) if arguments.json else json.dumps(facts, indent=1))
    return 1 if total.wrong else 0


if __name__ == "__main__":
    sys.exit(main())
