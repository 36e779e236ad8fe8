r"""Languages of the formats that JSON Schema names, as contents of JSON strings.

Each is the grammar of the document that draft 2020-12 refers to, with what its prose adds. Unless
they are asked for, valid texts that hardly any program reads are left out: leap seconds, which take
some ten thousand states besides, the year 0, numbers of a duration beyond six digits, and host
names so long that their length would have to be counted. Internationalized labels of host names
(``xn--``), which only a table of Unicode can check, are left out always. So what is accepted is
always valid, and documentation says what valid texts are not.
"""

from collections.abc import Callable
from functools import cache
from typing import Final

from sslm.errors.schema import UnknownFormatError
from sslm.schema.documents.document import shown
from sslm.schema.regular.language import (
    Both,
    Bytes,
    Either,
    Language,
    OneOf,
    Repeat,
    Sequence,
    Whole,
    Without,
)
from sslm.schema.values.patterns import pattern_language

HOST_NAME_SIZE_CHARS_MAX: Final = 253
"""Characters of a host name: RFC 1035 allows 255 bytes of a form that has two more."""

_HOUR: Final = r"(?:[01]\d|2[0-3])"
_MINUTE: Final = r"[0-5]\d"
_FRACTION: Final = r"(?:\.\d+)?"
_MINUTES_A_DAY: Final = 24 * 60

_DURATION_SIZE_DIGITS_MAX: Final = 6
"""Digits of each number of a duration: Python's have less than a billion days."""

_OCTET: Final = r"(?:25[0-5]|2[0-4]\d|1\d\d|[1-9]?\d)"
_IPV4: Final = rf"{_OCTET}(?:\.{_OCTET}){{3}}"
_HEX: Final = "[0-9A-Fa-f]"
_GROUP: Final = _HEX + "{1,4}"

_LETTER_OR_DIGIT: Final = "[A-Za-z0-9]"


def _matching(pattern: str) -> Language:
    """Return the texts that a pattern takes in as a whole."""
    return pattern_language(f"^(?:{pattern})$")


def _date(*, exact: bool) -> Language:
    """Return full-date of RFC 3339, with the days that each month of each year has."""
    leap_year = r"(?:\d\d(?:0[48]|[2468][048]|[13579][26])|(?:[02468][048]|[13579][26])00)"
    dates = _matching(
        r"\d{4}-(?:(?:0[13578]|1[02])-(?:0[1-9]|[12]\d|3[01])"
        r"|(?:0[469]|11)-(?:0[1-9]|[12]\d|30)|02-(?:0[1-9]|1\d|2[0-8]))"
        rf"|{leap_year}-02-29"
    )
    # Calendars of programs, Python's among them, begin with the year 1.
    return dates if exact else Whole(Without(dates, _matching("0000-.*")))


def _time(*, exact: bool) -> Language:
    """Return full-time of RFC 3339; a leap second ends a day of UTC."""
    usual = _matching(rf"{_HOUR}:{_MINUTE}:{_MINUTE}{_FRACTION}(?:[Zz]|[+-]{_HOUR}:{_MINUTE})")
    if not exact:
        return usual
    fraction = _matching(_FRACTION)
    leaps = [
        Sequence(
            (
                Bytes(_clock(minute) + b":60"),
                fraction,
                Either(
                    (
                        Bytes(b"+" + _clock((minute + 1) % _MINUTES_A_DAY)),
                        Bytes(b"-" + _clock(_MINUTES_A_DAY - 1 - minute)),
                    )
                ),
            )
        )
        for minute in range(_MINUTES_A_DAY)
    ]
    return Either((usual, _matching(f"23:59:60{_FRACTION}[Zz]"), *leaps))


def _clock(minute: int) -> bytes:
    return b"%02d:%02d" % divmod(minute, 60)


def _date_time(*, exact: bool) -> Language:
    return Sequence((_date(exact=exact), OneOf(((0x54, 0x54), (0x74, 0x74))), _time(exact=exact)))


def _duration(*, exact: bool) -> Language:
    """Return duration of RFC 3339, appendix A: units in a row, none left out in between."""
    number = r"\d+" if exact else rf"\d{{1,{_DURATION_SIZE_DIGITS_MAX}}}"
    minute = rf"{number}M(?:{number}S)?"
    time = rf"T(?:{number}H(?:{minute})?|{minute}|{number}S)"
    month = rf"{number}M(?:{number}D)?"
    date = rf"(?:{number}Y(?:{month})?|{month}|{number}D)"
    return _matching(rf"P(?:{date}(?:{time})?|{time}|{number}W)")


