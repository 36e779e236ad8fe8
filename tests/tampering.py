"""Changing a weight of a finished artifact and sealing it again, as somebody with intent would."""

import re
from collections.abc import Callable
from random import Random

from sslm.formats.sslm.container import SectionType, read_container
from sslm.formats.sslm.tensors import TensorRecord, read_manifest
from sslm.program.program import Program, SegmentKind
from sslm.program.tensors import PANEL_COLUMNS, PANEL_ROWS, Encoding, padded
from tests.unit.artifact.tiny_artifact import reseal

CODE_MAX = 127


def nudge_weight(file: bytes, tensor: str, *, row: int, column: int) -> bytes:
    """Change one weight code of an artifact by one, the least there is, and compute its hash anew.

    The new code is one that the loader accepts.
    """
    return _changed(file, tensor, (row, column), lambda code: code + (-1 if code > 0 else 1))


def replace_weight(file: bytes, tensor: str, *, row: int, column: int) -> bytes:
    """Change one weight code by as much as there can be, and compute the hash anew."""
    return _changed(file, tensor, (row, column), lambda code: -CODE_MAX if code > 0 else CODE_MAX)


def _changed(
    file: bytes, tensor: str, place: tuple[int, int], change: Callable[[int], int]
) -> bytes:
    offset = _code_offset(file, tensor, row=place[0], column=place[1])
    changed = bytearray(file)
    code = changed[offset] - 256 * (changed[offset] > CODE_MAX)
    changed[offset] = change(code) & 0xFF
    return reseal(bytes(changed))


def _code_offset(file: bytes, tensor: str, *, row: int, column: int) -> int:
    sections = read_container(memoryview(file))
    weights = sections[SectionType.WEIGHTS].place
    record = _record(file, tensor)
    assert record.encoding == Encoding.PANEL_INT8
    panels_per_row = padded(record.shape[1], PANEL_COLUMNS) // PANEL_COLUMNS
    panel = row // PANEL_ROWS * panels_per_row + column // PANEL_COLUMNS
    place = (panel * PANEL_ROWS + row % PANEL_ROWS) * PANEL_COLUMNS + column % PANEL_COLUMNS
    return weights.offset_bytes + record.offset_bytes + place


def _record(file: bytes, tensor: str) -> TensorRecord:
    sections = read_container(memoryview(file))
    manifest = sections[SectionType.TENSORS]
    records = read_manifest(
        manifest.data,
        base_offset_bytes=manifest.place.offset_bytes,
        weights_size_bytes=sections[SectionType.WEIGHTS].data.nbytes,
    )
    return next(record for record in records if record.name == tensor)


def random_place(file: bytes, program: Program, random: Random) -> tuple[str, int, int]:
    """Choose a tensor, a row and a column, every segment with weights being equally likely."""
    kinds = (SegmentKind.EMBED, SegmentKind.LAYER, SegmentKind.HEAD)
    segments = [one for one in program.segments if one.kind in kinds]
    names = random.choice(segments).tensor_names()
    records = [_record(file, name) for name in names]
    matrix = random.choice([one for one in records if one.encoding == Encoding.PANEL_INT8])
    rows, columns = matrix.shape
    return matrix.name, random.randrange(rows), random.randrange(columns)


def readers_of(program: Program, tensor: str) -> set[str]:
    """Return the names of the segments that read a tensor: two for a tied embedding."""
    return {segment.name for segment in program.segments if tensor in segment.tensor_names()}


def named_segment(first_difference: str | None) -> str | None:
    """Return the segment that a verification named."""
    found = re.search(r"\b(embed|layer \d+|head)\b", first_difference or "")
    return found[0] if found else None


def was_computed(first_difference: str | None) -> bool:
    """Tell whether computed values gave a change away, not only the digests of the weights."""
    return " computes " in (first_difference or "")
