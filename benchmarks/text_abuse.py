"""What the corpus of abusive texts and templates costs: each alone, in a child with bounds.

A child is forked for each case, may not take more than 64 MiB of address space beyond what its
parent had, and is killed by the system after some seconds.
"""

import argparse
import json
import os
import pickle
import resource
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Final

# Run by its path or as a module, it finds the other folders of the checkout.
sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from tests.hostile.text_corpus import FIELDS, MESSAGES, TEMPLATES
from tests.hostile.text_families import Family, families

from sslm.errors.base import SslmError
from sslm.text.chat_encoding import encode_chat
from sslm.text.message import Message
from sslm.text.templates.chat_template import ChatTemplate
from sslm.text.tokenizer import Tokenizer

TIME_LIMIT_S: Final = 1.0
MEMORY_LIMIT_BYTES: Final = 64 << 20

_KILL_TIME_S: Final = 120
_MARKED: Final = "<|im_end|>"
_SHOWN_CHARS_MAX: Final = 100


@dataclass(frozen=True, kw_only=True)
class AbuseRow:
    """What became of one attack.

    Args:
        attack: Its name.
        kind: Which table of the corpus it is in.
        expected: The error that has to refuse it, or ``literal``, or the text to be shown.
        found: What happened.
        time_s: Processor time.
        memory_bytes: Most memory in use beyond what was before.
    """

    attack: str
    kind: str
    expected: str
    found: str
    time_s: float
    memory_bytes: int

    @property
    def is_harmless(self) -> bool:
        """Whether it came to the right end in time and space."""
        return (
            self.found == self.expected
            and self.time_s < TIME_LIMIT_S
            and self.memory_bytes < MEMORY_LIMIT_BYTES
        )


def abuse() -> Iterator[AbuseRow]:
    """Run the whole corpus."""
    known = families()
    templates = [ChatTemplate(family.source) for family in known]
    # What every rendering needs is loaded before it is measured.
    _say(known, templates, "<|é1")
    for name, text in MESSAGES.items():
        yield _measured(name, "message", "literal", partial(_say, known, templates, text))
    for name, (fields, error) in FIELDS.items():
        yield _measured(name, "field", error, partial(_take, fields))
    tokenizer = known[0].tokenizer
    for name, (source, outcome) in TEMPLATES.items():
        expected = outcome[:_SHOWN_CHARS_MAX]
        yield _measured(name, "template", expected, partial(_render, tokenizer, source))


def _say(known: list[Family], templates: list[ChatTemplate], text: str) -> str:
    """Say an attack in every family and place; tell whether it stayed text."""
    for family, template in zip(known, templates, strict=True):
        said = family.attack(text)
        for messages in (
            [Message("user", said)],
            [Message("user", said), Message("assistant", said), Message("user", said)],
        ):
            expected = family.expected_ids(messages)
            if encode_chat(family.tokenizer, template, messages) != expected:
                return f"other ids in {family.name}"
            if not _are_bytes_kept(family.tokenizer, said):
                return f"other text in {family.name}"
    return "literal"


def _are_bytes_kept(tokenizer: Tokenizer, text: str) -> bool:
    ids = tokenizer.encode(text, add_bos=False)
    # U+2581 spells a space there.
    kept = text.replace("\u2581", " ") if tokenizer.vocabulary.add_space_prefix else text
    return tokenizer.decode(ids) == kept and not set(tokenizer.control_ids.values()) & set(ids)


def _take(fields: object) -> str:
    Message.from_mapping(fields)
    return "taken"


def _render(tokenizer: Tokenizer, source: str) -> str:
    ids = encode_chat(tokenizer, ChatTemplate(source), [Message("user", _MARKED)])
    if set(tokenizer.control_ids.values()) & set(ids):
        return "a control token"
    return tokenizer.decode(ids)[:_SHOWN_CHARS_MAX]


def _measured(name: str, kind: str, expected: str, attack: Callable[[], str]) -> AbuseRow:
    receiving, sending = os.pipe()
    child = os.fork()
    if not child:
        os.close(receiving)
        _run_in_child(attack, sending)
    os.close(sending)
    with os.fdopen(receiving, "rb") as pipe:
        answer = pipe.read()
    _, status = os.waitpid(child, 0)
    found, time_s, memory_bytes = (
        pickle.loads(answer) if answer else (f"ended by {status}", float(_KILL_TIME_S), 0)
    )
    return AbuseRow(
        attack=name,
        kind=kind,
        expected=expected,
        found=found,
        time_s=round(time_s, 3),
        memory_bytes=memory_bytes,
    )


def _run_in_child(attack: Callable[[], str], sending: int) -> None:
    """Run an attack within bounds, send what came of it, and end the process."""
    before = _memory_bytes("VmSize")
    limit = before + MEMORY_LIMIT_BYTES
    resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
    resource.setrlimit(resource.RLIMIT_CPU, (_KILL_TIME_S, _KILL_TIME_S))
    Path("/proc/self/clear_refs").write_text("5")
    resident = _memory_bytes("VmRSS")
    started = time.process_time()
    try:
        found = attack()
    except SslmError as error:
        found = error.cause
        if "MemoryError" in str(error):
            found = "MemoryError"
    except BaseException as error:
        found = f"{type(error).__name__}: {error}"[:_SHOWN_CHARS_MAX]
    time_s = time.process_time() - started
    memory_bytes = _memory_bytes("VmHWM") - resident
    os.write(sending, pickle.dumps((found, time_s, max(memory_bytes, 0))))
    os._exit(0)


def _memory_bytes(name: str) -> int:
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(f"{name}:"):
            return int(line.split()[1]) << 10
    raise AssertionError(name)


def main() -> int:
    """Print what is not harmless, and the slowest and largest of all."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--json", action="store_true", help="print every case as JSON")
    arguments = parser.parse_args()
    rows = list(abuse())
    harmful = [row for row in rows if not row.is_harmless]
    if arguments.json:
        print(json.dumps([asdict(row) | {"is_harmless": row.is_harmless} for row in rows]))
        return 1 if harmful else 0
    for row in harmful:
        print(f"HARMFUL {row}")
    slowest = max(rows, key=lambda row: row.time_s)
    largest = max(rows, key=lambda row: row.memory_bytes)
    refused = sum(row.found.endswith("Error") for row in rows)
    print(
        f"{len(rows)} attacks, {len(harmful)} harmful; "
        f"{sum(row.found == 'literal' for row in rows)} literal, {refused} refused\n"
        f"slowest  {slowest.time_s:.2f} s    {slowest.kind}: {slowest.attack}\n"
        f"largest  {largest.memory_bytes / (1 << 20):.1f} MiB  {largest.kind}: {largest.attack}"
    )
    return 1 if harmful else 0


if __name__ == "__main__":
    sys.exit(main())
