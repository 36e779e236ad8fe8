"""Which extension of its instruction set an instruction belongs to."""

import re
from collections.abc import Callable
from typing import Final

UNKNOWN: Final = "unknown"
"""Begins the name of what is neither baseline nor an extension that some tier may use."""

_PREFIXES: Final = frozenset(
    ("66", "f2", "f3", "2e", "3e", "26", "36", "64", "65", "67", "f0"),
)
_PREFIX_WORDS: Final = re.compile(
    r"(?:(?:rep[a-z]*|lock|notrack|bnd|data16|addr32|xacquire|xrelease|\{vex\}|[cdefgs]s|rex\S*) )*"
)

# x86-64 as every such CPU has it, SSE and SSE2 included. What is missing here counts as unknown.
_BASELINE: Final = re.compile(
    r"""
    (?: mov(?:abs|s|sx|sxd|zx|d|q|nti|ntq|ntdq|ntp[sd]|[au]p[sd]|[hl]p[sd]|hlps|lhps|mskp[sd]
          |s[sdbwq]|dq[au]|dq2q|q2dq)?
      | add|adc|sub|sbb|cmp|test|and|or|xor|not|neg|inc|dec|i?mul|i?div|lea|nop|xchg|xadd|bswap
      | sh[lr]d?|sa[lr]|ro[lr]|rc[lr]|bt[scr]?|bs[fr]|cmpxchg(?:8b)?|cbw|cwde?|cdqe?|cqo
      | push|pop|call|ret|leave|jmp|j[a-z]{1,3}|set[a-z]{1,3}|cmov[a-z]{1,3}|int3|ud2|hlt
      | stos[bwdq]?|lods[bwdq]?|scas[bwdq]?|cmps[bwq]|cld|std|cpuid|pause|endbr64|syscall
      | xgetbv            # behind a question to cpuid, in cpu.c
      | prefetch(?:t[012]|nta)|[lms]fence|ldmxcsr|stmxcsr
      | (?:add|sub|mul|div|sqrt|min|max|cmp[a-z]*)[ps][sd]|u?comis[sd]|rcp[ps]s|rsqrt[ps]s
      | (?:and|andn|or|xor)p[sd]|shufp[sd]|unpck[hl]p[sd]|cvt[a-z0-9]+
      | p(?:add|sub)(?:[bwdq]|u?s[bw])|pmul(?:h|l|hu)w|pmuludq|pmaddwd|psadbw|pavg[bw]
      | pand|pandn|por|pxor|pcmp(?:eq|gt)[bwd]|p(?:max|min)(?:ub|sw)|pmovmskb|maskmovdqu
      | ps(?:ll|rl)(?:[wdq]|dq)|psra[wd]|pshuf(?:d|lw|hw)|pack(?:ss(?:wb|dw)|uswb)
      | punpck[hl](?:bw|wd|dq|qdq)|pinsrw|pextrw )
    """,
    re.VERBOSE,
)
_LEGACY: Final = {
    "sse3": re.compile(r"(?:addsub|hadd|hsub)p[sd]|lddqu|mov(?:d|sh|sl)dup"),
    "ssse3": re.compile(
        r"pshufb|pabs[bwd]|palignr|ph(?:add|sub)(?:w|d|sw)|pmaddubsw|pmulhrsw|psign[bwd]"
    ),
    "sse4.1": re.compile(
        r"pmul(?:ld|dq)|p?blend[a-z]*|dpp[sd]|extractps|insertps|mpsadbw|packusdw|pcmpeqq|ptest"
        r"|pextr[bdq]|pinsr[bdq]|p(?:max|min)(?:s[bd]|u[dw])|pmov[sz]x[a-z]{2}|phminposuw"
        r"|round[ps][sd]|movntdqa"
    ),
    "sse4.2": re.compile(r"pcmpgtq|pcmp[ei]str[im]|crc32|popcnt"),
    "sha": re.compile(r"sha(?:1|256)[a-z0-9]+"),
}
_DOT_PRODUCTS: Final = re.compile(r"vpdp(?:bus|wss)ds?")
_TILES: Final = re.compile(
    r"tile(?:loaddt?1?|stored|zero|release)|(?:ld|st)tilecfg|tdpb(?:ss|su|us|uu)d"
)
_MASK_INSTRUCTIONS: Final = re.compile(r"k[a-z]+[bwdq]+")
# Vector instructions of neither AVX nor AVX2, and of none of AVX-512 F, BW, DQ, VL.
_OTHER_VEX: Final = re.compile(
    r"vfn?m(?:add|sub).*|vcvt(?:ph2ps|ps2ph).*|vaes.*|vpclmul.*|vgf2p8.*|vpdp.*|vpmadd52.*|vsm[34].*"
    r"|vsha.*|vcvtne.*|vbcstne.*"
)
_OTHER_EVEX: Final = re.compile(
    r"vpmadd52.*|vp(?:erm|ermi2|ermt2)b|vpmultishiftqb|vp(?:compress|expand)[bw]|vpsh[lr]d.*"
    r"|vpopcnt.*|vpshufbitqmb|vpconflict.*|vplzcnt.*|vpbroadcastm.*|vgf2p8.*|vaes.*|vpclmul.*"
    r"|v[a-z0-9]+(?:ph|sh)|vdpbf16ps|vcvtne.*|v4f.*|vp4dp.*|vexp2.*|vr(?:cp|sqrt)28.*"
    r"|vp2intersect.*|v(?:gather|scatter)pf.*|vpdp.*"
)


