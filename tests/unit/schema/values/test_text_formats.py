"""Formats: exactly the texts of their grammars, by the standard library and published examples."""

import json
import random
from datetime import datetime, timedelta
from functools import cache

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sslm.errors.schema import UnknownFormatError
from sslm.schema.regular.automaton import Automaton
from sslm.schema.regular.compiler import compile_language
from sslm.schema.values.strings import spelled
from sslm.schema.values.text_formats import FORMATS, format_language
from tests.data import shared_data
from tests.unit.schema.format_checks import CHECKS, is_date, is_ipv4, is_ipv6, is_time, walk

SUITE = "json-schema-test-suite/tests/draft2020-12/optional/format"


@cache
def _automaton(name: str, *, exact: bool = False) -> Automaton:
    return compile_language(format_language(name, exact=exact))


def _has(name: str, text: str, *, exact: bool = False) -> bool:
    return _automaton(name, exact=exact).matches(spelled(text))


def _suite(name: str) -> list[tuple[str, bool]]:
    groups = json.loads(shared_data(f"{SUITE}/{name}.json").read_text(encoding="utf-8"))
    tests = [test for group in groups for test in group["tests"]]
    return [(test["data"], test["valid"]) for test in tests if isinstance(test["data"], str)]


@pytest.mark.parametrize("name", FORMATS)
def test_a_format_agrees_with_the_published_suite(name: str) -> None:
    """All but internationalized labels, whose valid ones are left out."""
    cases = _suite(name)
    assert len(cases) > 10
    for text, is_valid in cases:
        expected = is_valid and not (name == "hostname" and "xn--" in text)
        assert _has(name, text, exact=True) == expected, text
        assert _has(name, text) <= expected, text


@pytest.mark.parametrize("name", CHECKS)
@pytest.mark.parametrize("exact", [False, True])
def test_random_texts_of_a_format_are_valid(name: str, *, exact: bool) -> None:
    """And whether the same texts with one character changed are is decided alike."""
    rng = random.Random(f"{name} {exact}")
    automaton = _automaton(name, exact=exact)
    for _ in range(150):
        text = walk(automaton, rng)
        assert CHECKS[name](text), text
        place = rng.randrange(len(text) + 1)
        other = text[:place] + rng.choice("0123456789:.-+TZabfx ") + text[place + 1 :]
        if exact:
            assert automaton.matches(spelled(other)) == CHECKS[name](other), other
        else:
            assert automaton.matches(spelled(other)) <= CHECKS[name](other), other


def test_every_day_of_every_kind_of_year() -> None:
    for year in (0, 1, 4, 100, 400, 1899, 1900, 1996, 2000, 2023, 2024, 2096, 2100, 9996, 9999):
        for month in range(14):
            for day in range(33):
                text = f"{year:04}-{month:02}-{day:02}"
                assert _has("date", text, exact=True) == is_date(text)
                assert _has("date", text) == (is_date(text) and year > 0)
    for year in range(10_000):
        text = f"{year:04}-02-29"
        assert _has("date", text, exact=True) == is_date(text)
        assert _has("date", text) == (is_date(text) and year > 0)


def test_every_minute_may_have_a_leap_second_somewhere() -> None:
    for minute in range(0, 1440, 7):
        clock = f"{minute // 60:02}:{minute % 60:02}:60"
        for offset in range(0, 1440, 13):
            for sign in "+-":
                text = f"{clock}{sign}{offset // 60:02}:{offset % 60:02}"
                assert _has("time", text, exact=True) == is_time(text)
        for sign, offset in (("+", (minute + 1) % 1440), ("-", 1439 - minute)):
            text = f"{clock}.5{sign}{offset // 60:02}:{offset % 60:02}"
            assert _has("time", text, exact=True)
            assert not _has("time", text)


@pytest.mark.parametrize("name", ["date", "date-time"])
def test_python_has_every_date_unless_all_are_asked_for(name: str) -> None:
    rng = random.Random(name)
    for _ in range(300):
        text = walk(_automaton(name), rng)
        assert datetime.fromisoformat(text.upper()).year > 0, text


def test_numbers_of_durations() -> None:
    for size in range(1, 9):
        for text in (f"P{'9' * size}Y1M", f"PT1M{'9' * size}S", f"P{'0' * size}W"):
            assert _has("duration", text) == (size <= 6), text
            assert _has("duration", text, exact=True), text
    assert _has("duration", "P999999Y999999M999999DT999999H999999M999999S")
    most = 999_999
    assert timedelta(366 * most + 31 * most + most, hours=most, minutes=most, seconds=most)


def test_offsets_of_leap_seconds_are_offsets() -> None:
    for text in ("23:59:60+24:00", "23:59:60-24:00", "00:00:60+00:61", "22:59:60-1:00"):
        assert not _has("time", text, exact=True)
    assert _has("time", "00:00:60+00:01", exact=True)


