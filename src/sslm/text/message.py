"""One message of a conversation."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from sslm.errors.showing import briefly
from sslm.errors.text import MessageFieldError, MessageRoleError
from sslm.text.tokenizer import checked_text

ROLES: Final = ("system", "user", "assistant", "tool")
"""The roles that chat templates know."""


@dataclass(frozen=True, slots=True)
class Message:
    """What somebody said.

    Attributes:
        role: One of ``ROLES``.
        content: Valid Unicode, at most ``limits.TEXT_SIZE_CHARS_MAX`` characters; control tokens
            spelled in it are literal text.

    Raises:
        MessageFieldError: If a field is no ``str``.
        MessageRoleError: If the role is another one.
        TextTooLongError, TextUnicodeError: If the content is too long or not valid Unicode.
    """

    role: str
    content: str

    def __post_init__(self) -> None:
        for name, value in (("role", self.role), ("content", self.content)):
            if not isinstance(value, str):
                raise MessageFieldError(f"{name!r} is of type {type(value).__name__}")
        if self.role not in ROLES:
            raise MessageRoleError(self.role, ROLES)
        checked_text("the content of a message", self.content)

    @classmethod
    def from_mapping(cls, fields: object) -> "Message":
        """Return the message whose fields are those of *fields*, a mapping; errors as above."""
        if not isinstance(fields, Mapping):
            raise MessageFieldError(f"found a value of type {type(fields).__name__}")
        if set(fields) != {"role", "content"}:
            names = sorted(one if isinstance(one, str) else briefly(one) for one in fields)
            raise MessageFieldError(f"found {briefly(names)}")
        return cls(fields["role"], fields["content"])
