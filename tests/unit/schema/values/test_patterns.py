"""Patterns are found in exactly the texts in which another engine finds them."""

import contextlib
import re
from itertools import product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sslm import limits
from sslm.errors.schema import PatternSyntaxError, UnsupportedPatternError
from sslm.schema.regular.automaton import Automaton
from sslm.schema.regular.budget import Budget
from sslm.schema.regular.compiler import LanguageCompiler
from sslm.schema.values.patterns import pattern_language
from sslm.schema.values.strings import spelled

ALPHABET = 'ab\n"1'
TEXTS = ["".join(one) for n in range(5) for one in product(ALPHABET, repeat=n)]


def _automaton(pattern: str) -> Automaton | None:
    compiler = LanguageCompiler()
    language = pattern_language(pattern)
    return None if compiler.is_empty(language) else compiler.automaton(language)


def _found(pattern: str, texts: list[str]) -> list[str]:
    automaton = _automaton(pattern)
    return [one for one in texts if automaton and automaton.matches(spelled(one))]


def _expected(pattern: str, texts: list[str]) -> list[str]:
    r"""Search with Python's engine, whose ``$`` also matches before a last line feed."""
    other = re.compile(re.sub(r"(?<!\\)\$", r"\\Z", pattern), re.ASCII)
    return [one for one in texts if other.search(one)]


ATOMS = st.sampled_from(
    ["a", "b", "1", '"', r"\n", ".", "[ab]", "[^a]", r"\d", r"\s", r"\W", r"[\w-]", "ab", "^", "$"]
)