def test_lengths_of_host_names() -> None:
    for size in (1, 2, 62, 63, 64):
        assert _has("hostname", "a" * size) == (size < 64)
    for labels in (3, 4, 8, 9, 126, 127):
        assert _has("hostname", ".".join(["a"] * labels)) == (labels <= 8)
        assert _has("hostname", ".".join(["a"] * labels), exact=True)
    assert _has("hostname", ".".join(["a" * 30] * 8))
    assert not _has("hostname", ".".join(["a" * 31] * 4))
    whole = ".".join(["a" * 63] * 3 + ["a" * 61])
    assert len(whole) == 253
    assert _has("hostname", whole, exact=True)
    assert not _has("hostname", whole + "a", exact=True)


@settings(max_examples=200, deadline=None)
@given(text=st.text(alphabet="0123456789abcF:.", max_size=24))
def test_addresses_agree_with_the_standard_library(text: str) -> None:
    assert _has("ipv6", text) == is_ipv6(text)
    assert _has("ipv4", text) == is_ipv4(text)


GROUPS = st.lists(st.sampled_from(["0", "a1", "FFFF"]), max_size=8)


@settings(max_examples=200, deadline=None)
@given(
    left=GROUPS,
    right=GROUPS,
    tail=st.sampled_from(["", "1.2.3.4"]),
    gap=st.sampled_from([":", "::"]),
)
def test_every_form_of_an_ipv6_address(
    left: list[str], right: list[str], tail: str, gap: str
) -> None:
    text = ":".join(left) + gap + ":".join([*right, tail] if tail else right)
    assert _has("ipv6", text) == is_ipv6(text)
    # In mail "::" stands for two groups at least (RFC 5321, 4.1.3).
    groups = len(left) + len(right) + 2 * bool(tail)
    expected = is_ipv6(text) and (groups == 8 or groups <= 6)
    assert _has("email", f"a@[IPv6:{text}]") == expected


URIS = [
    "ftp://ftp.is.co.za/rfc/rfc1808.txt", "http://www.ietf.org/rfc/rfc2396.txt",
    "ldap://[2001:db8::7]/c=GB?objectClass?one", "mailto:John.Doe@example.com",
    "news:comp.infosystems.www.servers.unix", "tel:+1-816-555-1212",
    "telnet://192.0.2.16:80/", "urn:oasis:names:specification:docbook:dtd:xml:4.1.2",
    "a:", "a:/", "a://", "a:?", "a:#", "a:b//c", "a://@:", "a:/b//c", "x://[v1.a:b]", "a:%41",
    "example://a/b/c/%7Bfoo%7D", "a://h:?/?#?/", "http://a/b/c/d;p?q",
]  # fmt: skip

NOT_URIS = [
    "", ":", "a", "//a", "1a:", "a:[", "a:#a#b", "a://[::1", "a://b:1x", "a:%4", "a:\\", 'a:"',
    "a://[v1]", "a://[1.2.3.4]", "a:é", "a: b", "a:/?{}", "a://b@c@d",
]  # fmt: skip


def test_uris_of_rfc_3986() -> None:
    assert [text for text in URIS if not _has("uri", text)] == []
    assert [text for text in NOT_URIS if _has("uri", text)] == []


MAILBOXES = [
    "a@b", "Smith@bar.com", "o'neil+tag@x-y.co", r'"a\"b\\ c"@d', '""@d', "a.b.c@1.2",
    "user@[1.2.3.4]", "user@[IPv6:2001:db8::1]", "user@[ipv6:1:2:3:4:5:6:7:8]", "a@b--c",
]  # fmt: skip

NOT_MAILBOXES = [
    "", "a", "@b", "a@", "a@b.", "a@.b", "a@-b", "a@b-", "a b@c", "a@b c", '"a"b@c', r'"a\"@b',
    "a@[1.2.3]", "a@[2001:db8::1]", "a@[IPv6:1.2.3.4]", "a@[x:y]", "é@b", "a@é", "a,b@c", "a@b_c",
    '"\n"@b', '"é"@b', "a@[IPv6:1:2:3:4:5:6:7::]",
]  # fmt: skip


def test_mailboxes_of_rfc_5321() -> None:
    assert [text for text in MAILBOXES if not _has("email", text)] == []
    assert [text for text in NOT_MAILBOXES if _has("email", text)] == []


def test_what_is_asked_for_is_small() -> None:
    """Formats stand in many places of a schema, so each has to stay small."""
    counts = {name: _automaton(name).state_count for name in FORMATS}
    assert max(counts.values()) < 800
    assert counts["date-time"] < 70


@pytest.mark.parametrize("name", ["regex", "idn-email", "", "Date", "x" * 1000])
def test_other_formats_are_refused_by_name(name: str) -> None:
    with pytest.raises(UnknownFormatError) as caught:
        format_language(name)
    assert caught.value.known == FORMATS
    assert "date-time" in str(caught.value)
    assert len(str(caught.value)) < 400
