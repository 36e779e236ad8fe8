"""White space in texts: what each spacing has, compared with a judge that splits them in tokens."""

import json
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import pytest

from sslm.errors.base import SslmError
from sslm.errors.schema import SchemaBudgetError, UnsatisfiableSchemaError
from sslm.schema.documents.options import SchemaOptions
from sslm.schema.regular.automaton import Automaton
from sslm.schema.regular.budget import Budget
from sslm.schema.regular.spacing import Spacing
from sslm.schema.schema_compiler import CompiledSchema, compile_schema
from tests import json_spacing
from tests.schema_suite import groups
from tests.schema_walks import Walker

LARGE: Final = ("pydantic_order", "pydantic_order_out", "pydantic_zoo")
"""With thousands of states; ``benchmarks.schema_suite --spacing`` has them, too."""
SCHEMAS: Final = [
    path
    for path in sorted((Path(__file__).parents[3] / "schemas").glob("*.json"))
    if path.stem not in LARGE
]
JUDGES: Final[dict[Spacing, Callable[[bytes], bool]]] = {
    "spaced": json_spacing.is_spaced,
    "flexible": json_spacing.is_flexible,
}
MARKS: Final = b' \n,:{}[]"\\1e'
WANTED_FROM_SUITE: Final = 60


def compiled(schema: Any, spacing: Spacing, **options: Any) -> CompiledSchema:
    return compile_schema(schema, SchemaOptions(spacing=spacing, **options))


def texts(automaton: Automaton, seed: int, count: int) -> list[bytes]:
    walker = Walker(automaton, seed)
    return [walker.text(40) for _ in range(count)]


def mutations(text: bytes, dice: random.Random, count: int) -> list[bytes]:
    """Return a text with a byte put in, taken out or replaced by one that has a meaning."""
    found = []
    for _ in range(count):
        at = dice.randrange(len(text) + 1)
        mark = bytes([dice.choice(MARKS)]) * dice.choice((1, 1, 1, 2, 17))
        found.append(text[:at] + dice.choice((mark, b"")) + text[at + dice.randrange(2) :])
    return found


def differences(plain: Automaton, found: Automaton, spacing: Spacing, seed: int) -> list[bytes]:
    """Return texts that *found* has though it should not, or should have and has not."""
    dice = random.Random(seed)
    judge = JUDGES[spacing]
    tried = texts(plain, seed, 10) + texts(found, seed, 20)
    tried += [json_spacing.spaced(text) for text in tried[:10]]
    tried += [other for text in tried for other in mutations(text, dice, 20)]
    return [
        text
        for text in dict.fromkeys(tried)
        if found.matches(text) != (judge(text) and plain.matches(json_spacing.compact(text)))
    ]


@pytest.mark.parametrize("spacing", JUDGES)
@pytest.mark.parametrize("path", SCHEMAS, ids=lambda path: path.stem)
def test_texts_are_those_without_white_space_and_some(path: Path, spacing: Spacing) -> None:
    plain = compile_schema(path.read_bytes()).automaton
    found = compiled(path.read_bytes(), spacing)
    assert differences(plain, found.automaton, spacing, 1) == []
    for text in texts(found.automaton, 2, 5):
        # As any reader of JSON sees it, it is the text without white space.
        assert json.loads(text) == json.loads(json_spacing.compact(text))
    for text in texts(plain, 3, 5):
        value = json.loads(text)
        if json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode() != text:
            continue
        assert found.automaton.matches(json.dumps(value, ensure_ascii=False).encode())
        if spacing == "flexible":
            for indent in (None, 0, 2, 4):
                printed = json.dumps(value, ensure_ascii=False, indent=indent).encode()
                assert found.automaton.matches(printed)


@pytest.mark.parametrize("spacing", JUDGES)
@pytest.mark.parametrize(
    "schema",
    [
        # What follows may be equal within a text and outside of texts.
        {"enum": [['"abc'], [1, "abc"]]},
        {"enum": [["\\"], [1, ""], ["\\\\, : {"], [[]], {}, {"": {}}, {",": [":", "]"]}]},
        {"type": "array", "items": {"enum": ["a, b", 12, 1, True, None, [], {"[": 1}]}},
        {"type": ["number", "string", "null"]},
        {"type": "object", "additionalProperties": {"type": "integer"}},
        {"type": "array", "items": {"type": "array", "items": {"type": "number"}}},
        {"not": {"type": ["string", "number"]}, "maxItems": 2, "maxProperties": 1},
    ],
)
def test_marks_within_texts_mean_nothing(schema: Any, spacing: Spacing) -> None:
    plain = compiled(schema, "compact", free_levels=1).automaton
    found = compiled(schema, spacing, free_levels=1).automaton
    for seed in range(4):
        assert differences(plain, found, spacing, seed) == []