def _ipv6_pattern(most_groups: int) -> str:
    """Return a pattern of an IPv6 address (RFC 4291, 2.2).

    Args:
        most_groups: How many groups may stand beside ``::``.
    """
    choices = [rf"(?:{_GROUP}:){{7}}{_GROUP}", rf"(?:{_GROUP}:){{6}}{_IPV4}"]
    for before in range(most_groups + 1):
        left = rf"{_GROUP}(?::{_GROUP}){{{before - 1}}}" if before else ""
        rest = most_groups - before
        right = rf"(?:{_GROUP}(?::{_GROUP}){{0,{rest - 1}}})?" if rest else ""
        if rest >= 2:
            right = rf"(?:{right}|(?:{_GROUP}:){{0,{rest - 2}}}{_IPV4})"
        choices.append(f"{left}::{right}")
    return "(?:" + "|".join(choices) + ")"


def _host_name(*, exact: bool) -> Language:
    """Return host names of RFC 1123, section 2.1."""

    def names(labels: int | None, characters: int) -> Language:
        inside = f"(?:[A-Za-z0-9-]{{0,{characters - 2}}}{_LETTER_OR_DIGIT})?"
        label = _matching(_LETTER_OR_DIGIT + inside)
        plain = Whole(Without(label, _matching("[Xx][Nn]--.*")))
        more = None if labels is None else labels - 1
        return Sequence((plain, Repeat(Sequence((Bytes(b"."), plain)), 0, more)))

    if exact:
        most = Repeat(OneOf(((0x2D, 0x7A),)), 1, HOST_NAME_SIZE_CHARS_MAX)
        return Both((names(None, 63), most))
    # Three labels of 63 characters or eight of 30, with the dots between, are never too long.
    return Either((names(3, 63), names(8, 30)))


def _email() -> Language:
    """Return Mailbox of RFC 5321, section 4.1.2; of address literals those that are defined."""
    atom = r"[A-Za-z0-9!#$%&'*+/=?^_`{|}~-]+"
    quoted = r'"(?:[ !#-\[\]-~]|\\[ -~])*"'
    sub_domain = rf"{_LETTER_OR_DIGIT}(?:[A-Za-z0-9-]*{_LETTER_OR_DIGIT})?"
    domain = rf"{sub_domain}(?:\.{sub_domain})*"
    # Here "::" stands for two groups at least.
    literal = rf"\[(?:{_IPV4}|[Ii][Pp][Vv]6:{_ipv6_pattern(6)})\]"
    return _matching(rf"(?:{atom}(?:\.{atom})*|{quoted})@(?:{domain}|{literal})")


def _uri() -> Language:
    """Return URI of RFC 3986, appendix A."""
    unreserved, sub_delims, escaped = "A-Za-z0-9._~-", "!$&'()*+,;=", f"%{_HEX}{{2}}"
    segment_character = f"(?:[:@{sub_delims}{unreserved}]|{escaped})"
    segments = f"(?:/{segment_character}*)*"
    user = f"(?:(?:[:{sub_delims}{unreserved}]|{escaped})*@)?"
    future = rf"[Vv]{_HEX}+\.[:{sub_delims}{unreserved}]+"
    name = f"(?:[{sub_delims}{unreserved}]|{escaped})*"
    host = rf"(?:\[(?:{_ipv6_pattern(7)}|{future})\]|{name})"
    rootless = f"{segment_character}+{segments}"
    path = rf"(?://{user}{host}(?::\d*)?{segments}|/(?:{rootless})?|{rootless}|)"
    rest = f"(?:[/?:@{sub_delims}{unreserved}]|{escaped})*"
    return _matching(rf"[A-Za-z][A-Za-z0-9+.-]*:{path}(?:\?{rest})?(?:#{rest})?")


def _uuid() -> Language:
    """Return UUID of RFC 4122, section 3, whatever its version."""
    return _matching(f"{_HEX}{{8}}-(?:{_HEX}{{4}}-){{3}}{_HEX}{{12}}")


_BUILT: Final[dict[str, Callable[[bool], Language]]] = {
    "date": lambda exact: _date(exact=exact),
    "date-time": lambda exact: _date_time(exact=exact),
    "duration": lambda exact: _duration(exact=exact),
    "email": lambda exact: _email(),
    "hostname": lambda exact: _host_name(exact=exact),
    "ipv4": lambda exact: _matching(_IPV4),
    "ipv6": lambda exact: _matching(_ipv6_pattern(7)),
    "time": lambda exact: _time(exact=exact),
    "uri": lambda exact: _uri(),
    "uuid": lambda exact: _uuid(),
}

FORMATS: Final = tuple(_BUILT)
"""The formats that can be enforced."""


@cache
def format_language(name: str, *, exact: bool = False) -> Language:
    """Return the texts of a format.

    Args:
        name: One of :data:`FORMATS`.
        exact: Whether all that is valid is among them: leap seconds and host names of any allowed
            length, which take some ten thousand states, the year 0, and durations of any length.

    Raises:
        UnknownFormatError: If there is no such format here.
    """
    if name not in _BUILT:
        raise UnknownFormatError(shown(name), FORMATS)
    return Whole(_BUILT[name](exact))