def _grown(parts: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    counts = st.sampled_from(["*", "+", "?", "{2}", "{1,}", "{0,2}", "*?", "{1,3}?"])
    return st.one_of(
        st.builds("{}{}".format, parts, parts),
        st.builds("(?:{}|{})".format, parts, parts),
        st.builds("({}){}".format, parts, counts),
        st.builds("(?:{}|)".format, parts),
    )


PATTERNS = st.recursive(ATOMS, _grown, max_leaves=6)


@settings(max_examples=100, deadline=None)
@given(pattern=PATTERNS)
def test_a_pattern_finds_what_another_engine_finds(pattern: str) -> None:
    assert _found(pattern, TEXTS) == _expected(pattern, TEXTS)


@settings(max_examples=40, deadline=None)
@given(body=PATTERNS, looks=st.lists(st.tuples(st.sampled_from("=!"), PATTERNS), max_size=2))
def test_looks_ahead_are_exact(body: str, looks: list[tuple[str, str]]) -> None:
    for start in ("", "^"):
        pattern = start + "".join(f"(?{kind}{part})" for kind, part in looks) + f"(?:{body})"
        assert _found(pattern, TEXTS) == _expected(pattern, TEXTS)


KNOWN = [
    ("^a*$", ["", "a", "aaa"], ["b", "ab"]),
    ("a+", ["xxaayy"], ["", "b"]),
    ("f.*o", ["foo", "xfxo"], ["f\no", "of"]),
    ("^(?:a|b)$|^c", ["a", "b", "c", "cx"], ["ab", "xc"]),
    (r"^\cC$", ["\x03"], [r"\cC", "C"]),
    (r"^\x41\u0042\u{43}\u{1F432}$", ["ABC🐲"], ["ABC"]),
    (r"^\ud83d\udc32*$", ["🐲", "🐲🐲", ""], ["🐉"]),
    ("^🐲*$", ["", "🐲", "🐲🐲"], ["🐉", "D"]),
    (r"^[\u{1F431}-🐳]$", ["🐱", "🐲", "🐳"], ["🐰", "🐴", "a"]),
    (r"^\s$", [*" \t\n\v\f\r\xa0\ufeff\u2028\u2029\u3000\u1680\u2003"], ["\x1c", "\u200b", "a"]),
    (r"^\S$", ["a", "é", "\x1c"], [*" \xa0\ufeff\u2003"]),
    (r"^\w$", ["a", "_", "9"], ["é", "-", "\u212a"]),
    (r"^\W$", ["é", "߀", '"'], ["a"]),
    (r"^\d$", ["0"], ["߀", "৪"]),
    (r"^.$", ["a", '"', "\\", "\t", "\x85"], ["\n", "\r", "\u2028", "\u2029", ""]),
    (r"^[^]$", ["\n", "a"], [""]),
    (r"^[\b]\0$", ["\b\0"], ["b0"]),
    (r"^\p{Letter}+$", ["Hello", "π", "日本"], ["123", ""]),
    (r"^\p{digit}\P{Nd}[\p{Lu}\p{gc=Ll}]$", ["৪aÉ"], ["xaé", "৪4é"]),
    (r"^\p{LC}\p{ASCII}\p{Any}$", ["ǅa🐲"], ["日aa"]),
    (r"^\/\-\.\*\@\ \_$", ["/-.*@ _"], []),
    (r"^{a}]$", ["{a}]"], ["a"]),
    (r"^a{,2}$", ["a{,2}"], ["aa"]),
    (r"^[-a][a-][+--]$", ["-a,", "a--"], ["b-+"]),
    (r"^[a\-z\]]$", ["-", "]", "z"], ["b"]),
    (r"^(?<year>\d{4})$", ["2024"], ["202"]),
    (r"(^|,)a(,|$)", ["a", "b,a", "a,b", "b,a,b"], ["ba", "b,ab"]),
    (r"^(?=.*[A-Z])(?=.*\d)(?!.*\s).{4,6}$", ["aB1c"], ["abc1", "aB1", "aB 1", "aB1cdef"]),
    ("(a|)^b", ["b", "bx"], ["ab"]),
    ("^a$(b|)|c$(d?)", ["a", "c", "xc"], ["ab", "cd"]),
    ("(^a|b)+$", ["a", "ab", "abb", "cb"], ["aa", "ca"]),
    ("^(?:^a|b|c$)+$", ["abbc", "a", "bb", "bc"], ["", "aac", "abcb", "cc"]),
    ("", ["", "a"], []),
    ("|a", ["", "b"], []),
    (r"a\.b", ["xa.bx"], ["axb"]),
    (r"\\", ["\\"], ["/", ""]),
]


@pytest.mark.parametrize(("pattern", "inside", "outside"), KNOWN)
def test_what_patterns_mean(pattern: str, inside: list[str], outside: list[str]) -> None:
    assert _found(pattern, inside + outside) == inside


def test_many_alternatives_are_looked_for_at_one_time() -> None:
    words = [f"{n:04}" for n in range(0, 3000, 7)]
    compiler = LanguageCompiler(Budget(steps=100_000))
    automaton = compiler.automaton(pattern_language("|".join(words)))
    for text, inside in (("x00070", True), ("0007", True), ("0008", False), ("9980140", True)):
        assert automaton.matches(spelled(text)) == inside


@pytest.mark.parametrize("pattern", ["[]", "a[]b", "b^a", "a$b", "(?!)a", "^(?!a)a"])
def test_a_pattern_may_find_nothing(pattern: str) -> None:
    assert _automaton(pattern) is None


@pytest.mark.parametrize(
    ("pattern", "position"),
    [
        ("a)", 1), ("(a", 0), ("[a", 0), ("*a", 0), ("a|?", 2), ("a**", 2), ("a*+", 2), ("{2}", 0),
        ("a{2,1}", 1), ("[z-a]", 1), (r"[\d-z]", 1), (r"[a-\d]", 1), (r"\a", 0), (r"a\Z", 1),
        ("a\\", 1), (r"\xg1", 0), (r"\u12", 0), (r"\u{110000}", 0), (r"\u{}", 0), ("(?P<a>b)", 0),
        ("^*", 1), ("(?=a)*", 5), (r"\p", 0), (r"\pL", 0), (r"\c1", 0), ("(?>a)", 0),
        ("a{1}{2}", 4), (r"\01", 0), (r"\é", 0), ("(?i:a)", 0),
    ],
)  # fmt: skip
def test_what_is_no_pattern_is_refused(pattern: str, position: int) -> None:
    with pytest.raises(PatternSyntaxError) as caught:
        pattern_language(pattern)
    assert caught.value.position == position
    assert caught.value.pattern == pattern


DEEP = "(" * (limits.PATTERN_NESTING_MAX + 1) + ")" * (limits.PATTERN_NESTING_MAX + 1)


@pytest.mark.parametrize(
    ("pattern", "what", "position"),
    [
        (r"(a)\1", "a reference to a group", 3),
        (r"(?<n>a)\k<n>", "a reference to a group", 7),
        (r"\bword", "a word boundary", 0),
        (r"a\B", "a word boundary", 1),
        (r"[a\B]", "a word boundary", 2),
        ("(?<=a)b", "a look behind", 0),
        ("(?<!a)b", "a look behind", 0),
        ("a(?=b)", "a look ahead", 1),
        ("^((?!a).)*$", "a look ahead", 2),
        (r"\p{Script=Greek}", "the property Script=Greek", 0),
        ("^[[:alpha:]]+$", "a class of POSIX", 2),
        ("[a-z[:digit:]]", "a class of POSIX", 4),
        ("[^[.hyphen.]]", "a class of POSIX", 2),
        ("[[=a=]]", "a class of POSIX", 1),
        ("[[:]", "a class of POSIX", 1),
        (r"\p{Lx}", "the property Lx", 0),
        (r"\ud800", "a lone surrogate", 0),
        (r"\udc00\ud800", "a lone surrogate", 0),
        ("a\ud800", "a lone surrogate", 1),
        (r"\ud800\u0041", "a lone surrogate", 0),
        ("(^a){2,99}", "an anchor in a repetition", 0),
        ("a{1234567890}", "a very large count", 1),
        (DEEP, "groups in one another beyond the limit", limits.PATTERN_NESTING_MAX),
        ("a" * (limits.PATTERN_SIZE_CHARS_MAX + 1), "4097 characters", 0),
    ],
)
def test_what_cannot_be_decided_is_refused(pattern: str, what: str, position: int) -> None:
    with pytest.raises(UnsupportedPatternError) as caught:
        pattern_language(pattern)
    assert (caught.value.what, caught.value.position) == (what, position)
    assert caught.value.hint
    assert len(str(caught.value).encode()) < 400


@settings(max_examples=150, deadline=None)
@given(pattern=st.text(alphabet=r"ab\^$.*+?()[]{}|-,1<=!:pudxc\ué", max_size=12))
def test_any_text_is_a_pattern_or_refused(pattern: str) -> None:
    with contextlib.suppress(PatternSyntaxError, UnsupportedPatternError):
        LanguageCompiler().is_empty(pattern_language(pattern))
