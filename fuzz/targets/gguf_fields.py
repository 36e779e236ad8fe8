"""A complete GGUF model whose fields are changed one by one, so that the rest stays sound."""

import struct
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cache
from typing import Final

from tests.gguf_files import encode_tensor, encode_value, gguf_string, padded

from fuzz.choices import Choices
from fuzz.gguf_examination import examine_gguf
from fuzz.small_models import (
    BYTE_LEVEL_METADATA,
    MODEL_METADATA,
    model_tensors,
    sentencepiece_metadata,
)
from fuzz.target import Outcomes, Target
from fuzz.targets.gguf import KEYS, MODULES
from sslm.formats.gguf.types import REMOVED_TENSOR_TYPES, TENSOR_TYPES

_EDIT_COUNT_MAX: Final = 6
_NUMBER_CODES: Final = ("B", "b", "H", "h", "I", "i", "f", "?", "", "", "Q", "q", "d")
_TENSOR_TYPE_IDS: Final = (*TENSOR_TYPES, *REMOVED_TENSOR_TYPES, 43, 255, (1 << 32) - 1)


@dataclass
class _Tensor:
    name: bytes
    sizes: list[int]
    type_id: int
    data: bytes
    offset: int | None = None


@dataclass
class _File:
    version: int
    keys: list[tuple[bytes, int, bytes]]
    tensors: list[_Tensor]
    alignment: int = 32
    counts: dict[str, int] = field(default_factory=dict)

    def encoded(self) -> bytes:
        """Lay the file out as its fields say."""
        tensor_count = self.counts.get("tensors", len(self.tensors))
        key_count = self.counts.get("keys", len(self.keys))
        head = b"GGUF" + struct.pack("<IQQ", self.version, tensor_count, key_count)
        for key, type_id, payload in self.keys:
            head += gguf_string(key) + struct.pack("<I", type_id) + payload
        data = b""
        for tensor in self.tensors:
            offset = len(data) if tensor.offset is None else tensor.offset
            head += gguf_string(tensor.name) + struct.pack("<I", len(tensor.sizes))
            head += b"".join(struct.pack("<Q", size) for size in tensor.sizes)
            head += struct.pack("<IQ", tensor.type_id, offset)
            data += padded(tensor.data, self.alignment)
        return padded(head, self.alignment) + data


@cache
def _sound_keys(*, is_sentencepiece: bool) -> tuple[tuple[bytes, int, bytes], ...]:
    tokenizer = sentencepiece_metadata() if is_sentencepiece else BYTE_LEVEL_METADATA
    metadata = {**MODEL_METADATA, **tokenizer}
    return tuple((key.encode(), *encode_value(value)) for key, value in metadata.items())


def _sound_file(*, is_sentencepiece: bool) -> _File:
    vocab_size = 262 if is_sentencepiece else 8
    return _File(
        version=3,
        keys=list(_sound_keys(is_sentencepiece=is_sentencepiece)),
        tensors=[
            _Tensor(name.encode(), list(weights.shape[::-1]), 0, encode_tensor(kind, weights))
            for name, (kind, weights) in model_tensors(vocab_size=vocab_size).items()
        ],
    )


# Values: type number and payload.


def _scalar(choices: Choices, type_id: int) -> bytes:
    if type_id == 8:
        text = choices.pick((b"linear", b"yarn", b"none", b"llama", b"gpt2", b"default", b"", None))
        return gguf_string(choices.take(choices.below(24)) if text is None else text)
    size = struct.calcsize(f"<{_NUMBER_CODES[type_id]}")
    if choices.is_chosen(3):
        return choices.take(size).ljust(size, b"\0")
    return choices.number().to_bytes(8, "little")[:size]


def _value(choices: Choices) -> tuple[int, bytes]:
    type_id = choices.below(14)
    if type_id > 12:
        return choices.below(256), choices.take(8)
    if type_id != 9:
        return type_id, _scalar(choices, type_id)
    item_type = choices.below(13)
    if item_type == 9:
        return 9, struct.pack("<IQ", 9, 1) + struct.pack("<IQ", 4, 0)
    items = [_scalar(choices, item_type) for _ in range(choices.below(9))]
    count = choices.number() if choices.is_chosen(6) else len(items)
    return 9, struct.pack("<IQ", item_type, count) + b"".join(items)


# Edits.


def _replace_value(file: _File, choices: Choices) -> None:
    index = choices.below(len(file.keys))
    file.keys[index] = (file.keys[index][0], *_value(choices))


