"""Where messages end in a prompt."""

from collections.abc import Sequence

from sslm.conversation.source import message_marks
from sslm.errors.text import ChatRefusedError
from sslm.text.message import Message

BEGINNING = "Somebody friendly is here."
ONE, TWO = Message("user", "one"), Message("assistant", "two")
THREE, FOUR = Message("user", "three"), Message("assistant", "four")


class Encode:
    """Letters as ids, with a beginning that no message is part of."""

    def __init__(self, beginning: str = BEGINNING, *, refuses: int | None = None) -> None:
        self._beginning = beginning
        self._refuses = refuses

    def __call__(self, messages: Sequence[Message], *, add_generation_prompt: bool) -> list[int]:
        if len(messages) == self._refuses:
            raise ChatRefusedError("no such conversation")
        said = "".join(f"<{one.role}:{one.content}>" for one in messages)
        return list((self._beginning + said + "<assistant:" * add_generation_prompt).encode())


def marks(encode: Encode, messages: Sequence[Message], cached_count: int = 0) -> list[int]:
    prompt = encode(messages, add_generation_prompt=True)
    return message_marks(encode, messages, prompt, cached_count)


def ends(*messages: Message) -> int:
    return len(Encode()(messages, add_generation_prompt=False))


def test_every_message_but_the_last_has_its_end() -> None:
    assert marks(Encode(), [ONE, TWO, THREE]) == [ends(ONE), ends(ONE, TWO)]
    assert marks(Encode(), [ONE, TWO, THREE], ends(ONE)) == [ends(ONE, TWO)]
    assert marks(Encode(), [ONE, TWO, THREE], ends(ONE, TWO)) == []


def test_before_the_first_message_a_long_beginning_ends() -> None:
    header = len("<user:")
    assert marks(Encode(), [ONE]) == [len(BEGINNING) + header]
    assert marks(Encode(), [Message("user", "")]) == [len(BEGINNING) + header]
    assert marks(Encode(), [ONE], len(BEGINNING) + header) == []
    # What introduces any message is computed along with it.
    assert marks(Encode("Hi"), [ONE]) == []


def test_what_a_template_refuses_has_no_end() -> None:
    assert marks(Encode(refuses=2), [ONE, TWO, THREE]) == [ends(ONE)]
    assert marks(Encode(refuses=9), [ONE]) != []


def test_only_the_last_ends_are_looked_for() -> None:
    messages = [ONE, TWO, THREE, FOUR] * 5 + [ONE]
    found = marks(Encode(), messages)
    assert found == [ends(*messages[:count]) for count in range(15, 21)]
