"""Names that some system would take for something else than a file in one folder."""

from pathlib import PureWindowsPath

HOSTILE_NAMES = {
    "parent": "..",
    "itself": ".",
    "empty": "",
    "to the parent": "../model",
    "to the parent of Windows": "..\\model",
    "absolute": "/etc/model",
    "absolute on Windows": "C:\\model",
    "of a drive": "C:model",
    "of a server": "\\\\server\\share\\model",
    "of a server, with slashes": "//server/share/model",
    "device path": "\\\\.\\COM1",
    "long path": "\\\\?\\C:\\model",
    "inside": "folder/model",
    "inside on Windows": "folder\\model",
    "home": "~",
    "device": "CON",
    "device in lower case": "nul",
    "device with an ending": "COM1.txt",
    "device with an ending of ours": "aux.sslm",
    "device with a space": "con .txt",
    "device in superscript": "COM¹",
    "console": "CONIN$",
    "trailing dot": "model.",
    "trailing space": "model ",
    "leading space": " model",
    "leading dash": "-model",
    "hidden": ".model",
    "stream": "model:stream",
    "default stream": "model::$DATA",
    "wildcard": "model*",
    "question": "model?",
    "quote": 'model"',
    "pipe": "model|more",
    "redirection": "model>out",
    "line feed": "model\n",
    "nul": "model\0",
    "escape": "model\x1b[2J",
    "delete": "model\x7f",
    "too long": "m" * 300,
    "fraction slash": "..\u2044model",
    "fullwidth slash": "..\uff0fmodel",
    "fullwidth letters": "\uff4d\uff4f\uff44\uff45\uff4c",
    "two-dot leader": "\u2025",
    "one-dot leader": "\u2024\u2024",
    "right to left": "model\u202elssm",
    "zero width": "mo\u200bdel",
    "Kelvin sign": "\u212aon",
    "long s": "\u017fslm",
    "dotted capital I": "\u0130nit",
    "sharp s": "stra\u00dfe",
    "Cyrillic a": "\u0430bc",
    "combining": "mode\u0301l",
    "surrogate": "model\udcff",
}
"""By what is wrong with each."""


def is_plain_on_windows(name: str) -> bool:
    """Tell whether Windows takes a name for that of one ordinary file, by its own rules."""
    path = PureWindowsPath(name)
    is_one_part = path.parts == (name,) and not path.anchor and name not in {".", ".."}
    return is_one_part and not path.is_reserved() and not set(name) & set('<>:"/\\|?*')
