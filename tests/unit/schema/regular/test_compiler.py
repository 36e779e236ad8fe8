"""An automaton has exactly the strings of its expression, and no state too many."""

import re
from itertools import pairwise, product

import pytest
from hypothesis import given, settings

from sslm.errors.schema import SchemaBudgetError, UnsatisfiableSchemaError
from sslm.schema.regular.automaton import Automaton
from sslm.schema.regular.budget import Budget
from sslm.schema.regular.compiler import LanguageCompiler, compile_language
from sslm.schema.regular.language import (
    ANY_BYTE,
    EMPTY,
    NOTHING,
    Both,
    Bytes,
    Either,
    ExactlyOne,
    Language,
    Machine,
    Named,
    OneOf,
    Repeat,
    Sequence,
    Shortest,
    Whole,
    Without,
    optional,
)
from tests.unit.schema.languages import ALPHABET, LANGUAGES, LENGTH, UNIVERSE, strings

A, B = Bytes(b"a"), Bytes(b"b")
AB = OneOf(((97, 98),))
ANY = Repeat(AB, 0, None)


def _accepted(automaton: Automaton, universe: list[bytes]) -> frozenset[bytes]:
    return frozenset(text for text in universe if automaton.matches(text))


def _check_shape(automaton: Automaton) -> None:
    """Check that the automaton is the smallest one, in the order that is promised."""
    count = automaton.state_count
    order = [0]
    for state in order:
        row = automaton.row(state)
        assert all(low <= high for low, high, _ in row)
        # Ascending, and neighbours of one target are one range.
        for (_, end, left), (start, _, right) in pairwise(row):
            assert end < start
            assert end + 1 < start or left != right
        for low, high, target in row:
            assert {automaton.step(state, byte) for byte in (low, high)} == {target}
            if target not in order:
                order.append(target)
    assert order == list(range(count))
    # Two states differ in some continuation; each has one. Refinement as in every textbook.
    classes = [int(automaton.is_accepting(state)) for state in range(count)]
    while True:
        rows = [
            (
                classes[s],
                tuple(
                    (b, classes[t]) for b in range(256) if (t := automaton.step(s, b)) is not None
                ),
            )
            for s in range(count)
        ]
        numbers = {row: index for index, row in enumerate(dict.fromkeys(rows))}
        refined = [numbers[row] for row in rows]
        if len(set(refined)) == len(set(classes)):
            break
        classes = refined
    assert len(set(classes)) == count
    live = {state for state in range(count) if automaton.is_accepting(state)}
    while more := {s for s in range(count) for *_, t in automaton.row(s) if t in live} - live:
        live |= more
    assert len(live) == count


@settings(max_examples=250, deadline=None)
@given(language=LANGUAGES)
def test_an_automaton_has_the_strings_of_its_expression(language: Language) -> None:
    expected = strings(language)
    compiler = LanguageCompiler()
    if compiler.is_empty(language):
        assert expected == frozenset()
        with pytest.raises(UnsatisfiableSchemaError):
            compiler.automaton(language)
        return
    automaton = compiler.automaton(language)
    assert _accepted(automaton, UNIVERSE) == expected
    _check_shape(automaton)
    assert compile_language(language) == automaton
    assert automaton == automaton  # noqa: PLR0124 (its own equality is under test)


@settings(max_examples=60, deadline=None)
@given(left=LANGUAGES, right=LANGUAGES)
def test_equal_languages_have_equal_automata(left: Language, right: Language) -> None:
    """De Morgan's laws, which share no step of their compilation."""
    compiler = LanguageCompiler()
    neither = Without(ANY, Either((left, right)))
    also_neither = Both((Without(ANY, left), Without(ANY, right)))
    assert compiler.is_empty(neither) == compiler.is_empty(also_neither)
    if not compiler.is_empty(neither):
        assert compiler.automaton(neither) == compiler.automaton(also_neither)
    exclusive = Either((Without(left, right), Without(right, left)))
    if not compiler.is_empty(exclusive):
        assert compiler.automaton(ExactlyOne((left, right))) == compiler.automaton(exclusive)


REGULAR = [
    "a*b*", "(?:a|ab)*", "(?:a|ab)(?:ba|b)", "a{2,4}", "(?:ab?){0,3}", "(?:a|b)*abb", "a?b?a?b?",
    "(?:(?:a{1,2}){2,3}b)*", "(?:aa|aaa)*b", "(?:a*b*)*", "(?:a|aa){3,5}", "(?:a?){2,4}b",
]  # fmt: skip


@pytest.mark.parametrize("pattern", REGULAR)
def test_regular_expressions_agree_with_another_engine(pattern: str) -> None:
    automaton = compile_language(_read(pattern))
    universe = [bytes(t) for n in range(9) for t in product(ALPHABET, repeat=n)]
    expected = {text for text in universe if re.fullmatch(pattern.encode(), text)}
    assert _accepted(automaton, universe) == expected
    _check_shape(automaton)


def _read(pattern: str) -> Language:
    """Read the few operators that the patterns above use."""
    language, rest = _read_choice(pattern)
    assert not rest
    return language


