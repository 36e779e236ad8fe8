"""The proof that no tier's instructions leak: of the installed library, and that it can fail."""

import os
import shutil
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest
from tools.check_tiers import TABLE_SIZE, TIERS, check
from tools.cpu_extensions import aarch64_extension, x86_extension
from tools.disassembly import DISASSEMBLERS, Code, DisassemblyError, Function, read_code

from sslm.native_library import load_library


def _need(*programs: str) -> None:
    """Skip without the programs; a continuous run has to have them."""
    missing = [program for program in programs if shutil.which(program) is None]
    if sys.platform != "linux" or (missing and "CI" not in os.environ):
        pytest.skip(f"needs Linux and {', '.join(programs)}")


def test_the_library_leaks_nothing() -> None:
    _need("readelf")
    machine = os.uname().machine
    _need(DISASSEMBLERS[machine][0])
    report = check(read_code(load_library().path), "installed")
    assert report.problems == ()
    assert [part.name for part in report.parts if part.name in TIERS[machine]]


def test_the_size_of_a_table_is_the_librarys() -> None:
    assert load_library().lib.SSLM_OP_COUNT + 1 == TABLE_SIZE


LEAK = """
typedef void (*kernel)(int *);
{attribute} void add_one(int *x) {{ for (int i = 0; i < 64; i++) x[i] += 1; }}
static void own(int *x) {{ add_one(x); x[0] = {number}; }}
#define FOUR own, own, own, own
const kernel table_{number}[13] = {{FOUR, FOUR, FOUR, own}};
"""
ENTRY = """
__attribute__((visibility("default"))) int entry(int *x) {{ add_one(x); return x[0]; }}
"""


@pytest.mark.parametrize("attribute", ["__attribute__((weak))", "static"])
def test_a_function_that_a_linker_took_from_a_tier_is_found(tmp_path: Path, attribute: str) -> None:
    """Both objects define ``add_one``; the linker keeps the first, unless each has its own."""
    _need("readelf", "objdump")
    if os.uname().machine != "x86_64" or shutil.which("cc") is None:
        pytest.skip("needs a compiler for x86-64")
    objects = []
    for number, flags in ((2, ["-mavx2"]), (1, [])):
        source = tmp_path / f"{number}.c"
        text = LEAK + (ENTRY if number == 1 else "")
        source.write_text(text.format(attribute=attribute, number=number))
        objects.append(str(source.with_suffix(".o")))
        command = ["cc", "-O3", "-fPIC", "-fvisibility=hidden", *flags, "-c", str(source)]
        subprocess.run([*command, "-o", objects[-1]], check=True)
    library = tmp_path / "_native.so"
    subprocess.run(["cc", "-shared", "-s", "-o", str(library), *objects], check=True)
    problems = check(read_code(library), "made up").problems
    leaks = [text for text in problems if text.startswith("baseline reaches")]
    assert bool(leaks) == (attribute != "static"), problems
    assert all("uses avx2" in text for text in leaks)


def test_what_is_no_library_is_refused(tmp_path: Path) -> None:
    _need("readelf")
    (tmp_path / "_native.so").write_bytes(b"not a library")
    with pytest.raises(DisassemblyError):
        read_code(tmp_path / "_native.so")


