"""Values of texts of JSON that break off."""

import json
from itertools import pairwise
from threading import Thread
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sslm.text.partial_json import PartialJson, PartialText

NOTHING = object()
LEAVES = (
    st.none()
    | st.booleans()
    | st.integers(-(10**30), 10**30)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text()
)
VALUES = st.recursive(
    LEAVES,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=20,
)


def is_beginning(part: Any, whole: Any) -> bool:
    """Return whether a value is what another one was at an earlier moment."""
    if type(part) is not type(whole):
        return False
    if isinstance(whole, str):
        return whole.startswith(part)
    if isinstance(whole, list):
        return are_beginnings(list(enumerate(part)), list(enumerate(whole)))
    if isinstance(whole, dict):
        return are_beginnings(list(part.items()), list(whole.items()))
    return bool(part == whole)


def are_beginnings(part: list[tuple[Any, Any]], whole: list[tuple[Any, Any]]) -> bool:
    """Return whether items come one by one, all but the last one complete."""
    if len(part) > len(whole) or part[:-1] != whole[: max(0, len(part) - 1)]:
        return False
    return not part or (
        part[-1][0] == whole[len(part) - 1][0]
        and is_beginning(part[-1][1], whole[len(part) - 1][1])
    )


def read(*pieces: str) -> Any:
    reader = PartialJson()
    for piece in pieces:
        reader.push(piece)
    return reader.value()


@given(
    value=VALUES,
    is_ascii=st.booleans(),
    indent=st.sampled_from([None, 0, 2]),
    tight=st.booleans(),
)
def test_every_beginning_of_a_text_has_a_beginning_of_its_value(
    value: Any, is_ascii: bool, indent: int | None, tight: bool
) -> None:
    separators = (",", ":") if tight else None
    text = json.dumps(value, ensure_ascii=is_ascii, indent=indent, separators=separators)
    reader, values = PartialJson(), [None]
    for at, character in enumerate(text):
        reader.push(character)
        values.append(reader.value())
        # Cut into two pieces, it is the same as character by character.
        assert values[-1] == read(text[: at + 1]) == read(text[: at // 2], text[at // 2 : at + 1])
    for earlier, later in pairwise([*values[1:], value]):
        assert earlier is None or is_beginning(earlier, later)
    # What stands at the top ends with the text, so only what has brackets or quotes is certain.
    if isinstance(value, (list, dict, str)):
        assert values[-1] == value
    else:
        assert values[-1] is None


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("", None),
        (" ", None),
        ("{", {}),
        ('{"a', {}),
        ('{"a"', {}),
        ('{"a":', {}),
        ('{"a":"', {"a": ""}),
        ('{"a":1', {}),
        ('{"a":1.', {}),
        ('{"a":1.5e', {}),
        ('{"a":1.5e3,', {"a": 1500.0}),
        ('{"a":-', {}),
        ('{"a":-7}', {"a": -7}),
        ('{"a":12 ', {"a": 12}),
        ('{"a":tru', {}),
        ('{"a":true', {}),
        ('{"a":true,', {"a": True}),
        ('{"a":null,"b', {"a": None}),
        ('{"a":[1,2', {"a": [1]}),
        ('{"a":[1,2]', {"a": [1, 2]}),
        ('{"a":[[],{"b":[', {"a": [[], {"b": []}]}),
        ('{"a":1,"a":"x', {"a": "x"}),
        ('"a\\', "a"),
        ('"a\\n', "a\n"),
        ('"a\\u00', "a"),
        ('"a\\u00e9', "aé"),
        ('"\\ud83d', ""),
        ('"\\ud83d\\', ""),
        ('"\\ud83d\\ude0', ""),
        ('"\\ud83d\\ude00', "😀"),
        ('"\\ud83dx', "\ud83dx"),
        ('"\\ud83d\\n', "\ud83d\n"),
        ('"\\ud83d\\u0041', "\ud83dA"),
        ('"\\ud83d"', "\ud83d"),
        ('"x"  ', "x"),
        ("17", None),
        ("17 ", 17),
        ("false\n", False),
    ],
)
def test_beginnings(text: str, value: Any) -> None:
    assert read(text) == value
    assert read(*text) == value


def test_what_was_returned_does_not_change() -> None:
    reader = PartialJson()
    reader.push('{"a":[1,2],"b":[{"c":"x')
    before = reader.value()
    reader.push('y"},3,4]')
    assert before == {"a": [1, 2], "b": [{"c": "x"}]}
    after = reader.value()
    assert after == {"a": [1, 2], "b": [{"c": "xy"}, 3, 4]}
    assert after["a"] is before["a"]


def test_depth_is_no_problem() -> None:
    depth = 20_000
    found = read("[" * depth)
    for _ in range(depth - 1):
        (found,) = found
    assert found == []


def test_each_character_is_read_once(monkeypatch: pytest.MonkeyPatch) -> None:
    pieces: list[str] = []
    text = PartialText(pieces)
    read_sizes = []
    push = PartialJson.push

    def counted(self: PartialJson, piece: str) -> None:
        read_sizes.append(len(piece))
        push(self, piece)

    monkeypatch.setattr(PartialJson, "push", counted)
    for index in range(50):
        pieces += [f"{'[' if index == 0 else ','}{index}", ""]
        assert text.value() == list(range(index))
    assert sum(read_sizes) == sum(map(len, pieces))


def test_threads_and_interrupts_find_the_text_as_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    pieces = ['[1,"', "ab", 'c"', ",2,", "3]"]
    text = PartialText(pieces)
    assert text.value() == [1, "abc", 2, 3]
    found: list[Any] = []
    threads = [Thread(target=lambda: found.append(text.value())) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == [[1, "abc", 2, 3]] * 8

    def interrupted(self: PartialJson) -> Any:
        raise KeyboardInterrupt

    pieces.append(" ")
    with monkeypatch.context() as patch:
        patch.setattr(PartialJson, "value", interrupted)
        with pytest.raises(KeyboardInterrupt):
            text.value()
    assert text.value() == [1, "abc", 2, 3]
