"""Dates as chat templates format them: in English, whatever the locale of the process."""

import datetime
from typing import Final

from sslm.errors.text import TemplateFailedError

_MONTHS: Final = (
    *("January", "February", "March", "April", "May", "June"),
    *("July", "August", "September", "October", "November", "December"),
)
_DAYS: Final = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")


def format_date(date: datetime.date, layout: str) -> str:
    """Return *date* in *layout*, in ``strftime`` syntax; the time of day is midnight.

    Raises:
        TemplateFailedError: If *layout* has a directive other than those below.
    """
    month, day = _MONTHS[date.month - 1], _DAYS[date.weekday()]
    values = {
        "d": f"{date.day:02}",
        "-d": str(date.day),
        "e": f"{date.day:2}",
        "m": f"{date.month:02}",
        "-m": str(date.month),
        "B": month,
        "b": month[:3],
        "Y": f"{date.year:04}",
        "y": f"{date.year % 100:02}",
        "A": day,
        "a": day[:3],
        "j": f"{date.timetuple().tm_yday:03}",
        "H": "00",
        "I": "12",
        "M": "00",
        "S": "00",
        "p": "AM",
        "F": date.isoformat(),
        "%": "%",
    }
    text, *directives = layout.replace("%%", "%\0").split("%")
    for directive in directives:
        size = 2 if directive.startswith("-") else 1
        name = "%" if directive[:1] == "\0" else directive[:size]
        if name not in values:
            supported = " ".join(f"%{one}" for one in values)
            reason = f"a date in the layout %{name}; supported: {supported}"
            raise TemplateFailedError(reason)
        text += values[name] + directive[size:]
    return text