@pytest.mark.parametrize(
    ("encoding", "text", "expected"),
    [
        ("66 66 2e 0f 1f 84 00 00", "data16 cs nop WORD PTR [rax+rax*1+0x0]", None),
        ("f0 48 0f b1 11", "lock cmpxchg QWORD PTR [rcx],rdx", None),
        ("f3 48 ab", "rep stos QWORD PTR es:[rdi],rax", None),
        ("f3 0f 1e fa", "endbr64", None),
        ("66 0f f4 c1", "pmuludq xmm0,xmm1", None),
        ("66 0f 38 00 c1", "pshufb xmm0,xmm1", "ssse3"),
        ("66 0f 38 40 c1", "pmulld xmm0,xmm1", "sse4.1"),
        ("f3 0f b8 c0", "popcnt eax,eax", "sse4.2"),
        ("0f 38 cb ca", "sha256rnds2 xmm1,xmm2,xmm0", "sha"),
        ("c5 fd fe c1", "vpaddd ymm0,ymm0,ymm1", "avx2"),
        ("c5 f9 fe c1", "vpaddd xmm0,xmm0,xmm1", "avx2"),
        ("c4 e2 75 50 e2", "{vex} vpdpbusd ymm4,ymm1,ymm2", "avxvnni"),
        ("62 f2 6d 48 50 c1", "vpdpbusd zmm0,zmm2,zmm1", "avx512vnni"),
        ("c4 e2 7b 5e d8", "tdpbssd tmm3,tmm0,tmm0", "amx"),
        ("c4 e2 7b 4b 04 08", "tileloadd tmm0,[rax+rcx*1]", "amx"),
        ("c4 e2 78 49 c0", "tilerelease", "amx"),
        ("62 f1 7d 28 6f 00", "vmovdqa32 ymm0,YMMWORD PTR [rax]", "avx512"),
        ("c5 f8 92 c8", "kmovw k1,eax", "avx512"),
        ("c4 e2 78 f2 c0", "andn eax,eax,eax", "unknown andn"),
        ("f3 0f bd c0", "lzcnt eax,eax", "unknown lzcnt"),
        ("c4 e2 75 98 c2", "vfmadd132ps ymm0,ymm1,ymm2", "unknown vfmadd132ps"),
        ("62 f2 75 48 8d c2", "vpermb zmm0,zmm1,zmm2", "unknown vpermb"),
        ("0f 38 f0 00", "movbe eax,DWORD PTR [rax]", "unknown movbe"),
    ],
)
def test_instructions_of_x86(encoding: str, text: str, expected: str | None) -> None:
    assert x86_extension(encoding, text) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("sdot v1.4s, v2.16b, v3.4b[0]", "dotprod"),
        ("sha256h2 q1, q2, v3.4s", "sha"),
        ("smlal v1.4s, v2.4h, v3.4h", None),
        ("<unknown>", "unknown 20 fc a1 88"),
    ],
)
def test_instructions_of_aarch64(text: str, expected: str | None) -> None:
    assert aarch64_extension("20 fc a1 88", text) == expected


def _code(*tables: dict[str, int], pointers: int = TABLE_SIZE) -> Code:
    """Return code of one exported function at 0, and of one kernel for each table."""
    functions = {0: Function("entry", size=1)}
    for index, extensions in enumerate(tables, start=1):
        functions[index] = Function(f"kernel {index}", size=9, extensions=Counter(extensions))
    kernels = range(1, len(functions))
    functions[99] = Function("hash", size=1, extensions=Counter({"sha": 1}))
    functions[0].addresses.add(99)
    return Code(
        cpu="aarch64",
        functions=functions,
        exported=frozenset({0}),
        pointers=tuple(i for i in kernels for _ in range(pointers)),
        outside=Function("code of no function"),
    )


def test_one_table_for_each_tier_is_right() -> None:
    assert check(_code({}, {"dotprod": 4}), "").problems == ()


def test_a_hash_without_its_instruction_is_found() -> None:
    code = _code({}, {"dotprod": 4})
    code.functions[99].extensions.clear()
    assert check(code, "").problems == ("no sha instruction in sha",)


def test_a_tier_without_its_instruction_is_found() -> None:
    assert "2 tables have the instructions of scalar" in check(_code({}, {}), "").problems[0]


def test_a_tier_with_anothers_instructions_is_found() -> None:
    problems = check(_code({"dotprod": 1}, {"dotprod": 4}), "").problems
    assert problems[0] == "0 tables have the instructions of scalar, expected one"
    assert check(_code({}, {"dotprod": 4, "unknown 00": 1}), "").problems[0] == (
        "table 1 reaches kernel 2, which uses dotprod"
    )


def test_what_a_tier_takes_the_address_of_is_the_tiers() -> None:
    code = _code({}, {"dotprod": 4})
    code.functions[3] = Function("handed on", size=1, extensions=Counter({"dotprod": 1}))
    code.functions[2].addresses.add(3)
    assert check(code, "").problems == ()
    code.functions[1].addresses.add(3)
    assert "2 tables have the instructions of neon, expected one" in check(code, "").problems


def test_pointers_that_are_no_tables_are_found() -> None:
    assert "are no tables" in check(_code({}, {"dotprod": 4}, pointers=11), "").problems[0]


def test_a_constructor_with_a_tiers_instructions_is_found() -> None:
    code = _code({}, {"dotprod": 4})
    code.functions[3] = Function("constructor", size=1, extensions=Counter({"dotprod": 1}))
    code.functions[0].targets.add(3)
    assert check(code, "").problems == ("baseline reaches constructor, which uses dotprod",)


def test_code_that_nobody_calls_may_use_nothing_either() -> None:
    code = _code({}, {"dotprod": 4})
    code.functions[3] = Function("forgotten", size=1, extensions=Counter({"dotprod": 1}))
    assert check(code, "").problems == ("forgotten uses dotprod, and nobody was seen to call it",)


def test_code_of_no_function_may_use_nothing_either() -> None:
    code = _code({}, {"dotprod": 4})
    code.outside.extensions["dotprod"] = 1
    assert check(code, "").problems == ("code of no function uses dotprod",)