def x86_extension(encoding: str, text: str) -> str | None:
    """Return the extension of an instruction of x86-64, or None for the baseline.

    Args:
        encoding: Its bytes in hexadecimal, separated by spaces.
        text: What the disassembler calls it, in Intel's syntax.
    """
    opcode = next((byte for byte in encoding.split() if byte not in _PREFIXES), "")
    name = mnemonic(text)
    # In 64-bit code these bytes begin nothing but VEX and EVEX.
    if opcode in ("c4", "c5"):
        return _vex_extension(name)
    if opcode == "62":
        return _evex_extension(name)
    if _BASELINE.fullmatch(name):
        return None
    fitting = (extension for extension, names in _LEGACY.items() if names.fullmatch(name))
    return next(fitting, f"{UNKNOWN} {name}")


def _vex_extension(name: str) -> str:
    if _DOT_PRODUCTS.fullmatch(name):
        return "avxvnni"
    if _TILES.fullmatch(name):
        return "amx"
    if _MASK_INSTRUCTIONS.fullmatch(name):
        return "avx512"
    is_avx2 = name.startswith("v") and not _OTHER_VEX.fullmatch(name)
    return "avx2" if is_avx2 else f"{UNKNOWN} {name}"


def _evex_extension(name: str) -> str:
    if _DOT_PRODUCTS.fullmatch(name):
        return "avx512vnni"
    return f"{UNKNOWN} {name}" if _OTHER_EVEX.fullmatch(name) else "avx512"


def aarch64_extension(encoding: str, text: str) -> str | None:
    """Return the extension of an instruction of AArch64, or None for Armv8.0.

    The disassembler has been told to know that, the dot products and SHA-2, nothing else.
    """
    name = mnemonic(text)
    if name in ("sdot", "udot"):
        return "dotprod"
    if name.startswith("sha256"):
        return "sha"
    return f"{UNKNOWN} {encoding}" if name.startswith("<") else None


def mnemonic(text: str) -> str:
    """Return the name of an instruction, without its prefixes and operands."""
    prefixes = _PREFIX_WORDS.match(text)
    words = text[prefixes.end() if prefixes is not None else 0 :].split()
    # A prefix that stands alone, before padding.
    return words[0] if words else "nop"


EXTENSION_OF: Final[dict[str, Callable[[str, str], str | None]]] = {
    "x86_64": x86_extension,
    "aarch64": aarch64_extension,
}