def _read_choice(rest: str) -> tuple[Language, str]:
    choices: list[Language] = []
    while True:
        parts: list[Language] = []
        while rest and rest[0] not in "|)":
            if rest.startswith("(?:"):
                part, rest = _read_choice(rest[3:])
                rest = rest.removeprefix(")")
            else:
                part, rest = Bytes(rest[0].encode()), rest[1:]
            if found := re.match(r"\*|\?|\{(\d+),?(\d+)?\}", rest):
                least = int(found[1] or 0)
                most = {"*": None, "?": 1}.get(found[0], int(found[2] or least))
                part, rest = Repeat(part, least, most), rest[found.end() :]
            parts.append(part)
        choices.append(Sequence(tuple(parts)))
        if not rest.startswith("|"):
            return Either(tuple(choices)), rest
        rest = rest[1:]


@pytest.mark.parametrize(
    ("language", "count"),
    [
        (EMPTY, 1),
        (ANY, 1),
        (Repeat(ANY_BYTE, 7, 7), 8),
        (Repeat(ANY, 7, None), 1),
        (Repeat(optional(A), 0, 9), 10),
        (Sequence((ANY, A, Repeat(AB, 5, 5))), 64),
        (Either(tuple(Bytes(bytes(t)) for t in product(ALPHABET, repeat=8))), 9),
        (Repeat(Either((A, Bytes(b"aa"))), 0, 200), 401),
    ],
)
def test_the_number_of_states_is_the_least(language: Language, count: int) -> None:
    assert compile_language(language).state_count == count


def test_a_shortest_prefix_keeps_a_search_small() -> None:
    found = Sequence((Shortest(Sequence((ANY, Bytes(b"ab")))), ANY))
    assert compile_language(found) == compile_language(Sequence((ANY, Bytes(b"ab"), ANY)))


def test_parts_that_are_empty_disappear() -> None:
    nothing = Both((A, B))
    compiler = LanguageCompiler()
    for language in (
        NOTHING, nothing, Sequence((A, nothing)), Repeat(nothing, 1, None), Without(A, AB),
        Repeat(A, 3, 2), Whole(nothing), Either(()), ExactlyOne((A, A)), OneOf(()),
        Repeat(EMPTY, 3, 2), Repeat(optional(A), 3, 2),
    ):  # fmt: skip
        assert compiler.is_empty(language)
    assert compiler.automaton(Repeat(nothing, 0, None)) == compiler.automaton(EMPTY)
    with pytest.raises(UnsatisfiableSchemaError, match="the schema as a whole"):
        compiler.automaton(nothing)
    with pytest.raises(UnsatisfiableSchemaError, match="not at #/x") as caught:
        compiler.automaton(Named(nothing, "not at #/x"))
    assert caught.value.where == "not at #/x"


@pytest.mark.parametrize(
    ("language", "budget", "what"),
    [
        (Repeat(A, 0, 10**9), Budget(steps=1000), "states"),
        (Repeat(Repeat(Repeat(A, 0, 1000), 0, 1000), 0, 1000), Budget(steps=50_000), "steps"),
        (Sequence((ANY, A, Repeat(AB, 30, 30))), Budget(states=5000), "states"),
        (Repeat(Sequence((A, Repeat(B, 0, None))), 0, 60_000), Budget(states=50_000), "states"),
        (Repeat(AB, 0, 60), Budget(transitions=50), "transitions"),
        (Repeat(AB, 0, 60), Budget(steps=300), "steps"),
        (Repeat(Either((A, Bytes(b"aa"))), 0, 9000), Budget(steps=50_000), "steps"),
    ],
)
def test_what_grows_is_refused_by_name(language: Language, budget: Budget, what: str) -> None:
    labelled = Sequence((B, Named(language, "maxItems at #/x"), B))
    with pytest.raises(SchemaBudgetError, match="maxItems at #/x") as caught:
        compile_language(labelled, budget)
    assert caught.value.what == what


def test_the_innermost_label_is_blamed() -> None:
    inner = Named(Repeat(A, 0, 300), "inner")
    outer = Named(Sequence((Named(Repeat(B, 0, 3), "small"), inner)), "outer")
    with pytest.raises(SchemaBudgetError) as caught:
        compile_language(outer, Budget(states=200))
    assert caught.value.where == "inner"


def test_an_automaton_that_is_written_down_is_made_smallest() -> None:
    """Of its states one cannot be reached, one leads nowhere, and two are alike."""
    rows = (
        ((97, 97, 1), (98, 98, 2), (99, 99, 3)),
        ((97, 98, 0),),
        ((98, 98, 0), (97, 97, 0)),
        ((97, 97, 3),),
        ((97, 97, 0),),
    )
    machine = Machine(rows, frozenset({0, 4}))
    expected = Repeat(Sequence((AB, AB)), 0, None)
    assert compile_language(machine) == compile_language(expected)
    assert compile_language(Sequence((machine, A))) == compile_language(Sequence((expected, A)))
    assert LanguageCompiler().is_empty(Machine(rows, frozenset({4})))


def test_a_large_part_need_not_be_built_to_be_intersected() -> None:
    long = Repeat(AB, 0, 10**9)
    assert compile_language(Both((long, Bytes(b"abba")))).state_count == 5


def test_deep_expressions_need_no_deep_calls() -> None:
    optional_chain: Language = B
    for _ in range(100):
        optional_chain = Either((Sequence((A, optional_chain)), optional_chain))
    assert compile_language(optional_chain).state_count == 102
    nested: Language = B
    for _ in range(5_000):
        nested = Sequence((A, Named(nested, "inner")))
    assert compile_language(nested).state_count == 5_002


def test_the_alphabet_of_the_reference_is_small_enough_to_try_all() -> None:
    assert len(UNIVERSE) == 2 ** (LENGTH + 1) - 1
