"""What a text may take is checked before a library is asked to tokenize it."""

import pickle
import subprocess
import sys
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager

import pytest

from sslm import limits
from sslm.errors.base import SslmError
from sslm.errors.runtime import MemoryBudgetError
from sslm.errors.status import Status
from sslm.errors.text import TextBytesError, TokenizerMemoryError
from sslm.memory import free_address_space_bytes
from sslm.text.chat_encoding import encode_chat
from sslm.text.message import Message
from sslm.text.templates.chat_template import ChatTemplate
from sslm.text.text_bounds import TextBounds
from sslm.text.tokenizer import Tokenizer
from sslm.text.vocabulary import Vocabulary
from tests.unit.text.chat_templates import CHATML
from tests.unit.text.vocabularies import byte_level_fields, sentencepiece_fields

needs_address_limits = pytest.mark.skipif(
    not sys.platform.startswith("linux"), reason="limits of address space are Linux's"
)


class Budget:
    """A budget of bytes that notes what was admitted."""

    def __init__(self, limit_bytes: int) -> None:
        self.limit_bytes = limit_bytes
        self.held: list[int] = []
        self.seen: list[tuple[str, int]] = []

    def admit(self, what: str, size_bytes: int) -> AbstractContextManager[None]:
        self.seen.append((what, size_bytes))
        if sum(self.held) + size_bytes > self.limit_bytes:
            raise MemoryBudgetError(what, sum(self.held) + size_bytes, self.limit_bytes)
        return self._held(size_bytes)

    @contextmanager
    def _held(self, size_bytes: int) -> Iterator[None]:
        self.held.append(size_bytes)
        yield
        self.held.remove(size_bytes)


def bounded(fields: dict[str, object], bounds: TextBounds) -> Tokenizer:
    return Tokenizer(Vocabulary(**fields), bounds=bounds)  # type: ignore[arg-type]


@pytest.mark.parametrize("fields", [byte_level_fields(), sentencepiece_fields()])
def test_a_text_has_at_most_the_bytes_that_are_allowed(fields: dict[str, object]) -> None:
    tokenizer = bounded(fields, TextBounds(text_bytes=12))
    for encode in (tokenizer.encode, tokenizer.encode_with_controls, tokenizer.encode_continuation):
        assert encode("a" * 12)
        assert encode("é" * 6)
        for text, size in (("a" * 13, 13), ("é" * 6 + "a", 13), ("😀" * 4, 16)):
            with pytest.raises(TextBytesError) as caught:
                encode(text)
            assert caught.value.status is Status.TEXT_BYTES
            assert int(caught.value.status) == 142
            assert caught.value.facts() == {
                "what": "the text",
                "size_bytes": size,
                "limit_bytes": 12,
            }
            assert str(pickle.loads(pickle.dumps(caught.value))) == str(caught.value)


def test_a_conversation_counts_as_it_is_rendered() -> None:
    template = ChatTemplate(CHATML)
    messages = [Message("user", "Hi")]
    size = len(template.render(messages, add_generation_prompt=True))
    vocabulary = Vocabulary(**byte_level_fields())
    allowed = Tokenizer(vocabulary, CHATML, bounds=TextBounds(text_bytes=size))
    assert encode_chat(allowed, template, messages)
    refused = Tokenizer(vocabulary, CHATML, bounds=TextBounds(text_bytes=size - 1))
    with pytest.raises(TextBytesError, match=f"the rendered prompt has {size} bytes"):
        encode_chat(refused, template, messages)


def test_memory_is_admitted_while_a_text_is_tokenized_and_then_given_back() -> None:
    size = 20_000
    needed = 512 * size - (8 << 20)
    budget = Budget(needed)
    tokenizer = bounded(byte_level_fields(), TextBounds(admit=budget.admit))
    assert len(tokenizer.encode("a" * size)) == size
    assert budget.seen == [(f"tokenizing {size} bytes of text", needed)]
    assert budget.held == []
    budget.limit_bytes = needed - 1
    with pytest.raises(TokenizerMemoryError) as caught:
        tokenizer.encode("a" * size)
    error = caught.value
    assert error.status is Status.TOKENIZER_MEMORY_BUDGET
    assert int(error.status) == 406
    assert (error.needed_bytes, error.what, error.free_bytes) == (
        needed,
        "memory_bytes",
        needed - 1,
    )
    assert str(error) == (
        f"tokenizing {size} bytes of text may take {needed} bytes of memory for a moment, and "
        f"memory_bytes leaves {needed - 1}; give it less text, or raise that limit"
    )
    assert str(pickle.loads(pickle.dumps(error))) == str(error)


def test_a_short_text_needs_no_budget() -> None:
    budget = Budget(0)
    tokenizer = bounded(byte_level_fields(), TextBounds(admit=budget.admit))
    assert len(tokenizer.encode("a" * (16 << 10))) == 16 << 10
    assert budget.seen == []
    with pytest.raises(SslmError):
        tokenizer.encode("a" * ((16 << 10) + 1))


_WITHIN = """
import resource, sys
from sslm.errors.text import TokenizerMemoryError
from sslm.memory import free_address_space_bytes
from sslm.text.tokenizer import Tokenizer
from sslm.text.vocabulary import Vocabulary
from tests.unit.text.vocabularies import byte_level_fields
tokenizer = Tokenizer(Vocabulary(**byte_level_fields()))
assert free_address_space_bytes() is None
tokenizer.encode("1a" * 10)
taken = int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize()
hard = resource.getrlimit(resource.RLIMIT_AS)[1]
resource.setrlimit(resource.RLIMIT_AS, (taken + (MARGIN << 20), hard))
try:
    print(len(tokenizer.encode("1a" * SIZE)))
except TokenizerMemoryError as error:
    print(int(error.status), error.what, error.needed_bytes, error.free_bytes <= MARGIN << 20)
try:
    Tokenizer(Vocabulary(**byte_level_fields()))
except TokenizerMemoryError as error:
    print(int(error.status), error.task)
"""


@needs_address_limits
@pytest.mark.parametrize(
    ("margin_mib", "size_chars", "expected"),
    [
        (200, 3_600_000, ["407 the address-space limit 1843200000 True"]),
        (200, 420_000, ["407 the address-space limit 215040000 True"]),
        (200, 380_000, ["380000"]),
        (20, 1_000, ["1000", "407 building a tokenizer of 263 tokens"]),
    ],
)
def test_what_the_address_space_may_not_hold_is_refused_and_not_tried(
    margin_mib: int, size_chars: int, expected: list[str]
) -> None:
    program = _WITHIN.replace("MARGIN", str(margin_mib)).replace("SIZE", str(size_chars // 2))
    ended = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=False, timeout=60
    )
    assert (ended.returncode, ended.stdout.splitlines()) == (0, expected), ended.stderr


def test_without_a_limit_the_address_space_is_no_bound() -> None:
    assert free_address_space_bytes() is None or sys.platform.startswith("linux")
    assert limits.TEXT_BYTES_DEFAULT == 1 << 20
