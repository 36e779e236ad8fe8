"""Schemas that masks are measured on, and answers that walk through them."""

import ctypes
import json
import random
from pathlib import Path
from typing import Any, Final

import numpy as np

from sslm.schema.tokens.bound_schema import START, BoundSchema

FOLDER: Final = Path(__file__).parents[1] / "tests" / "schemas"
_FILES: Final = (
    "openai_calendar_event",
    "openai_constraints",
    "openai_invoice",
    "openai_research_paper",
    "openai_ui",
    "pydantic_config",
    "pydantic_event",
    "pydantic_extraction",
    "pydantic_order",
    "pydantic_person",
    "pydantic_tree",
    "pydantic_zoo",
    "zod_event",
    "zod_text",
    "zod_user",
)
_SHORTER_SHARE: Final = 0.35


def closed(properties: dict[str, Any], required: list[str] | None = None) -> dict[str, Any]:
    """Return the schema of an object of these keys, all of them required unless told."""
    return {
        "type": "object",
        "properties": properties,
        "required": list(properties) if required is None else required,
        "additionalProperties": False,
    }


def cases() -> dict[str, Any]:
    """Return the schemas by name: from libraries, and of one feature each."""
    text = {"type": "string"}
    matrix = {"type": "array", "items": {"type": "array", "items": {"type": "integer"}}}
    found = {name: json.loads((FOLDER / f"{name}.json").read_bytes()) for name in _FILES}
    found["ten texts of 200"] = closed(
        {f"field_{at}": {"type": "string", "maxLength": 200} for at in range(10)}
    )
    found["text of 1000"] = closed({"text": {"type": "string", "maxLength": 1000}})
    found["pattern"] = closed({"code": {"type": "string", "pattern": "^[A-Z]{2}-[0-9]{4,12}$"}})
    found["enum of 500"] = closed(
        {"item": {"enum": [f"item number {37 * at % 500}" for at in range(500)]}}
    )
    found["nested arrays"] = closed({"grid": {**matrix, "maxItems": 50}})
    found["15 optional keys"] = closed({f"key_{at}": text for at in range(15)}, [])
    found["ranges of numbers"] = closed(
        {
            "year": {"type": "integer", "minimum": 1990, "maximum": 2035},
            "share": {"type": "number", "minimum": 0, "maximum": 1},
            "degrees": {"type": "number", "minimum": -273.15, "maximum": 5500},
        }
    )
    return found


class Wanderer:
    """Answers at random: mostly any token that fits, often one of those that end the text soonest.

    Args:
        schema: What they follow.
        vocab_size: Ids are below it.
        seed: Equal seeds give equal answers.
    """

    def __init__(self, schema: BoundSchema, vocab_size: int, seed: int) -> None:
        self._schema = schema
        self._vocab_size = vocab_size
        self._random = random.Random(seed)
        self._scratch = memoryview(bytearray(schema.scratch_size_bytes))

    def answer(self, token_count: int) -> list[int]:
        """Return the ids of an answer of at most so many tokens, or of the fewest possible."""
        schema, state = self._schema, START
        remaining, found = max(token_count, schema.shortest), []
        ends = set(schema.end_ids)
        while remaining and not schema.is_final(state):
            is_short = self._random.random() < _SHORTER_SHARE
            if is_short and schema.distance(state) == 0:
                break
            ids = self._ids(state, schema.distance(state) if is_short else remaining)
            token_id = self._random.choice([one for one in ids if one not in ends] or [-1])
            target = schema.step(state, token_id) if token_id >= 0 else None
            if target is None:
                break
            found.append(token_id)
            state, remaining = target, remaining - 1
        return found

    def _ids(self, state: int, remaining: int) -> list[int]:
        address = self._schema.mask_address(state, remaining, self._scratch)
        words = (self._vocab_size + 31) // 32
        mask = mask_at(address, words)
        bits = np.unpackbits(mask.view(np.uint8), bitorder="little")[: self._vocab_size]
        ids: list[int] = np.flatnonzero(bits).tolist()
        return ids


def mask_at(address: int, words: int) -> np.ndarray:
    """Return a view of the words of a mask."""
    return np.ctypeslib.as_array((ctypes.c_uint32 * words).from_address(address))
