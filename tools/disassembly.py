"""The functions of a shared library (ELF), each with its instructions and whom it calls."""

import re
import subprocess
from bisect import bisect_right
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from tools.cpu_extensions import EXTENSION_OF

_CPUS: Final = {"Advanced Micro Devices X86-64": "x86_64", "AArch64": "aarch64"}
DISASSEMBLERS: Final = {
    "x86_64": ("objdump", "-d", "-w", "-M", "intel"),
    "aarch64": ("llvm-objdump", "-d", "--mattr=+dotprod,+sha2"),
}
"""Programs with their arguments. GNU's for AArch64 cannot be told to know less than it does."""

_LINE: Final = re.compile(r"\s*([0-9a-f]+):\s+((?:[0-9a-f]{2} )*[0-9a-f]{2,8})\s*\t(.*)")
_FRAME: Final = re.compile(r"FDE cie=[0-9a-f]+ pc=([0-9a-f]+)\.\.([0-9a-f]+)")
_SYMBOL: Final = re.compile(r"\s*[0-9]+: ([0-9a-f]+)\s+\S+ FUNC\s+(\S+)\s+(\S+)\s+([0-9]+)\s+(\S+)")
_RELATIVE: Final = re.compile(
    r"([0-9a-f]+)\s+[0-9a-f]+ R_(?:X86_64|AARCH64)_RELATIV\S*\s+([0-9a-f]+)"
)
_SECTION: Final = re.compile(r"\s*\[\s*[0-9]+\] (\S+)\s+\S+\s+([0-9a-f]+) [0-9a-f]+ ([0-9a-f]+) ")
_X86_TARGET: Final = re.compile(r"(?:j\w+|call)\s+(?:0x)?([0-9a-f]+)\b(?! *PTR)")
_X86_ADDRESS: Final = re.compile(r"lea .*\[rip[+-].*# ([0-9a-f]+)")
_ARM_TARGET: Final = re.compile(r"(?:bl?|b\.\w+|cbn?z|tbn?z)\s(?:.*, )?0x([0-9a-f]+)")
_ARM_NEAR: Final = re.compile(r"adr\s+x[0-9]+, #(-?(?:0x)?[0-9a-f]+)")
_ARM_PAGE: Final = re.compile(r"adrp?\s+(x[0-9]+), 0x([0-9a-f]+)")
_ARM_OFFSET: Final = re.compile(r"add\s+x[0-9]+, (x[0-9]+), #(?:0x)?([0-9]+)\b")


@dataclass(slots=True)
class Function:
    """One function, or the part of one that a compiler put elsewhere.

    Args:
        name: Its symbol if the library has kept it, else its address.
        size: Count of its instructions.
        extensions: Those beyond the baseline, by extension.
        targets: Addresses that it calls or jumps to.
        addresses: Addresses that it takes; some are of functions.
    """

    name: str
    size: int = 0
    extensions: Counter[str] = field(default_factory=Counter)
    targets: set[int] = field(default_factory=set)
    addresses: set[int] = field(default_factory=set)


@dataclass(frozen=True, slots=True, kw_only=True)
class Code:
    """The code of a library.

    Args:
        cpu: What it runs on.
        functions: By address.
        exported: Addresses of those that others may call, those of start and end included.
        pointers: Addresses of functions that stand in constant data, in its order.
        outside: The code that belongs to no function: what linkers add.
    """

    cpu: str
    functions: dict[int, Function]
    exported: frozenset[int]
    pointers: tuple[int, ...]
    outside: Function


class DisassemblyError(Exception):
    """A library cannot be taken apart: the message says why."""


