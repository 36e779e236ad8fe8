"""Every metadata key that is read refuses a value of another type."""

import pytest

from sslm.errors.status import Status
from tests.causes import raises
from tests.gguf_files import (
    Typed,
    Value,
)
from tests.hostile.small_models import (
    byte_level_metadata,
    model_tensors,
    sentencepiece_metadata,
    vocab_size_of,
)
from tests.hostile.whole_models import Metadata, load, model

_SCALARS: dict[str, Value] = {
    "u8": Typed("u8", 1), "i8": Typed("i8", 1), "u16": Typed("u16", 1), "i16": Typed("i16", 1),
    "u32": Typed("u32", 1), "i32": Typed("i32", 1), "f32": Typed("f32", 1.0), "bool": True,
    "string": "1", "u64": Typed("u64", 1), "i64": Typed("i64", 1), "f64": Typed("f64", 1.0),
}  # fmt: skip
_OPTIONAL: dict[str, Value] = {
    "general.alignment": 32,
    "split.count": Typed("u16", 1),
    "llama.attention.causal": True,
    "llama.attention.key_length": 2,
    "llama.attention.value_length": 2,
    "llama.attention.sliding_window": 0,
    "llama.expert_count": 0,
    "llama.rope.scale_linear": 1.0,
    "llama.rope.scaling.factor": 1.0,
    "llama.rope.scaling.type": "none",
    "tokenizer.ggml.pre": "default",
    "tokenizer.ggml.add_eos_token": False,
    "tokenizer.ggml.padding_token_id": 0,
    "tokenizer.ggml.eot_token_id": 0,
    "tokenizer.ggml.eom_token_id": 0,
    "tokenizer.chat_template": "x",
}


def whole_metadata(kind: str) -> Metadata:
    return byte_level_metadata() if kind == "gpt2" else sentencepiece_metadata() | _OPTIONAL


def type_name(value: Value) -> str:
    if isinstance(value, Typed):
        return value.value_type
    if isinstance(value, list):
        return "array"
    return {bool: "bool", int: "u32", float: "f32", str: "string"}[type(value)]


def item_type_name(value: Value) -> str:
    if isinstance(value, Typed):
        return value.item_type
    assert isinstance(value, list)
    return {str: "string", int: "i32", float: "f32"}[type(value[0])]


def wrong_values(value: Value) -> dict[str, Value]:
    """One value of every type but that of *value*, arrays of as many items included."""
    if type_name(value) != "array":
        wrong = {name: other for name, other in _SCALARS.items() if name != type_name(value)}
        return wrong | {"array": Typed("array", [1], "u8")}
    items = value.value if isinstance(value, Typed) else value
    assert isinstance(items, list)
    others = {
        f"array of {name}": Typed("array", [_plain(other)] * len(items), name)
        for name, other in _SCALARS.items()
        if name != item_type_name(value)
    }
    return {**others, "string": "1", "u32": 1}


def _plain(value: Value) -> object:
    return value.value if isinstance(value, Typed) else value


READ_KEYS = [(kind, key) for kind in ("gpt2", "llama") for key in whole_metadata(kind)]


@pytest.mark.parametrize(("kind", "key"), READ_KEYS)
def test_a_key_of_another_type(kind: str, key: str) -> None:
    metadata = whole_metadata(kind)
    tensors = model_tensors(vocab_size_of(metadata))
    load(model(metadata, tensors))
    for name, wrong in wrong_values(metadata[key]).items():
        # A count for all layers may be given as a number or as a list of either integer type.
        if "head_count" in key and name in ("u32", "array of i32", "array of u32"):
            continue
        with raises(Status.GGUF_WRONG_VALUE_TYPE) as caught:
            load(model(metadata | {key: wrong}, tensors))
        assert caught.value.key == key, name
