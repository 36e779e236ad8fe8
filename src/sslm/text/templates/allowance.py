"""What one rendering of a chat template may cost, and what each thing it does costs.

There are two accounts. *Operations* stand for time and for objects: one takes one to two
microseconds, and at most about 100 bytes are allocated for it. *Text* is in bytes: of what is read
as well as of what is made, so that neither a copy nor a search is free. Both are counted, never
measured: whether a template is refused depends on nothing but the template and the messages.
"""

from collections.abc import Callable, ItemsView, KeysView, Mapping, ValuesView
from dataclasses import dataclass, field
from typing import Final, Self

from sslm import limits
from sslm.errors.text import TemplateWorkError

CALL_OPERATIONS: Final = 16
"""Operations that a call costs: a macro's takes about 10 microseconds."""

_BYTES_PER_CHARACTER_MAX: Final = 4

_SEARCH_SIZE_CHARS_MAX: Final = 1 << 10
_SEARCHED_TOGETHER_CHARS: Final = 8
"""Characters of a part that are compared in the time in which one byte is copied."""

_OPERATIONS_BETWEEN_LOOKS: Final = 1 << 12
"""Operations between two looks at the time: a few milliseconds."""

CONTAINERS: Final = (Mapping, list, tuple, KeysView, ValuesView, ItemsView)


def text_size_bytes(text: str) -> int:
    """Return the most bytes that *text* takes in memory, known without looking at all of it."""
    return len(text) if text.isascii() else _BYTES_PER_CHARACTER_MAX * len(text)


@dataclass(slots=True)
class Allowance:
    """Both accounts.

    Attributes:
        operation_limit: Count.
        text_limit_bytes: Bytes.
        operations: What is left.
        text_bytes: What is left.
        require_time: Called every now and then, and raises to stop.

    Raises (all methods that charge):
        TemplateWorkError: If an account is overdrawn.
    """

    operation_limit: int
    text_limit_bytes: int
    require_time: Callable[[], None] = lambda: None
    operations: int = field(init=False)
    text_bytes: int = field(init=False)
    _operations_at_look: int = field(init=False)

    def __post_init__(self) -> None:
        self.operations = self._operations_at_look = self.operation_limit
        self.text_bytes = self.text_limit_bytes

    @classmethod
    def for_messages(
        cls, contents: list[str], require_time: Callable[[], None] = lambda: None
    ) -> Self:
        """Return the allowance of rendering messages: a fixed part, and one that grows with them.

        So a long conversation costs what it has to, and a short one cannot cost more than a little.
        """
        size_bytes = sum(map(text_size_bytes, contents))
        return cls(
            limits.CHAT_TEMPLATE_OPERATION_COUNT_MAX
            + limits.CHAT_TEMPLATE_OPERATIONS_PER_MESSAGE * len(contents),
            limits.CHAT_TEMPLATE_TEXT_SIZE_BYTES_MAX
            + limits.CHAT_TEMPLATE_TOUCHES_PER_BYTE * size_bytes,
            require_time,
        )

    def charge(self, operations: int) -> None:
        """Take from the operations."""
        self.operations -= operations
        if self.operations < self._operations_at_look:
            if self.operations < 0:
                raise TemplateWorkError("too many operations", self.operation_limit)
            self.require_time()
            self._operations_at_look = max(self.operations - _OPERATIONS_BETWEEN_LOOKS, 0)

    def charge_bytes(self, size_bytes: int) -> None:
        """Take from the text."""
        self.text_bytes -= size_bytes
        if self.text_bytes < 0:
            raise TemplateWorkError("too many bytes of text", self.text_limit_bytes)

    def charge_characters(self, size_chars: int, *, is_ascii: bool) -> None:
        """Take from the text what a new one of that many characters takes."""
        self.charge_bytes(size_chars if is_ascii else _BYTES_PER_CHARACTER_MAX * size_chars)

    def charge_value(self, value: object, depth: int = 0) -> None:
        """Charge for looking at all of *value*, with what is in it."""
        self.charge(1)
        if isinstance(value, str):
            self.charge_bytes(text_size_bytes(value))
        elif isinstance(value, range):
            self.charge(len(value))
        elif isinstance(value, CONTAINERS):
            if depth >= limits.CHAT_TEMPLATE_NESTING_MAX:
                most = limits.CHAT_TEMPLATE_NESTING_MAX
                raise TemplateWorkError("containers nested too deeply", most)
            if isinstance(value, Mapping):
                for key, item in value.items():
                    self.charge_value(key, depth + 1)
                    self.charge_value(item, depth + 1)
            else:
                for item in value:
                    self.charge_value(item, depth + 1)

    def charge_copy(self, value: object, count: int = 1) -> None:
        """Charge for a text or list, repeated *count* times; what is in a list is not copied."""
        if isinstance(value, str):
            self.charge_bytes(text_size_bytes(value) * max(count, 0))
        elif isinstance(value, list | tuple):
            self.charge(len(value) * max(count, 0))

    def charge_search(self, text: str, part: object) -> None:
        """Charge for looking for *part* in *text*.

        Short texts are searched without preparation, so that each of their characters may be
        compared with much of the part.
        """
        compared = min(len(part), _SEARCH_SIZE_CHARS_MAX) if isinstance(part, str) else 0
        self.charge_bytes(text_size_bytes(text) * (1 + compared // _SEARCHED_TOGETHER_CHARS))

    def charge_replacement(self, text: str, old: str, new: str) -> None:
        """Charge for finding *old* in *text* and for what *new* adds; a count may be less."""
        self.charge_search(text, old)
        self.charge_search(text, old)
        found = text.count(old)
        self.charge(found)
        self.charge_bytes(found * text_size_bytes(new))
        if found and not new.isascii():
            self.charge_bytes(_BYTES_PER_CHARACTER_MAX * len(text))
