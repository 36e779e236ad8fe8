"""Write down what the C library's header declares in the form that cffi takes without a parser.

    python -m tools.native_interface [--check]

Writes src/sslm/native_interface.py from native/include/sslm_native.h: run it after every change of
the header. With --check nothing is written; exit 1 if it would be another file.
"""

import argparse
import contextlib
import hashlib
import io
import sys
import tempfile
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any, Final
from unittest import mock

from cffi import FFI

ROOT: Final = Path(__file__).parents[1]
HEADER: Final = ROOT / "native" / "include" / "sslm_native.h"
INTERFACE: Final = ROOT / "src" / "sslm" / "native_interface.py"
_BEGIN: Final = "/* cdef begin */"
_END: Final = "/* cdef end */"
_BYTES_A_LINE: Final = 16

_FRAME: Final = '''\
"""What native/include/sslm_native.h declares; written by ``python -m tools.native_interface``.

A parser of C would take a tenth of the time in which a model opens.
"""

from typing import Any, Final

import _cffi_backend

HEADER_SHA256: Final = "{digest}"
"""Of the header that this was written from; the build compares it."""

ffi: Final[Any] = _cffi_backend.FFI(
    "sslm.native_interface",
{arguments})
"""The cffi instance that knows the header's structs, functions and constants."""
'''


def interface_text(header: str) -> str:
    """Return the module for a header."""
    arguments = _arguments_of(header.partition(_BEGIN)[2].partition(_END)[0])
    lines = "".join(f"    {name}={_show(value, 4)},\n" for name, value in arguments.items())
    return _FRAME.format(digest=hashlib.sha256(header.encode()).hexdigest(), arguments=lines)


def _arguments_of(declarations: str) -> dict[str, Any]:
    """Return what cffi's own generated module would pass on."""
    ffi = FFI()
    ffi.cdef(declarations)
    ffi.set_source("sslm.native_interface", None)
    with tempfile.TemporaryDirectory() as folder, contextlib.redirect_stdout(io.StringIO()):
        path = Path(folder) / "generated.py"
        ffi.emit_python_code(str(path))
        code = compile(path.read_text(encoding="ascii"), "generated", "exec")
    noting = ModuleType("_cffi_backend")
    noting.FFI = lambda name, **arguments: SimpleNamespace(arguments=arguments)  # type: ignore[attr-defined]
    names: dict[str, Any] = {}
    with mock.patch.dict(sys.modules, {"_cffi_backend": noting}):
        exec(code, names)
    found: dict[str, Any] = names["ffi"].arguments
    return found


def _show(value: object, indent: int) -> str:
    """Return a value's expression, in short lines."""
    inner = " " * (indent + 4)
    match value:
        case tuple():
            items = "".join(f"{inner}{_show(item, indent + 4)},\n" for item in value)
            return f"(\n{items}{' ' * indent})"
        case bytes() if len(value) > 4 * _BYTES_A_LINE:
            starts = range(0, len(value), _BYTES_A_LINE)
            parts = "".join(f"{inner}{value[i : i + _BYTES_A_LINE]!r}\n" for i in starts)
            return f"(\n{parts}{' ' * indent})"
        case int() if value > 999:
            return hex(value)
        case _:
            return repr(value)


def main() -> int:
    """Write, or compare."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--check", action="store_true")
    text = interface_text(HEADER.read_text(encoding="utf-8"))
    if not parser.parse_args().check:
        INTERFACE.write_text(text, encoding="utf-8", newline="\n")
        return 0
    return int(INTERFACE.read_text(encoding="utf-8") != text)


if __name__ == "__main__":
    sys.exit(main())