def _add_key(file: _File, choices: Choices) -> None:
    name = choices.pick(KEYS) if not choices.is_chosen(4) else choices.take(choices.below(16))
    file.keys.insert(choices.below(len(file.keys) + 1), (name, *_value(choices)))


def _drop_key(file: _File, choices: Choices) -> None:
    if len(file.keys) > 1:
        del file.keys[choices.below(len(file.keys))]


def _patch_value(file: _File, choices: Choices) -> None:
    index = choices.below(len(file.keys))
    name, type_id, payload = file.keys[index]
    changed = bytearray(payload)
    at = choices.below(len(changed) + 1)
    changed[at : at + choices.below(9)] = choices.take(choices.below(9))
    file.keys[index] = (name, type_id, bytes(changed))


def _change_tensor(file: _File, choices: Choices) -> None:
    tensor = choices.pick(file.tensors)
    what = choices.below(7)
    if what == 0:
        tensor.name = choices.take(choices.below(70))
    elif what == 1:
        tensor.sizes = [choices.number() for _ in range(choices.below(6))]
    elif what == 2:
        tensor.sizes[choices.below(len(tensor.sizes) or 1) :] = [choices.number()]
    elif what == 3:
        tensor.type_id = choices.pick(_TENSOR_TYPE_IDS)
    elif what == 4:
        tensor.offset = choices.number()
    elif what == 5:
        tensor.data = tensor.data[: choices.below(len(tensor.data) + 1)]
    else:
        at = choices.below(len(tensor.data) + 1)
        tensor.data = tensor.data[:at] + choices.take(4) + tensor.data[at + 4 :]


def _quantize_tensor(file: _File, choices: Choices) -> None:
    """Give a tensor another type with rows of whole blocks, whatever is in them."""
    tensor = choices.pick(file.tensors)
    kind = TENSOR_TYPES[choices.pick(tuple(TENSOR_TYPES))]
    rows, blocks = 1 + choices.below(3), 1 + choices.below(2)
    tensor.type_id, tensor.sizes = kind.type_id, [blocks * kind.block_elements, rows]
    size = rows * blocks * kind.block_size_bytes
    pattern = choices.take(choices.below(size + 1)) or b"\0"
    tensor.data = (pattern * (size // len(pattern) + 1))[:size]


def _add_or_drop_tensor(file: _File, choices: Choices) -> None:
    index = choices.below(len(file.tensors))
    if choices.is_chosen(2) and len(file.tensors) > 1:
        del file.tensors[index]
        return
    name = choices.pick((b"rope_freqs.weight", b"blk.0.attn_q.bias", b"output.weight", b"extra"))
    size = 1 + choices.below(8)
    file.tensors.append(_Tensor(name, [size], 0, choices.take(4 * size).ljust(4 * size, b"\0")))


def _change_layout(file: _File, choices: Choices) -> None:
    what = choices.below(5)
    if what == 0:
        file.version = choices.pick((2, 1, 0, 4, 3 << 24, 2 << 24))
    elif what == 1:
        file.counts[choices.pick(("keys", "tensors"))] = choices.number()
    elif what == 2:
        file.alignment = choices.pick((8, 16, 64, 128, 4096))
        alignment = file.alignment if not choices.is_chosen(3) else choices.number() & 0xFFFFFFFF
        file.keys.append((b"general.alignment", 4, struct.pack("<I", alignment)))
    elif what == 3:
        file.keys.append(choices.pick(file.keys))
    else:
        file.tensors.append(choices.pick(file.tensors))


_EDITS: Final[tuple[Callable[[_File, Choices], None], ...]] = (
    _replace_value,
    _add_key,
    _drop_key,
    _patch_value,
    _change_tensor,
    _quantize_tensor,
    _add_or_drop_tensor,
    _change_layout,
)


def built(data: bytes) -> bytes:
    """Return the file that an input stands for."""
    choices = Choices(data)
    file = _sound_file(is_sentencepiece=choices.is_chosen(4))
    for _ in range(_EDIT_COUNT_MAX):
        if choices.is_used_up or not file.keys or not file.tensors:
            break
        choices.pick(_EDITS)(file, choices)
    encoded = file.encoded()
    return encoded[: -1 - choices.below(len(encoded))] if choices.is_chosen(16) else encoded


def run(data: bytes, outcomes: Outcomes) -> None:
    """Read the file that an input stands for."""
    examine_gguf(built(data), outcomes)


TARGET: Final = Target(
    name="gguf_fields",
    subject="a sound GGUF model with a few fields changed, to all that reads it",
    run=run,
    modules=MODULES,
    size_bytes_max=512,
    reaches=("text encoded", "model complete"),
)
