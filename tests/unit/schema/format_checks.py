"""Formats said a second time, with the standard library; and random texts of automata."""

import calendar
import ipaddress
import json
import random
import re
import uuid
from collections.abc import Callable

from sslm.schema.regular.automaton import Automaton


def walk(automaton: Automaton, rng: random.Random) -> str:
    """Return a random text of an automaton."""
    state, found = 0, bytearray()
    while not (automaton.is_accepting(state) and (rng.random() < 0.3 or not automaton.row(state))):
        low, high, state = rng.choice(automaton.row(state))
        found.append(rng.randint(low, high))
    return str(json.loads(b'"' + bytes(found) + b'"'))


def is_date(text: str) -> bool:
    """Tell whether a text is full-date of RFC 3339."""
    if not re.fullmatch(r"[0-9]{4}-[0-9]{2}-[0-9]{2}", text):
        return False
    year, month, day = map(int, text.split("-"))
    if not 1 <= month <= 12 or day < 1:
        return False
    is_leap = year % 4 == 0 and (year % 100 != 0 or year % 400 == 0)
    return day <= (29 if is_leap and month == 2 else calendar.monthrange(2023, month)[1])


def is_time(text: str) -> bool:
    """Tell whether a text is full-time of RFC 3339."""
    parts = re.fullmatch(
        r"([0-9]{2}):([0-9]{2}):([0-9]{2})(\.[0-9]+)?([Zz]|([+-])([0-9]{2}):([0-9]{2}))", text
    )
    if not parts:
        return False
    hour, minute, second = (int(parts[i]) for i in (1, 2, 3))
    offset_hour, offset_minute = int(parts[7] or 0), int(parts[8] or 0)
    if hour > 23 or minute > 59 or offset_hour > 23 or offset_minute > 59:
        return False
    offset = (offset_hour * 60 + offset_minute) * (-1 if parts[6] == "-" else 1)
    is_last_minute = (hour * 60 + minute - offset) % 1440 == 1439
    return second <= 59 or (second == 60 and is_last_minute)


def is_date_time(text: str) -> bool:
    """Tell whether a text is date-time of RFC 3339."""
    return is_date(text[:10]) and text[10:11] in ("T", "t") and is_time(text[11:])


def is_ipv4(text: str) -> bool:
    """Tell whether a text is an IPv4 address."""
    try:
        return str(ipaddress.IPv4Address(text)) == text
    except ValueError:
        return False


def is_ipv6(text: str) -> bool:
    """Tell whether a text is an IPv6 address."""
    try:
        ipaddress.IPv6Address(text)
    except ValueError:
        return False
    tail = text.rpartition(":")[2]
    return "%" not in text and ("." not in tail or is_ipv4(tail))


def is_duration(text: str) -> bool:
    """Take the units apart, and check that those that are there are neighbours."""
    if re.fullmatch("P[0-9]+W", text):
        return True
    parts = re.fullmatch("P((?:[0-9]+[YMD])*)(?:T((?:[0-9]+[HMS])+))?", text)
    if not parts or not (parts[1] or parts[2]):
        return False
    days, time = (re.sub("[0-9]", "", part or "") for part in parts.groups())
    return days in "YMD" and time in "HMS"


def is_host_name(text: str) -> bool:
    """Tell whether a text is a host name without internationalized labels."""
    labels = text.split(".")
    return len(text) <= 253 and all(
        re.fullmatch("[a-z0-9](?:[a-z0-9-]*[a-z0-9])?", label, re.IGNORECASE | re.ASCII)
        and len(label) <= 63
        and not label.lower().startswith("xn--")
        for label in labels
    )


def is_uuid(text: str) -> bool:
    """Tell whether a text is a UUID."""
    try:
        return str(uuid.UUID(text)) == text.lower()
    except ValueError:
        return False


CHECKS: dict[str, Callable[[str], bool]] = {
    "date": is_date,
    "time": is_time,
    "date-time": is_date_time,
    "duration": is_duration,
    "hostname": is_host_name,
    "ipv4": is_ipv4,
    "ipv6": is_ipv6,
    "uuid": is_uuid,
}