def test_where_white_space_may_stand() -> None:
    schema = {"properties": {"a": {"type": "array", "items": {"type": "integer"}}, "b": True}}
    spaced = compiled(schema, "spaced")
    flexible = compiled(schema, "flexible")
    of_both = ['{"a": [1, 2], "b": {"x": "y,z:"}}', "{}", "[]", "-1.5", '"a: b"', "[1, [2]]"]
    of_flexible = [
        '{"a":[1,2]}',
        '{ "a": [ 1, 2 ] }',
        "{ }",
        "{\n}",
        '{\n  "a": [\n    1,\n    2\n  ],\n  "b": {}\n}',
        '{"a":\x20[1,2\n],\n\n'.replace("\n\n", "\n" + 16 * " ") + '"b": 1}',
    ]
    of_none = [
        *(' {"a": []}', '{"a": []} ', '{"a": []}\n', " 1", "1\n"),
        *('{"a" : []}', '{"a":  []}', '{"a":\n[]}', '{"a": [1 , 2]}', '{"a": [1,  2]}'),
        *('{"a": [1,\t2]}', '{"a": [1,\r\n2]}', '{"a": [1,\n\n2]}', '{"a": [1, \n2]}'),
        *(
            "[1,\n" + 17 * " " + "2]",
            "[1\n" + 17 * " " + "]",
            "[1 2]",
            "[1\n2]",
            "[- 1]",
            "[t rue]",
        ),
    ]
    for text in of_both:
        assert spaced.automaton.matches(text.encode())
    for text in of_flexible:
        assert not spaced.automaton.matches(text.encode())
    for text in of_both + of_flexible:
        assert flexible.automaton.matches(text.encode()), text
    for text in of_none:
        assert not flexible.automaton.matches(text.encode()), text
        assert not spaced.automaton.matches(text.encode()), text


def test_the_spelling_of_a_value_is_one_of_its_texts() -> None:
    value = {"b": [1, {"y": None}], "a": ", : "}
    schema = {"properties": {"a": True, "b": True}, "type": "object"}
    for spacing, text in (
        ("compact", '{"a":", : ","b":[1,{"y":null}]}'),
        ("spaced", '{"a": ", : ", "b": [1, {"y": null}]}'),
        ("flexible", '{"a":", : ","b":[1,{"y":null}]}'),
    ):
        found = compiled(schema, spacing)  # type: ignore[arg-type]
        assert found.canonical_text(value) == text.encode()
        assert found.allows(value)
        assert not found.allows([1])


@pytest.mark.parametrize("spacing", JUDGES)
def test_instances_of_the_suite_are_judged_as_without_white_space(spacing: Spacing) -> None:
    printed = 0
    for group in groups():
        if printed > WANTED_FROM_SUITE:
            break
        try:
            found = compiled(group.schema, spacing, unknown_keywords="ignore", formats="annotate")
        except SslmError:
            continue
        for test in group.tests:
            printed += 1
            assert found.allows(test["data"]) == test["valid"]
    assert printed > WANTED_FROM_SUITE


def test_the_default_changes_nothing() -> None:
    schema = {"type": "array", "items": {"type": "integer"}}
    plain = compile_schema(schema)
    assert compiled(schema, "compact").digest == plain.digest
    others = [compiled(schema, spacing) for spacing in JUDGES]
    assert len({plain.digest, *(one.digest for one in others)}) == 3
    assert len({one.automaton.state_count for one in (plain, *others)}) == 3


def test_white_space_counts_against_the_budget() -> None:
    schema = {"type": "array", "items": {"type": "boolean"}, "maxItems": 20}
    states = compile_schema(schema).automaton.state_count
    assert compile_schema(schema, budget=Budget(states=states + 50)).automaton.state_count == states
    options = SchemaOptions(spacing="flexible")
    with pytest.raises(SchemaBudgetError, match="what grew is white space"):
        compile_schema(schema, options, Budget(states=states + 50))
    steps = 20 * states
    compile_schema(schema, budget=Budget(steps=4 * steps))
    with pytest.raises(SchemaBudgetError, match="steps"):
        compile_schema(schema, options, Budget(steps=4 * steps))


def test_a_schema_that_allows_nothing_stays_so() -> None:
    for spacing in JUDGES:
        with pytest.raises(UnsatisfiableSchemaError):
            compiled(False, spacing)