def read_code(path: Path) -> Code:
    """Take a library apart.

    Raises:
        DisassemblyError: If it is no ELF library for a known CPU, says nothing of where its
            functions lie, or a program that is needed is missing or fails.
    """
    machine = re.search(r"Machine:\s+(.*)", _output("readelf", "-h", str(path)))
    cpu = _CPUS.get(machine[1].strip() if machine else "")
    if cpu is None:
        raise DisassemblyError(f"{path}: neither for x86-64 nor for AArch64")
    frames = _output("readelf", "--debug-dump=frames", str(path))
    ranges = {int(first, 16): int(end, 16) for first, end in _FRAME.findall(frames)}
    if not ranges:
        raise DisassemblyError(f"{path}: no unwinding table, which says where functions lie")
    symbols = _SYMBOL.findall(_output("readelf", "-sW", str(path)))
    names = {int(address, 16): name for address, *_, name in symbols}
    functions = {start: Function(names.get(start, f"{start:#x}")) for start in ranges}
    outside = Function("code of no function")
    listing = _output(*DISASSEMBLERS[cpu], str(path))
    _sort_in(listing, cpu, ranges, functions, outside)
    empty = [function.name for function in functions.values() if function.size == 0]
    if empty:
        raise DisassemblyError(f"{path}: no instructions seen in {', '.join(empty)}")
    relocations = _RELATIVE.findall(_output("readelf", "-rW", str(path)))
    constants = _section(path, ".data.rel.ro")
    pointers = {int(place, 16): int(target, 16) for place, target in relocations}
    exported = {
        int(s[0], 16) for s in symbols if s[1] == "GLOBAL" and s[2] == "DEFAULT" and s[3] != "0"
    }
    exported |= {pointers[place] for place in pointers if place not in constants}
    return Code(
        cpu=cpu,
        functions=functions,
        exported=frozenset(exported & functions.keys()),
        pointers=tuple(
            pointers[place]
            for place in sorted(pointers)
            if place in constants and pointers[place] in functions
        ),
        outside=outside,
    )


def _output(*command: str) -> str:
    try:
        done = subprocess.run(command, capture_output=True, check=True, text=True)
    except (OSError, subprocess.CalledProcessError) as error:
        raise DisassemblyError(f"{' '.join(command)}: {error}") from error
    return done.stdout


def _section(path: Path, name: str) -> range:
    for found, address, size in _SECTION.findall(_output("readelf", "-SW", str(path))):
        if found == name:
            return range(int(address, 16), int(address, 16) + int(size, 16))
    return range(0)


def instructions(listing: str) -> Iterator[tuple[int, str, str]]:
    """Yield the address, the bytes and the text of every instruction of a listing."""
    for line in listing.splitlines():
        match = _LINE.match(line)
        if match is not None:
            yield int(match[1], 16), match[2], match[3].replace("\t", " ").strip()


def _sort_in(
    listing: str,
    cpu: str,
    ranges: dict[int, int],
    functions: dict[int, Function],
    outside: Function,
) -> None:
    """Enter every instruction into the function that it belongs to."""
    starts = sorted(ranges)
    pages: dict[str, int] = {}
    for address, encoding, text in instructions(listing):
        index = bisect_right(starts, address) - 1
        is_inside = index >= 0 and address < ranges[starts[index]]
        function = functions[starts[index]] if is_inside else outside
        if address in ranges:
            pages = {}
        function.size += 1
        extension = EXTENSION_OF[cpu](encoding, text)
        if extension is not None:
            function.extensions[extension] += 1
        target = (_X86_TARGET if cpu == "x86_64" else _ARM_TARGET).match(text)
        if target is not None:
            at = bisect_right(starts, int(target[1], 16)) - 1
            if at >= 0 and int(target[1], 16) < ranges[starts[at]]:
                function.targets.add(starts[at])
        taken = _taken_address(address, text, pages)
        if taken in ranges:
            function.addresses.add(taken)


def _taken_address(address: int, text: str, pages: dict[str, int]) -> int:
    """Return the address that an instruction computes, or -1; *pages* holds halves of addresses."""
    if match := _X86_ADDRESS.match(text):
        return int(match[1], 16)
    if match := _ARM_NEAR.match(text):
        return address + int(match[1], 0)
    if match := _ARM_PAGE.match(text):
        pages[match[1]] = int(match[2], 16)
        return pages[match[1]]
    if match := _ARM_OFFSET.match(text):
        return pages.get(match[1], -(1 << 32)) + int(match[2])
    return -1
